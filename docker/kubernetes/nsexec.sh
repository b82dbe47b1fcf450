#!/bin/sh
# What the daemon of Chaos Mesh calls nsexec, by nsenter: a command in the network of a pod.
#
#     nsexec [-l] -n /proc/PID/ns/net -- COMMAND…      -l: its mounts stay those of this process
set -eu

[ "${1:-}" != -l ] || shift
if [ "${1:-}" != -n ] || [ "${3:-}" != -- ]; then
  echo "nsexec: only networks can be entered here: $*" >&2
  exit 2
fi
network="$2" && shift 3
exec nsenter --net="$network" -- "$@"
