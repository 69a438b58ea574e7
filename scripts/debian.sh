# Shared by the scripts that install Debian packages for tests; sourced by them.

# Prints an error with the name of the script, and exits.
fail() {
  local code=$1
  shift
  printf "${0##*/}: %s\n" "$@" >&2
  exit "$code"
}

# Installs packages, as root only. Debian starts a server when it installs its package, unless a policy forbids it. Only the
# programs are needed.
install_packages() {
  [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null || return 1
  echo "${0##*/}: installing $* for the tests" >&2
  local policy=/usr/sbin/policy-rc.d made='' code=0
  [[ -e $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy" && made=1; }
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"; } >&2 || code=$?
  [[ -z $made ]] || rm -f "$policy"
  return "$code"
}
