#!/usr/bin/env bash
# Installs, as root, what the virtual machine of `make test-vm` needs: the emulator, the tools that make its first file
# system, and what the tests call inside it, for the machine runs on this root file system. Nothing of it is needed to
# use localpv. Run by make; does nothing when all is there.
set -euo pipefail

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

missing=()
for package in "${!packages[@]}"; do
  # Some releases have these below /usr and some do not.
  [[ -e ${packages[$package]} || -e ${packages[$package]#/usr} ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
  echo "setup: the virtual machine needs these system packages: ${missing[*]}" >&2
  echo "setup: run this once, then make again:  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 1
fi

echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Nothing that is installed here should start by itself: it is for the machine inside.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
fi
apt-get update -qq || echo "setup: the package lists could not be renewed" >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
