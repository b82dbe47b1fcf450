#!/bin/sh
# Builds the controller of JobSets from its Go module, with its CRD and its webhooks beside it.
#
#     docker/kubernetes/build_jobset.sh VERSION FOLDER      FOLDER is complete, or does not exist
#
#     sigs.k8s.io/jobset@vVERSION ─┬─► go build ─► jobset
#                                  └─► copy ─────► crd.yaml, webhooks.yaml
set -eu

version="${1:?usage: build_jobset.sh VERSION FOLDER}"
folder="${2:?usage: build_jobset.sh VERSION FOLDER}"

command -v go >/dev/null || {
  echo "build_jobset.sh: Go is missing on PATH: install Go 1.26 or newer" >&2
  exit 2
}

mkdir -p "$(dirname "$folder")"
made="$(mktemp -d "$folder.XXXXXX")"
trap 'rm -rf "$made"' EXIT
trap 'exit 1' HUP INT TERM

export CGO_ENABLED=0

mkdir -p "$made/module" "$made/complete"
cd "$made/module"
go mod init chaoslab.test/jobset 2>/dev/null
go get -tool "sigs.k8s.io/jobset@v$version" 2>/dev/null ||
  go get -tool "sigs.k8s.io/jobset@v$version" # says why
go build -ldflags "-s -w" -o "$made/complete/" tool

source="$(go list -m -f '{{.Dir}}' sigs.k8s.io/jobset)"
cat "$source/charts/jobset/crds/jobset.x-k8s.io_jobsets.yaml" >"$made/complete/crd.yaml"
cat "$source/config/components/webhook/manifests.yaml" >"$made/complete/webhooks.yaml"

chmod -R go=u-w,u+w "$made/complete"
rm -rf "$folder"
mv "$made/complete" "$folder"
