#!/bin/sh
# Installs ponder VERSION from the files of its release, after checking that the program is the one
# that this script was released with.
#
#   sh install.sh [FROM [PREFIX]]
#
# FROM is the URL or the directory of the files (default: the directory of this script), PREFIX where
# to install (default: ~/.local). TLS uses the system's certificates.
set -eu
name=PROGRAM sha256=SHA256
from=${1:-$(dirname "$0")} prefix=${2:-$HOME/.local}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}
system=$(uname -s | tr A-Z a-z)-$(uname -m)
case $name in
*-"$system") ;;
*) fail "$name does not run on $system; build from the source archive: README.md" ;;
esac
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
case $from in
*://*) curl -fsSL --proto '=https,file' -o "$temporary/ponder" "$from/$name" || fail "cannot download $from/$name" ;;
*) cp "$from/$name" "$temporary/ponder" || fail "cannot read $from/$name" ;;
esac
echo "$sha256  $temporary/ponder" | sha256sum -c --status ||
    fail "$name is not the file of this release: its SHA-256 should be $sha256"
chmod 755 "$temporary/ponder"
"$temporary/ponder" --version >/dev/null || fail "$name does not run here; it needs glibc 2.36 or later"
mkdir -p "$prefix/bin"
mv "$temporary/ponder" "$prefix/bin/ponder.new"
mv "$prefix/bin/ponder.new" "$prefix/bin/ponder" # also while an older one runs
echo "installed $prefix/bin/ponder ($("$prefix/bin/ponder" --version))"
