"""What workers begin with: tests that wait, beside those that compute."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests import shares

STRESS, POD, JOURNEY, UNIT = (
    shares.HERE / path
    for path in ("e2e/test_stress.py", "pods/test_down.py", "journey/test_clean.py", "unit/test_docs.py")
)


def parts(count: int, files: dict[Path, int]) -> list[list[str]]:
    tests = [(path, f"{path.name}:{number}") for path, many in files.items() for number in range(many)]
    arranged = shares.arranged(tests, count)
    assert Counter(arranged) == Counter(name for _, name in tests)
    size = len(arranged) // count
    return [arranged[size * number : size * (number + 1)] for number in range(count)]


def test_half_of_the_workers_begin_with_what_waits_the_longest_first() -> None:
    first, second, third, fourth = parts(4, {UNIT: 80, JOURNEY: 7, POD: 12, STRESS: 1})
    assert first == [*(f"test_down.py:{number}" for number in range(12)), *first[12:]]
    assert second[:8] == ["test_stress.py:0", *(f"test_clean.py:{number}" for number in range(7))]
    assert all(name.startswith("test_docs") for name in (*first[12:], *second[8:], *third, *fourth))


def test_tests_that_all_wait_are_divided_in_the_order_of_their_length() -> None:
    first, second = parts(2, {JOURNEY: 8, POD: 8})
    assert all(name.startswith("test_down") for name in first)
    assert all(name.startswith("test_clean") for name in second)


def test_few_tests_are_all_there() -> None:
    for count in range(1, 5):
        parts(4, {UNIT: count})
        parts(4, {POD: count})


def test_folders_that_wait_are_there() -> None:
    assert all((shares.HERE / folder).is_dir() for folder in shares.SECONDS)
    assert all([*shares.HERE.glob(f"*/{name}")] for name in shares.LONGEST)
