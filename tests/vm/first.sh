#!/bin/busybox sh
# The first program of the virtual machine: puts a root file system together and hands over to second.sh.
#
# The root is that of the machine outside, shared read-only, with a file system in memory over it: the same programs and
# the same checkout, and nothing that is done in here is seen outside.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
while read -r module; do $b insmod "/modules/$module"; done </modules/order

share='trans=virtio,version=9p2000.L,msize=512000'
stop() { echo "first.sh: $1 failed"; $b poweroff -f; }
$b mount -t 9p -o "$share,cache=loose,ro" root /lower || stop 'mounting the root'
$b mount -t tmpfs -o mode=755 tmpfs /upper || stop 'mounting the upper file system'
$b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /root || stop 'the overlay'
for name in proc sys dev; do $b mount --move /$name /root/$name; done
$b mount -t tmpfs -o mode=755 tmpfs /root/run
$b mkdir /root/run/vm
$b mount -t 9p -o "$share,cache=none" run /root/run/vm || stop 'mounting the shared folder'
exec $b switch_root /root /bin/sh /run/vm/second.sh
