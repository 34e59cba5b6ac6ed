"""What workers take next: tests that wait, beside those that compute."""

from __future__ import annotations

from pathlib import Path

from tests import shares

STRESS, POD, JOURNEY, UNIT = (
    shares.HERE / path
    for path in ("e2e/test_stress.py", "pods/test_down.py", "journey/test_clean.py", "unit/test_docs.py")
)
SERVER, NODE = frozenset({"server"}), frozenset({"node"})


def parts(files: dict[Path, int], shared: frozenset[str] = frozenset()) -> list[shares.Part]:
    return shares.parts((path, shared) for path, many in files.items() for _ in range(many))


def taken(left: shares.Shares, *workers: shares.Worker) -> list[list[shares.Part]]:
    """What each worker gets when they take turns."""
    found: list[list[shares.Part]] = [[] for _ in workers]
    while left:
        for worker, own in zip(workers, found, strict=True):
            own += [part] if (part := left.take(worker)) else []
    return found


def test_every_test_is_in_one_part_and_no_part_takes_long() -> None:
    found = parts({UNIT: 1200, JOURNEY: 37, POD: 12, STRESS: 2})
    assert [number for part in found for number in part.tests] == list(range(1251))
    assert all(part.seconds <= shares.PART_SECONDS or len(part.tests) == 1 for part in found)
    assert [len(part.tests) for part in found if part.tests.start >= 1249] == [1, 1]


def test_a_part_is_of_one_file() -> None:
    assert [part.tests for part in parts({UNIT: 2, POD: 1})] == [range(2), range(2, 3)]


def test_some_begin_with_what_waits_the_longest_first_and_others_with_the_rest() -> None:
    found = parts({UNIT: 80, JOURNEY: 7, POD: 3, STRESS: 1})
    waiting, computing = taken(
        shares.Shares(found), shares.Worker(prefers_waiting=True), shares.Worker(prefers_waiting=False)
    )
    assert [part.tests for part in waiting] == [range(90, 91), range(87, 90)]
    assert [part.tests for part in computing] == [range(80), range(80, 87)], "what is left is anybody's"


def test_few_workers_begin_with_what_takes_long_to_make_while_there_is_other_work() -> None:
    found = shares.Shares(
        [*(shares.Part(range(1), 9, False, SERVER) for _ in range(3)), shares.Part(range(1), 1, False)]
    )
    first, second, third = (shares.Worker(prefers_waiting=False) for _ in range(3))
    taken_by = [found.take(worker) for worker in (first, second, third, third)]
    assert [part.shared if part else None for part in taken_by] == [SERVER, SERVER, frozenset(), SERVER]
    assert found.take(first) is None


def test_a_worker_goes_on_with_what_it_has() -> None:
    left = shares.Shares([shares.Part(range(1), seconds, False, NODE) for seconds in (3, 2, 1)])
    worker = shares.Worker(prefers_waiting=True)
    assert [part.seconds for (part,) in zip(*taken(left, worker), strict=True)] == [3, 2, 1]


def test_what_is_given_back_comes_next() -> None:
    left = shares.Shares(parts({UNIT: 80, POD: 3}))
    worker = shares.Worker(prefers_waiting=True)
    part = left.take(worker)
    assert part is not None
    left.give_back(part)
    assert left.take(worker) is part


def test_folders_that_wait_are_there() -> None:
    assert all((shares.HERE / folder).is_dir() for folder in shares.WAITING)
    assert all([*shares.HERE.glob(f"**/{name}")] for name in shares.LONG)
