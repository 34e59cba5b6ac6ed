"""Measures the embedded engine and prints each figure beside its target; the figures are saved in `.bench/`.

The engine runs as its own process, as users run it. The load comes from a lean client of its own: on two cores a
full client library would cost more than the server that it measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
PVS = "/api/v1/persistentvolumes"


@dataclass
class Figure:
    name: str
    value: float
    unit: str
    target: float
    better: str  # "less" or "more"

    @property
    def met(self) -> bool:
        return self.value <= self.target if self.better == "less" else self.value >= self.target


def progress(text: str) -> None:
    """What is being measured, where somebody looks on; an empty text wipes the line."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text} ..." if text else "\r\033[K", end="", file=sys.stderr, flush=True)


@contextmanager
def scratch(where: str = "/var/tmp") -> Iterator[Path]:
    """A folder on a disk, not in memory."""
    folder = Path(tempfile.mkdtemp(prefix="localpv-bench-", dir=where))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def has_kubernetes(*programs: str) -> bool:
    """Whether the programs of Kubernetes are cached or can be built."""
    sys.path.insert(0, str(ROOT))
    build = import_module("tests.kubernetes.build")
    try:
        for name in programs:
            build.program(name)
    except build.Missing as error:
        print(f"bench: no comparison with Kubernetes: {error}", file=sys.stderr)
        return False
    return True


def tell(name: str, figures: list[Figure]) -> None:
    """Print the figures beside their targets, and keep them in `.bench/`."""
    progress("")
    print(f"\n{report(figures)}")
    saved = ROOT / ".bench"
    saved.mkdir(exist_ok=True)
    (saved / f"{name}.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")


def volume(name: str, node: str = "node-1") -> bytes:
    """A local PersistentVolume as a provisioner makes it."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "labels": {"localpv.dev/node": node},
                "annotations": {"pv.kubernetes.io/provisioned-by": "localpv.dev/bench"},
            },
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "local-fast",
                "volumeMode": "Filesystem",
                "local": {"path": f"/mnt/disks/{name}"},
                "nodeAffinity": {
                    "required": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
                                ]
                            }
                        ]
                    }
                },
            },
        },
        separators=(",", ":"),
    ).encode()


@dataclass
class Server:
    """Where the engine listens and how to get in."""

    host: str
    port: int
    token: str
    context: ssl.SSLContext
    pids: list[int]
    """Of all processes that make up the server."""

    @classmethod
    def from_kubeconfig(cls, path: Path, pids: list[int]) -> Server:
        import base64

        import yaml

        config = yaml.safe_load(path.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        url = urlsplit(cluster["server"])
        if "certificate-authority" in cluster:
            ca = Path(cluster["certificate-authority"]).read_text()
        else:
            ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=ca)
        return cls(url.hostname or "127.0.0.1", url.port or 443, user["token"], context, pids)


class Connection:
    """One keep-alive connection that sends prepared requests and reads whole answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, host: str) -> None:
        self._reader, self._writer = reader, writer
        self._head = f"Host: {host}\r\nAuthorization: Bearer {token}\r\n".encode()

    @classmethod
    async def open(cls, server: Server) -> Connection:
        reader, writer = await asyncio.open_connection(server.host, server.port, ssl=server.context, limit=1 << 20)
        return cls(reader, writer, server.token, server.host)

    def send(self, method: str, path: str, body: bytes = b"") -> None:
        self._writer.write(
            b"%b %b HTTP/1.1\r\n%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (method.encode(), path.encode(), self._head, len(body), body)
        )

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()

    async def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, int]:
        """(status, bytes of the answer)"""
        self.send(method, path, body)
        code, headers = await self.head()
        if b"content-length" in headers:
            return code, len(await self._reader.readexactly(int(headers[b"content-length"])))
        return code, sum([len(chunk) async for chunk in self.chunks()])

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            return


def start(data: Path) -> tuple[subprocess.Popen[str], float]:
    """Start the engine; (process, seconds until it said that it is ready)."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "localpv", "apiserver", "--data", str(data), "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready "):
        raise SystemExit(f"bench: the engine did not start: {line!r}")
    return process, time.perf_counter() - began


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(20)


def memory_mb(pids: list[int]) -> float:
    """Resident memory of all of them together."""
    total = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))
    return total / 1024


def cpu_seconds(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Creator(asyncio.Protocol):
    """One client that creates one object after the other, with as little work of its own as possible."""

    def __init__(self, server: Server, bodies: Iterator[bytes], done: Callable[[int], None]) -> None:
        self._head = (
            f"POST {PVS} HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._bodies = bodies
        self._done = done
        self._seen = b""
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._next()

    def _next(self) -> None:
        body = next(self._bodies, None)
        if body is None:
            self.finished.set_result(None)
            self._transport.close()
        else:
            self._transport.write(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))

    def data_received(self, data: bytes) -> None:
        seen = self._seen = self._seen + data if self._seen else data
        end = seen.find(b"\r\n\r\n")
        if end < 0:
            return
        place = seen.index(b"Content-Length: ") + 16
        if len(seen) < end + 4 + int(seen[place : seen.index(b"\r", place)]):
            return
        code = int(seen[9:12])
        self._seen = b""
        if code != 201:
            self.finished.set_exception(RuntimeError(f"a create was answered with {code}"))
            return
        self._done(1)
        self._next()


async def creates(server: Server, count: int, clients: int, progress: Callable[[str], None]) -> float:
    """Durable creates a second."""
    bodies = iter([volume(f"bench-{number:05}", f"node-{number % 100}") for number in range(count)])
    made = 0

    def done(more: int) -> None:
        nonlocal made
        made += more
        if made % 1000 == 0:
            progress(f"creates {made}/{count}")

    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    opened = [
        await loop.create_connection(
            lambda: Creator(server, bodies, done), server.host, server.port, ssl=server.context
        )
        for _ in range(clients)
    ]
    await asyncio.gather(*(creator.finished for _, creator in opened))
    return count / (time.perf_counter() - began)


async def lists(server: Server, path: str, times: int) -> tuple[float, float, int]:
    """(median seconds as the client sees it, median CPU seconds of the server, bytes)."""
    connection = await Connection.open(server)
    seen, used, size = [], [], 0
    for _ in range(times):
        before, began = cpu_seconds(server.pids), time.perf_counter()
        code, size = await connection.call("GET", path)
        seen.append(time.perf_counter() - began)
        used.append(cpu_seconds(server.pids) - before)
        assert code == 200
    await connection.close()
    return statistics.median(seen), statistics.median(used), size


async def watch_latency(server: Server, rate: int, seconds: float) -> list[float]:
    """Seconds from the answer to a write until a watcher has the event, and from sending it: the larger is kept."""
    watcher, writer = await Connection.open(server), await Connection.open(server)
    sent: dict[bytes, float] = {}
    latencies: list[float] = []
    total = int(rate * seconds)
    watcher.send("GET", "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0&timeoutSeconds=120")
    await watcher.head()
    finished = asyncio.Event()

    async def watch() -> None:
        rest = b""
        async for chunk in watcher.chunks():
            now = time.perf_counter()
            *lines, rest = (rest + chunk).split(b"\n")  # a chunk may end in the middle of an event
            for line in lines:
                name = line.split(b'"name":"', 1)[1].split(b'"', 1)[0]
                if name in sent:
                    latencies.append(now - sent.pop(name))
            if len(latencies) == total:
                finished.set()
                return

    task = asyncio.create_task(watch())
    pool = [writer] + [await Connection.open(server) for _ in range(7)]
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in pool:
        free.put_nowait(connection)

    async def write(number: int) -> None:
        connection = await free.get()
        name = f"bench-{number}"
        body = json.dumps({"metadata": {"name": name}, "data": {"a": "b"}}).encode()
        sent[name.encode()] = time.perf_counter()
        await connection.call("POST", "/api/v1/namespaces/default/configmaps", body)
        free.put_nowait(connection)

    began, writes = time.perf_counter(), []
    for number in range(total):
        delay = began + number / rate - time.perf_counter()
        if delay > 0:
            await asyncio.sleep(delay)
        writes.append(asyncio.create_task(write(number)))
    await asyncio.gather(*writes)
    await asyncio.wait_for(finished.wait(), 30)
    await task
    for connection in [*pool, watcher]:
        await connection.close()
    return latencies


@asynccontextmanager
async def engine(folder: Path) -> AsyncIterator[tuple[Server, float]]:
    process, seconds = start(folder)
    try:
        yield Server.from_kubeconfig(folder / "kubeconfig", [process.pid]), seconds
    finally:
        stop(process)


@dataclass
class Load:
    """What one server did under the same load; the columns of the comparison."""

    creates_per_second: float
    cpu_per_create_us: float
    memory_mb: float
    list_cpu_s: float
    list_seen_s: float
    list_mb: float
    list_of_a_node_s: float
    watch_p99_ms: float
    watch_p50_ms: float
    memory_after_mb: float


async def under_load(server: Server, count: int, progress: Callable[[str], None]) -> Load:
    before = cpu_seconds(server.pids)
    rate = await creates(server, count, 32, progress)
    each = (cpu_seconds(server.pids) - before) / count * 1e6
    memory = memory_mb(server.pids)
    progress("lists")
    seen, used, size = await lists(server, PVS, 7)
    of_a_node, _, _ = await lists(server, f"{PVS}?labelSelector=localpv.dev/node%3Dnode-7", 7)
    progress("watch latency")
    latencies = sorted(await watch_latency(server, 500, 6.0))
    return Load(
        creates_per_second=rate,
        cpu_per_create_us=each,
        memory_mb=memory,
        list_cpu_s=used,
        list_seen_s=seen,
        list_mb=size / (1 << 20),
        list_of_a_node_s=of_a_node,
        watch_p99_ms=latencies[int(len(latencies) * 0.99)] * 1e3,
        watch_p50_ms=statistics.median(latencies) * 1e3,
        memory_after_mb=memory_mb(server.pids),
    )


async def measure(folder: Path, count: int, progress: Callable[[str], None]) -> tuple[list[Figure], Load]:
    progress("first start")
    async with engine(folder) as (_, first):
        pass
    async with engine(folder) as (server, second):
        load = await under_load(server, count, progress)
    progress("start with all objects")
    async with engine(folder) as (_, third):
        pass
    objects = f"{count} PVs"
    figures = [
        Figure("first start to ready", first, "s", 1.5, "less"),
        Figure("second start to ready", second, "s", 1.5, "less"),
        Figure(f"start to ready with {objects}", third, "s", 1.5, "less"),
        Figure("durable creates, 32 clients", load.creates_per_second, "/s", 3000, "more"),
        Figure("server CPU for one create", load.cpu_per_create_us, "us", 333, "less"),
        Figure(f"memory with {objects}", load.memory_mb, "MB", 80, "less"),
        Figure(f"list of {objects}, server CPU", load.list_cpu_s, "s", 0.1, "less"),
        Figure(f"list of {objects}, at the client", load.list_seen_s, "s", 0.3, "less"),
        Figure("list of one node's PVs among them", load.list_of_a_node_s, "s", 0.05, "less"),
        Figure("watch latency p99 at 500 events/s", load.watch_p99_ms, "ms", 10, "less"),
        Figure("watch latency p50 at 500 events/s", load.watch_p50_ms, "ms", 5, "less"),
        Figure("memory after all of this", load.memory_after_mb, "MB", 100, "less"),
    ]
    return figures, load


async def measure_kubernetes(count: int, progress: Callable[[str], None]) -> Load | None:
    """The same load on kube-apiserver and etcd; None where their programs are neither cached nor can be built."""
    sys.path.insert(0, str(ROOT))
    # By name: beside the module there is a folder of the same name, which confuses type checkers.
    build, control_plane = map(import_module, ("tests.kubernetes.build", "tests.kubernetes.control_plane"))

    try:
        for name in ("etcd", "kube-apiserver"):
            progress(f"building {name} if it is not there")
            build.program(name)
    except build.Missing as error:
        print(f"bench: no comparison with Kubernetes: {error}", file=sys.stderr)
        return None
    progress("starting Kubernetes")
    with control_plane.running() as plane:
        server = Server.from_kubeconfig(plane.kubeconfig, children_of(os.getpid()))
        return await under_load(server, count, lambda text: progress(f"Kubernetes: {text}"))


def children_of(pid: int) -> list[int]:
    """Processes that a process started, as the kernel knows them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


COMPARED = [
    ("durable creates, 32 clients", "creates_per_second", "/s", "more"),
    ("CPU for one create", "cpu_per_create_us", "us", "less"),
    ("memory with all objects", "memory_mb", "MB", "less"),
    ("list of all, CPU", "list_cpu_s", "s", "less"),
    ("list of all, at the client", "list_seen_s", "s", "less"),
    ("list of one node's PVs", "list_of_a_node_s", "s", "less"),
    ("watch latency p99", "watch_p99_ms", "ms", "less"),
    ("watch latency p50", "watch_p50_ms", "ms", "less"),
]


def comparison(ours: Load, theirs: Load) -> str:
    """Side by side, from one run: the machine is shared, so only the ratio means something."""
    lines = [f"{'':32}{'localpv':>14}{'kube + etcd':>14}{'ratio':>9}"]
    for title, name, unit, better in COMPARED:
        mine, other = getattr(ours, name), getattr(theirs, name)
        if not mine or not other:
            continue
        ratio = mine / other if better == "more" else other / mine
        lines.append(f"{title:32}{_shown(mine, unit):>14}{_shown(other, unit):>14}{ratio:>8.2g}x")
    lines.append("ratio above 1: localpv does better")
    return "\n".join(lines)


def _shown(value: float, unit: str) -> str:
    return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"


def report(figures: list[Figure]) -> str:
    lines = [f"{'figure':52}{'measured':>12}{'target':>12}"]
    for figure in figures:
        sign = "<=" if figure.better == "less" else ">="
        mark = "" if figure.met else "   falls short"
        measured, target = _shown(figure.value, figure.unit), f"{sign} {figure.target:g}"
        lines.append(f"{figure.name:52}{measured:>12}{target:>12}{mark}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="objects to create")
    parser.add_argument("--folder", type=Path, help="where the database goes; default: a new folder on this disk")
    parser.add_argument("--alone", action="store_true", help="do not measure Kubernetes beside it")
    arguments = parser.parse_args()
    with scratch(arguments.folder or "/var/tmp") as folder:
        figures, ours = asyncio.run(measure(folder / "data", arguments.count, progress))
    theirs = None if arguments.alone else asyncio.run(measure_kubernetes(arguments.count, progress))
    progress("")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, Linux {platform.release()}"
    print(f"\n{machine}\n{report(figures)}")
    if theirs is not None:
        print(f"\n{comparison(ours, theirs)}")
    saved = ROOT / ".bench"
    saved.mkdir(exist_ok=True)
    content = {
        "machine": machine,
        "figures": [asdict(figure) for figure in figures],
        "localpv": asdict(ours),
        "kubernetes": asdict(theirs) if theirs is not None else None,
    }
    (saved / "engine.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
