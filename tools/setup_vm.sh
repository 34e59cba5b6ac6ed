#!/usr/bin/env bash
# Installs, as root, what the virtual machine of `make test-vm` needs: the emulator, the tools that make its first file
# system, and what the tests call inside it, for the machine runs on this root file system. Nothing of it is needed to
# use localpv. Run by make; does nothing when all is there.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

# Package -> a file that tells whether it is there.
declare -A packages=(
  [qemu-system-x86]=/usr/bin/qemu-system-x86_64
  [busybox-static]=/usr/bin/busybox
  [cpio]=/usr/bin/cpio
  [kmod]=/usr/sbin/modprobe
  [udev]=/usr/lib/systemd/systemd-udevd
  [lvm2]=/usr/sbin/lvm
  [dmsetup]=/usr/sbin/dmsetup
  [mdadm]=/usr/sbin/mdadm
  [cryptsetup-bin]=/usr/sbin/cryptsetup
  [hdparm]=/usr/sbin/hdparm
  [nvme-cli]=/usr/sbin/nvme
  [fdisk]=/usr/sbin/sfdisk
  [e2fsprogs]=/usr/sbin/mkfs.ext4
  [xfsprogs]=/usr/sbin/mkfs.xfs
  [iproute2]=/usr/sbin/ip
)

mapfile -t missing < <(missing_of packages)
((${#missing[@]})) || exit 0
install_packages "${missing[@]}"
