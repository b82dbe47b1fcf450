# Image of the network tools: iptables, tc and conntrack, with Python to run them. Not used for
# learners or the syncer.
#
#     chaoslab doctor images build        on the same BASE as the nodes, adds only the tools
#
# BASE is Debian or a derivative: the packages come from its sources, no registry is needed. One that
# has them already (`base_from_debian.sh NAME PACKAGES`) needs no network either.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN if ! { command -v conntrack && command -v tc && command -v iptables; } >/dev/null; then \
      apt-get update -qq \
      && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
           conntrack iproute2 iptables >/dev/null \
      && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*; \
    fi
COPY tool_runner.py /opt/chaoslab/tool_runner.py
ARG BASE
ARG VERSION=unknown
LABEL org.opencontainers.image.title="chaoslab-tools" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.base.name="${BASE}"
CMD ["python3", "-I", "-S", "/opt/chaoslab/tool_runner.py"]
