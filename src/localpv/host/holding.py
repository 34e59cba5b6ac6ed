"""Block devices held on to while pods use them.

A loop device on top keeps the kernel from giving the numbers of a device to another one: a disk that is pulled and put
back, or another one in its place, gets new numbers, and nobody writes to it by mistake. The loop device is read-only
and nobody reads it; it outlives this process, and is found again by its name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import loop
from localpv.host.model.devices import DeviceNumber
from localpv.host.workers import Workers

CALL_SECONDS = 10.0


class Holding(Protocol):
    """Devices that are held, each under a name of at most `loop.NAME_BYTES` bytes."""

    async def hold(self, device: Path, number: DeviceNumber, *, name: str) -> str:
        """Hold a device under a name; returns what holds it. Once more is no error, DeviceChanged for another one."""

    async def held(self, name: str) -> DeviceNumber | None:
        """Which device is held under a name."""

    async def release(self, name: str) -> None:
        """Let go; nothing held is no error."""


class LoopHolding:
    """Held by loop devices."""

    def __init__(self, *, workers: Workers) -> None:
        self._workers = workers

    async def hold(self, device: Path, number: DeviceNumber, *, name: str) -> str:
        def act() -> str:
            found = loop.find(name)
            if found is not None and found.below != number:
                raise errors.DeviceChanged(
                    f"{device} is device {number} now, and pods still use {found.below}",
                    hint="put the disk back, or delete the pods that use it",
                )
            if found is None:
                loop.attach(device, read_only=True, name=name)
                found = loop.find(name)
            if found is None or found.below != number:
                if found is not None:
                    loop.detach(found.device)
                raise errors.DeviceChanged(f"{device} became another device at this moment")
            return found.device.name

        return await self._workers.call(act, key=f"hold {device}", timeout=CALL_SECONDS)

    async def held(self, name: str) -> DeviceNumber | None:
        found = await self._workers.call(lambda: loop.find(name), key=f"held {name}", timeout=CALL_SECONDS)
        return found.below if found else None

    async def release(self, name: str) -> None:
        def act() -> None:
            while found := loop.find(name):
                loop.detach(found.device)

        await self._workers.call(act, key=f"release {name}", timeout=CALL_SECONDS)
