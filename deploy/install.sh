#!/bin/sh
# Installs a Plexus node on this machine: the program, a systemd unit and an environment file. Run it again to update.
#
# It downloads nothing: it installs the program that you name with --binary, or builds one with cargo from the clone that
# contains this script. It does not join a hub, and starts nothing unless you pass --now.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/install.sh [--user | --system] [OPTION]...

  --user            for this user: ~/.local, a user service (default, unless run by root)
  --system          for the machine: /usr/local, a service with a dedicated user, `plexus` (default for root)
  --binary PATH     install this program; default: build the clone with cargo
  --prefix DIR      install the program as DIR/bin/plexus
  --unit-dir DIR    write the unit here instead of into systemd's folder
  --env-file FILE   path of the environment file
  --no-service      install the program only
  --now             start the service and enable it at boot or login
  --uninstall       remove the unit and the program; data, environment file and user stay
  --dry-run         print the actions without performing them
  --help
TEXT
}

fail() {
    printf 'install.sh: %s\n' "$1" >&2
    exit 1
}

say() {
    printf '%s\n' "$1"
}

# Runs a command, or prints it with --dry-run.
run() {
    if [ "$dry" = yes ]; then
        printf 'would run:'
        printf ' %s' "$@"
        printf '\n'
    else
        "$@"
    fi
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
user=plexus
state=/var/lib/plexus-node

scope='' binary='' prefix='' units='' envfile='' service=yes now=no remove=no dry=no
while [ $# -gt 0 ]; do
    case $1 in
        --user | --system)
            [ -z "$scope" ] || [ "$scope" = "${1#--}" ] || fail '--user and --system cannot be combined'
            scope=${1#--}
            ;;
        --binary | --prefix | --unit-dir | --env-file)
            if [ -z "${2:-}" ]; then fail "$1 needs a value"; fi
            case $1 in
                --binary) binary=$2 ;;
                --prefix) prefix=$2 ;;
                --unit-dir) units=$2 ;;
                --env-file) envfile=$2 ;;
            esac
            shift
            ;;
        --no-service) service=no ;;
        --now) now=yes ;;
        --uninstall) remove=yes ;;
        --dry-run) dry=yes ;;
        --help | -h)
            usage
            exit 0
            ;;
        *)
            usage >&2
            fail "unknown option: $1"
            ;;
    esac
    shift
done

[ "$(uname -s)" = Linux ] || fail 'this script installs a systemd service and needs Linux. On other systems, start "plexus node run" yourself'
if [ -z "$scope" ]; then
    if [ "$(id -u)" -eq 0 ]; then scope=system; else scope=user; fi
fi
if [ "$scope" = system ]; then
    prefix=${prefix:-/usr/local}
    envfile=${envfile:-/etc/plexus/node.env}
else
    [ -n "${HOME:-}" ] || fail 'HOME is not set'
    prefix=${prefix:-$HOME/.local}
    envfile=${envfile:-${XDG_CONFIG_HOME:-$HOME/.config}/plexus/node.env}
fi
case $prefix in
    /*) ;;
    *) prefix=$(pwd)/$prefix ;;
esac
program=$prefix/bin/plexus

# `plexus node install` and `uninstall` know the location and the content of units.
unit() {
    set -- "$1" "--$scope" ${units:+--unit-dir "$units"}
    if [ "$now" = yes ]; then set -- "$@" --now; fi
    run "$program" node "$@"
}

if [ "$remove" = yes ]; then
    if [ -x "$program" ]; then
        if [ "$service" = yes ]; then unit uninstall; fi
        run rm -f -- "$program"
        say "Removed: $program. The data folder, the environment file and the user were kept."
    else
        say "$program is not installed."
    fi
    exit 0
fi

# Checked before anything is changed.
if [ -n "$binary" ]; then
    if [ ! -f "$binary" ] || [ ! -x "$binary" ]; then fail "$binary is not an executable file"; fi
else
    [ -f "$here/../Cargo.toml" ] || fail 'this is not a clone of Plexus: name the program with --binary PATH'
    command -v cargo >/dev/null || fail 'cargo is not installed (https://rustup.rs): install it, or name the program with --binary PATH'
    built=$(mktemp -d)
    trap 'rm -rf -- "$built"' EXIT
    run cargo install --locked --path "$here/../crates/plexus" --root "$built" --no-track
    binary=$built/bin/plexus
fi

if [ "$scope" = system ] && [ "$service" = yes ]; then
    if ! id -u "$user" >/dev/null 2>&1; then
        run useradd --system --user-group --home-dir "$state/home" --no-create-home --shell /usr/sbin/nologin "$user"
    fi
    # The same folders as in the unit, so that the machine can join before the first start of the service.
    run install -d -o "$user" -g "$user" -m 0700 "$state" "$state/home" "$state/data"
fi

if [ -f "$program" ] && cmp -s -- "$binary" "$program"; then
    say "$program is up to date."
else
    run mkdir -p -- "$prefix/bin"
    # Replaced atomically, so that a running node keeps the file it was started from.
    run cp -- "$binary" "$program.new"
    run chmod 0755 "$program.new"
    run mv -f -- "$program.new" "$program"
    say "Program: $program"
fi

[ "$service" = yes ] || exit 0
if [ ! -e "$envfile" ]; then
    run mkdir -p -- "$(dirname -- "$envfile")"
    run cp -- "$here/node.env" "$envfile"
    run chmod 0600 "$envfile"
    say "Environment: $envfile"
fi
unit install
