#!/bin/sh
# Starts a real Kubernetes of one or two nodes on this machine, for tests of the fleet `kubernetes`.
# For continuous integration and temporary machines, as root. No registry is needed: its programs
# are built from Go modules (once; minutes) and Debian packages.
#
#     docker/start_kubernetes.sh                start it, print its kubeconfig; 0 too if it runs
#     docker/start_kubernetes.sh load IMAGE…    give it images of the Docker engine
#     docker/start_kubernetes.sh node IMAGE…    a second node, with these images; 0 too if it runs
#     docker/start_kubernetes.sh kubectl …      kubectl of the same version, with its kubeconfig
#     docker/start_kubernetes.sh kwok N         N fake nodes beside the real one, by kwok; 0: none
#     docker/start_kubernetes.sh jobset         JobSets: their CRD, webhooks and controller
#     docker/start_kubernetes.sh jobset stop    none any more
#     docker/start_kubernetes.sh stop           end it, with all its pods, volumes and traces
#
#     etcd ─► kube-apiserver ─┬─► kube-controller-manager, kube-scheduler
#                             ├─► kubelet ─► containerd ─► runc     pods on a bridge of their own
#                             ├─► kube-proxy ─► iptables            addresses of services
#                             └─► kubelet-2 ─► containerd-2         `node`: on the same bridge
#
# The second node has the taint and the label `chaoslab-test/second`: only pods that tolerate it run
# there. Both are this one machine: they share its addresses, services and volumes.
#
# It listens on the loopback and on the bridge's address alone. Pods use `imagePullPolicy: Never`;
# they have no DNS and no route out of the machine. Volumes of the default StorageClass `standard`
# are folders of this machine. State and logs are in /var/lib/chaoslab-kubernetes, or the folder
# that CHAOSLAB_KUBERNETES_STATE names; the kubeconfig there (mode 0600) has the context
# chaoslab-test.
set -eu

version=1.34.4 # from 1.35 on the kubelet refuses the first version of cgroups by default
state="${CHAOSLAB_KUBERNETES_STATE:-/var/lib/chaoslab-kubernetes}"
programs="${CHAOSLAB_CACHE:-$HOME/.cache/chaoslab}/kubernetes/$version"
here="$(cd "$(dirname "$0")" && pwd)/kubernetes"
ready_s=300

node=chaoslab-test
second=chaoslab-test-2
bridge=chaoslab-kube
pods=10.231.0.0/24
address=10.231.0.1
services=10.231.1.0/24
service_address=10.231.1.1
cgroup=/chaoslab-kubernetes

PATH="$PATH:/usr/local/go/bin:/usr/sbin:/sbin"

# shellcheck source=docker/kubernetes/machine.sh
. "$here/machine.sh"
# shellcheck source=docker/kubernetes/kwok.sh
. "$here/kwok.sh"
# shellcheck source=docker/kubernetes/jobset.sh
. "$here/jobset.sh"

say() { echo "start_kubernetes.sh: $*" >&2; }

main() {
  [ "$(id -u)" = 0 ] || { say "must run as root"; exit 2; }
  case "${1:-start}" in
    start) own_state; start ;;
    stop) own_state; stop ;;
    load) shift && load "$@" ;;
    node) shift && own_state && add_node "$@" ;;
    kubectl) shift && KUBECONFIG="$state/kubeconfig" exec "$programs/kubectl" "$@" ;;
    kwok) own_state; shift && fake_nodes "$@" ;;
    jobset) own_state; shift && job_sets "$@" ;;
    *)
      say "unknown command $1: use none, load IMAGE…, node IMAGE…, kubectl …, kwok N, jobset or stop"
      exit 2
      ;;
  esac
}

own_state() { # one start or stop at a time, and in no folder of somebody else: it is deleted
  exec 9>/run/lock/chaoslab-kubernetes
  flock 9
  if [ -e "$state" ] && [ ! -d "$state/pid" ] && [ -n "$(ls -A "$state")" ]; then
    say "$state: holds files of something else; set CHAOSLAB_KUBERNETES_STATE to a new folder"
    exit 2
  fi
}

start() {
  if runs; then
    wait_for kube-apiserver is_ready # it may be slow
    say "it runs already"
    echo "$state/kubeconfig"
    return
  fi
  if [ -e "$state" ]; then stop; fi # what is left of one that broke
  mkdir -p "$state/pid" "$state/log" "$state/run" "$state/volumes"
  chmod 711 "$state"
  install_packages
  if [ ! -x "$programs/kubectl" ]; then
    say "building Kubernetes $version into $programs, which takes minutes"
    nice "$here/build.sh" "$version" "$programs"
  fi
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY # nothing here is behind one
  prepare_machine
  write_settings
  start_parts
  say "Kubernetes $version is ready; its logs are in $state/log"
  echo "$state/kubeconfig"
}

load() {
  [ $# -gt 0 ] || { say "load: name an image of the Docker engine"; exit 2; }
  runs || { say "load: it does not run: start it first"; exit 1; }
  for image in "$@"; do # docker save would write an archive even if one of several is missing
    docker image inspect "$image" >/dev/null
  done
  docker save "$@" | import containerd
  if second_runs; then load_second "$@"; fi
  printf '%s\n' "$@" >>"$state/images"
}

load_second() { # IMAGE…, as far as the second node has not got them
  for image in "$@"; do
    if grep -qsxF "$image" "$state/images-2"; then continue; fi
    docker save "$image" | import containerd-2
    echo "$image" >>"$state/images-2"
  done
}

add_node() {
  runs || { say "node: it does not run: start it first"; exit 1; }
  if ! second_runs; then
    stop_parts -2 # what is left of one that broke
    start_second
  fi
  load_second "$@"
}

stop() {
  [ -e "$state" ] || { say "it does not run"; return; }
  say "stopping"
  stop_parts
  # without this file the start was refused before it changed anything
  if [ -e "$state/kernel_settings" ]; then
    remove_pods
    restore_machine
  fi
  rm -rf --one-file-system "$state"
}

# ---------------------------------------------------------------- what it is made of

install_packages() {
  set --
  while read -r program package; do
    command -v "$program" >/dev/null || set -- "$@" "$package"
  done <<LIST
etcd etcd-server
containerd containerd
runc runc
iptables iptables
ip iproute2
pgrep procps
curl curl
openssl openssl
LIST
  cni_folder >/dev/null || set -- "$@" containernetworking-plugins
  [ $# -gt 0 ] || return 0
  say "installing $*"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "$@"; } >"$state/log/apt" 2>&1 || give_up apt "be installed"
}

cni_folder() {
  for folder in /usr/lib/cni /opt/cni/bin; do
    if [ -x "$folder/bridge" ]; then echo "$folder"; return; fi
  done
  return 1
}

snapshotter() { # how image layers are stacked: overlays, or copies where none can be mounted
  mkdir -p "$state/try/lower" "$state/try/upper" "$state/try/work" "$state/try/all"
  options="lowerdir=$state/try/lower,upperdir=$state/try/upper,workdir=$state/try/work"
  if mount -t overlay overlay -o "$options" "$state/try/all" 2>/dev/null; then
    umount "$state/try/all"
    echo overlayfs
  else
    echo native
  fi
  rm -rf "$state/try"
}

write_settings() {
  "$here/certificates.sh" "$state/pki" "$address" "$service_address" "$node"
  cp -p "$state/pki/admin.kubeconfig" "$state/kubeconfig"
  snapshotter >"$state/snapshotter"
  mkdir "$state/cni"
  for file in containerd.toml kubelet.yaml proxy.yaml runc.sh network.conflist; do
    filled_in "$file" "" 10250 >"$state/$file"
  done
  mv "$state/network.conflist" "$state/cni/"
  mv "$state/runc.sh" "$state/runc"
  chmod 755 "$state/runc"
}

filled_in() { # FILE NUMBER PORT [BELOW]: of which node, its kubelet's port, its cgroup below ours
  sed -e "s|@STATE@|$state|g; s|@BRIDGE@|$bridge|g; s|@PODS@|$pods|g; s|@NODE@|$node|g" \
    -e "s|@ADDRESS@|$address|g; s|@CGROUP@|$cgroup${4:-}|g; s|@CNI@|$(cni_folder)|g" \
    -e "s|@NUMBER@|$2|g; s|@PORT@|$3|g" \
    -e "s|@SNAPSHOTTER@|$(cat "$state/snapshotter")|g" "$here/$1"
}

# ---------------------------------------------------------------- parts

start_parts() {
  pki="$state/pki"
  say "starting etcd, containerd and the API server"
  part etcd etcd --data-dir "$state/etcd" --listen-client-urls http://127.0.0.1:12379 \
    --advertise-client-urls http://127.0.0.1:12379 --listen-peer-urls http://127.0.0.1:12380
  part containerd containerd --config "$state/containerd.toml"
  part kube-apiserver "$programs/kube-apiserver" --etcd-servers=http://127.0.0.1:12379 \
    --bind-address="$address" --advertise-address="$address" --secure-port=6443 \
    --client-ca-file="$pki/ca.crt" --authorization-mode=Node,RBAC \
    --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --kubelet-certificate-authority="$pki/ca.crt" \
    --kubelet-client-certificate="$pki/apiserver-to-kubelet.crt" \
    --kubelet-client-key="$pki/apiserver-to-kubelet.key" \
    --kubelet-preferred-address-types=InternalIP --service-cluster-ip-range="$services" \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file="$pki/service-accounts.pub" \
    --service-account-signing-key-file="$pki/service-accounts.key"
  wait_for containerd "ctr containerd version"
  import containerd <"$programs/pause.tar" >"$state/log/pause" 2>&1 || give_up pause "be loaded"
  wait_for kube-apiserver is_ready

  say "starting the controllers, the scheduler, the kubelet and kube-proxy"
  part kube-controller-manager "$programs/kube-controller-manager" --bind-address=127.0.0.1 \
    --kubeconfig="$pki/controller-manager.kubeconfig" --leader-elect=false \
    --use-service-account-credentials=true --root-ca-file="$pki/ca.crt" \
    --service-account-private-key-file="$pki/service-accounts.key" \
    --enable-hostpath-provisioner=true
  part kube-scheduler "$programs/kube-scheduler" --bind-address=127.0.0.1 --leader-elect=false \
    --kubeconfig="$pki/scheduler.kubeconfig"
  part kubelet "$programs/kubelet" --config="$state/kubelet.yaml" --hostname-override="$node" \
    --node-ip="$address" --root-dir="$state/kubelet" --cert-dir="$state/kubelet/pki" \
    --kubeconfig="$pki/kubelet.kubeconfig"
  part kube-proxy "$programs/kube-proxy" --config="$state/proxy.yaml"
  api apis/storage.k8s.io/v1/storageclasses --header "Content-Type: application/yaml" \
    --data-binary "@$here/storage_class.yaml" >"$state/log/storage_class" ||
    give_up storage_class "be made"
  wait_for kubelet "node_is_ready $node"
  wait_for kube-controller-manager "api api/v1/namespaces/default/serviceaccounts/default"
  wait_for kube-proxy "curl -fsS --noproxy 127.0.0.1 http://127.0.0.1:10256/healthz"
}

start_second() {
  say "starting a second node, $second"
  rm -f "$state/images-2"
  "$here/certificates.sh" "$state/pki" "$address" client kubelet-2 \
    "/O=system:nodes/CN=system:node:$second"
  for root in $(cgroup_roots); do
    mkdir -p "$root$cgroup/$second"
    for share in cpu.shares cpu.weight; do # the pods of both nodes are worth the same
      [ ! -e "$root$cgroup/kubepods/$share" ] ||
        cat "$root$cgroup/kubepods/$share" >"$root$cgroup/$second/$share"
    done
  done
  filled_in containerd.toml -2 10350 >"$state/containerd-2.toml"
  filled_in kubelet.yaml -2 10350 "/$second" >"$state/kubelet-2.yaml"
  part containerd-2 containerd --config "$state/containerd-2.toml"
  wait_for containerd-2 "ctr containerd-2 version"
  import containerd-2 <"$programs/pause.tar" >"$state/log/pause-2" 2>&1 ||
    give_up pause-2 "be loaded"
  part kubelet-2 "$programs/kubelet" --config="$state/kubelet-2.yaml" \
    --hostname-override="$second" --node-ip="$address" --root-dir="$state/kubelet-2" \
    --cert-dir="$state/kubelet-2/pki" --kubeconfig="$state/pki/kubelet-2.kubeconfig" \
    --node-labels=chaoslab-test/second= \
    --register-with-taints=chaoslab-test/second=:NoSchedule
  wait_for kubelet-2 "node_is_ready $second"
}

part() { # NAME PROGRAM ARGUMENT…
  name="$1" && shift
  echo "# $*" >"$state/log/$name"
  # setsid: it must survive the shell that starts it, and its signals
  setsid "$@" >>"$state/log/$name" 2>&1 </dev/null 9>&- & # 9: the lock
  echo "$! $(start_time $!)" >"$state/pid/$name"
}

wait_for() { # PART COMMAND
  tries=$((ready_s * 5))
  until $2 >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! part_runs "$1"; then give_up "$1" "become ready"; fi
    sleep 0.2
  done
}

give_up() { # PART WHAT
  say "$1 cannot $2:"
  tail -n 20 "$state/log/$1" >&2
  case "$1" in *-2) stop_parts -2 ;; *) stop_parts ;; esac # the logs stay, until the next start
  exit 1
}

start_time() { # of a process, which tells it from a later one with the same id; none once it ended
  sed -n 's/.*) \([^XZ]\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20
}

part_runs() {
  read -r pid began <"$state/pid/$1" && [ "$(start_time "$pid")" = "$began" ]
}

runs() {
  for name in etcd containerd kube-apiserver kube-controller-manager kube-scheduler kubelet \
    kube-proxy; do
    if [ ! -e "$state/pid/$name" ] || ! part_runs "$name"; then return 1; fi
  done
}

api() { # PATH [CURL_OPTION…]
  path="$1" && shift
  curl -fsS --noproxy "$address" --max-time 30 --cacert "$state/pki/ca.crt" \
    --cert "$state/pki/admin.crt" --key "$state/pki/admin.key" "$@" "https://$address:6443/$path"
}

is_ready() { api readyz >/dev/null 2>&1; }

second_runs() {
  [ -e "$state/pid/kubelet-2" ] && part_runs containerd-2 && part_runs kubelet-2
}

node_is_ready() { # NAME
  api "api/v1/nodes/$1?pretty=false" | grep -q '"type":"Ready","status":"True"'
}

ctr() { # PART COMMAND…
  socket="$state/run/$1.sock" && shift
  CONTAINERD_SNAPSHOTTER="$(cat "$state/snapshotter")" \
    command ctr --address "$socket" --namespace k8s.io "$@"
}

import() { ctr "$1" images import -; } # PART: an archive from standard input

# ---------------------------------------------------------------- how it ends

stop_parts() { # [SUFFIX]: of those alone
  for file in "$state"/pid/*"${1:-}"; do # all of it is thrown away: nothing needs time to save
    [ -e "$file" ] || continue
    read -r pid _ <"$file"
    while part_runs "${file##*/}"; do kill -KILL "$pid" && sleep 0.1; done
  done
}

main "$@"
