"""Where volumes are shown on this node, written down before they are, so that it is known after a crash too.

The mount table alone does not tell: a kubelet binds parts of a volume, and devices, to places of its own.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from localpv.api.kinds.localdisk import DiskIdentity
from localpv.host.own_folders import DiskFolders


class _Published(msgspec.Struct, frozen=True):
    volume: str
    targets: tuple[str, ...]


class Making(msgspec.Struct, frozen=True, kw_only=True):
    """The note about a file system that is being made: on this device is, at most, an unfinished one of ours."""

    uuid: str
    fs_type: str
    volume: str
    device: DiskIdentity


class Publications:
    """Small files in a folder of the agent's own, one of each sort for a volume."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = DiskFolders()

    def targets(self, volume_id: str) -> tuple[Path, ...]:
        text = self._files.read(self._path(volume_id, "published"))
        if text is None:
            return ()
        try:
            return tuple(Path(target) for target in msgspec.json.decode(text, type=_Published).targets)
        except msgspec.DecodeError:
            return ()

    def add(self, volume_id: str, target: Path) -> None:
        known = self.targets(volume_id)
        if target not in known:
            self._write(volume_id, (*known, target))

    def drop(self, volume_id: str, target: Path) -> None:
        known = self.targets(volume_id)
        if target in known:
            self._write(volume_id, tuple(one for one in known if one != target))

    def making(self, volume_id: str) -> Making | None:
        text = self._files.read(self._path(volume_id, "making"))
        if text is None:
            return None
        try:
            note = msgspec.json.decode(text, type=Making)
        except msgspec.DecodeError:
            return None
        return note if note.volume == volume_id else None

    def write_making(self, note: Making) -> None:
        path = self._path(note.volume, "making")
        self._files.make(path.parent)
        self._files.write(path, msgspec.json.encode(note).decode())

    def forget_making(self, volume_id: str) -> None:
        # Also after a power failure it must stay forgotten: from now on there is somebody's data.
        self._files.unlink(self._path(volume_id, "making"), lasting=True)

    def _write(self, volume_id: str, targets: tuple[Path, ...]) -> None:
        path = self._path(volume_id, "published")
        if not targets:
            self._files.unlink(path)
            return
        self._files.make(path.parent)
        text = msgspec.json.encode(_Published(volume_id, tuple(str(target) for target in targets))).decode()
        self._files.write(path, text)

    def _path(self, volume_id: str, sort: str) -> Path:
        return self._folder / sort / hashlib.sha256(volume_id.encode()).hexdigest()
