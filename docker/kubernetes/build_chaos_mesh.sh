#!/bin/sh
# Builds the controller and the daemon of Chaos Mesh from their Go modules.
#
#     docker/kubernetes/build_chaos_mesh.sh VERSION API_VERSION FOLDER
#                                                      FOLDER is complete, or does not exist
#
#     github.com/chaos-mesh/chaos-mesh@VERSION ─┬─► go build ─► chaos-controller-manager, chaos-daemon
#          …/api@API_VERSION ───────────────────┘
#                                               └─► copy ─────► crds/
#
# Its go.mod replaces …/api by a folder that the module does not contain, and libraries by other
# releases of them; replacements count in the main module alone. So a module of our own repeats them.
# The daemon needs a C compiler.
set -eu

usage="usage: build_chaos_mesh.sh VERSION API_VERSION FOLDER"
version="${1:?$usage}" api_version="${2:?$usage}" folder="${3:?$usage}"
mesh=github.com/chaos-mesh/chaos-mesh

command -v gcc >/dev/null || {
  echo "build_chaos_mesh.sh: gcc is missing on PATH: apt-get install gcc libc6-dev" >&2
  exit 2
}

# shellcheck source=docker/kubernetes/module.sh
. "$(dirname "$0")/module.sh"
begin_module chaos-mesh 1.25 "$folder"
mkdir "$made/complete/crds"

found="$(go mod download -json "$mesh@$version")"
go_mod="$(echo "$found" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')"
source="$(echo "$found" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"
cat "$source/go.sum" >go.sum # not every database of checksums knows all that it needs
set -- "-require=$mesh@$version" "-require=$mesh/api@$api_version" \
  "-replace=$mesh/api=$mesh/api@$api_version"
pattern='s|^\(replace\)\{0,1\}[[:space:]]*\([^ ]*\) => \([^. ][^ ]*\) \(v[^ ]*\)$|\2=\3@\4|p'
for replaced in $(sed -n "$pattern" "$go_mod"); do
  set -- "$@" "-replace=$replaced"
done
go mod edit "$@"
twice \
  go get "$mesh/cmd/chaos-controller-manager@$version" "$mesh/cmd/chaos-daemon@$version"

for program in chaos-controller-manager chaos-daemon; do
  go build -ldflags "-s -w" -o "$made/complete/" "$mesh/cmd/$program"
done
cp "$source"/config/crd/bases/*.yaml "$made/complete/crds/"

end_module
