"""Tells how large the code is and what a new disk costs, and fails when a word of the API is spelled in two modules.

    python tools/size.py [--check] [--tree FOLDER] [--record TITLE]

With --check only the last is looked at. --tree measures another checkout, --record writes what is printed into
docs/size.md under a title, so that before and after a change stand beside each other.

A label, annotation or finalizer that two modules spell each for itself can come to differ, and then one no longer finds
what the other wrote.

What runs is counted, not read from the code: programs are started as processes against our own API server, each with
every request that it sends and every function of ours that it calls noted (`tools/size_probe.py`). A disk is a small
tmpfs, mounted below the directory of a class.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import bench
import bench_circle

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src", "localpv")
PAGE = ROOT / "docs" / "size.md"
SHARED_WORD = re.compile(r"(?!.*/v\d+(alpha\d+|beta\d+)?$)[a-z0-9.-]*(localpv\.dev|kubernetes\.io|k8s\.io)/[\w.-]+")
"""Labels, annotations, taints and finalizers, not the versions of an API."""

PATIENCE_SECONDS = 60.0
VOLUMES = "/api/v1/persistentvolumes"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "kubernetes.io/no-provisioner",
}


@dataclass(frozen=True, slots=True)
class Module:
    name: str
    """Its path inside the package."""

    lines: int
    tree: ast.Module

    @property
    def room(self) -> str:
        first, slash, _ = self.name.partition("/")
        return f"{first}/" if slash else "."


def modules(tree: Path = ROOT) -> list[Module]:
    source = tree / PACKAGE
    return [
        Module(str(path.relative_to(source)), len(text.splitlines()), ast.parse(text))
        for path in sorted(source.rglob("*.py"))
        for text in (path.read_text(),)
    ]


def spelled_in_several(found: Iterable[Module]) -> dict[str, list[str]]:
    """Each word of the API that several modules spell, and which."""
    where: dict[str, set[str]] = defaultdict(set)
    for module in found:
        prose = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(module.tree):
            match node:
                case ast.Constant(value=str(text)) if id(node) not in prose and SHARED_WORD.fullmatch(text):
                    where[text].add(module.name)
    return {text: sorted(names) for text, names in sorted(where.items()) if len(names) > 1}


def constants_defined_twice(found: Iterable[Module]) -> dict[str, list[str]]:
    """Values of module-level string constants that more than one module defines."""
    where: dict[str, set[str]] = defaultdict(set)
    for module in found:
        for node in module.tree.body:
            match node:
                case (
                    ast.Assign(targets=[ast.Name()], value=ast.Constant(value=str(text)))
                    | ast.AnnAssign(target=ast.Name(), value=ast.Constant(value=str(text)))
                ):
                    where[text].add(module.name)
    return {text: sorted(names) for text, names in sorted(where.items()) if len(names) > 1}


def importers(found: Iterable[Module]) -> dict[str, set[str]]:
    """For each module those that import it, late or at the start; packages themselves are not counted."""
    known = {_dotted(module.name): module.name for module in found}
    by_module: dict[str, set[str]] = {name: set() for name in known.values() if not name.endswith("__init__.py")}
    for module in found:
        for node in ast.walk(module.tree):
            match node:
                case ast.ImportFrom(module=str(package), names=names):
                    targets = [package, *(f"{package}.{one.name}" for one in names)]
                case ast.Import(names=names):
                    targets = [one.name for one in names]
                case _:
                    continue
            for target in targets:
                if (name := known.get(target)) in by_module and name != module.name:
                    by_module[name].add(module.name)
    return by_module


def _dotted(name: str) -> str:
    return ".".join(("localpv", *Path(name.removesuffix("/__init__.py").removesuffix(".py")).parts))


def table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(str(cell) for cell in row)} |"


def static(found: list[Module]) -> Iterator[str]:
    rooms: dict[str, list[int]] = defaultdict(list)
    for module in found:
        rooms[module.room].append(module.lines)
    rows = [(room, len(lines), sum(lines), round(statistics.median(lines))) for room, lines in sorted(rooms.items())]
    lines = [module.lines for module in found]
    rows.append(("**all**", len(found), sum(lines), round(statistics.median(lines))))
    yield from table(("room", "modules", "lines", "median"), rows)
    yield ""
    single = sum(len(who) == 1 for who in importers(found).values())
    twice, spelled = constants_defined_twice(found), spelled_in_several(found)
    yield from table(
        ("what", "how many"),
        [
            ("modules with exactly one importer", single),
            ("string constants that two or more modules define", len(twice)),
            ("labels, annotations and finalizers that two or more modules spell", len(spelled)),
        ],
    )
    if twice:
        yield ""
        yield from table(
            ("constant", "modules"),
            ((f"`{text}`", ", ".join(where)) for text, where in sorted(twice.items(), key=lambda one: -len(one[1]))),
        )


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs under the probe."""

    process: subprocess.Popen[str]
    notes: Path

    def requests(self) -> list[tuple[str, str, str]]:
        """(time, method or `WATCH`, path and selectors) of all it has sent."""
        found = []
        for line in self.notes.read_text().splitlines():
            when, method, path = line.split(" ", 2)
            found.append((when, method, path))
        return found

    def mark(self) -> None:
        """From here on the functions that it calls are noted, or no more."""
        self.process.send_signal(signal.SIGUSR1)


@contextmanager
def program(tree: Path, folder: Path, *arguments: str) -> Iterator[Program]:
    """A localpv program of a tree, ready when this returns."""
    notes = folder / f"{arguments[0]}.requests"
    notes.touch()
    environment = {
        **os.environ,
        "PYTHONPATH": str(tree / "src"),
        "MY_NODE_NAME": "node-1",
        "SIZE_PROBE_REQUESTS": str(notes),
        "SIZE_PROBE_MODULES": str(folder / f"{arguments[0]}.modules"),
    }
    probe = [sys.executable, str(ROOT / "tools" / "size_probe.py")]
    errors = (folder / f"{arguments[0]}.log").open("w")
    process = subprocess.Popen(
        [*probe, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    try:
        if not process.stdout.readline().startswith("ready"):
            raise SystemExit(
                f"size: localpv {arguments[0]} did not start: {(folder / errors.name).read_text()[-2000:]}"
            )
        yield Program(process, notes)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
        errors.close()


def until(look: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise SystemExit(f"size: {what} did not come within {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.05)


@contextmanager
def disk(disks: Path, name: str) -> Iterator[None]:
    (disks / name).mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "localpv-size", str(disks / name)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(disks / name)], check=True)


def watches(one: Program) -> Counter[str]:
    return Counter(path for _, method, path in one.requests() if method == "WATCH")


def until_quiet(programs: Iterable[Program]) -> None:
    """Nothing that the last disk brought is still to be sent: a second without a write other than of leases."""
    known = -1
    while known != (now := sum(len(list(writes_of(one))) for one in programs)):
        known = now
        time.sleep(1)


def writes_of(one: Program) -> Iterator[tuple[str, str, str]]:
    return (sent for sent in one.requests() if sent[1] not in ("GET", "WATCH") and "/leases" not in sent[2])


def publishes(one: Program) -> int:
    return sum(method == "POST" and path == VOLUMES for _, method, path in one.requests())


@contextmanager
def place() -> Iterator[tuple[Path, Path, Path]]:
    """A folder, with a directory of disks and a configuration of a class inside it."""
    with tempfile.TemporaryDirectory(prefix="localpv-size-") as name:
        folder = Path(name)
        disks, config = folder / "disks", folder / "config"
        disks.mkdir()
        config.mkdir()
        (config / "storageClassMap").write_text(f"fast:\n  hostDir: {disks}\n")
        yield folder, disks, config


def measured(tree: Path) -> Iterator[str]:
    counts: dict[str, Counter[str]] = {}
    with place() as (folder, disks, config), ExitStack() as stack:
        data, listen = folder / "data", ("--listen", "127.0.0.1:0")
        stack.enter_context(program(tree, folder, "apiserver", "--data", str(data), *listen, "--node", "node-1"))
        asyncio.run(bench_circle.prepare(bench.Server.from_kubeconfig(data / "kubeconfig", [])))
        common = ("--kubeconfig", str(data / "kubeconfig"), "--config", str(config))
        manager = stack.enter_context(program(tree, folder, "manager", *common))
        agent = stack.enter_context(program(tree, folder, "agent", *common, "--state", str(folder / "state")))
        with disk(disks, "first"):
            until(lambda: publishes(manager) == 1, "the first volume")
            both = (agent, manager)
            until_quiet(both)
            before = [len(list(writes_of(one))) for one in both]
            for one in both:
                one.mark()
            until(lambda: all((folder / f"{name}.modules").exists() for name in ("agent", "manager")), "the probe")
            with disk(disks, "second"):
                until(lambda: publishes(manager) == 2, "the second volume")
                for one in both:
                    one.mark()
                until(
                    lambda: all((folder / f"{name}.modules").read_text() for name in ("agent", "manager")),
                    "the modules",
                )
                until_quiet(both)
                sent = sorted(
                    (when, who, method, path)
                    for who, one, skip in zip(("agent", "manager"), both, before, strict=True)
                    for when, method, path in list(writes_of(one))[skip:]
                )
        last = next(at for at, (_, _, method, path) in enumerate(sent) if method == "POST" and path == VOLUMES)
        counts["localpv agent"], counts["localpv manager"] = watches(agent), watches(manager)
        called = {who: set(json.loads((folder / f"{who}.modules").read_text())) for who in ("agent", "manager")}
    with place() as (folder, disks, config), ExitStack() as stack:
        (config / "class.json").write_text(json.dumps(CLASS))  # manifests beside the configuration are applied
        everything = ("--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--config", str(config))
        up = stack.enter_context(program(tree, folder, "up", *everything))
        with disk(disks, "first"):
            until(lambda: publishes(up) == 1, "the volume of localpv up")
        counts["localpv up"] = watches(up)
    yield from table(
        ("program", "watches", "resources", "watched more than once"),
        (
            (name, found.total(), len(resources), ", ".join(f"{one} {count}" for one, count in several))
            for name, found in counts.items()
            for resources in (Counter(path.partition("?")[0].rpartition("/")[2] for path in found.elements()),)
            for several in ([(one, count) for one, count in resources.most_common() if count > 1],)
        ),
    )
    yield ""
    yield from table(
        ("a new disk", "how many"),
        [
            ("API writes until its volume exists", last + 1),
            ("API writes until all is said", len(sent)),
            ("modules whose functions run in the agent", len(called["agent"])),
            ("modules whose functions run in the manager", len(called["manager"])),
            ("modules in either", len(called["agent"] | called["manager"])),
        ],
    )
    yield ""
    yield from table(("write", "by", "path"), ((method, who, f"`{path}`") for _, who, method, path in sent))
    yield ""
    yield "Modules on the way: " + ", ".join(sorted(called["agent"] | called["manager"])) + "."


def check() -> int:
    found = spelled_in_several(modules())
    for text, where in found.items():
        print(f"{text} is spelled in {', '.join(where)}", file=sys.stderr)
    if found:
        print("give it a name in disk/labels.py or api/well_known.py, and use that", file=sys.stderr)
    return 1 if found else 0


def record(title: str, text: str) -> None:
    """Write a section of the page, or write it anew."""
    head, *sections = re.split(r"^(?=## )", PAGE.read_text(), flags=re.MULTILINE)
    ours = f"## {title}\n\n{text}\n"
    kept = [ours if section.startswith(f"## {title}\n") else section for section in sections]
    PAGE.write_text("\n".join(part.rstrip() + "\n" for part in (head, *kept, *(() if ours in kept else (ours,)))))


def main() -> int:
    parser = argparse.ArgumentParser(description="Tell how large the code is and what a new disk costs.")
    parser.add_argument("--check", action="store_true", help="fail when two modules spell a word of the API")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="FOLDER", help="another checkout to measure")
    parser.add_argument("--record", default="", metavar="TITLE", help="write it into docs/size.md")
    options = parser.parse_args()
    if options.check:
        return check()
    lines = list(static(modules(options.tree)))
    if os.geteuid() == 0:
        lines += ["", *measured(options.tree.resolve())]
    else:
        print("size: what a new disk costs is measured as root only: it mounts one", file=sys.stderr)
    print(text := "\n".join(lines))
    if options.record:
        record(options.record, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
