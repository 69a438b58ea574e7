# Shared by the scripts that build or install into the cache folder; sourced by them.
# Sets `cache`, and defines:
#   usage                       prints the comment at the head of the script
#   in_tree ARGUMENT...         re-runs the script in the build copy of this clone, unless it already runs there
#   fail CODE LINE...           prints an error to stderr with the name of the script, and exits
#   made_once FOLDER FUNCTION   calls FUNCTION unless FOLDER is complete; concurrent callers do it once
# A folder is complete when it contains `.ready`, which is written last.

cache=${PLEXUS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plexus}

usage() {
  sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$(dirname "${BASH_SOURCE[0]}")/${0##*/}"
}

in_tree() {
  export CARGO_TARGET_DIR=$cache/target
  [[ $(pwd -P) == "$(realpath "$cache")/tree" ]] || exec scripts/tree "scripts/${0##*/}" "$@"
}

fail() {
  local code=$1
  shift
  printf "${0##*/}: %s\n" "$@" >&2
  exit "$code"
}

made_once() {
  local folder=$1 make=$2
  [[ -e $folder/.ready ]] && return
  command -v flock >/dev/null || fail 3 "flock is not installed; install util-linux"
  mkdir -p "$(dirname "$folder")"
  exec 9>"$folder.lock"
  flock 9
  # Another process may have finished it while this one waited for the lock.
  if [[ ! -e $folder/.ready ]]; then
    rm -rf "$folder"
    # Child processes hold the lock as well: if only this script is killed, an npm that is still writing keeps the next
    # caller out until it has ended.
    "$make"
    : >"$folder/.ready"
  fi
  exec 9>&-
}
