# Fake nodes of a cluster, whose kubelets kwok plays, for tests of scale. Sourced by
# docker/start_kubernetes.sh, whose variables and functions it uses.
#
#     fake_nodes N ─► kwok ─► nodes fake-1 … fake-N, label type=kwok, taint kwok.x-k8s.io/node=fake
#
#     pod with that nodeSelector and toleration ─► scheduler ─► fake node ─► kwok: it runs, at once
#                                                                    deleted: it is gone, at once
#
# No container runs. A command in a pod is refused; its log is kwok/pods.log in the state folder,
# for all pods the same: a process that appends a line lets all of them print it.
# shellcheck shell=sh disable=SC2154

kwok_version=0.7.0 # the newest that Go 1.24 builds, as it does Kubernetes
kwok="${CHAOSLAB_CACHE:-$HOME/.cache/chaoslab}/kwok/$kwok_version"
fake_pods=10.231.16.0/20
kwok_port=10247
inotify=fs/inotify/max_user_instances # kwok takes one for each log that is followed
inotify_instances=8192

fake_nodes() { # COUNT
  case "${1:-}" in
    "" | *[!0-9]*) say "kwok: say how many fake nodes there are to be, 0 for none"; exit 2 ;;
  esac
  runs || { say "kwok: the cluster does not run: start it first"; exit 1; }
  if [ ! -x "$kwok/kwok" ]; then
    say "building kwok $kwok_version into $kwok, which takes minutes"
    nice "$here/build_kwok.sh" "$kwok_version" "$kwok"
  fi
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY # the cluster is behind none
  remove_nodes_after "$1"
  if [ "$1" = 0 ]; then stop_kwok; return; fi
  start_kwok
  fake_node_manifests "$1" | kubectl apply --filename - >"$state/log/fake_nodes" 2>&1 ||
    give_up_kwok fake_nodes "be made"
  kubectl wait --for=condition=Ready --timeout="${ready_s}s" nodes --selector=type=kwok \
    >"$state/log/fake_nodes" 2>&1 || give_up_kwok fake_nodes "become ready"
  say "$1 fake nodes are ready; the log of their pods is $state/kwok/pods.log"
}

start_kwok() {
  if [ -e "$state/pid/kwok" ] && part_runs kwok; then return; fi
  mkdir -p "$state/kwok"
  : >"$state/kwok/pods.log"
  { cat "$kwok"/stages/*.yaml | sed 's/^apiVersion:/---\n&/'; echo "---"
    sed "s|@STATE@|$state|g" "$here/kwok.yaml"; } >"$state/kwok/kwok.yaml"
  if ! grep -q "^$inotify " "$state/kernel_settings"; then
    echo "$inotify $(cat "/proc/sys/$inotify")" >>"$state/kernel_settings" # restored at the end
  fi
  echo "$inotify_instances" >"/proc/sys/$inotify"
  part kwok "$kwok/kwok" --config="$state/kwok/kwok.yaml" --kubeconfig="$state/kubeconfig" \
    --manage-nodes-with-label-selector=type=kwok --cidr="$fake_pods" --node-ip="$address" \
    --node-port="$kwok_port" --server-address="$address:$kwok_port" \
    --tls-cert-file="$state/pki/kubelet-server.crt" \
    --tls-private-key-file="$state/pki/kubelet-server.key" --node-lease-duration-seconds=40
  tries=$((ready_s * 5))
  until curl -fsS --noproxy "$address" "http://$address:$kwok_port/healthz" >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! part_runs kwok; then give_up_kwok kwok "become ready"; fi
    sleep 0.2
  done
}

give_up_kwok() { # LOG WHAT; the cluster goes on
  say "$1 cannot $2:"
  tail -n 20 "$state/log/$1" >&2
  stop_kwok
  exit 1
}

stop_kwok() {
  [ -e "$state/pid/kwok" ] || return 0
  while part_runs kwok; do kill -KILL "$pid" && sleep 0.1; done
  sed -n "s|^$inotify ||p" "$state/kernel_settings" >"/proc/sys/$inotify"
  rm -rf "$state/pid/kwok" "$state/kwok"
  say "there are no fake nodes any more"
}

remove_nodes_after() { # COUNT
  kubectl get nodes --selector=type=kwok --output=name | sed 's|.*/fake-||' |
    awk -v most="$1" '$1 > most { print "fake-" $1 }' |
    KUBECONFIG="$state/kubeconfig" xargs -r "$programs/kubectl" delete nodes --wait=false >/dev/null
}

fake_node_manifests() { # COUNT
  number=0
  while [ "$number" -lt "$1" ]; do
    number=$((number + 1))
    cat <<YAML
---
apiVersion: v1
kind: Node
metadata:
  name: fake-$number
  labels: {type: kwok, kubernetes.io/hostname: fake-$number, kubernetes.io/os: linux}
spec:
  taints: [{key: kwok.x-k8s.io/node, value: fake, effect: NoSchedule}]
status:
  allocatable: {cpu: 64, memory: 256Gi, pods: 110}
  capacity: {cpu: 64, memory: 256Gi, pods: 110}
YAML
  done
}

kubectl() { KUBECONFIG="$state/kubeconfig" "$programs/kubectl" "$@"; }
