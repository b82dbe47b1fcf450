#!/bin/sh
# Builds the controller of kwok, which plays the kubelets of fake nodes, from its Go module.
#
#     docker/kubernetes/build_kwok.sh VERSION FOLDER      FOLDER is complete, or does not exist
#
#     sigs.k8s.io/kwok@vVERSION ─┬─► go build ─► kwok
#                                └─► copy ─────► stages/   what becomes of its nodes and pods
set -eu

version="${1:?usage: build_kwok.sh VERSION FOLDER}"
folder="${2:?usage: build_kwok.sh VERSION FOLDER}"

# shellcheck source=docker/kubernetes/module.sh
. "$(dirname "$0")/module.sh"
begin_module kwok 1.24 "$folder"
export CGO_ENABLED=0
twice go get -tool "sigs.k8s.io/kwok/cmd/kwok@v$version"
go build -ldflags "-s -w" -o "$made/complete/" tool

stages="$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage"
mkdir "$made/complete/stages"
for stage in node/fast/node-initialize pod/fast/pod-ready pod/fast/pod-delete; do
  cat "$stages/$stage.yaml" >"$made/complete/stages/${stage##*/}.yaml"
done

end_module
