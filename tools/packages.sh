# Sourced by the set-up scripts: which system packages are missing, and installing them.

# missing_of NAME: of the map NAME (package -> a program or file that tells whether it is there), those that are not there.
missing_of() {
  local -n wanted=$1
  local package sign
  for package in "${!wanted[@]}"; do
    sign=${wanted[$package]}
    # Some releases have files below /usr and some do not; programs of root are not in everybody's path.
    [[ -e $sign || -e ${sign/#\/usr/} || -e /usr/sbin/$sign ]] || command -v "$sign" >/dev/null 2>&1 || echo "$package"
  done
}

# install_packages PACKAGE...: as root with apt; otherwise says what to run, and fails.
install_packages() {
  if ((EUID != 0)) || ! command -v apt-get >/dev/null; then
    echo "setup: these system packages are missing: $*" >&2
    echo "setup: run this once, then make again:  sudo apt-get install -y --no-install-recommends $*" >&2
    return 1
  fi
  echo "setup: installing $*"
  local policy=/usr/sbin/policy-rc.d made= status=0
  # Nothing that is installed here should start by itself.
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq || echo "setup: the package lists could not be renewed" >&2
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null || status=$?
  [[ -z $made ]] || rm -f "$policy"
  return "$status"
}
