"""Tests that run inside the virtual machine: they wipe disks, and refuse to run anywhere else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from tests import folders
from tests.vm import hardware
from tests.vm.bay import Bay
from tests.vm.disks import HERE
from tests.vm.node import RULE, RULED, Node
from tests.vm.qmp import SHARED, Emulator

ROOT = Path(__file__).parent.parent.parent
INSIDE = "LOCALPV_VM_FOLDER" in os.environ and SHARED.is_dir()
"""Whether this is the virtual machine."""

START = int(os.environ.get("LOCALPV_VM_START", "0"))
"""The how many-th start of this machine it is."""

TEST_SECONDS = 1200
"""Emulated, all takes ten times as long."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "start(number): for one start of a machine that is started several times")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    later = [item for item in items if INSIDE and (mark := item.get_closest_marker("start")) and mark.args != (START,)]
    config.hook.pytest_deselected(items=later)
    items[:] = [item for item in items if item not in later]
    mark = pytest.mark.timeout(TEST_SECONDS) if INSIDE else pytest.mark.skip(reason="needs a machine: make test-vm")
    for item in folders.tests_in(Path(__file__).parent, items):
        item.add_marker(mark)
        # The machine takes for processor time what its emulator spends waiting for a processor: nothing can be said
        # about who held an event loop for how long.
        item.add_marker(pytest.mark.holds_the_loop)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if INSIDE and (ROOT / ".seeds" / "embedded.json").exists():
        shutil.copy(ROOT / ".seeds" / "embedded.json", SHARED / "seeds.json")
        (SHARED / "ran").write_text("\n".join(item.nodeid for item in session.items))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    made = getattr(item, "funcargs", {}).get("node")
    if report.failed and isinstance(made, Node) and made.log.exists():
        report.sections.append(("Log of localpv up", made.log.read_text(errors="replace")[-4000:]))
    return report


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One for all tests: its start takes twenty seconds in emulation."""
    rules = Path("/run/udev/rules.d/99-localpv-test.rules")
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(RULE)
    hardware.run("udevadm", "control", "--reload")
    RULED.mkdir(parents=True, exist_ok=True)
    made = Node(tmp_path_factory.mktemp("node"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def emulator() -> Iterator[Emulator]:
    made = Emulator()
    yield made
    made.close()


@pytest.fixture
def bay(emulator: Emulator) -> Iterator[Bay]:
    made = Bay(emulator)
    yield made
    for disk in [*made.plugged]:
        made.pull(disk)


@pytest.fixture
def blank_disk() -> Callable[[str], Path]:
    """Makes one of the machine's disks as good as new and returns its node."""

    def get(serial: str) -> Path:
        assert serial in {disk.serial for disk in HERE}
        path = hardware.device(serial)
        hardware.blank(path)
        return path

    return get
