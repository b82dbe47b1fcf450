# Chaos Mesh in the cluster of start_kubernetes.sh, which sources this file: the real controller and
# daemon, as processes of this machine.
#
#     NetworkChaos ─► API server ─► webhooks ─┐
#                        ▲                    ▼
#                        └──────── chaos-controller-manager ── gRPC, mutual TLS ──► chaos-daemon
#                                                        pod's network: ipset, iptables, tc ◄──┘
#
# The daemon enters networks of pods by nsexec, which is a release of another project: here nsenter
# of util-linux does it. `delay`, `duplicate` and `corrupt` need sch_netem in the kernel, and with
# targets, as chaoslab always has them, `bandwidth` needs sch_prio and sch_sfq, too.
# shellcheck shell=sh disable=SC2154

chaos_mesh_version=v0.9.1-0.20260902003049-47411975a8cb # after v2.8, whose tag is no module's
chaos_mesh_api=v0.0.0-20260906172039-d70b66ad97ac
chaos_mesh="${CHAOSLAB_CACHE:-$HOME/.cache/chaoslab}/chaos-mesh/$chaos_mesh_version"
chaos_mesh_parts="chaos-controller-manager chaos-daemon"
chaos_daemon_port=31767
chaos_webhook_port=19443
chaos_metrics_port=19080
chaos_webhooks="mutatingwebhookconfiguration/chaos-mesh validatingwebhookconfiguration/chaos-mesh"

run_chaos_mesh() { # start | stop
  runs || { say "chaos-mesh: the cluster does not run: start it first"; exit 1; }
  case "${1:-start}" in
    start) start_chaos_mesh ;;
    stop) stop_chaos_mesh ;;
    *) say "chaos-mesh: unknown command $1: use none, or stop"; exit 2 ;;
  esac
}

start_chaos_mesh() {
  if chaos_mesh_runs; then say "Chaos Mesh runs already"; return; fi
  command -v ipset >/dev/null || {
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends ipset; } >"$state/log/apt" 2>&1 ||
      give_up_chaos_mesh apt "install ipset"
  }
  if [ ! -x "$chaos_mesh/chaos-daemon" ]; then
    say "building Chaos Mesh $chaos_mesh_version into $chaos_mesh, which takes many minutes"
    nice "$here/build_chaos_mesh.sh" "$chaos_mesh_version" "$chaos_mesh_api" "$chaos_mesh"
  fi
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY # the cluster is behind none
  mkdir -p "$state/chaos-mesh/programs" "$state/chaos-mesh/certs"
  cp "$here/nsexec.sh" "$state/chaos-mesh/programs/nsexec"
  chmod 755 "$state/chaos-mesh/programs/nsexec"
  "$here/certificates.sh" "$state/pki" "$address" server chaos-mesh \
    "DNS:chaos-daemon.chaos-mesh.org,IP:127.0.0.1"
  cp "$state/pki/chaos-mesh.crt" "$state/chaos-mesh/certs/tls.crt"
  cp "$state/pki/chaos-mesh.key" "$state/chaos-mesh/certs/tls.key"
  kubectl apply --server-side --force-conflicts --filename "$chaos_mesh/crds" \
    >"$state/log/chaos-mesh" 2>&1 || give_up_chaos_mesh chaos-mesh "define its kinds"
  # the API that it is built with is four days younger than its CRDs, and sets this field by default
  spec=/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties
  field='{"type": "string", "enum": ["drop", "reject"], "default": "drop"}'
  kubectl patch customresourcedefinition networkchaos.chaos-mesh.org --type json --patch \
    "[{\"op\": \"add\", \"path\": \"$spec/partitionBehavior\", \"value\": $field}]" \
    >"$state/log/chaos-mesh" 2>&1 || give_up_chaos_mesh chaos-mesh "define its kinds"
  kubectl wait --for=condition=Established --timeout="${ready_s}s" \
    --filename "$chaos_mesh/crds" >"$state/log/chaos-mesh" 2>&1 ||
    give_up_chaos_mesh chaos-mesh "define its kinds"
  sed -e "s|@ADDRESS@|$address|g; s|@NODE@|$node|g; s|@PORT@|$chaos_daemon_port|g" \
    -e "s|@WEBHOOKS@|https://127.0.0.1:$chaos_webhook_port|g" \
    -e "s|@CA@|$(base64 -w 0 "$state/pki/ca.crt")|g" "$here/chaos_mesh.yaml" \
    >"$state/chaos-mesh/objects.yaml"
  kill_chaos_programs # what is left of one that broke
  start_chaos_programs
  kubectl apply --filename "$state/chaos-mesh/objects.yaml" >"$state/log/chaos-mesh" 2>&1 ||
    give_up_chaos_mesh chaos-mesh "be registered"
  say "Chaos Mesh is ready; its logs are in $state/log"
}

start_chaos_programs() {
  # a mount namespace of its own: it looks for nsexec in /usr/local/bin, and mounts /sys again
  part chaos-daemon unshare --mount sh -c 'mount --bind "$1" /usr/local/bin && shift && exec "$@"' \
    - "$state/chaos-mesh/programs" "$chaos_mesh/chaos-daemon" --runtime containerd \
    --runtime-socket-path "$state/run/containerd.sock" --grpc-port "$chaos_daemon_port" \
    --http-port 0 --ca "$state/pki/ca.crt" --cert "$state/pki/chaos-mesh.crt" \
    --key "$state/pki/chaos-mesh.key"
  part chaos-controller-manager env KUBECONFIG="$state/kubeconfig" NAMESPACE=chaos-mesh \
    CERTS_DIR="$state/chaos-mesh/certs" WEBHOOK_HOST=127.0.0.1 WEBHOOK_PORT="$chaos_webhook_port" \
    METRICS_HOST=127.0.0.1 METRICS_PORT="$chaos_metrics_port" ENABLE_LEADER_ELECTION=false \
    CHAOS_DAEMON_SERVICE_PORT="$chaos_daemon_port" CHAOS_MESH_CA_CERT="$state/pki/ca.crt" \
    CHAOS_DAEMON_CLIENT_CERT="$state/pki/admin.crt" CHAOS_DAEMON_CLIENT_KEY="$state/pki/admin.key" \
    CHAOSD_SECURITY_MODE=false "$chaos_mesh/chaos-controller-manager"
  tries=$((ready_s * 5))
  until curl -sS -o "$state/log/chaos-mesh" --noproxy 127.0.0.1 --cacert "$state/pki/ca.crt" \
    "https://127.0.0.1:$chaos_webhook_port/" 2>/dev/null; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! chaos_mesh_runs; then
      give_up_chaos_mesh chaos-controller-manager "become ready"
    fi
    sleep 0.2
  done
}

chaos_mesh_runs() {
  for name in $chaos_mesh_parts; do
    if [ ! -e "$state/pid/$name" ] || ! part_runs "$name"; then return 1; fi
  done
}

stop_chaos_mesh() { # the cluster goes on; effects first, while there is somebody to take them back
  kubectl delete networkchaos --all --all-namespaces --timeout=60s >"$state/log/chaos-mesh" 2>&1 ||
    true # there may be no such kind
  # shellcheck disable=SC2086 # two words
  kubectl delete --ignore-not-found $chaos_webhooks >/dev/null
  kill_chaos_programs
  if [ -d "$chaos_mesh/crds" ]; then
    kubectl delete --ignore-not-found --wait=false --filename "$chaos_mesh/crds" >/dev/null
  fi
  kubectl delete --ignore-not-found namespace chaos-mesh >/dev/null
  rm -rf "$state/chaos-mesh"
  say "Chaos Mesh is not there any more"
}

kill_chaos_programs() {
  for name in $chaos_mesh_parts; do
    [ -e "$state/pid/$name" ] || continue
    while part_runs "$name"; do kill -KILL "$pid" && sleep 0.1; done
    rm "$state/pid/$name"
  done
}

give_up_chaos_mesh() { # LOG WHAT; the cluster goes on
  say "Chaos Mesh: cannot $2:"
  tail -n 20 "$state/log/$1" >&2
  kill_chaos_programs
  exit 1
}
