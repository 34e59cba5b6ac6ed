"""A real Kubernetes cluster of one to three nodes on this machine, as root.

`python -m tests.kubernetes.cluster --nodes 2` keeps one until Ctrl-C and prints how to use it; `--run COMMAND...` keeps
it as long as the command; `--clean` only takes back what killed runs have left.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes import build, control_plane, images, ledger, network, node
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.programs import NotReady, Programs, tail

TOOLS = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "losetup": "util-linux",
}
"""Programs that must be there, with the Debian packages that bring them."""

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster."""

    plane: ControlPlane
    nodes: tuple[node.Node, ...]
    logs: Path

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    def load(self, archive: Path) -> None:
        """Bring an image into every node."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda one: one.load(archive), self.nodes))

    @contextlib.contextmanager
    def disk(self, size: int = 64 << 20) -> Iterator[Path]:
        """An empty block device of this machine, visible in all nodes, until the with-block ends."""
        folder = self.plane.folder / "disks" / secrets.token_hex(4)
        folder.mkdir(parents=True)
        with (folder / "content").open("wb") as content:
            content.truncate(size)
        attach = ["losetup", "--find", "--show", str(folder / "content")]
        try:
            yield Path(subprocess.run(attach, capture_output=True, text=True, check=True).stdout.strip())
        finally:
            ledger.detach_loops(folder)
            shutil.rmtree(folder)

    def tails(self, characters: int = 3000) -> dict[str, str]:
        """The end of each component's log."""
        return {log.stem: tail(log, characters) for log in sorted(self.logs.glob("*.log")) if log.stat().st_size}


def missing() -> str | None:
    """What keeps this machine from running a cluster, in one line; None when nothing does."""
    if os.geteuid() != 0:
        return "a cluster needs root"
    lacking = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if not Path("/usr/lib/cni/ptp").exists():
        lacking.add("containernetworking-plugins")
    if not images.PROGRAM.exists():
        lacking.add("busybox-static")
    if lacking:
        return f"a cluster needs these packages: {' '.join(sorted(lacking))}"
    unbuilt = [name for name in PROGRAMS if not (build.cache() / name).exists()]
    if unbuilt and build.toolchain() is None:
        return f"{', '.join(unbuilt)} {build.version()} not built, and there is no Go toolchain to build with"
    return None


@contextlib.contextmanager
def running(*, nodes: int = 1) -> Iterator[Cluster]:
    """A cluster that lives as long as the with-block; all it changed on this machine is taken back."""
    if lack := missing():
        raise build.Missing(lack)
    for name in PROGRAMS:
        build.program(name)
    for name in ledger.clean_abandoned():
        print(f"cleaned up after cluster {name}, whose owner had died", file=sys.stderr)
    book = ledger.open_new(secrets.token_hex(3))
    logs = book.folder / "logs"
    logs.mkdir()
    programs = Programs(logs=logs, started=book.add_process)
    try:
        yield _start(nodes, book, programs)
    finally:
        with _signals_held():
            programs.kill()
            ledger.clean(book.folder)


def _start(count: int, book: ledger.Ledger, programs: Programs) -> Cluster:
    book.note_kernel_settings()
    book.add_cgroup(node.group_of(book.folder))
    net = network.make(book)
    # Nodes first: their containerds take the images while kube-apiserver comes up.
    nodes = tuple(
        node.start(index, nodes=count, plane_folder=book.folder, net=net, book=book, programs=programs)
        for index in range(count)
    )
    plane = control_plane.start(
        book.folder, programs, address=net.api_address, port=443, service_range=net.service_range
    )
    for one in nodes:
        node.start_kubelet(one, plane)
    control_plane.start_controllers(plane, programs)
    control_plane.start_scheduler(plane, programs)
    cluster = Cluster(plane=plane, nodes=nodes, logs=programs.logs)
    for archive in images.busybox():
        for one in nodes:
            _wait_for(one, lambda one=one: one.socket.exists(), programs, "start containerd")
            one.load(archive)
    for one in nodes:
        _wait_for(one, lambda one=one: _is_ready(plane, one.name), programs, "become Ready")
    return cluster


def _wait_for(one: node.Node, there: Any, programs: Programs, what: str) -> None:
    try:
        programs.wait_until(there, one.process, name=one.name, what=what)
    except NotReady as error:
        ends = [tail(programs.logs / f"{one.name}-{part}.log") for part in ("containerd", "kubelet")]
        raise NotReady("\n".join((str(error), *ends))) from error


def _is_ready(plane: ControlPlane, name: str) -> bool:
    found: Any = control_plane.get(plane, f"/api/v1/nodes/{name}") or {}
    conditions = {one["type"]: one["status"] for one in found.get("status", {}).get("conditions", ())}
    # The taints of a new node go a moment after it is ready.
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Ctrl-C a second time must not leave half of the cleaning undone."""
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: signals go elsewhere anyway
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _load_our_image(cluster: Cluster) -> None:
    from tools.image import build as image

    try:
        archive = image.archive_of_localpv()
    except image.CannotBuild as error:
        print(f"image   none: {error}")
        return
    cluster.load(archive)
    print(f"image   {image.TAG} ({image.size_text(archive)})")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a cluster in the foreground."""
    parser = argparse.ArgumentParser(description="Run a Kubernetes cluster on this machine until Ctrl-C.")
    parser.add_argument("--nodes", type=int, choices=(1, 2, 3), default=1)
    parser.add_argument("--image", action="store_true", help="build localpv's own image and bring it into the nodes")
    parser.add_argument("--clean", action="store_true", help="only clean up after clusters whose owner was killed")
    parser.add_argument("--run", nargs=argparse.REMAINDER, default=[], help="a command to live as long as")
    options = parser.parse_args(argv)
    if options.clean:
        print("cleaned up:", " ".join(ledger.clean_abandoned()) or "nothing")
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begun = time.monotonic()
    try:
        with running(nodes=options.nodes) as cluster:
            print(f"nodes   {' '.join(one.name for one in cluster.nodes)}, ready in {time.monotonic() - begun:.0f} s")
            if options.image:
                _load_our_image(cluster)
            print(f"logs    {cluster.logs}")
            print(f"kubectl {build.cache() / 'kubectl'}")
            print(f"\n  export KUBECONFIG={cluster.kubeconfig}\n", flush=True)
            if not options.run:
                print("Ctrl-C stops the cluster and removes all of it.", flush=True)
            return control_plane.until_told_to_stop(options.run, cluster.kubeconfig)
    except (build.Missing, NotReady, network.NoNetwork) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
