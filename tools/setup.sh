#!/usr/bin/env bash
# Makes the virtual environment and, as root, installs the system packages that localpv and its tests use.
# Run by make; works a second time without the network.
set -euo pipefail
venv=${1:-.venv}
source "$(dirname "$0")/packages.sh"

declare -A packages=(
  [python3-venv]=python3
  [util-linux]=mount
  [runc]=runc
  [conmon]=conmon
  [busybox-static]=busybox
  [e2fsprogs]=mkfs.ext4
  [fdisk]=sfdisk
  [udev]=udevadm
  [xfsprogs]=mkfs.xfs
  [btrfs-progs]=mkfs.btrfs
)
mapfile -t missing < <(missing_of packages)
# python3 without venv is how Debian ships it.
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

if ((${#missing[@]})) && ! install_packages "${missing[@]}"; then
  [[ " ${missing[*]} " == *" python3-venv "* ]] && exit 1
  echo "setup: going on without them; tests that need them say so" >&2
fi

python3 - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: localpv needs Python 3.11 or newer, python3 here is {sys.version.split()[0]}")
PY

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
echo "setup: installing Python packages into $venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -e '.[dev]'
