#!/usr/bin/env bash
# Installs, as root, what a real Kubernetes cluster on this machine needs besides the programs that are built with Go:
# a container runtime, network plugins, a static shell for test images and the tool that makes our own image's base.
# Run by make; does nothing when all is there, and never stops the caller: the tests say what is missing.
set -euo pipefail
source "$(dirname "$0")/packages.sh"

# Package -> a file that tells whether it is there.
declare -A packages=(
  [containerd]=/usr/bin/containerd
  [runc]=/usr/sbin/runc
  [containernetworking-plugins]=/usr/lib/cni/ptp
  [busybox-static]=/bin/busybox
  [mmdebstrap]=/usr/bin/mmdebstrap
  [iproute2]=/usr/sbin/ip
)

mapfile -t missing < <(missing_of packages)
((${#missing[@]})) || exit 0
install_packages "${missing[@]}" || echo "setup: some packages are still missing" >&2
