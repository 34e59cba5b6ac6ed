"""A device is held under a name, and only the one that was meant."""

from __future__ import annotations

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
