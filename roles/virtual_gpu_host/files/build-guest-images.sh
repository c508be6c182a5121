#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# OUTDIR/vm/{disk.qcow2,metadata.tar.xz}: a VM image for LXD that boots fast under emulation: one EFI program (kernel, ramdisk with
# busybox, lspci and LXD's agent) on an EFI partition. The agent's keys come from the drive that LXD attaches.
# OUTDIR/container/image.tar.gz: a container image with busybox and lspci.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

out=$1
root=$out/root
flavour=amd64 # the cloud kernel lacks 9p, over which LXD hands the agent to its VMs

make_tree "$root" busybox-static,kmod,pciutils,xz-utils
say "tools for the images"
tree_install "$root" systemd-ukify systemd-boot-efi dosfstools mtools gdisk qemu-utils lxd-agent
release=$(kernel_release "$root" "$flavour")
say "kernel $release"
mkdir -p "$root/kernel" "$root/build"
# 7.x splits the kernel's package into three
chroot "$root" sh -c "cd /kernel && apt-get -qq download linux-base-$release linux-binary-$release linux-modules-$release 2>/dev/null ||
    apt-get -qq download linux-image-$release" || die "the packages of kernel $release could not be downloaded"
for package in "$root"/kernel/*.deb; do
    chroot "$root" dpkg-deb -x "/kernel/${package##*/}" /kernel/x
done
cp -a "$root/kernel/x/." "$root/"
chroot "$root" depmod "$release"
find "$root/boot" "$root/usr/lib/modules/$release" -maxdepth 1 -name 'vmlinuz*' -exec cp -L {} "$root/build/vmlinuz" \;

# lspci and what it is linked with, as source:target pairs
files="$root/usr/bin/lspci:usr/bin/lspci $root/usr/share/misc/pci.ids:usr/share/misc/pci.ids"
for library in $(chroot "$root" ldd /usr/bin/lspci | grep -oE '/[^ ]+'); do
    files="$files $root$library:${library#/}"
done

say "VM image"
agent=$(find "$root/usr" -type f -name lxd-agent -perm -u+x | head -n 1)
[ -n "$agent" ] || die "the package lxd-agent has no program lxd-agent"
EXTRA="$files $agent:usr/bin/lxd-agent $here/dhcp-bound:usr/bin/dhcp-bound" bash "$here/make-initrd.sh" "$root" "$release" "$here/guest-init" "$root/build/initrd" \
    virtio_console virtio_net vmw_vsock_virtio_transport 9pnet_virtio 9p virtio_balloon
# loglevel 3: each line on the serial console costs time; tsc: without it the clock is read through slow emulated timers
echo -n "console=ttyS0 panic=-1 loglevel=3 tsc=reliable no_timer_check mitigations=off nokaslr" >"$root/build/cmdline"
cat >"$root/build/make" <<'INNER'
set -e
cd /build
ukify build --linux=vmlinuz --initrd=initrd --cmdline=@cmdline --output=guest.efi >/dev/null
size=$(($(stat -c %s guest.efi) / 1048576 + 40))
truncate -s ${size}M esp
mkfs.vfat -F 32 -n ESP esp >/dev/null
mmd -i esp ::/EFI ::/EFI/BOOT
mcopy -i esp guest.efi ::/EFI/BOOT/BOOTX64.EFI
truncate -s $((size + 4))M disk.raw
sgdisk -n1:2048:0 -t1:ef00 disk.raw >/dev/null
dd if=esp of=disk.raw bs=1M seek=1 conv=notrunc status=none
qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2
INNER
chroot "$root" sh /build/make
metadata() { # metadata DIR DESCRIPTION
    mkdir -p "$1"
    printf 'architecture: x86_64\ncreation_date: 1767225600\nproperties:\n  os: gpulab\n  release: "%s"\n  description: %s\n' "$release" "$2" >"$1/metadata.yaml"
}
mkdir -p "$out/vm" "$out/container"
cp "$root/build/disk.qcow2" "$out/vm/disk.qcow2"
metadata "$root/build/vm" "gpulab.fleet small VM"
tar -C "$root/build/vm" --owner=0 --group=0 -cJf "$out/vm/metadata.tar.xz" metadata.yaml

say "container image"
tree=$root/build/container
metadata "$tree" "gpulab.fleet small container"
mkdir -p "$tree/rootfs"/{bin,sbin,dev,proc,sys,run,tmp,root,etc,usr/bin,usr/sbin,var/log}
cp "$root/usr/bin/busybox" "$tree/rootfs/bin/busybox"
for applet in $("$root/usr/bin/busybox" --list); do
    [ "$applet" = busybox ] || [ "$applet" = lspci ] || ln -s busybox "$tree/rootfs/bin/$applet"
done
for pair in $files; do
    mkdir -p "$tree/rootfs/$(dirname "${pair#*:}")"
    cp -L "${pair%%:*}" "$tree/rootfs/${pair#*:}"
done
install -m 755 "$here/container-init" "$tree/rootfs/sbin/init"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$tree/rootfs/etc/passwd"
printf 'root:x:0:\n' >"$tree/rootfs/etc/group"
tar -C "$tree" --owner=0 --group=0 --sort=name -czf "$out/container/image.tar.gz" metadata.yaml rootfs
rm -rf "$root" "$root.log"
say "guest images with kernel $release: VM $(du -h "$out/vm/disk.qcow2" | cut -f1), container $(du -h "$out/container/image.tar.gz" | cut -f1)"
