#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# OUTDIR/tree: a Debian tree whose QEMU is new enough for vfio-user-pci (10.1). It is run through its own loader, without chroot.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

out=$1
make_tree "$out/tree" ""
say "QEMU from $suite-backports"
tree_install "$out/tree" -t "$suite-backports" qemu-system-x86
chroot "$out/tree" apt-get clean
rm -rf "$out/tree/var/lib/apt/lists" "$out/tree/usr/share/doc" "$out/tree.log"
lib=$out/tree/usr/lib/x86_64-linux-gnu
version=$(QEMU_MODULE_DIR=$lib/qemu "$out/tree/lib64/ld-linux-x86-64.so.2" --library-path "$lib" \
    "$out/tree/usr/bin/qemu-system-x86_64" --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')
[ "$(printf '10.1\n%s\n' "$version" | sort -V | head -n 1)" = 10.1 ] || die "$suite-backports has QEMU $version, 10.1 is needed for vfio-user-pci."
echo "$version" >"$out/version"
say "QEMU $version"
