"""Disks that are plugged and pulled while the machine runs: its own emulator is asked for it, from inside."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.vm.disks import MIB, Disk

PORT = Path("/dev/virtio-ports/control")
SHARED = Path("/run/vm")
PATIENCE_SECONDS = 400.0


class Emulator:
    """The emulator that this machine runs in."""

    def __init__(self) -> None:
        self._port = os.open(PORT, os.O_RDWR | os.O_CLOEXEC)
        self._left = b""
        self._events: list[dict[str, Any]] = []
        os.write(self._port, b'{"execute": "qmp_capabilities"}\n')
        while not {"return", "error"} & self._message().keys():
            pass  # a greeting, or what happened before

    def close(self) -> None:
        os.close(self._port)

    def plug(self, disk: Disk, *, blank: bool = True) -> None:
        """Plug a disk; `blank=False` for one that was pulled and comes back with what is on it."""
        if blank:
            with (SHARED / disk.file).open("wb") as file:
                file.truncate(disk.mib * MIB)
        # The emulator runs outside, where the shared folder has another name.
        self._call("blockdev-add", disk.backend(os.path.join(os.environ["LOCALPV_VM_FOLDER"], disk.file)))
        self._call("device_add", disk.device())

    def pull(self, disk: Disk) -> None:
        """Pull a disk and return when it is gone."""
        self._call("device_del", {"id": disk.serial})
        self._wait_for("DEVICE_DELETED", disk.serial)
        self._call("blockdev-del", {"node-name": f"file-{disk.serial}"})

    def _call(self, command: str, arguments: Mapping[str, object]) -> Any:
        os.write(self._port, json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while True:
            message = self._message()
            if "event" in message:
                self._events.append(message)
            elif "error" in message:
                raise RuntimeError(f"{command}: {message['error']['desc']}")
            else:
                return message["return"]

    def _wait_for(self, event: str, device: str) -> None:
        while True:
            for message in self._events:
                if message["event"] == event and message["data"].get("device") == device:
                    self._events.remove(message)
                    return
            message = self._message()
            if "event" in message:
                self._events.append(message)

    def _message(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\n" not in self._left:
            ready, _, _ = select.select([self._port], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError("the emulator gives no answer")
            self._left += os.read(self._port, 65536)
        line, self._left = self._left.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message
