# A Go module of our own, in which the programs of others are built. Sourced by the build scripts.
#
#     begin_module NAME GO FOLDER ─► $made/module, the current folder; $made/complete, what is built
#     end_module ──────────────────► FOLDER is $made/complete; until then it is as it was before
# shellcheck shell=sh

begin_module() {
  module_name="$1" folder="$3"
  command -v go >/dev/null || {
    echo "${0##*/}: Go is missing on PATH: install Go $2 or newer" >&2
    exit 2
  }
  mkdir -p "$(dirname "$folder")"
  made="$(mktemp -d "$folder.XXXXXX")"
  trap 'rm -rf "$made"' EXIT
  trap 'exit 1' HUP INT TERM
  mkdir "$made/module" "$made/complete"
  cd "$made/module"
  go mod init "chaoslab.test/$module_name" 2>/dev/null
}

twice() { # COMMAND…: the second time it says why it fails
  "$@" 2>/dev/null || "$@"
}

end_module() {
  chmod -R go=u-w,u+w "$made/complete"
  rm -rf "$folder"
  mv "$made/complete" "$folder"
}
