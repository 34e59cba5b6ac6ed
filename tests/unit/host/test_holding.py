"""A device is held under a name, and only the one that was meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localpv import errors
from localpv.host import loop
from localpv.host.loop import Attached, LoopHolders
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

DISK, OTHER = DeviceNumber(8, 16), DeviceNumber(8, 32)


class Loops:
    """Loop devices by name; `becomes` is what a device turns out to be when one is put on it."""

    def __init__(self, *, becomes: DeviceNumber | None = DISK) -> None:
        self.attached: dict[str, Attached] = {}
        self.becomes = becomes
        self.made: list[tuple[Path, bool, str]] = []
        self.detached: list[Path] = []

    def find(self, name: str) -> Attached | None:
        return self.attached.get(name)

    def attach(self, device: Path, *, read_only: bool, name: str) -> None:
        self.made.append((device, read_only, name))
        if self.becomes is not None:
            self.attached[name] = Attached(device=Path(f"/dev/loop{len(self.made)}"), below=self.becomes)

    def detach(self, device: Path) -> None:
        self.detached.append(device)
        self.attached = {name: one for name, one in self.attached.items() if one.device != device}


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Loops:
    made = Loops()
    for name in ("find", "attach", "detach"):
        monkeypatch.setattr(loop, name, getattr(made, name))
    return made


async def hold(number: DeviceNumber = DISK) -> str:
    return await LoopHolders(workers=Workers()).hold(Path("/dev/sdb"), number, name="volume")


async def test_device_is_held_read_only_and_once(loops: Loops) -> None:
    assert await hold() == "loop1"
    assert await hold() == "loop1"
    assert loops.made == [(Path("/dev/sdb"), True, "volume")]
    held = LoopHolders(workers=Workers())
    assert (await held.held("volume"), await held.held("other")) == (DISK, None)
    await held.release("volume")
    assert (loops.attached, loops.detached) == ({}, [Path("/dev/loop1")])
    await held.release("volume")


async def test_another_device_in_the_place_of_one_that_pods_use_is_refused_and_the_hold_stays(loops: Loops) -> None:
    await hold()
    with pytest.raises(errors.DeviceChanged, match="pods still use 8:16"):
        await hold(OTHER)
    assert loops.detached == []


async def test_device_that_becomes_another_one_at_this_moment_is_let_go(loops: Loops) -> None:
    loops.becomes = OTHER
    with pytest.raises(errors.DeviceChanged, match="at this moment"):
        await hold()
    assert (loops.attached, loops.detached) == ({}, [Path("/dev/loop1")])


async def test_device_that_goes_at_this_moment_is_not_held(loops: Loops) -> None:
    loops.becomes = None
    with pytest.raises(errors.DeviceChanged, match="at this moment"):
        await hold()
    assert loops.detached == []


@pytest.mark.parametrize(
    ("backing", "opened"),
    [("/dev/sdb", True), ("{folder}/disk.img", False), ("{folder}/disk.img (deleted)", True), ("{folder}", True)],
)
def test_loop_device_of_a_file_is_not_opened_to_find_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backing: str, opened: bool
) -> None:
    (tmp_path / "disk.img").touch()
    (tmp_path / "block" / "loop3" / "loop").mkdir(parents=True)
    (tmp_path / "block" / "loop3" / "loop" / "backing_file").write_text(backing.format(folder=tmp_path) + "\n")
    looked: list[Path] = []

    def status(device: Path) -> loop.Status:
        looked.append(device)
        return loop.Status(
            file_system=DISK, inode=1, below=DISK, offset_bytes=0, size_limit_bytes=0, going=False, name=b"volume"
        )

    monkeypatch.setattr(loop, "status", status)
    found = loop.find("volume", sys=tmp_path)
    assert found == (Attached(device=Path("/dev/loop3"), below=DISK) if opened else None)
    assert looked == ([Path("/dev/loop3")] if opened else [])


def test_loop_device_that_goes_or_has_another_name_is_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "block" / "loop3" / "loop").mkdir(parents=True)
    whole = loop.Status(
        file_system=DISK, inode=1, below=DISK, offset_bytes=0, size_limit_bytes=0, going=True, name=b"volume"
    )
    for now in (whole, replace(whole, going=False, name=b"other"), None):
        monkeypatch.setattr(loop, "status", lambda device, now=now: now)
        assert loop.find("volume", sys=tmp_path) is None
