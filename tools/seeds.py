"""Prints every requirement with the tests that carry its id, their last results on each engine, and what has none.

A test carries an id by the marker `pytest.mark.seed("API-1")`: its own, that of one of its parameters, or that of its
whole file. Results come from `.seeds/`, which every run of the tests brings up to date.
"""

from __future__ import annotations

import ast
import itertools
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
REQUIREMENTS = ROOT / "tests" / "requirements.tsv"
RESULTS = ROOT / ".seeds"
ENGINES = ("embedded", "kubernetes")


def requirements() -> Iterator[tuple[str, str, str]]:
    """id, part, what the system does"""
    for line in REQUIREMENTS.read_text().splitlines()[1:]:
        identity, _, part, sentence = line.split("\t")
        yield identity, part, sentence


def marked(path: Path) -> Iterator[tuple[str, str]]:
    """(id, name of the test) for every marker in a test file."""
    module = ast.parse(path.read_text())
    of_all = ids_of_file(module)
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            own = {one for decorator in node.decorator_list for one in ids(decorator)}
            of_file = of_all if node.name.startswith("test_") else set()
            for identity in sorted(own | of_file):
                yield identity, node.name


def ids_of_file(module: ast.Module) -> set[str]:
    """What every test of the file carries."""
    marks = [
        node
        for node in module.body
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    return {one for node in marks for one in ids(node)}


def ids(node: ast.AST) -> Iterator[str]:
    for inside in ast.walk(node):
        if isinstance(inside, ast.Call) and ast.unparse(inside.func).endswith("mark.seed"):
            yield from (ast.literal_eval(argument) for argument in inside.args)


def tests_by_id() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for identity, name in marked(path):
            found[identity].append(f"{path.relative_to(ROOT)}::{name}")
    return found


Shown = dict[tuple[str, str], dict[str, int]]
"""(id, test without its parameters) -> outcome -> how often"""


def results() -> dict[str, Shown]:
    """By engine. A parameter counts only for the ids that it carries."""
    found: dict[str, Shown] = {}
    for engine in ENGINES:
        path = RESULTS / f"{engine}.json"
        counts: Shown = defaultdict(lambda: defaultdict(int))
        for nodeid, entry in json.loads(path.read_text()).items() if path.exists() else ():
            file, *names = nodeid.split("[")[0].split("::")
            for name, identity in itertools.product(names, entry["ids"]):
                counts[identity, f"{file}::{name}"][entry["outcome"]] += 1
        found[engine] = counts
    return found


def verdict(outcomes: dict[str, int]) -> str:
    if not outcomes:
        return "not run"
    if outcomes.get("failed"):
        return "FAILED"
    return "passed" if outcomes.get("passed") else "skipped"


def main() -> int:
    tests, outcomes = tests_by_id(), results()
    known = list(requirements())
    shown: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for identity, part, sentence in known:
        print(f"{identity:7} {part:9} {sentence}")
        total = shown[part]
        total["all"] += 1
        if not tests.get(identity):
            print("          no test yet")
            continue
        total["tested"] += 1
        for test in tests[identity]:
            said = ", ".join(f"{engine}: {verdict(outcomes[engine].get((identity, test), {}))}" for engine in ENGINES)
            print(f"          {test}  ({said})")
        for engine in ENGINES:
            verdicts = {verdict(outcomes[engine].get((identity, test), {})) for test in tests[identity]}
            if "passed" in verdicts and "FAILED" not in verdicts:
                total[engine] += 1
    print(f"\n{'part':10}{'lines':>7}{'tested':>8}{'embedded':>10}{'kubernetes':>12}")
    for part, counts in shown.items():
        print(f"{part:10}{counts['all']:7}{counts['tested']:8}{counts['embedded']:10}{counts['kubernetes']:12}")
    unknown = sorted(set(tests) - {identity for identity, *_ in known})
    if unknown:
        print(f"\nmarkers with an id that is in no requirement: {', '.join(unknown)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
