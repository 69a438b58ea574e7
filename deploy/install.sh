#!/bin/sh
# Installs a Plexus node on this machine: the program, a systemd unit and an environment file. Run it again to update.
#
# Nothing is downloaded by it. The program is the one that you name with --binary, or is built by cargo from the clone that
# this script is in. It does not join a hub and does not start anything unless told to with --now.
set -eu

usage() {
    cat <<'TEXT'
Usage: deploy/install.sh [--user | --system] [OPTION]...

  --user            for this user: ~/.local, a user service (default, unless run by root)
  --system          for the machine: /usr/local, a service with a user of its own, `plexus` (default for root)
  --binary PATH     install this program; without it, cargo builds the clone
  --prefix DIR      where bin/plexus goes
  --unit-dir DIR    where the unit goes, instead of the folder that systemd reads
  --env-file FILE   where the environment file goes
  --no-service      only the program
  --now             start the service, and have it start by itself
  --uninstall       take away the unit and the program; data, environment file and user stay
  --dry-run         say what would be done, and do nothing
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

# Runs a command, or says that it would be run.
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
            [ -z "$scope" ] || [ "$scope" = "${1#--}" ] || fail '--user and --system exclude each other'
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

[ "$(uname -s)" = Linux ] || fail 'this installs a systemd service, which only Linux has. Elsewhere, start "plexus node run" yourself'
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

# `plexus node install` and `uninstall` know where units go, and what they look like.
unit() {
    set -- "$1" "--$scope" ${units:+--unit-dir "$units"}
    if [ "$now" = yes ]; then set -- "$@" --now; fi
    run "$program" node "$@"
}

if [ "$remove" = yes ]; then
    if [ -x "$program" ]; then
        if [ "$service" = yes ]; then unit uninstall; fi
        run rm -f -- "$program"
        say "Taken away: $program. Data folder, environment file and user are still there."
    else
        say "There is no $program."
    fi
    exit 0
fi

# Found before anything is changed.
if [ -n "$binary" ]; then
    if [ ! -f "$binary" ] || [ ! -x "$binary" ]; then fail "$binary is no program"; fi
else
    [ -f "$here/../Cargo.toml" ] || fail 'this is no clone of Plexus: name the program with --binary PATH'
    command -v cargo >/dev/null || fail 'cargo is not there (https://rustup.rs): install it, or name the program with --binary PATH'
    built=$(mktemp -d)
    trap 'rm -rf -- "$built"' EXIT
    run cargo install --locked --path "$here/../crates/plexus" --root "$built" --no-track
    binary=$built/bin/plexus
fi

if [ "$scope" = system ] && [ "$service" = yes ]; then
    if ! id -u "$user" >/dev/null 2>&1; then
        run useradd --system --user-group --home-dir "$state/home" --no-create-home --shell /usr/sbin/nologin "$user"
    fi
    # As the unit has them, so that the machine can join before the service is first started.
    run install -d -o "$user" -g "$user" -m 0700 "$state" "$state/home" "$state/data"
fi

if [ -f "$program" ] && cmp -s -- "$binary" "$program"; then
    say "$program is up to date."
else
    run mkdir -p -- "$prefix/bin"
    # Put in its place as a whole: a node that runs keeps the file that it was started from.
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
