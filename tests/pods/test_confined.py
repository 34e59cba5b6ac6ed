"""What a container may not do to the machine, tried from inside."""

from __future__ import annotations

import errno
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contract import wire
from tests.pods.machine import OFTEN, PODS, Machine, condition, main, state
from tests.pods.test_inside import run_once
from tests.pods.test_volumes import bound

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


PYTHON = Path(sys.base_prefix)
CALLS = {
    # With arguments that the kernel takes, or refuses in other words than EPERM, when the call is let through.
    "unshare": (272, 0),
    "keyctl": (250, 99),
    "add_key": (248, 0),
    "io_uring_setup": (425, 0, 0),
    "userfaultfd": (323, 1 << 20),
    "setns": (308, -1, 0),
    "move_mount": (429, -1, 0, -1, 0, 1 << 30),
    "kcmp": (312, 0, 0, 99),
    "clone3": (435, 0, 0),
    "process_vm_readv": (310, 0, 0, 0, 0, 0, 99),
    "personality": (135, 0x0040000),
}
TRY_CALLS = """
import ctypes, json, os, socket, subprocess, tempfile, threading
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, call in json.loads(os.environ["CALLS"]).items():
    ctypes.set_errno(0)
    result = libc.syscall(*call)
    found[name] = 0 if result >= 0 else ctypes.get_errno()
# Ordinary work: threads, processes, sockets, files, waiting.
thread = threading.Thread(target=lambda: found.setdefault("thread", 0)); thread.start(); thread.join()
found["process"] = subprocess.run(["/bin/true"]).returncode
with tempfile.TemporaryFile(dir="/tmp") as file:
    file.write(b"x" * 4096); file.flush(); os.fsync(file.fileno()); os.posix_fallocate(file.fileno(), 0, 8192)
ends = socket.socketpair(); ends[0].send(b"x"); assert ends[1].recv(1) == b"x"
server = socket.create_server(("127.0.0.1", 0)); client = socket.create_connection(server.getsockname())
os.memfd_create("x"); os.eventfd(0); os.getrandom(8)
try:
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); found["vsock"] = 0
except OSError as error:
    found["vsock"] = error.errno
with open("/proc/self/status") as file:
    found["mode"] = next(line.split()[1] for line in file if line.startswith("Seccomp:"))
print(json.dumps(found))
"""


def called(machine: Machine, name: str, spec: dict[str, Any] | None = None, **security: Any) -> dict[str, Any]:
    """What the kernel says to each of the calls, from a container with Python in it."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of the calls are those of x86_64")
    folders = [path for path in ("/lib", "/lib64", "/usr/lib", str(PYTHON)) if Path(path).is_dir()]
    volumes = [{"name": f"of-host-{n}", "hostPath": {"path": path}} for n, path in enumerate(folders)]
    mounts = [{"name": f"of-host-{n}", "mountPath": path, "readOnly": True} for n, path in enumerate(folders)]
    mounts.append({"name": "tmp", "mountPath": "/tmp"})
    one = {
        "name": "main",
        "image": "busybox",
        "command": [f"{PYTHON}/bin/python3", "-c", TRY_CALLS],
        "env": [{"name": "CALLS", "value": json.dumps(CALLS)}],
        "volumeMounts": mounts,
        "securityContext": security,
    }
    whole = {"containers": [one], "restartPolicy": "Never", "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}]}
    machine.create({**whole, **(spec or {})}, name)
    pod = machine.until_phase(name, "Succeeded", "Failed")
    text = machine.logs(name)
    assert pod["status"]["phase"] == "Succeeded", text
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


DEFAULT = {"seccompProfile": {"type": "RuntimeDefault"}}


def test_runtime_default_filters_system_calls_and_lets_ordinary_programs_work(machine: Machine) -> None:
    found = called(machine, "filtered", {"securityContext": DEFAULT})
    assert found.pop("mode") == "2" and found.pop("clone3") == errno.ENOSYS
    assert (found.pop("thread"), found.pop("process")) == (0, 0)
    assert found == dict.fromkeys(found, errno.EPERM) and found.keys() >= {"unshare", "keyctl", "vsock"}


def test_what_is_started_in_a_filtered_container_later_is_filtered_too(machine: Machine) -> None:
    look = {"exec": {"command": ["grep", "-q", "^Seccomp:.*2$", "/proc/self/status"]}, **OFTEN}
    one = {"name": "main", "image": "busybox", "command": ["sleep", "1000"], "readinessProbe": look}
    machine.create({"containers": [one], "securityContext": DEFAULT}, "probed")
    machine.until_ready("probed")


@pytest.mark.parametrize("security", [{}, {"seccompProfile": {"type": "Unconfined"}}], ids=["unset", "Unconfined"])
def test_container_without_a_profile_may_call_everything(machine: Machine, security: dict[str, Any]) -> None:
    spec = {"securityContext": DEFAULT} if security else {}
    found = called(machine, "open", spec, **security)
    assert found["mode"] == "0" and found["unshare"] == 0 and found["clone3"] != errno.ENOSYS
    assert errno.EPERM not in (found["keyctl"], found["add_key"], found["io_uring_setup"]), found


def test_capability_brings_its_system_calls_along(machine: Machine) -> None:
    found = called(machine, "mounts", **DEFAULT, capabilities={"add": ["SYS_ADMIN"]})
    assert found["mode"] == "2" and found["unshare"] == 0 and found["move_mount"] != errno.EPERM
    assert found["keyctl"] == errno.EPERM, "no capability brings keys"


def test_filtered_container_works_on_a_raw_device(machine: Machine, device: Path) -> None:
    script = (
        "dd if=/dev/zero of=/dev/xvda bs=64k count=16 conv=fsync && echo words > /tmp/file && sync && "
        "grep Seccomp: /proc/self/status && ls -R /etc >/dev/null && ps >/dev/null && date >/dev/null && echo fine"
    )
    text = run_once(
        machine,
        "writes",
        script,
        {"volumes": [bound(machine, "raw", device, mode="Block"), {"name": "tmp", "emptyDir": {}}]},
        volumeDevices=[{"name": "data", "devicePath": "/dev/xvda"}],
        volumeMounts=[{"name": "tmp", "mountPath": "/tmp"}],
        securityContext=DEFAULT,
    )
    assert text.splitlines()[-2:] == ["Seccomp:\t2", "fine"], text
    machine.delete_all()
    machine.eventually(machine.is_clean, "no pod is left")
    machine.api.clean_up()


def test_profile_of_the_machine_is_applied_and_a_missing_one_told(machine: Machine) -> None:
    rule = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EXDEV}
    machine_profiles = machine.node / "seccomp" / "profiles"
    machine_profiles.mkdir(parents=True, exist_ok=True)
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    (machine_profiles / "no-folders.json").write_text(json.dumps(profile))
    chosen = {"seccompProfile": {"type": "Localhost", "localhostProfile": "profiles/no-folders.json"}}
    text = run_once(machine, "local", "mkdir /made; grep Seccomp: /proc/self/status", securityContext=chosen)
    assert "cross-device link" in text and "Seccomp:\t2" in text
    chosen["seccompProfile"]["localhostProfile"] = "profiles/missing.json"
    machine.run("missing", "true", securityContext=chosen)
    pod = machine.until_waiting("missing", "CreateContainerConfigError")
    assert "missing.json" in main(pod)["state"]["waiting"]["message"]


def test_safe_sysctls_are_set_for_the_pod_alone(machine: Machine) -> None:
    wanted = [
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"},
        {"name": "kernel.shm_rmid_forced", "value": "1"},
    ]
    files = "/proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/shm_rmid_forced"
    before = [Path(file).read_text() for file in files.split()]
    text = run_once(machine, "tuned", f"cat {files}", {"securityContext": {"sysctls": wanted}})
    assert text == "80\n1\n" and [Path(file).read_text() for file in files.split()] == before


UNSAFE = {"name": "kernel.msgmax", "value": "1"}
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("sysctl", {"securityContext": {"sysctls": [UNSAFE]}}, {}, "SysctlForbidden", "msgmax"),
    ("users", {"hostUsers": False}, {}, "PodFeatureUnsupported", "hostUsers"),
    ("pids", {"shareProcessNamespace": True}, {}, "PodFeatureUnsupported", "shareProcessNamespace"),
    ("armor", {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, {}, "AppArmor", "AppArmor"),
    ("armed", {}, {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, "AppArmor", "main"),
    ("grpc", {}, {"livenessProbe": {"grpc": {"port": 1}}}, "PodFeatureUnsupported", "gRPC"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "spec", "container", "reason", "word"), REFUSED, ids=[one[0] for one in REFUSED])
def test_what_cannot_be_enforced_is_refused_by_name(
    machine: Machine, name: str, spec: dict[str, Any], container: dict[str, Any], reason: str, word: str
) -> None:
    one = {"name": "main", "image": "busybox", "command": ["true"], **container}
    machine.create({"containers": [one], "restartPolicy": "Never", **spec}, name)
    status = machine.until_phase(name, "Succeeded", "Failed")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason) and word in status["message"]
    assert word in machine.until_event(name, reason)


def test_read_only_mount_may_be_read_only_all_the_way_down(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "outer" / "inner"], check=True)
    try:
        for policy, told in (("Disabled", "written"), ("Enabled", "refused"), ("IfPossible", "refused")):
            mount = {"name": "data", "mountPath": "/data", "readOnly": True, "recursiveReadOnly": policy}
            text = run_once(
                machine,
                f"reads-{policy.lower()}",
                "touch /data/inner/x 2>/dev/null && echo written || echo refused",
                {"volumes": [{"name": "data", "hostPath": {"path": str(tmp_path / "outer")}}]},
                volumeMounts=[mount],
            )
            assert text == f"{told}\n", policy
    finally:
        subprocess.run(["umount", "--lazy", tmp_path / "outer" / "inner"], check=True)


def test_container_is_ended_by_the_signal_that_it_asks_for(machine: Machine) -> None:
    script = "trap 'echo asked to; exit 0' USR1; echo listening; while :; do sleep 0.05; done"
    one = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], "lifecycle": {"stopSignal": "SIGUSR1"}}
    spec = {"containers": [one], "os": {"name": "linux"}, "terminationGracePeriodSeconds": 30}
    # A finalizer keeps the pod, and with it the log, until the end is read.
    machine.create(spec, "quits", finalizers=["example.org/keep"])
    machine.until_says("quits", "listening")
    machine.delete("quits", wait=False)
    machine.until("quits", lambda pod: state(pod) == "terminated", "quits has ended")
    assert main(machine.pod("quits"))["state"]["terminated"]["exitCode"] == 0


def test_pod_is_ready_only_behind_its_gates(machine: Machine) -> None:
    gates = [{"conditionType": "example.org/open"}]
    one = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
    machine.create({"containers": [one], "readinessGates": gates}, "gated")
    pod = machine.until(
        "gated", lambda pod: condition(pod, "ContainersReady")["status"] == "True", "its containers are ready"
    )
    assert (
        condition(pod, "Ready")["status"] == "False" and condition(pod, "Ready")["reason"] == "ReadinessGatesNotReady"
    )
    body = {"status": {"conditions": [{"type": "example.org/open", "status": "True"}]}}
    answer = machine.api.send("PATCH", f"{PODS}/gated/status", body, content_type=wire.STRATEGIC_PATCH)
    assert answer.code == 200, answer.raw
    machine.until_ready("gated")
