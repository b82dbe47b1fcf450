#!/bin/sh
# Installs a Docker engine from Debian packages if there is none, and starts it if it does not run.
# For continuous integration and temporary machines, as root.
#
#     docker/start_engine.sh [LOG]       0: it answers; 1: it cannot be started, see LOG
#
# It tries the engine's defaults first, then with fewer kernel features: a copying storage driver
# where overlays cannot be mounted, no iptables rules where they are refused. Without those rules no
# port can be published, so links: toxiproxy and embedded do not work.
set -eu

log="${1:-/tmp/dockerd.log}"
mkdir -p "$(dirname "$log")"

answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }

give_up() {
  echo "start_engine.sh: no Docker engine can $1 here:" >&2
  tail -n 20 "$log" >&2
  exit 1
}

install() {
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends docker.io iptables iproute2 mmdebstrap
}

if answers; then exit 0; fi

if ! command -v dockerd >/dev/null; then
  install >>"$log" 2>&1 || give_up "be installed"
  if answers; then exit 0; fi
fi

try() {
  echo "# dockerd $*" >>"$log"
  # setsid: it must survive the shell that starts it, and its signals
  setsid dockerd "$@" >>"$log" 2>&1 </dev/null &
  engine=$!
  for _ in $(seq 100); do
    if answers; then exit 0; fi
    kill -0 "$engine" 2>/dev/null || return 0
    sleep 0.2
  done
  kill "$engine" 2>/dev/null || true
}

try
try --storage-driver=vfs
try --storage-driver=vfs --iptables=false --ip6tables=false
give_up run
