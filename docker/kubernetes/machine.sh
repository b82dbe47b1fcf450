# What a cluster changes on this machine outside its own folder, and how that is undone. Sourced by
# docker/start_kubernetes.sh, whose variables it uses.
#
#     prepare_machine     makes bridge, iptables chain, cgroups and the folder of volumes
#     remove_pods         ends the processes of all pods, removes their cgroups and mounts
#     restore_machine     undoes the first, and what kubelet, kube-proxy and containerd changed
#
# Forwarding between interfaces stays on: a Docker engine needs it, too.
# shellcheck shell=sh disable=SC2154

chain=CHAOSLAB-KUBERNETES
volumes=/tmp/hostpath_pv # fixed by the host-path provisioner
kernel_settings="kernel/panic kernel/panic_on_oops kernel/keys/root_maxbytes \
  kernel/keys/root_maxkeys vm/overcommit_memory vm/panic_on_oom" # changed by the kubelet

prepare_machine() {
  if iptables -w -t nat -S KUBE-SERVICES >/dev/null 2>&1; then
    say "another Kubernetes runs on this machine, or left its iptables chains: remove it first"
    exit 1
  fi
  for name in $kernel_settings; do
    if [ -e "/proc/sys/$name" ]; then echo "$name $(cat "/proc/sys/$name")"; fi
  done >"$state/kernel_settings"
  # what pods send each other by a service's address passes iptables, too
  modprobe -q br_netfilter 2>/dev/null || true
  echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables
  echo 1 >/proc/sys/net/ipv4/ip_forward
  # an address of its own: otherwise it takes one of its pods', another whenever they come and go,
  # and what is then on its way is lost; a reset of a connection is not sent again
  ip link add "$bridge" address 02:63:68:61:6f:73 type bridge
  ip address add "$address/${pods#*/}" dev "$bridge"
  ip link set "$bridge" up
  iptables -w -N "$chain" # the Docker engine drops what nobody accepts
  iptables -w -A "$chain" -s "$pods" -j ACCEPT
  iptables -w -A "$chain" -d "$pods" -j ACCEPT
  iptables -w -A FORWARD -j "$chain"
  for root in $(cgroup_roots); do mkdir -p "$root$cgroup"; done
  [ -e "$volumes" ] || ln -s "$state/volumes" "$volumes"
}

remove_pods() {
  # shims first: one that loses its container has runc freeze what is left of it
  pkill -KILL -f "containerd-shim-runc-v2 .*-address $state/run/containerd(-2)?.sock" || true
  tries=600
  while pids="$(processes)" && [ -n "$pids" ]; do
    [ "$tries" -gt 0 ] || { say "processes of pods do not end: $pids"; exit 1; }
    tries=$((tries - 1))
    thaw
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
    sleep 0.1
  done
  for folder in $(cgroups); do find "$folder" -depth -type d -exec rmdir {} \;; done
  sed -n "s|^[^ ]* \($state/[^ ]*\) .*|\1|p" /proc/self/mounts | sort -r |
    while read -r place; do umount "$place" || umount --lazy "$place"; done
}

# of all controllers at once: a process is in one cgroup of each, and frozen by one of them

processes() { # cgroups vanish while find reads them, which is no failure
  for folder in $(cgroups); do
    find "$folder" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -nu
}

thaw() { # what is frozen does not die; in cgroups of version 2 it does
  for folder in $(cgroups); do
    find "$folder" -name freezer.state -exec sh -c 'echo THAWED >"$1"' - {} \; 2>/dev/null || true
  done
}

cgroups() {
  for root in $(cgroup_roots); do
    [ ! -d "$root$cgroup" ] || echo "$root$cgroup"
  done
}

restore_machine() {
  if ip link show "$bridge" >/dev/null 2>&1; then ip link delete "$bridge"; fi
  remove_rules
  while read -r name value; do echo "$value" >"/proc/sys/$name"; done <"$state/kernel_settings"
  [ "$(readlink "$volumes")" != "$state/volumes" ] || rm "$volumes"
  remove_outside
}

remove_outside() { # what containerd, its shims, libcni and the kubelet keep in fixed places
  for file in "$state"/run/containerd*/io.containerd.runtime.v2.task/k8s.io/*/address; do
    [ ! -e "$file" ] || rm -f "$(sed 's|^unix://||' "$file")"
  done
  for sandbox in "$state"/run/containerd*/io.containerd.grpc.v1.cri/sandboxes/*; do
    rm -f /var/lib/cni/results/*-"${sandbox##*/}"-*
  done
  rm -f /var/lib/kubelet/device-plugins/kubelet*
  find /var/log/containers -lname "$state/*" -delete 2>/dev/null || true
  rmdir -p /var/log/containers /var/lib/kubelet/device-plugins /var/lib/cni/results 2>/dev/null ||
    true # only empty ones
}

remove_rules() { # ours, and those of kube-proxy and the kubelet, all of a table at once
  for tool in iptables ip6tables; do
    for table in filter nat mangle; do
      rules="$($tool -w -t $table -S 2>/dev/null | grep -e KUBE- -e "$chain")" || continue
      {
        echo "*$table"
        echo "$rules" | sed -n 's/^-A \([A-Z]* \)/-D \1/p' # jumps from built-in chains
        echo "$rules" | sed -n 's/^-N/-F/p'
        echo "$rules" | sed -n 's/^-N/-X/p'
        echo COMMIT
      } | $tool-restore -w --noflush
    done
  done
}

cgroup_roots() { # one of each controller, one of all, or both
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    sed -n 's|^[^ ]* \(/sys/fs/cgroup/[^ ]*\) cgroup2\{0,1\} .*|\1|p' /proc/self/mounts
  fi
}
