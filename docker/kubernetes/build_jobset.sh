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

# shellcheck source=docker/kubernetes/module.sh
. "$(dirname "$0")/module.sh"
begin_module jobset 1.26 "$folder"
export CGO_ENABLED=0
twice go get -tool "sigs.k8s.io/jobset@v$version"
go build -ldflags "-s -w" -o "$made/complete/" tool

source="$(go list -m -f '{{.Dir}}' sigs.k8s.io/jobset)"
cat "$source/charts/jobset/crds/jobset.x-k8s.io_jobsets.yaml" >"$made/complete/crd.yaml"
cat "$source/config/components/webhook/manifests.yaml" >"$made/complete/webhooks.yaml"

end_module
