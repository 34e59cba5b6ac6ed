"""Machines that run pods, in folders of their own; what a test leaves behind is taken away."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import folders
from tests.pods.machine import Machine

from localpv.host import loop

PROGRAMS = ("runc", "conmon", "busybox")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    why = f"{', '.join(missing)} missing" if missing else "needs root" if os.geteuid() != 0 else ""
    for item in folders.tests_in(Path(__file__).parent, items) if why else ():
        item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine") / "data")
    machine.start()
    yield machine
    machine.close()


@pytest.fixture
def machine(shared: Machine) -> Iterator[Machine]:
    """A machine that many tests share, without any pod."""
    yield shared
    shared.delete_all()
    shared.eventually(shared.is_clean, "nothing is left of this test's pods")


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Path]:
    """An empty block device."""
    file = tmp_path / "disk"
    with file.open("wb") as content:
        content.truncate(16 << 20)
    with loop.attached(file) as path:
        yield path


@pytest.fixture
def new_machine(tmp_path: Path) -> Iterator[Callable[[], Machine]]:
    """Machines of one's own, to be killed."""
    made: list[Machine] = []

    def make() -> Machine:
        machine = Machine(tmp_path / f"machine-{len(made)}")
        made.append(machine)
        machine.start()
        return machine

    yield make
    for machine in made:
        machine.close()
