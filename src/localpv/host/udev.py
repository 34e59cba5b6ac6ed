"""The host's udev: its folder of rules, its database of block devices, and how it is made to look at them again.

In a pod the folder of rules, /run/udev, /dev and /sys are the host's, and the root file system is not. There `udevadm`
says "Running in chroot, ignoring request" and ends well, unless it is told to mind its own business; and devices are
asked to tell about themselves through /sys, which needs no tool. Nobody's word is taken for it that rules are in force:
the rules leave a mark on each device that was looked at with them, and whoever writes rules reads that mark back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from localpv import errors
from localpv.host import commands, sysfs
from localpv.host.model.devices import DeviceNumber
from localpv.host.sysfs import Attributes
from localpv.host.workers import Workers

CALL_SECONDS = 10.0
TOOL_SECONDS = 20.0

ENDING = ".rules"
"""What names of files must end with to be read by udev; half-written ones do not."""

RULES_BYTES = 1024 * 1024
"""More of a file is not read: ours are a few KB."""

MOST_FILES = 1024
"""Files of rules that are read; udev itself becomes slow long before."""

MOST_DEVICES = 16_384
"""Block devices that are looked at; partitions count."""

RELOADS_BY_ITSELF_SECONDS = 3.5
"""After so long udevd itself sees, at the next event, that files of rules have changed: it looks every 3 s."""

_FRESH = ".new-"
_MAGIC_ENVIRONMENT = {"SYSTEMD_IGNORE_CHROOT": "1"}
NO_UDEV = "the host runs no udev: nothing makes links to disks"


@dataclass(frozen=True, slots=True, kw_only=True)
class UdevDevice:
    """A block device and what udev keeps about it."""

    name: str
    """Kernel name, such as sdb1."""

    number: DeviceNumber
    properties: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()
    """Links below /dev that udev made for it and that lead to it: when two devices want one, only one has it."""

    empty: bool = False
    """Whether nothing is in it: a loop device without a file, a drive without a medium."""


class Udev(Protocol):
    """The udev of this machine."""

    async def files(self, prefix: str) -> dict[str, str]:
        """Files of rules whose name begins so, with the beginning of their text. HostError when one cannot be read: who
        took it for one that is not there would write it anew without what it holds."""

    async def write(self, name: str, text: str) -> None:
        """Write a file of rules in one step; when this returns it is on the disk."""

    async def remove(self, name: str) -> None:
        """Remove a file of rules; one that is not there is no error."""

    async def running(self) -> bool:
        """Whether somebody reads the rules."""

    async def reload(self) -> None:
        """Have the rules read again; NotSupported where no udev runs."""

    async def trigger(self, names: Collection[str], *, argument: str = "") -> None:
        """Have udev look again at block devices, by their kernel names; those that are gone are passed over.

        Rules see an argument, which is letters and digits, as the property SYNTH_ARG_<argument> with the value 1.
        """

    async def settle(self, *, seconds: float) -> bool:
        """Wait until udev has nothing left to do, for so long; whether it came to that."""

    async def devices(self) -> tuple[UdevDevice, ...]:
        """All block devices that have a node below /dev, with what udev keeps about them; sorted by name."""


class HostUdev:
    """systemd-udevd, or eudev, of the host."""

    def __init__(
        self,
        *,
        rules: Path,
        workers: Workers,
        run: Path = Path("/run"),
        sys: Path = Path("/sys"),
        dev: Path = Path("/dev"),
    ) -> None:
        self._rules, self._workers = rules, workers
        self._run, self._sys, self._dev = run, sys, dev

    async def files(self, prefix: str) -> dict[str, str]:
        return await self._workers.call(lambda: self._read_files(prefix), key=str(self._rules), timeout=CALL_SECONDS)

    def _read_files(self, prefix: str) -> dict[str, str]:
        try:
            names = sorted(name for name in os.listdir(self._rules) if name.startswith(prefix))
        except FileNotFoundError:
            return {}
        found = {}
        for name in [name for name in names if name.endswith(ENDING)][:MOST_FILES]:
            try:
                fd = os.open(self._rules / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    found[name] = _beginning(fd).decode(errors="replace")
                finally:
                    os.close(fd)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.EISDIR):
                    raise errors.HostError(f"{self._rules / name} cannot be read: {error.strerror}") from error
                found[name] = ""  # a link or a folder: none of ours
        return found

    async def write(self, name: str, text: str) -> None:
        path = self._path(name)

        def write() -> None:
            self._rules.mkdir(parents=True, exist_ok=True)
            # No name that udev reads, and one for each file: what a death leaves is overwritten by the next try.
            fresh = path.with_name(f"{_FRESH}{name.removesuffix(ENDING)}")
            fresh.unlink(missing_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, path)
            _write_through(self._rules)

        await self._workers.call(write, key=str(path), timeout=CALL_SECONDS)

    async def remove(self, name: str) -> None:
        path = self._path(name)

        def remove() -> None:
            path.with_name(f"{_FRESH}{name.removesuffix(ENDING)}").unlink(missing_ok=True)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                _write_through(self._rules)

        await self._workers.call(remove, key=str(path), timeout=CALL_SECONDS)

    def _path(self, name: str) -> Path:
        if "/" in name or name.startswith(".") or not name.endswith(ENDING):
            raise errors.OutsideFolder(f"{name!r} is no name of a file of rules in {self._rules}")
        return self._rules / name

    async def running(self) -> bool:
        # Whoever listens there is udevd, or systemd, which starts it when it is spoken to.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) as door:
            door.setblocking(False)
            try:
                door.connect(str(self._run / "udev" / "control"))
            except BlockingIOError:
                return True  # it is there, and busy
            except OSError:
                return False
            return True

    async def reload(self) -> None:
        if not await self.running():
            raise errors.NotSupported(NO_UDEV, hint=f"start systemd-udevd; {self._run / 'udev'} must be the host's")
        try:
            await commands.run(
                ["udevadm", "control", "--reload", f"--timeout={TOOL_SECONDS / 2:g}"],
                timeout=TOOL_SECONDS,
                env=_MAGIC_ENVIRONMENT,
            )
        except (errors.CommandFailed, errors.HostTimeout, errors.NotSupported):
            # No tool here, or one that does not speak to this udevd: it finds out by itself.
            await asyncio.sleep(RELOADS_BY_ITSELF_SECONDS)

    async def trigger(self, names: Collection[str], *, argument: str = "") -> None:
        # The kernel takes an argument only after a UUID, by which whoever asked could tell the event from others.
        asked = f"change {uuid.uuid4()} {argument}=1" if argument else "change"

        def tell() -> None:
            for name in names:
                # Not `udevadm trigger`: in a pod it does nothing and says that all is well. A device may go meanwhile.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
                    (self._sys / "class" / "block" / name / "uevent").write_text(asked)

        try:
            await self._workers.call(tell, key=str(self._sys / "class" / "block"), timeout=TOOL_SECONDS)
        except OSError as error:
            raise errors.HostError(
                f"devices cannot be asked to tell about themselves: {error}",
                hint="/sys must be writable: run privileged",
            ) from error

    async def settle(self, *, seconds: float) -> bool:
        until = asyncio.get_running_loop().time() + seconds
        with contextlib.suppress(errors.HostError):
            await commands.run(
                ["udevadm", "settle", f"--timeout={max(1, int(seconds))}"], timeout=seconds + 1, env=_MAGIC_ENVIRONMENT
            )
        # This file is there for as long as udevd has something to do.
        busy = self._run / "udev" / "queue"
        while busy.exists():
            if asyncio.get_running_loop().time() >= until:
                return False
            await asyncio.sleep(0.05)
        return True

    async def devices(self) -> tuple[UdevDevice, ...]:
        return await self._workers.call(self._read_devices, key="udev's database", timeout=CALL_SECONDS)

    def _read_devices(self) -> tuple[UdevDevice, ...]:
        try:
            names = sorted(os.listdir(self._sys / "class" / "block"))[:MOST_DEVICES]
        except FileNotFoundError:
            return ()
        return tuple(found for name in names if (found := self._read_device(name)) is not None)

    def _read_device(self, name: str) -> UdevDevice | None:
        attributes = Attributes(self._sys / "class" / "block" / name)
        try:
            number = DeviceNumber.parse(attributes.text("dev"))
        except ValueError:
            return None  # it has just gone
        if not self._leads_to(name.replace("!", "/"), number):
            return None  # without a node nobody can use it, and udev keeps nothing about it
        properties, links = sysfs.udev_record(number, run=self._run)
        return UdevDevice(
            name=name,
            number=number,
            properties=properties,
            links=tuple(link for link in links if self._leads_to(link, number)),
            empty=attributes.number("size") == 0,
        )

    def _leads_to(self, link: str, number: DeviceNumber) -> bool:
        try:
            found = os.stat(self._dev / link).st_rdev
        except OSError:
            return False
        return (os.major(found), os.minor(found)) == number


def _beginning(fd: int) -> bytes:
    """The text of a file, up to RULES_BYTES."""
    text = b""
    while len(text) < RULES_BYTES and (piece := os.read(fd, RULES_BYTES - len(text))):
        text += piece
    return text


def _write_through(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
