"""One node of a test cluster: a kubelet and a containerd in namespaces of their own, as on a machine of their own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes import build, images, ledger, network
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.programs import Programs

COMMAND_SECONDS = 120.0
AMPLE_MEMORY = 6 << 30
"""From here on images are kept in memory: less than half a gigabyte a node with ours."""

PROJECT = Path(__file__).parents[2]

CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  # Without the right to lower it, the default of -998 would fail every sandbox.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node that was started."""

    name: str
    address: str
    folder: Path
    pid: int
    """Of its first process, as this machine counts."""

    process: subprocess.Popen[bytes]

    @property
    def socket(self) -> Path:
        """Where its containerd listens; the folder is the same inside and outside."""
        return self.folder / "containerd.sock"

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command as if logged in to the node; what it printed."""
        enter = ["nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"]
        done = subprocess.run([*enter, *argv], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        assert not check or done.returncode == 0, f"{self.name}: {' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def restart(self, program: str) -> None:
        """Kill kubelet or containerd and wait until it has been started again."""
        before = self.run("pidof", program).split()
        self.run("kill", "-KILL", *before)
        deadline = time.monotonic() + COMMAND_SECONDS
        while not set(self.run("pidof", program, check=False).split()) - set(before):
            assert time.monotonic() < deadline, f"{program} of {self.name} did not start again"
            time.sleep(0.1)

    def outside(self, path: str) -> Path:
        """Where a path below the node's /mnt is on this machine."""
        return self.folder / "mnt" / Path(path).relative_to("/mnt")

    def say(self, word: str) -> None:
        """Give an order to the node's first process."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        self.process.stdin.flush()

    def load(self, archive: Path) -> None:
        """Bring an image into the node."""
        done = subprocess.run(
            ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", "images", "import", str(archive)],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self.name} does not take {archive.name}: {done.stderr.strip()}")


def start(
    index: int, *, nodes: int, plane_folder: Path, net: network.Network, book: ledger.Ledger, programs: Programs
) -> Node:
    """Start the first process and containerd of a node."""
    name = f"node-{index + 1}"
    folder = plane_folder / name
    (folder / "cni").mkdir(parents=True)
    group = f"{group_of(plane_folder)}/{name}"
    _make_cgroup(group)
    node_socket = folder / "containerd.sock"
    config = CONTAINERD.format(folder=folder, socket=node_socket, pause=images.PAUSE)
    (folder / "containerd.toml").write_text(config)
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(_cni(net.pod_range(index))))
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    settings = {
        "name": name,
        "folder": str(folder),
        "logs": str(programs.logs),
        "pid_file": str(folder / "pid"),
        "images_in_memory": _available_memory() >= AMPLE_MEMORY,
        "network": network.inner_commands(net, index, nodes),
        "containerd": ["containerd", "--config", str(folder / "containerd.toml")],
        "kubelet": [
            *(str(build.program("kubelet")), "--config", str(folder / "kubelet.json")),
            *("--kubeconfig", str(plane_folder / f"{name}.kubeconfig"), "--hostname-override", name),
            *("--node-ip", net.node_address(index), "--root-dir", "/var/lib/kubelet"),
        ],
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    process = programs.start(
        [
            *("unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--net", "--pid", "--fork"),
            *("--kill-child", "--"),
            *("env", f"PYTHONPATH={PROJECT}", sys.executable, "-m", "tests.kubernetes.node_init"),
            folder / "settings.json",
        ],
        name=name,
        piped=True,
    )
    programs.wait_until(
        lambda: (folder / "pid").exists() and (folder / "pid").read_text() != "", process, name=name, what="start"
    )
    pid = int((folder / "pid").read_text())
    book.add_process(pid)
    node = Node(name=name, address=net.node_address(index), folder=folder, pid=pid, process=process)
    network.connect(net, index, pid, book)
    node.say("start")
    return node


def start_kubelet(node: Node, plane: ControlPlane) -> None:
    """Let the node join the cluster, with rights to no more than itself."""
    user = f"system:node:{node.name}"
    plane.kubeconfig_for(node.name, user=user, group="system:nodes")
    serving = plane.authority.issue(f"{node.name}-serving", user=user, addresses=[node.address], names=[node.name])
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.file)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        # Two kubelets in one place of the hierarchy would remove each other's pods.
        "cgroupRoot": f"/{group_of(plane.folder)}/{node.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        # The disk is the whole machine's: how full it is must not matter to a test.
        "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0.1%", "imagefs.available": "0.1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "makeIPTablesUtilChains": False,
        "resolvConf": str(node.folder / "resolv.conf"),
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "nodeStatusUpdateFrequency": "5s",
        # How full volumes are is measured once a minute by default, too seldom to wait for; and so often a changed
        # ConfigMap is brought into its pods.
        "volumeStatsAggPeriod": "2s",
        "syncFrequency": "10s",
    }
    (node.folder / "kubelet.json").write_text(json.dumps(config, indent=1))
    node.say("kubelet")


def group_of(folder: Path) -> str:
    """The cgroup of a whole cluster."""
    return f"localpv-{folder.name}"


def _available_memory() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) << 10


def _make_cgroup(name: str) -> None:
    for root in ledger.cgroup_roots():
        for part in (root / Path(name).parent, root / name):
            part.mkdir(exist_ok=True)
            # A new group of the first version may not run anything until it is told on which processors; one of the
            # second version hands on only what it is told to.
            for setting in ("cpuset.cpus", "cpuset.mems"):
                with contextlib.suppress(OSError):
                    if (root / "cgroup.clone_children").exists():
                        (part / setting).write_text((part.parent / setting).read_text())
            with contextlib.suppress(OSError):
                (part.parent / "cgroup.subtree_control").write_text("+cpu +cpuset +memory +pids +io")


def _cni(pod_range: str) -> dict[str, Any]:
    return {
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_range}]], "routes": [{"dst": "0.0.0.0/0"}]},
            }
        ],
    }
