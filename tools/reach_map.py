"""Which tests reach which function: found by running each test file once in a sandbox and noting what is called.

Kept in `.mutants/reach.json`. A test file is run again when it has changed since; what else changed which functions it
reaches is not noticed, so remove the map after larger changes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import sandbox

One = TypeVar("One")
Result = TypeVar("Result")

TOGETHER = (
    *(f"tests/unit/{name}" for name in ("agent", "cli", "config", "disk", "host", "manager", "observe", "volume")),
    *(f"tests/unit/engine/{name}" for name in ("apiserver/auth", "apiserver/test_*", "kubelet/volumes", "store")),
    *("tests/host", "tests/journey"),
)
"""Folders whose files are looked at in one run."""

ALONE = (
    *(f"tests/contract/test_{name}.py" for name in ("access_reviews", "agent_policy", "authority", "rbac", "storage")),
    *(f"tests/engine/test_{name}.py" for name in ("agent_rights", "cli", "durability", "refusals", "store_quota")),
)
"""Files whose tests share a server: what that does counts for all tests of the file."""

LEFT_OUT = ("tests/journey/test_crash_", "tests/host/test_containers.py")
"""Those take minutes and reach nearly everything; this needs control groups, which sandboxes cannot change."""

LOADED_BEFORE = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
MINUTES = 20
BATCH = 12
"""Files of one run."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where tests are run: a copy of the tree, and sandboxes that are free."""

    tree: Path
    free: SimpleQueue[sandbox.Sandboxes]
    all: Sequence[sandbox.Sandboxes]

    def each(self, function: Callable[[One], Result], of: Sequence[One]) -> list[Result]:
        """Call it for each, as many at a time as there are sandboxes; when we are ended, so is what runs in them."""
        pool = ThreadPoolExecutor(len(self.all))
        try:
            return list(pool.map(function, of))
        except BaseException:
            for one in self.all:
                one.end()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def pytest(
        self,
        tests: Sequence[str],
        *,
        timeout: float,
        instead: dict[Path, Path] | None = None,
        env: dict[str, str] | None = None,
        wanted: tuple[str, ...] = ("outcomes",),
    ) -> sandbox.Ended:
        sandboxes = self.free.get()
        try:
            options = [
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "reach_plugin",
                "--hypothesis-seed=0",
                "-rN",
                *LOADED_BEFORE,
            ]
            return sandboxes.pytest(
                [*options, *tests],
                binds=instead or {},
                env={
                    "PYTHONPATH": f"{self.tree}/tools/reach:{self.tree}/src",
                    "PYTHONDONTWRITEBYTECODE": "1",
                    "PATH": f"{self.tree}/tools/reach/bin:{os.environ['PATH']}",
                    "MUTANTS_OUTCOMES": "/tmp/outcomes",
                    **(env or {}),
                },
                timeout=timeout,
                wanted=wanted,
            )
        finally:
            self.free.put(sandboxes)


@dataclass(frozen=True, slots=True)
class Test:
    name: str
    seconds: float


class ReachMap:
    """For each test file: its hash, its tests that pass with their seconds, and what they reach."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path, self._root = path, root
        self._files: dict[str, dict[str, object]] = json.loads(path.read_text()) if path.exists() else {}

    def bring_up_to_date(self, place: Place, modules: list[str], tell: Callable[[str], None]) -> None:
        files = {str(one.relative_to(self._root)): one for one in self._test_files()}
        for gone in set(self._files) - set(files):
            del self._files[gone]
        hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
        stale = [name for name in files if self._files.get(name, {}).get("hash") != hashes[name]]

        def look(names: list[str]) -> None:
            tests, reached, failed = _look_at(names, place, modules)
            for name in names:
                own = {test: seconds for test, seconds in tests.items() if test.startswith(f"{name}::")}
                functions = {function: [one for one in found if one in own] for function, found in reached.items()}
                self._files[name] = {
                    "hash": hashes[name],
                    "tests": own,
                    "reached": {function: found for function, found in functions.items() if found},
                }
            tell(f"looked at {' '.join(names)}: {len(tests)} tests")
            for one in failed:
                tell(f"fails in a sandbox: {one}")
            self._path.parent.mkdir(exist_ok=True)
            self._path.write_text(json.dumps(self._files))

        together = [name for name in stale if name not in ALONE]
        batches = [[name] for name in stale if name in ALONE]
        batches += [together[start : start + BATCH] for start in range(0, len(together), BATCH)]
        place.each(look, batches)

    def _test_files(self) -> Iterable[Path]:
        for pattern in TOGETHER:
            for place in sorted(self._root.glob(pattern)):
                paths = [place] if place.is_file() else sorted(place.rglob("test_*.py"))
                yield from (one for one in paths if not str(one.relative_to(self._root)).startswith(LEFT_OUT))
        yield from (self._root / name for name in ALONE)

    def tests_of(self, module: str, function: str) -> list[Test]:
        """The tests that reach a function, the cheapest first; of a whole module when it is called when that is
        imported."""
        exact = list(self._tests(lambda one: one == f"{module}:{function}"))
        return sorted(
            exact or self._tests(lambda one: one.startswith(f"{module}:")), key=lambda one: (one.seconds, one.name)
        )

    def _tests(self, is_it: Callable[[str], bool]) -> Iterable[Test]:
        for entry in self._files.values():
            tests: dict[str, float] = entry["tests"]  # type: ignore[assignment]
            reached: dict[str, list[str]] = entry["reached"]  # type: ignore[assignment]
            names = {name for function, found in reached.items() if is_it(function) for name in found}
            yield from (Test(name, tests[name]) for name in names if name in tests)


def _look_at(
    names: list[str], place: Place, modules: list[str]
) -> tuple[dict[str, float], dict[str, list[str]], list[str]]:
    env = {"MUTANTS_REACH": "/tmp/reach", "MUTANTS_SOURCE": f"{place.tree}/", "MUTANTS_MODULES": ":".join(modules)}
    ended = place.pytest(names, timeout=60 * MINUTES, env=env, wanted=("outcomes", "reach"))
    seconds, failed = outcomes(ended)
    if not seconds:
        raise SystemExit(f"no test of {' '.join(names)} ran in a sandbox:\n{ended.said}")
    if failed:
        # To be looked at costs time, which some tests do not have.
        again = place.pytest(failed, timeout=60 * MINUTES)
        more, failed = outcomes(again)
        seconds |= more
    for one in failed:
        seconds.pop(one, None)
    reached: dict[str, set[str]] = defaultdict(set)
    for line in ended.files.get("reach", "").splitlines():
        test, module, function = line.split("\t")
        alike = [test] if "::" in test else [one for one in seconds if one.startswith(f"{test}::")]
        reached[f"{module}:{function}"].update(alike)
    return seconds, {function: sorted(tests) for function, tests in reached.items()}, failed


def outcomes(ended: sandbox.Ended) -> tuple[dict[str, float], list[str]]:
    """Seconds of the tests that were run, and the ones that failed."""
    seconds: dict[str, float] = defaultdict(float)
    failed, skipped = [], []
    for line in ended.files.get("outcomes", "").splitlines():
        name, _, outcome, took = line.split("\t")
        seconds[name] += float(took)
        if outcome == "failed" and name not in failed:
            failed.append(name)
        if outcome == "skipped":
            skipped.append(name)
    for name in skipped:
        seconds.pop(name, None)
    return dict(seconds), failed
