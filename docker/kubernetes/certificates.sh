#!/bin/sh
# Makes a certificate authority, and a certificate and kubeconfig for each part of a cluster.
#
#     docker/kubernetes/certificates.sh FOLDER ADDRESS SERVICE_ADDRESS NODE
#     docker/kubernetes/certificates.sh FOLDER ADDRESS client NAME SUBJECT      one more of a client
#     docker/kubernetes/certificates.sh FOLDER ADDRESS server NAME NAMES        or of a server
#
#     ca.crt ─┬─► apiserver, kubelet-server      serving certificates
#             └─► admin, kubelet, proxy, …       client certificates ─► NAME.kubeconfig
#
# A client is who its certificate's subject names: CN is the user, O the group that RBAC's built-in
# roles are bound to.
set -eu
umask 077

folder="${1:?usage: certificates.sh FOLDER ADDRESS SERVICE_ADDRESS NODE}"
address="${2:?}" service_address="${3:?}" node="${4:?}"
mkdir -p "$folder"
cd "$folder"

key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }

certificate() { # NAME SUBJECT [ALTERNATIVE_NAMES]
  key "$1"
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  echo "subjectAltName=${3:-DNS:$1}" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 \
    -extfile "$1.ext" -out "$1.crt" 2>/dev/null
  rm "$1.csr" "$1.ext"
}

data() { base64 -w 0 "$1"; }

client() { # NAME SUBJECT
  certificate "$1" "$2"
  cat >"$1.kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: chaoslab-test
contexts:
- name: chaoslab-test
  context: {cluster: chaoslab-test, user: $1}
clusters:
- name: chaoslab-test
  cluster:
    server: https://$address:6443
    certificate-authority-data: $(data ca.crt)
users:
- name: $1
  user:
    client-certificate-data: $(data "$1.crt")
    client-key-data: $(data "$1.key")
YAML
}

case "$service_address" in
  client) client "$node" "${5:?}"; exit ;;
  server) certificate "$node" "/CN=$node" "${5:?}"; exit ;;
esac

key ca
openssl req -x509 -new -key ca.key -subj "/CN=chaoslab-test" -days 365 -out ca.crt
key service-accounts
openssl pkey -in service-accounts.key -pubout -out service-accounts.pub
certificate apiserver "/CN=kube-apiserver" \
  "IP:$address,IP:$service_address,DNS:kubernetes.default.svc,DNS:kubernetes.default,DNS:kubernetes"
certificate kubelet-server "/CN=$node" "IP:$address,DNS:$node"
certificate apiserver-to-kubelet "/O=system:masters/CN=kube-apiserver"
client admin "/O=system:masters/CN=admin"
client kubelet "/O=system:nodes/CN=system:node:$node"
client controller-manager "/CN=system:kube-controller-manager"
client scheduler "/CN=system:kube-scheduler"
client proxy "/CN=system:kube-proxy"
