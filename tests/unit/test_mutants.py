"""The tool behind `make mutants`: the changes it makes, and the list of those that mean the same."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants
import mutations


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
