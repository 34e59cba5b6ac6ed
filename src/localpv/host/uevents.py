"""Devices that come, go and change, as the kernel itself tells it; udev is not needed."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from dataclasses import dataclass
from typing import Protocol

from localpv import errors
from localpv.host.feeds import Feed
from localpv.host.model.devices import DeviceNumber

_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1
_SO_RCVBUFFORCE = 33
_BUFFER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Uevent:
    """What the kernel tells when a device comes, goes or changes."""

    action: str
    subsystem: str = ""
    device_name: str = ""
    device: DeviceNumber | None = None
    lost: bool = False
    """Messages were lost before this one: look at everything again."""


LOST = Uevent(action="lost", lost=True)


class Uevents(Protocol):
    """Messages of the kernel about devices."""

    def changes(self) -> Feed[Uevent]:
        """Messages from now on; one with `lost` says that some are missing."""


class KernelUevents:
    """The kernel's netlink socket."""

    def changes(self) -> Feed[Uevent]:
        try:
            link = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, _NETLINK_KOBJECT_UEVENT
            )
        except OSError as error:
            raise errors.NotSupported(
                f"the kernel does not tell about devices here: {error}", hint="disks are still found by looking"
            ) from error
        try:
            try:
                link.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            except OSError:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            link.bind((0, _KERNEL_GROUP))
        except OSError as error:
            link.close()
            raise errors.NotSupported(f"the kernel does not tell about devices here: {error}") from error
        loop = asyncio.get_running_loop()

        def close() -> None:
            loop.remove_reader(link)
            link.close()

        feed = Feed(overflow=LOST, on_close=close)
        loop.add_reader(link, _receive, link, feed)
        return feed


def _receive(link: socket.socket, feed: Feed[Uevent]) -> None:
    for _ in range(64):  # then others get their turn
        try:
            message, (sender, _groups) = link.recvfrom(16 * 1024)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            feed.put(LOST)
            continue
        # Only the kernel sends as number 0; a process may send too, and must not be believed.
        if sender == 0 and (event := parse(message)):
            feed.put(event)


def parse(message: bytes) -> Uevent | None:
    """The event in a message; None for what is not one of the kernel's."""
    head, *lines = message.split(b"\0")
    if b"@" not in head:
        return None
    values = {key: os.fsdecode(value) for key, _, value in (line.partition(b"=") for line in lines)}
    number = None
    if values.get(b"MAJOR", "").isdecimal() and values.get(b"MINOR", "").isdecimal():
        number = DeviceNumber(int(values[b"MAJOR"]), int(values[b"MINOR"]))
    return Uevent(
        action=values.get(b"ACTION", os.fsdecode(head.partition(b"@")[0])),
        subsystem=values.get(b"SUBSYSTEM", ""),
        device_name=values.get(b"DEVNAME", ""),
        device=number,
    )
