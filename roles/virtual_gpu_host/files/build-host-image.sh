#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The gpulab.fleet authors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# OUTDIR/{disk.raw,vmlinuz,initrd}: the system of a virtual GPU host. Debian with LXD, QEMU, OVMF, a kernel that maps large BARs
# in huge pages (6.12 or later; the newest of the suite and its backports), python3, and an ssh server that takes one key, which
# the host gets at start as a systemd credential (ssh.authorized_keys.root). No passwords.

# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

out=$1
root=$out/root
flavour=amd64

make_tree "$root" systemd,systemd-sysv,dbus,udev,kmod,iproute2,openssh-server,pciutils,ca-certificates,netbase,procps,python3,busybox-static
say "LXD, QEMU and firmware"
# qemu-system-modules-spice: LXD starts every VM with a spice channel
tree_install "$root" lxd lxd-agent lxd-client qemu-system-x86 qemu-system-modules-spice qemu-utils ovmf \
    gdisk dosfstools rsync squashfs-tools xz-utils dnsmasq-base nftables attr
release=$(kernel_release "$root" "$flavour")
say "kernel $release"
mkdir -p "$root/kernel"
# 7.x splits the kernel's package into three
chroot "$root" sh -c "cd /kernel && apt-get -qq download linux-base-$release linux-binary-$release linux-modules-$release 2>/dev/null ||
    apt-get -qq download linux-image-$release" || die "the packages of kernel $release could not be downloaded"
for package in "$root"/kernel/*.deb; do
    chroot "$root" dpkg-deb -x "/kernel/${package##*/}" /kernel/x
done
cp -a "$root/kernel/x/." "$root/"
rm -rf "$root/kernel"
find "$root/boot" "$root/usr/lib/modules/$release" -maxdepth 1 -name 'vmlinuz*' -exec cp -L {} "$out/vmlinuz" \;
rm -rf "$root/boot"
# sound, wireless and the like never exist here; a fake board must not be met by a driver that expects the real one
rm -rf "$root/usr/lib/modules/$release/kernel/"{sound,drivers/media,drivers/net/wireless,drivers/infiniband,drivers/staging,drivers/gpu/drm/amd,drivers/gpu/drm/nouveau}
chroot "$root" depmod "$release"

say "configuration"
rm "$root/usr/sbin/policy-rc.d"
echo gpulab >"$root/etc/hostname"
printf '127.0.0.1 localhost gpulab\n::1 localhost\n' >"$root/etc/hosts"
: >"$root/etc/machine-id"
: >"$root/etc/resolv.conf"
rm -f "$root"/etc/ssh/ssh_host_*
# TCG is slow: only ed25519, made at the first boot; logins by key only
printf 'HostKey /etc/ssh/ssh_host_ed25519_key\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nUsePAM no\nUseDNS no\n' \
    >"$root/etc/ssh/sshd_config.d/gpulab.conf"
mkdir -p "$root/etc/systemd/system/ssh.service.d"
# it need not wait for devices; the key comes with systemd-tmpfiles-setup
printf '[Unit]\nDefaultDependencies=no\nAfter=systemd-tmpfiles-setup.service\n[Service]\nExecStartPre=\nExecStartPre=/bin/sh -c "test -s /etc/ssh/ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N \\"\\" -f /etc/ssh/ssh_host_ed25519_key"\nRestart=always\n' \
    >"$root/etc/systemd/system/ssh.service.d/gpulab.conf"
# before LXD starts: it looks for /dev/kvm once. The one that the processor lacks fails, which is no harm
printf 'kvm_amd\nkvm_intel\nvhost_vsock\nvfio_pci\nvirtio_balloon\n' >"$root/etc/modules-load.d/gpulab.conf"
# drivers of real hardware that would wait for, or trip over, a board that only has the real one's face
printf 'blacklist %s\n' nouveau nvidiafb amdgpu radeon mlx5_core mlx5_ib ena efa qxl snd_hda_intel >"$root/etc/modprobe.d/gpulab.conf"
printf 'vm.overcommit_memory = 1\nkernel.panic = -1\n' >"$root/etc/sysctl.d/gpulab.conf"
mkdir -p "$root/etc/systemd/system.conf.d" "$root/etc/systemd/journald.conf.d"
printf '[Manager]\nDefaultTimeoutStartSec=180s\nDefaultTimeoutStopSec=20s\nRuntimeWatchdogSec=off\n' >"$root/etc/systemd/system.conf.d/gpulab.conf"
printf '[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\n' >"$root/etc/systemd/journald.conf.d/gpulab.conf"
for unit in systemd-journald systemd-logind systemd-udevd; do # an emulated host may starve them for a minute
    mkdir -p "$root/etc/systemd/system/$unit.service.d"
    printf '[Service]\nWatchdogSec=0\n' >"$root/etc/systemd/system/$unit.service.d/gpulab.conf"
done
# Each program that an emulated machine need not start is a second saved. The address is set by the ramdisk; root logs in by key.
rm -f "$root"/usr/lib/systemd/system-generators/*
touch "$root/etc/.updated" "$root/var/.updated" # nothing to rebuild at the first boot
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
ln -s /usr/lib/systemd/system/lxd.service "$root/etc/systemd/system/multi-user.target.wants/lxd.service"
chroot "$root" systemctl -q enable ssh lxd.socket 2>>"$root.log" # it warns that /proc is missing
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer man-db.timer systemd-tmpfiles-clean.timer \
    getty@tty1.service serial-getty@ttyS0.service e2scrub_reap.service sshd-keygen.service lxd-agent.service lxd-containers.service \
    systemd-networkd.service systemd-networkd.socket systemd-networkd-wait-online.service systemd-network-generator.service \
    systemd-timesyncd.service systemd-logind.service dbus.service dbus.socket systemd-user-sessions.service systemd-pstore.service \
    systemd-pcrmachine.service systemd-tpm2-setup.service systemd-tpm2-setup-early.service systemd-firstboot.service \
    modprobe@drm.service modprobe@configfs.service modprobe@efi_pstore.service modprobe@fuse.service modprobe@dm_mod.service modprobe@loop.service \
    sys-kernel-debug.mount sys-kernel-tracing.mount dev-mqueue.mount systemd-binfmt.service proc-sys-fs-binfmt_misc.automount \
    systemd-hwdb-update.service ldconfig.service systemd-journal-catalog-update.service systemd-update-done.service systemd-update-utmp.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" apt-get clean
rm -rf "$root/var/lib/apt/lists" "$root/usr/share/doc" "$root/usr/share/man" "$root/usr/share/locale" "$root.log"

say "initial ramdisk"
bash "$here/make-initrd.sh" "$root" "$release" "$here/host-init" "$out/initrd" virtio_blk virtio_net ext4
say "disk"
truncate -s 12G "$out/disk.raw"
mkfs.ext4 -q -F -E lazy_itable_init=1,lazy_journal_init=1 -O ^has_journal -d "$root" "$out/disk.raw"
rm -rf "$root"
echo "$release" >"$out/release"
say "host image with kernel $release, $(du -sh "$out" | cut -f1)"
