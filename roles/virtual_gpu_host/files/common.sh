#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sourced by the build scripts of this folder. Each of them is called as `bash NAME.sh OUTDIR`, writes its results into
# OUTDIR and nothing else, and prints what it is doing as lines that begin with "@ ".

set -euo pipefail
export LC_ALL=C DEBIAN_FRONTEND=noninteractive

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
suite=${GPULAB_SUITE:-trixie}

say() { echo "@ $*"; }

die() {
    echo "$*" >&2
    exit 1
}

# retry COMMAND...: downloads fail now and then; three tries, 5 and 15 seconds apart.
retry() {
    local pause
    for pause in 5 15 0; do
        if "$@"; then return 0; fi
        if [ "$pause" = 0 ]; then return 1; fi
        say "failed, again in $pause s: $*"
        sleep "$pause"
    done
}

# The Debian archive that this machine itself uses: the project names no mirror of its own.
debian_mirror() {
    local found
    if [ -n "${GPULAB_DEBIAN_MIRROR:-}" ]; then
        echo "$GPULAB_DEBIAN_MIRROR"
        return
    fi
    found=$({
        cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk '/^URIs:/ {for (i = 2; i <= NF; i++) print $i}'
        cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null |
            awk '$1 == "deb" {for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) print $i}'
    } | grep -E '/debian/?$' | head -n 1) || true
    [ -n "$found" ] || die "No Debian archive among this machine's apt sources. Set GPULAB_DEBIAN_MIRROR to the address of one."
    echo "$found"
}

# make_tree DIR PACKAGES: a Debian tree by debootstrap, with the backports suite known to its apt and no services started in it.
make_tree() {
    local tree=$1 include=$2 mirror
    [ "$(id -u)" = 0 ] || die "debootstrap needs root: run this as root, or let somebody build the cache once."
    command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"
    mirror=$(debian_mirror)
    say "debootstrap $suite"
    # shellcheck disable=SC2086  # an empty list must be no argument
    retry debootstrap --variant=minbase --components=main ${include:+--include=$include} "$suite" "$tree" "$mirror" >"$tree.log" 2>&1 ||
        die "debootstrap failed, its last lines: $(tail -n 5 "$tree.log")"
    printf 'deb %s %s main\ndeb %s %s-backports main\n' "$mirror" "$suite" "$mirror" "$suite" >"$tree/etc/apt/sources.list"
    cp /etc/resolv.conf "$tree/etc/resolv.conf"
    cp -n /etc/apt/apt.conf.d/* "$tree/etc/apt/apt.conf.d/" 2>/dev/null || true # the machine's own proxy and certificates
    printf '#!/bin/sh\nexit 101\n' >"$tree/usr/sbin/policy-rc.d"
    chmod +x "$tree/usr/sbin/policy-rc.d"
    mkdir -p "$tree/etc/dpkg/dpkg.cfg.d"
    printf 'path-exclude=/usr/share/%s/*\n' doc man locale info lintian >"$tree/etc/dpkg/dpkg.cfg.d/small"
    retry chroot "$tree" apt-get -qq update
}

# tree_install DIR [apt-get options and packages]
tree_install() {
    local tree=$1
    shift
    retry chroot "$tree" apt-get -y -qq -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io --no-install-recommends install "$@" \
        >>"$tree.log" 2>&1 || die "apt-get install failed, its last lines: $(tail -n 5 "$tree.log")"
}

# kernel_version DIR FLAVOUR: the newest kernel that the tree's archive offers, backports included.
kernel_version() {
    chroot "$1" apt-cache madison "linux-image-$2" | awk -F'|' '{gsub(/ /, "", $2); print $2}' | sort -V | tail -n 1
}

# kernel_release DIR FLAVOUR: its release name (what `uname -r` says).
kernel_release() {
    chroot "$1" apt-cache show "linux-image-$2=$(kernel_version "$1" "$2")" |
        grep -oE "linux-image-[0-9][^ ,]*-$2" | head -n 1 | sed 's/^linux-image-//'
}
