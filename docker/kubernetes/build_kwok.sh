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

command -v go >/dev/null || {
  echo "build_kwok.sh: Go is missing on PATH: install Go 1.24 or newer" >&2
  exit 2
}

mkdir -p "$(dirname "$folder")"
made="$(mktemp -d "$folder.XXXXXX")"
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM

export CGO_ENABLED=0

mkdir -p "$made/module" "$made/complete/stages"
cd "$made/module"
go mod init chaoslab.test/kwok 2>/dev/null
go get -tool "sigs.k8s.io/kwok/cmd/kwok@v$version" 2>/dev/null ||
  go get -tool "sigs.k8s.io/kwok/cmd/kwok@v$version" # says why
go build -ldflags "-s -w" -o "$made/complete/" tool

stages="$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage"
for stage in node/fast/node-initialize pod/fast/pod-ready pod/fast/pod-delete; do
  cat "$stages/$stage.yaml" >"$made/complete/stages/${stage##*/}.yaml"
done

chmod -R go=u-w,u+w "$made/complete"
rm -rf "$folder"
mv "$made/complete" "$folder"
