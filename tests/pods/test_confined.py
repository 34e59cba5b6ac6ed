"""What a container may not do to the machine, tried from inside."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pods.machine import Machine
from tests.pods.test_inside import run_once

HOST = {"hostNetwork": True}, {"hostPID": True}, {"hostIPC": True}
EVERY = {"hostNetwork": True, "hostPID": True, "hostIPC": True}

TRY_TO_LEAVE = """
writable() { true 2>/dev/null >> "$1" && echo "writable: $1"; }  # opened, and nothing written
for group in $(awk '$3 ~ /^cgroup/ {print $2}' /proc/mounts); do
    for file in release_agent notify_on_release cgroup.procs tasks devices.allow memory.limit_in_bytes; do
        [ -e "$group/$file" ] || continue
        writable "$group/$file"
        echo 0 2>/dev/null > "$group/$file" && echo "written: $group/$file"
    done
    mkdir "$group/localpv-made-inside" 2>/dev/null && echo "made: $group" && rmdir "$group/localpv-made-inside"
done
for file in $(find /sys /proc/sys /proc/irq /proc/bus /proc/fs -type f 2>/dev/null); do writable "$file"; done
writable /proc/sysrq-trigger
echo h 2>/dev/null > /proc/sysrq-trigger && echo "written: sysrq-trigger"
echo core 2>/dev/null > /proc/sys/kernel/core_pattern && echo "written: core_pattern"
echo add 2>/dev/null > /sys/class/mem/null/uevent && echo "written: uevent"
mount -o remount,rw /sys 2>/dev/null && echo "remounted: /sys"
mkdir /tmp/m && mount -t cgroup -o rdma none /tmp/m 2>/dev/null && echo "mounted: cgroup"
mount -t sysfs none /tmp/m 2>/dev/null && echo "mounted: sysfs"
mknod /tmp/disk b 7 0 2>/dev/null && head -c1 /tmp/disk >/dev/null 2>&1 && echo "read: loop0"
[ -s /proc/kcore ] && echo "seen: kcore"
[ "$(ls /sys/firmware)" ] && echo "seen: firmware"
echo done
"""


@pytest.mark.parametrize("spec", [{}, *HOST, EVERY], ids=lambda spec: "+".join(spec) or "plain")
def test_container_cannot_write_what_belongs_to_the_machine(machine: Machine, spec: dict[str, Any]) -> None:
    mounted = {"volumes": [{"name": "tmp", "emptyDir": {}}], **spec}
    text = run_once(machine, "tries", TRY_TO_LEAVE, mounted, volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}])
    assert text == "done\n"


@pytest.mark.parametrize("spec", [{}, EVERY], ids=["plain", "everything-of-the-host"])
def test_container_sees_its_own_control_group_only(machine: Machine, spec: dict[str, Any]) -> None:
    text = run_once(
        machine, "group", "cut -d: -f3 /proc/self/cgroup | sort -u; ls -d /sys/fs/cgroup/*/localpv || :", spec
    )
    assert text.splitlines()[0] == "/" and "No such file" in text.splitlines()[1], text
