# Image of the Toxiproxy server: one static binary of the version that chaoslab pins.
#
#     chaoslab doctor images build        puts the binary beside this file in the build context
ARG VERSION
FROM scratch
ARG VERSION
LABEL org.opencontainers.image.title="chaoslab-toxiproxy" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}"
COPY toxiproxy-server /toxiproxy-server
USER 10001:10001
EXPOSE 8474
ENTRYPOINT ["/toxiproxy-server"]
CMD ["-host", "0.0.0.0"]
