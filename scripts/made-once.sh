# For scripts that build or install something into the cache folder; sourced by them.
# Sets `cache`, and defines:
#   usage                       prints the comment at the head of the script
#   in_tree ARGUMENT...         runs the script in the copy of this clone that builds are made of, unless it is there
#   fail CODE LINE...           says why on stderr, with the name of the script, and ends it
#   made_once FOLDER FUNCTION   calls FUNCTION unless FOLDER is whole; two callers at once do it once
# A folder is whole when `.ready` is in it, which is written last.

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
  # Someone else may have made it while this one waited.
  if [[ ! -e $folder/.ready ]]; then
    rm -rf "$folder"
    # What it runs holds the lock as well: when this script alone is killed, an npm that goes on writing keeps the next
    # caller out until it has ended.
    "$make"
    : >"$folder/.ready"
  fi
  exec 9>&-
}
