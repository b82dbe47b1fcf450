#!/bin/sh
# Builds the programs of a Kubernetes node, kubectl and the pause image from Go modules.
#
#     docker/kubernetes/build.sh VERSION FOLDER      FOLDER is complete, or does not exist
#
#     k8s.io/kubernetes@vVERSION ─► go build ─► kube-apiserver, kubelet, …
#     pause.go ───────────────────► go build ─► pause.tar, an image archive
#
# `go install k8s.io/kubernetes/…@VERSION` is refused: its go.mod replaces its own libraries by
# folders that a module does not contain. A module of our own replaces them by their releases.
set -eu

version="${1:?usage: build.sh VERSION FOLDER}"
folder="${2:?usage: build.sh VERSION FOLDER}"
here="$(cd "$(dirname "$0")" && pwd)"
programs="kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet"

# shellcheck source=docker/kubernetes/module.sh
. "$here/module.sh"
begin_module kubernetes 1.24 "$folder"
export CGO_ENABLED=0

go_mod="$(go mod download -json "k8s.io/kubernetes@v$version" |
  sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')"
set -- "-require=k8s.io/kubernetes@v$version"
for library in $(sed -n 's|^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$go_mod"); do
  set -- "$@" "-replace=$library=$library@v0.${version#*.}"
done
go mod edit "$@"

set --
for program in $programs; do
  set -- "$@" "k8s.io/kubernetes/cmd/$program@v$version"
done
twice go get -tool "$@"
go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" \
  -o "$made/complete/" tool

# an image archive as `docker save` writes it: one layer with one program
mkdir "$made/layer" "$made/image"
go build -ldflags "-s -w" -o "$made/layer/pause" "$here/pause.go"
tar -C "$made/layer" -cf "$made/image/layer.tar" pause
cd "$made/image"
cat >config.json <<JSON
{"architecture": "$(go env GOARCH)", "os": "linux", "config": {"Entrypoint": ["/pause"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum layer.tar | cut -d ' ' -f 1)"]}}
JSON
cat >manifest.json <<JSON
[{"Config": "config.json", "RepoTags": ["chaoslab-pause:1"], "Layers": ["layer.tar"]}]
JSON
tar -cf "$made/complete/pause.tar" manifest.json config.json layer.tar

end_module
