"""The tool behind `make mutants`: the changes it makes, and the list of those that mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants
import mutations
import sandbox


def changes(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "module.py"
    path.write_text(text)
    return [one.change for one in mutations.of_module(path, tmp_path)]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("x = a == b", ["a == b -> a != b"]),
        ("x = a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("x = a is None and b", ["a is None and b -> a is None or b", "a is None -> a is not None"]),
        ("x = not a", ["not a -> a"]),
        ("if a:\n    b = c", ["a -> False", "a -> True"]),
        (
            "if a := b():\n    c = a",
            ["a := b() -> (a := b()) and False", "a := b() -> (a := b()) or True"],
        ),
        ("a.b(c)", ["a.b(c) -> pass"]),
        ("async def f():\n    await a(b)", ["await a(b) -> pass"]),
        ("raise E('text')", ["raise E('text') -> pass"]),
        ("def f():\n    return 1", ["1 -> 2", "1 -> 0"]),
        ("def f():\n    return True", ["True -> False"]),
        ("def f():\n    return 'x'", ["'x' -> ''"]),
        ("def f(a=False):\n    pass", ["False -> True"]),
    ],
)
def test_each_small_mistake_is_made_alone(tmp_path: Path, text: str, made: list[str]) -> None:
    assert changes(tmp_path, text) == made


@pytest.mark.parametrize(
    "text",
    [
        "log.info('text')",
        "assert a == b",
        "x: Literal[1]",
        "CHUNK = 1024",
        "x = f'{a:>3}'",
        "class P(Protocol):\n    def f(self, a=False): ...",
    ],
)
def test_what_no_test_should_notice_is_left_alone(tmp_path: Path, text: str) -> None:
    assert changes(tmp_path, text) == []


def test_the_choice_of_a_seed_does_not_depend_on_the_lines_above(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    orders = []
    for before in ("", "import os\n\n\n"):
        path.write_text(f"{before}def f():\n    if a == 1:\n        b()\n")
        orders.append([one.change for one in sorted(mutations.of_module(path, tmp_path), key=lambda one: one.order(7))])
    assert orders[0] == orders[1]


def test_every_change_of_a_protected_module_compiles() -> None:
    for path in mutants.modules(""):
        source = path.read_bytes()
        for one in mutations.of_module(path, mutants.ROOT)[::20]:
            compile(one.applied(source), str(path), "exec")


def test_every_change_that_is_listed_as_meaning_the_same_can_still_be_made() -> None:
    listed = mutants.equivalent()
    paths = {mutants.ROOT / module for module, *_ in listed}
    possible = {one.key for path in paths for one in mutations.of_module(path, mutants.ROOT)}
    assert [key for key in listed if key not in possible] == []
    assert all(reason.strip() for reason in listed.values())


def test_change_names_the_function_that_is_defined_with_its_module(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "class C:\n    x = True\n    def f(self):\n        def g():\n            return True\n        return g\n"
    )
    found = [(one.function, one.outermost, one.at_import) for one in mutations.of_module(path, tmp_path)]
    assert found == [("C", "", True), ("C.f.g", "C.f", False)]


class Place:
    """Runs no tests, and tells of each how it ended without a change."""

    def __init__(self, **failing: list[str]) -> None:
        self.runs: list[list[str]] = []
        self.failing = failing

    def pytest(self, tests: list[str], *, timeout: float) -> sandbox.Ended:
        self.runs.append(tests)
        names = self.failing.get(Path(tests[0].partition("::")[0]).stem, [])
        lines = [f"{name}\tcall\tfailed\t0.1" for name in names] or [f"{tests[0]}\tcall\tpassed\t0.1"]
        return sandbox.Ended(code=1 if names else 0, said="", files={"outcomes": "\n".join(lines)})


def test_unit_test_that_fails_without_a_change_is_found_out_with_one_run_of_its_file() -> None:
    place = Place(test_a=["tests/unit/test_a.py::one"])
    controls = mutants.Controls(place)  # type: ignore[arg-type]
    assert controls.fails_anyway("tests/unit/test_a.py::one")
    assert not controls.fails_anyway("tests/unit/test_a.py::two")
    assert not controls.fails_anyway("tests/unit/test_b.py::one")
    assert place.runs == [["tests/unit/test_a.py"], ["tests/unit/test_b.py"]]


def test_test_of_the_machine_is_tried_without_the_change_each_time() -> None:
    place = Place()
    controls = mutants.Controls(place)  # type: ignore[arg-type]
    for _ in range(2):
        assert not controls.fails_anyway("tests/host/test_a.py::one")
    assert place.runs == [["tests/host/test_a.py::one"]] * 2
