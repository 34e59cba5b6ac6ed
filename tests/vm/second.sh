# The second program of the virtual machine: what an ordinary start does as far as tests need it, then the command.
# /run/vm is the folder that is shared with the machine outside; `settings` in it is written for each run.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
. /run/vm/settings
mkdir -p /dev/pts /dev/shm /lib/modules /run/lock /run/udev /run/lvm /run/mdadm
mount -t devpts -o ptmxmode=666 devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for link in fd:/proc/self/fd stdin:fd/0 stdout:fd/1 stderr:fd/2; do ln -sfn "${link#*:}" "/dev/${link%%:*}"; done
mount --bind "$modules" /lib/modules
hostname vm
ip link set lo up
for module in $load; do modprobe "$module"; done
rm -rf /etc/lvm/devices /run/udev/rules.d
/lib/systemd/systemd-udevd --daemon
# All devices would take seconds.
udevadm trigger --action=add --subsystem-match=block --subsystem-match=scsi --subsystem-match=nvme --subsystem-match=virtio-ports
udevadm settle
cd "$folder" || exit
# Into a pipe, so that programs see no terminal; and whatever the command leaves behind cannot hold up the end.
mkfifo /run/output
cat /run/output >/dev/virtio-ports/output &
writer=$!
exec 3>/run/output
setsid bash /run/vm/command </dev/null >&3 2>&3 3>&-
echo $? >/run/vm/status
exec 3>&-
tries=0
while kill -0 $writer 2>/dev/null && [ $tries -lt 20 ]; do sleep 0.1; tries=$((tries + 1)); done
sync
echo o >/proc/sysrq-trigger
sleep 60
