#!/bin/sh
# Removes from a Debian root file system what no container of localpv reads. Run inside it, after its packages are there.
set -eu
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*.log /var/log/apt \
  /usr/share/doc /usr/share/man /usr/share/info /usr/share/locale /usr/share/lintian /usr/share/bash-completion \
  /usr/share/zsh /usr/share/bug
# The online scrub is the only part of xfsprogs that needs this library, a tenth of the image.
rm -f /usr/sbin/xfs_scrub /usr/lib/*/libicu*.so.*
# Hardware names of devices that are no disks.
rm -rf /usr/lib/udev/hwdb.d /usr/lib/udev/hwdb.bin
find / -xdev -name __pycache__ -path '/usr/share/*' -prune -exec rm -rf {} +
