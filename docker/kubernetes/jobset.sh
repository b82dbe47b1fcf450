# JobSets for a cluster: their CRD, and their controller as a process of this machine. Sourced by
# docker/start_kubernetes.sh, whose variables and functions it uses.
#
#     JobSet ─► kube-apiserver ─► webhooks, https://127.0.0.1:10245 ─┐
#                      ▲                                             ├─ jobset, the controller
#                      └───────── Jobs, pods ◄───────────────────────┘
#
# The webhooks fill in defaults, refuse what no JobSet can be, and place the pods of JobSets that
# have machines to themselves; pods of others never pass them. The alpha feature RestartJob is on.
# shellcheck shell=sh disable=SC2154

jobset_version=0.12.0 # the first that restarts a Job alone; Go 1.26 builds it
jobset="${CHAOSLAB_CACHE:-$HOME/.cache/chaoslab}/jobset/$jobset_version"
jobset_host=127.0.0.1 # of this machine, as the API server is
jobset_webhooks=10245
jobset_health=10244

job_sets() { # [stop]
  case "${1:-start}" in
    start) ;;
    stop) stop_jobset; return ;;
    *) say "jobset: unknown word $1: use none or stop"; exit 2 ;;
  esac
  runs || { say "jobset: the cluster does not run: start it first"; exit 1; }
  if [ -e "$state/pid/jobset" ] && part_runs jobset; then say "jobset runs already"; return; fi
  if [ ! -x "$jobset/jobset" ]; then
    say "building jobset $jobset_version into $jobset, which takes minutes"
    nice "$here/build_jobset.sh" "$jobset_version" "$jobset"
  fi
  unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY # the cluster is behind none
  stop_jobset # what is left of one that broke
  mkdir -p "$state/jobset/certificates"
  "$here/certificates.sh" "$state/pki" "$jobset_host" server jobset "IP:$jobset_host"
  cp "$state/pki/jobset.crt" "$state/jobset/certificates/tls.crt"
  cp "$state/pki/jobset.key" "$state/jobset/certificates/tls.key"
  jobset_settings >"$state/jobset/settings.yaml"
  kubectl apply --server-side --filename "$jobset/crd.yaml" >"$state/log/jobset_crd" 2>&1 ||
    give_up_jobset jobset_crd "be installed"
  part jobset "$jobset/jobset" --config="$state/jobset/settings.yaml" \
    --kubeconfig="$state/kubeconfig"
  tries=$((ready_s * 5))
  until api apis/jobset.x-k8s.io/v1alpha2 >/dev/null 2>&1 && jobset_is_ready; do
    tries=$((tries - 1))
    if [ "$tries" = 0 ] || ! part_runs jobset; then give_up_jobset jobset "become ready"; fi
    sleep 0.2
  done
  jobset_webhook_manifests | kubectl apply --filename - >"$state/log/jobset_hooks" 2>&1 ||
    give_up_jobset jobset_hooks "be made"
  say "JobSets, version $jobset_version, can be made; the log of the controller is $state/log/jobset"
}

jobset_is_ready() {
  curl -fsS --noproxy "$jobset_host" "http://$jobset_host:$jobset_health/readyz" >/dev/null 2>&1
}

stop_jobset() {
  [ -e "$state/jobset" ] || return 0
  if runs; then # first the webhooks, which nobody answers any more, then all JobSets and their CRD
    jobset_webhook_manifests | kubectl delete --ignore-not-found --filename - \
      >"$state/log/jobset_hooks" 2>&1 || say "the webhooks of JobSets may be left"
    kubectl delete --ignore-not-found --timeout=60s --filename "$jobset/crd.yaml" \
      >"$state/log/jobset_crd" 2>&1 || say "the CRD of JobSets may be left"
  fi
  while [ -e "$state/pid/jobset" ] && part_runs jobset; do kill -KILL "$pid" && sleep 0.1; done
  rm -rf "$state/pid/jobset" "$state/jobset"
  say "there are no JobSets any more"
}

give_up_jobset() { # LOG WHAT; the cluster goes on
  say "$1 cannot $2:"
  tail -n 20 "$state/log/$1" >&2
  stop_jobset
  exit 1
}

jobset_settings() {
  cat <<YAML
apiVersion: config.jobset.x-k8s.io/v1alpha1
kind: Configuration
featureGates: {RestartJob: true}
internalCertManagement: {enable: false}
leaderElection: {leaderElect: false}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "$jobset_host:$jobset_health"}
webhook: {host: $jobset_host, port: $jobset_webhooks, certDir: $state/jobset/certificates}
YAML
}

jobset_webhook_manifests() { # those of the module, for a server that is no Service
  sed -e "s|^  name: \(.*-webhook-configuration\)|  name: jobset-\1|" \
    -e '/^    service:/d; /^      name: webhook-service/d; /^      namespace: system/d' \
    -e "s|^      path: \(.*\)|    url: https://$jobset_host:$jobset_webhooks\1|" \
    -e "s|^  clientConfig:|&\n    caBundle: $(base64 -w 0 "$state/pki/ca.crt")|" \
    -e "s|^  name: .pod.kb.io|&\n  objectSelector:\n    matchExpressions:\n    - {key: jobset.sigs.k8s.io/jobset-name, operator: Exists}|" \
    "$jobset/webhooks.yaml"
}
