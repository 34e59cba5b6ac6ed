#!/usr/bin/env bash
# Installs, as root, what a real Kubernetes cluster on this machine needs besides the programs that are built with Go:
# a container runtime, network plugins, a static shell for test images and the tool that makes our own image's base.
# Run by make; does nothing when all is there, and never stops the caller: the tests say what is missing.
set -euo pipefail

# Package -> a file that tells whether it is there.
declare -A packages=(
  [containerd]=/usr/bin/containerd
  [runc]=/usr/sbin/runc
  [containernetworking-plugins]=/usr/lib/cni/ptp
  [busybox-static]=/bin/busybox
  [mmdebstrap]=/usr/bin/mmdebstrap
  [iproute2]=/usr/sbin/ip
)

missing=()
for package in "${!packages[@]}"; do
  [[ -e ${packages[$package]} || -e ${packages[$package]/#\/usr/} ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
  echo "setup: a cluster needs these system packages: ${missing[*]}" >&2
  echo "setup: run this once:  sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
  exit 0
fi

echo "setup: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
# Nothing that is installed here should start by itself: each test node starts a containerd of its own.
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
fi
apt-get update -qq || echo "setup: the package lists could not be renewed" >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || echo "setup: some packages are still missing" >&2
