# For the scripts that tests get programs of Debian by.

# Says what is wrong in the name of the script, and ends it.
fail() {
  local code=$1
  shift
  printf "${0##*/}: %s\n" "$@" >&2
  exit "$code"
}

# Installs packages, as root only. Debian starts a server with its package, unless a policy forbids it: only the programs
# are wanted.
install_packages() {
  [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null || return 1
  echo "${0##*/}: installing $* for the tests" >&2
  local policy=/usr/sbin/policy-rc.d made='' code=0
  [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=1; }
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"; } >&2 || code=$?
  [[ -z $made ]] || rm -f "$policy"
  return "$code"
}
