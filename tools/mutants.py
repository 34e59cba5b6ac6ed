"""Changes the code that protects data at random, a little at a time, and tells which changes no test notices.

Each change is made in a copy of the tree and tried in a sandbox, never in this folder and never where a disk of this
machine can be reached. The tests that reach the changed function are run until one fails; a change with which they run
for ever is noticed too. A test counts only when it passes without the change in the same kind of sandbox. Changes that
mean the same are listed in tests/mutants.tsv, each with the reason.

The choice depends on the seed alone: an edit of other code changes nothing about it.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import mutations
import sandbox
from mutations import Mutation
from reach_map import Place, ReachMap, Test, outcomes

ROOT = Path(__file__).parent.parent
SOURCE = "src/localpv/"
EQUIVALENT = ROOT / "tests" / "mutants.tsv"
KEPT = ROOT / ".mutants"
WANTED = 0.95
COLLECTED = ("tests/unit", "tests/host", "tests/journey")
SECONDS = 120.0
"""Of tests that are run for one change, by what they took before; the cheapest come first. Fewer show less."""

PROTECTED = {
    "data": (
        "agent/clean/*.py agent/discover/*.py manager/publish/*.py disk/records/*.py"
        " manager/release/*.py disk/phase.py engine/kubelet/volumes/claims.py"
        " engine/kubelet/volumes/identity_check.py engine/kubelet/volumes/mapper.py engine/kubelet/volumes/mounter.py"
        " engine/kubelet/volumes/volume_manager.py"
        " host/attributes.py host/blkid.py host/contents.py host/devices.py host/erasure.py host/filesystems.py"
        " host/loop.py host/marks.py host/mounter.py host/mounts.py host/openat.py host/readback.py host/trees.py"
        " host/volume_files.py host/wiper.py host/model/methods.py"
    ),
    "identity": (
        "host/filesystem_ids.py host/identities.py host/sysfs.py disk/identity.py"
        " host/model/devices.py host/model/identity.py"
    ),
    "store": "engine/store/*.py",
    "authority": (
        "engine/apiserver/access.py engine/apiserver/auth/*.py engine/apiserver/pod_subresources.py"
        " engine/apiserver/request_info.py"
    ),
}
"""The modules under the rules of each."""


@dataclass(frozen=True, slots=True)
class Verdict:
    mutation: Mutation
    noticed: bool
    by: str
    """The test that failed, or why none did."""


def modules(chosen: str) -> list[Path]:
    """Those that patterns name, or all that are protected."""
    found: list[Path] = []
    for pattern in (chosen or " ".join(PROTECTED.values())).split():
        matches = sorted((ROOT / SOURCE).glob(pattern.removeprefix(SOURCE)))
        if not matches:
            raise SystemExit(f"no module is called {pattern}")
        found += [path for path in matches if path not in found]
    return found


def equivalent() -> dict[tuple[str, str, str, str], str]:
    """Changes that mean the same: module, function, line, change; and why."""
    listed = {}
    for line in EQUIVALENT.read_text().splitlines()[1:]:
        module, function, text, change, reason = line.split("\t")
        listed[SOURCE + module, function, text, change] = reason
    return listed


def choose(paths: list[Path], *, count: int, seed: int) -> list[Mutation]:
    every = [one for path in paths for one in mutations.of_module(path, ROOT)]
    return sorted(every, key=lambda one: one.order(seed))[:count]


@contextmanager
def a_copy(jobs: int) -> Iterator[Place]:
    """The tree as it is now, compiled, where sandboxes see it."""
    lock = open("/var/tmp/localpv-mutants.lock", "w")  # noqa: SIM115 - held until we end
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SystemExit("mutants are being tried on this machine already: they share loop devices") from None
    for left in Path("/var/tmp").glob("localpv-mutants-*/"):
        shutil.rmtree(left)  # of one that was killed
    with tempfile.TemporaryDirectory(prefix="localpv-mutants-", dir="/var/tmp") as folder, lock:
        tree = Path(folder, "tree")
        tree.mkdir()
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        )
        for name in listed.stdout.split("\0"):
            if name and (ROOT / name).exists():
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, tree / name)
        for name in (".seeds", ".hypothesis"):
            (tree / name).mkdir()
        compileall.compile_dir(tree / "src", quiet=2)
        # Once, with the tests compiled as pytest wants them: in sandboxes nothing can be kept.
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--collect-only", *COLLECTED],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree / "src")},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        sandboxes = [sandbox.Sandboxes(slot, tree) for slot in range(jobs)]
        free: SimpleQueue[sandbox.Sandboxes] = SimpleQueue()
        for one in sandboxes:
            free.put(one)
        try:
            yield Place(tree, free, sandboxes)
        finally:
            for one in sandboxes:
                one.close()


@dataclass(frozen=True, slots=True)
class ByUnitTests:
    verdicts: list[Verdict]
    """Of changes that a unit test notices."""

    left: list[tuple[Mutation, frozenset[str]]]
    """The others, each with the unit tests that pass with it."""


def by_unit_tests(chosen: list[Mutation], place: Place, reach: ReachMap, *, most: float, together: int) -> ByUnitTests:
    """Try unit tests in one sandbox for all changes: they need nothing of the machine, so there is nothing to share."""
    folder = place.tree.parent / "changes"
    folder.mkdir()
    tests: dict[int, dict[str, float]] = {}
    with open(folder / "orders", "w") as orders:
        for number, one in enumerate(chosen, 1):
            reaching = [] if one.at_import else tests_for(one, reach, most)
            tests[number] = {test.name: test.seconds for test in reaching if test.name.startswith("tests/unit/")}
            changed = folder / f"{number}.py"
            changed.write_bytes(one.applied((place.tree / one.module).read_bytes()))
            order = {"number": number, "module": one.module, "function": one.outermost, "changed": str(changed)}
            if tests[number]:
                orders.write(json.dumps({**order, "tests": tests[number]}) + "\n")
    files = sorted({name.partition("::")[0] for found in tests.values() for name in found})
    verdicts, left = [], dict(enumerate(chosen, 1))
    passed: dict[int, frozenset[str]] = defaultdict(frozenset)
    if files:
        env = {"MUTANTS_TRIED": str(folder / "orders"), "MUTANTS_TOGETHER": str(together)}
        ended = place.pytest(["-p", "forks_plugin", *files], timeout=6 * 3600, env=env, wanted=("verdicts",))
        if not ended.files["verdicts"]:
            raise SystemExit(f"no unit test runs in a sandbox:\n{ended.said}")
        for line in ended.files["verdicts"].splitlines():
            answer = json.loads(line)
            number = answer["number"]
            if answer["said"] == "noticed":
                verdicts.append(Verdict(left.pop(number), noticed=True, by=answer["by"]))
            elif answer["said"] == "passed":
                passed[number] = frozenset(tests[number])
    return ByUnitTests(verdicts, [(one, passed[number]) for number, one in left.items()])


def tests_for(mutation: Mutation, reach: ReachMap, most: float) -> list[Test]:
    """Those that reach a change, as far as there is time for them; one at least."""
    tests: list[Test] = []
    for test in reach.tests_of(mutation.module, "" if mutation.at_import else mutation.function):
        if tests and sum(one.seconds for one in tests) + test.seconds > most:
            break
        tests.append(test)
    return tests


class Controls:
    """Which tests fail in a sandbox without any change: what those say of a change counts for nothing."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._failing: dict[str, frozenset[str]] = {}
        self._lock = threading.Lock()

    def fails_anyway(self, test: str) -> bool:
        file = test.partition("::")[0]
        if not file.startswith("tests/unit/"):
            # Those depend on the machine, so what they did an hour ago says little; and a file of them takes minutes.
            return self._place.pytest([test], timeout=300).code != 0
        with self._lock:
            if file not in self._failing:
                ended = self._place.pytest([file], timeout=600)
                passed, failed = outcomes(ended)
                # One that could not even be collected proves nothing about the change.
                self._failing[file] = frozenset(failed if passed or failed else [file])
            return bool(self._failing[file] & {test, file})

    def take_as_long(self, tests: list[str], seconds: float) -> bool:
        return self._place.pytest(tests, timeout=seconds).code == sandbox.TOO_LONG


def attempt(
    mutation: Mutation, place: Place, reach: ReachMap, controls: Controls, *, passed: frozenset[str], most: float
) -> Verdict:
    """Whether a test notices a change; those that have passed with it are not run again."""
    found = tests_for(mutation, reach, most)
    if not found:
        return Verdict(mutation, noticed=False, by="no test reaches it")
    tests = [one.name for one in found if one.name not in passed]
    seconds = 90 + 4 * sum(one.seconds for one in found)
    original = place.tree / mutation.module
    with tempfile.NamedTemporaryFile(dir=place.tree.parent, suffix=".py") as changed:
        changed.write(mutation.applied(original.read_bytes()))
        changed.flush()
        while tests:
            ended = place.pytest(["-x", *tests], timeout=seconds, instead={Path(changed.name): original})
            if ended.code == 0:
                break
            _, failed = outcomes(ended)
            if not failed and ended.code == sandbox.TOO_LONG:
                if controls.take_as_long(tests, seconds):
                    return Verdict(mutation, noticed=False, by="the tests take too long without the change too")
                return Verdict(mutation, noticed=True, by="they run for ever")
            if not failed:
                if (unchanged := place.pytest(tests[:1], timeout=300)).code:
                    raise SystemExit(f"{tests[0]} does not start, with no change at all:\n{unchanged.said}")
                return Verdict(mutation, noticed=True, by="nothing starts")
            if not controls.fails_anyway(failed[0]):
                return Verdict(mutation, noticed=True, by=failed[0])
            tests = tests[tests.index(failed[0]) + 1 :]
    return Verdict(mutation, noticed=False, by=f"{len(found)} tests do not fail by it")


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def say(verdict: Verdict) -> None:
    mutation = verdict.mutation
    word = "noticed" if verdict.noticed else "NOT NOTICED"
    tell(f"{word} {mutation.module}:{mutation.line}: {mutation.change}  ({verdict.by})")


def table(verdicts: list[Verdict], listed: list[Mutation]) -> Iterator[str]:
    rows: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for mutation in listed:
        rows[mutation.module][2] += 1
    for verdict in verdicts:
        rows[verdict.mutation.module][1 if verdict.noticed else 3] += 1
    yield "| module | changes | noticed | mean the same | not noticed |"
    yield "|---|---|---|---|---|"
    for module, (_, noticed, same, missed) in sorted(rows.items()):
        yield f"| {module.removeprefix(SOURCE)} | {noticed + same + missed} | {noticed} | {same} | {missed} |"
    noticed = sum(one.noticed for one in verdicts)
    yield f"| all | {len(verdicts) + len(listed)} | {noticed} | {len(listed)} | {len(verdicts) - noticed} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--modules", default="", help="patterns below src/localpv; default: all that protect something")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="how many sandboxes are used at the same time")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests that are run for one change")
    parser.add_argument("--again", action="store_true", help="what was noticed the last time is not tried again")
    parser.add_argument("--show", action="store_true", help="only tell what would be changed")
    options = parser.parse_args()
    paths = modules(options.modules)
    chosen = choose(paths, count=options.count, seed=options.seed)
    known = equivalent()
    listed = [one for one in chosen if one.key in known]
    chosen = [one for one in chosen if one.key not in known]
    last = KEPT / "noticed.json"
    verdicts: list[Verdict] = []
    if options.again:
        before = {tuple(key): by for *key, by in json.loads(last.read_text())}
        verdicts = [Verdict(one, noticed=True, by=before[one.key]) for one in chosen if one.key in before]
        chosen = [one for one in chosen if one.key not in before]
    if options.show:
        print("\n".join(f"{one.module}:{one.line}: {one.change}" for one in chosen))
        return 0
    if os.geteuid():
        raise SystemExit("needs root: what is changed deletes and wipes, so it is tried in namespaces of its own")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    started = time.monotonic()
    with a_copy(options.jobs) as place:
        reach = ReachMap(KEPT / "reach.json", place.tree)  # which stays as it is while somebody edits this one
        everything = [str(path.relative_to(ROOT)) for path in modules("")]
        reach.bring_up_to_date(place, sorted({*everything, *(one.module for one in chosen)}), tell)
        controls = Controls(place)

        def look(mutation: Mutation, passed: frozenset[str]) -> Verdict:
            verdict = attempt(mutation, place, reach, controls, passed=passed, most=options.seconds)
            say(verdict)
            return verdict

        units = by_unit_tests(chosen, place, reach, most=options.seconds, together=options.jobs)
        for verdict in units.verdicts:
            say(verdict)
        verdicts += units.verdicts
        verdicts += place.each(lambda one: look(*one), units.left)
    missed = [one.mutation for one in verdicts if not one.noticed]
    KEPT.mkdir(exist_ok=True)
    last.write_text(json.dumps([(*one.mutation.key, one.by) for one in verdicts if one.noticed]))
    print("\n".join(table(verdicts, listed)))
    for one in missed:
        print(f"not noticed: {one.module}:{one.line}: in {one.function}: {one.text}: {one.change}")
    share = 1 - len(missed) / len(verdicts) if verdicts else 1.0
    print(f"noticed: {share:.1%} of {len(verdicts)}, in {time.monotonic() - started:.0f} s")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
