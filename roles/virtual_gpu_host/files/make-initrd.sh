#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# make-initrd.sh TREE RELEASE INIT OUT MODULE...: a ramdisk of busybox, INIT, and the modules with what they need, in load order.
# Further files: EXTRA="source:target ...".

set -euo pipefail

tree=$1 release=$2 init=$3 out=$4
shift 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{bin,dev,proc,sys,run,tmp,root,etc,newroot,usr/bin,sbin,lib/modules}
busybox=$(ls "$tree/usr/bin/busybox" "$tree/bin/busybox" 2>/dev/null | head -n 1)
cp "$busybox" "$work/bin/busybox"
ln -s busybox "$work/bin/sh"
install -m 755 "$init" "$work/init"
: >"$work/lib/modules/order"
for module in "$@"; do
    chroot "$tree" modprobe -S "$release" --show-depends "$module" | awk '$1 == "insmod" {print $2}' # builtin ones print "builtin"
done | awk '!seen[$0]++' | while read -r file; do
    file=$tree$file
    name=$(basename "$file")
    case $name in # unpacked here: quicker than in an emulated machine
    *.xz) name=${name%.xz} && xz -dc "$file" >"$work/lib/modules/$name" ;;
    *.zst) name=${name%.zst} && zstd -qdc "$file" >"$work/lib/modules/$name" ;;
    *) cp "$file" "$work/lib/modules/$name" ;;
    esac
    # without its signature a module loads faster: an emulated machine would sum it up for nothing
    if command -v strip >/dev/null; then strip --strip-debug "$work/lib/modules/$name"; fi
    echo "$name" >>"$work/lib/modules/order"
done
for pair in ${EXTRA:-}; do
    mkdir -p "$work/$(dirname "${pair#*:}")"
    cp -L "${pair%%:*}" "$work/${pair#*:}"
done
# not compressed: an emulated machine unpacks more slowly than its firmware reads
(cd "$work" && find . | LC_ALL=C sort | "$busybox" cpio -o -H newc 2>/dev/null) >"$out"
