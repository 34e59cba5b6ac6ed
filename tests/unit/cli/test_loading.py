"""Loading calmly leaves the garbage collector as it has to be afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from localpv.cli import loading


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.enable()


def test_nothing_is_looked_for_while_modules_are_loaded_and_all_later_than_that() -> None:
    with loading.calm():
        assert not gc.isenabled()
        loaded: list[object] = []
    assert gc.isenabled()
    assert all(one is not loaded for one in gc.get_objects())


def test_a_module_that_cannot_be_loaded_does_not_leave_it_off() -> None:
    with pytest.raises(ImportError), loading.calm():
        raise ImportError
    assert gc.isenabled()
