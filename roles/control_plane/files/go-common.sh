#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Sourced by the build scripts of this folder. Each of them is called as `bash NAME.sh OUTDIR`, writes its programs into OUTDIR/bin and
# nothing else there, and prints what it is doing as lines that begin with "@ ".

set -euo pipefail
export LC_ALL=C CGO_ENABLED=0

# Progress goes to where it is read from, also out of a command substitution.
exec 3>&1
say() { echo "@ $*" >&3; }

die() {
    echo "$*" >&2
    exit 1
}

command -v go >/dev/null || die "go is not on PATH. Install Go, or choose another control_plane_source than modules."

# A compiler or linker of these programs takes up to 2 GiB, so memory bounds how many run at once, and the processors do.
jobs=$(awk -v cpus="$(nproc)" '/^MemAvailable:/ {n = int($2 / 2097152); print n < 1 ? 1 : n < cpus ? n : cpus}' /proc/meminfo)
export GOFLAGS="${GOFLAGS:-} -mod=mod -p=${jobs:-1}"

# Answers of a module proxy or a server that another try does not change.
permanent='404 Not Found|410 Gone|unknown revision|invalid version|no matching versions|403 Forbidden'

# fetched WHAT COMMAND...: a command that downloads modules, with three tries; an answer that will stay the same ends it at once.
fetched() {
    local what=$1 pause said
    shift
    said=$(mktemp)
    for pause in 5 15 0; do
        if "$@" 2>"$said"; then
            cat "$said" >&2
            rm -f "$said"
            return 0
        fi
        cat "$said" >&2
        if [ "$pause" = 0 ] || grep -qE "$permanent" "$said"; then
            rm -f "$said"
            return 1
        fi
        say "$what: failed, again in $pause s"
        sleep "$pause"
    done
}

# compile WHAT TOTAL ARGUMENTS...: go build that counts the packages it compiles; those from Go's own cache are not named by it.
compile() {
    local what=$1 total=$2
    shift 2
    say "$what: compiling"
    go build -v -trimpath "$@" 2>&1 | awk -v what="$what" -v total="$total" '
        {print; fflush()}
        /^[a-z][^ :]*$/ {if (++n % 50 == 0) {print "@ " what ": " n " of " total " packages compiled"; fflush()}}'
}
