#!/usr/bin/env bash
# Makes the virtual environment and, as root, installs the system packages that localpv and its tests use.
# Run by make; works a second time without the network.
set -euo pipefail
venv=${1:-.venv}

# Package -> a program that tells whether it is there.
declare -A packages=([python3-venv]=python3 [util-linux]=mount [runc]=runc [conmon]=conmon [busybox-static]=busybox)

missing=()
for package in "${!packages[@]}"; do
  command -v "${packages[$package]}" >/dev/null 2>&1 || missing+=("$package")
done
# python3 without venv is how Debian ships it.
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

if ((${#missing[@]})); then
  if ((EUID == 0)) && command -v apt-get >/dev/null; then
    echo "setup: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # Nothing that is installed here should start by itself.
    policy=/usr/sbin/policy-rc.d
    made_policy=
    if [[ ! -e $policy ]]; then
      printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made_policy=1
    fi
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null || status=$?
    [[ -z $made_policy ]] || rm -f "$policy"
    [[ ${status:-0} == 0 ]] || exit "$status"
  else
    echo "setup: these system packages are missing: ${missing[*]}" >&2
    echo "setup: run this once, then make again:  sudo apt-get install -y ${missing[*]}" >&2
    [[ " ${missing[*]} " == *" python3-venv "* ]] && exit 1
    echo "setup: going on without them; tests that need them say so" >&2
  fi
fi

python3 - <<'PY'
import sys
if sys.version_info < (3, 11):
    sys.exit(f"setup: localpv needs Python 3.11 or newer, python3 here is {sys.version.split()[0]}")
PY

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
echo "setup: installing Python packages into $venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check -e '.[dev]'
