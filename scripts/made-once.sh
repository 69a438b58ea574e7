# For scripts that make something expensive once in the cache folder; sourced by them.
# Sets `cache`, and defines:
#   fail CODE LINE...           says why on stderr, with the name of the script, and ends it
#   made_once FOLDER FUNCTION   calls FUNCTION unless FOLDER is whole; two callers at once do it once
# A folder is whole when `.ready` is in it, which is written last.

cache=${PLEXUS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/plexus}

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
    # 9>&-: a process left over from the making must not keep the lock.
    "$make" 9>&-
    : >"$folder/.ready"
  fi
  exec 9>&-
}
