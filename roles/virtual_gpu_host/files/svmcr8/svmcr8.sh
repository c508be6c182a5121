#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# svmcr8.sh DIR SEEN QEMU-COMMAND...
# Says on stdout which arguments this QEMU needs for nested SVM: nothing (no bug), or "-plugin file=SEEN/svmcr8.so".
# DIR: an empty work folder; SEEN: the same folder as QEMU-COMMAND names it (differs under chroot).
# Status 0: the answer was proven by running cr8probe. Otherwise the reason is on stderr and QEMU must not be used.
set -eu
src=$(cd "$(dirname "$0")" && pwd); dir=$1 seen=$2; shift 2
as --32 -o "$dir/cr8probe.o" "$src/cr8probe.S"
ld -m elf_i386 -Ttext=0x100000 --build-id=none -o "$dir/cr8probe" "$dir/cr8probe.o"
probe() {   # sets rc: 33 passed, 134 the bug
    rc=0
    ( ulimit -c 0; timeout 60 "${qemu[@]}" -accel tcg -cpu max -nodefaults -no-user-config -display none -no-reboot \
        -device isa-debug-exit -kernel "$seen/cr8probe" "$@"; exit $? ) > "$dir/probe.out" 2>&1 < /dev/null || rc=$?
}
qemu=("$@")
probe
case $rc in
33) exit 0 ;;                                                   # a QEMU without the bug: nothing to do
134) grep -q 'handle_interrupt: assertion failed\|cpu_interrupt: assertion failed' "$dir/probe.out" || { cat "$dir/probe.out" >&2; exit 1; } ;;
*) echo "svmcr8: the probe ended with $rc without the plugin" >&2; cat "$dir/probe.out" >&2; exit 1 ;;
esac
build() { ${CC:-gcc} -O2 -Wall -fPIC -shared -DPLUGIN_API="$1" -o "$dir/svmcr8.so" "$src/svmcr8.c"; }
build 0                                                         # QEMU says which plugin API it wants at least
probe -plugin "file=$seen/svmcr8.so"
api=$(sed -n 's/.*supports only a minimum version of \([0-9]*\).*/\1/p' "$dir/probe.out")
if [ -n "$api" ]; then build "$api"; probe -plugin "file=$seen/svmcr8.so"; fi
[ $rc = 33 ] || { echo "svmcr8: the probe ended with $rc with the plugin" >&2; cat "$dir/probe.out" >&2; exit 1; }
echo "-plugin file=$seen/svmcr8.so"
