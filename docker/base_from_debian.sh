#!/bin/sh
# Builds the base image of `docker/Dockerfile` from Debian packages, for machines without access to a
# registry: an isolated site with a package mirror, or continuous integration.
#
#     docker/base_from_debian.sh chaoslab-base:bookworm [MORE,PACKAGES]
#
#     mmdebstrap (a mirror's packages) ─► a root file system ─► docker import ─► NAME
#
# Needs Debian or a derivative, root, mmdebstrap (`apt-get install mmdebstrap`) and a docker client.
# SUITE and MIRROR select another release and mirror than mmdebstrap's defaults. Takes about half a
# minute and 170 MB.
set -eu

name="${1:?usage: base_from_debian.sh NAME:TAG [MORE,PACKAGES]}"
more="${2:+,$2}"
suite="${SUITE:-bookworm}"
mirror="${MIRROR:-}"

command -v mmdebstrap >/dev/null || {
  echo "base_from_debian.sh: mmdebstrap is missing: apt-get install mmdebstrap" >&2
  exit 2
}

# not through a pipe: after a failure of mmdebstrap the engine would import an empty image
made="$(mktemp -d)"
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM

mmdebstrap --quiet --variant=minbase \
  --include="python3,python3-venv,ca-certificates$more" \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --dpkgopt='path-exclude=/usr/share/info/*' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*' \
  "$suite" "$made/root.tar" ${mirror:+"$mirror"}
docker import \
  --change 'CMD ["python3"]' \
  --change "LABEL org.opencontainers.image.title=chaoslab-base chaoslab.base=debian-$suite" \
  --message "chaoslab base from Debian $suite" "$made/root.tar" "$name" >/dev/null

docker image inspect --format "{{.Id}} {{.Size}}" "$name"
