"""LocalDisks as files on the node, one JSON file each, for a node that must do without the API kind.

A file is written anew beside the old one, brought to the disk, and put in the old one's place by a rename, which is
brought to the disk as well: after a crash a record is as it was before or as it is after, and never half. One process
at a time has the folder open; what it holds in memory is what is on the disk.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import logging
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from localpv import errors
from localpv.api import names
from localpv.api import status as statuses
from localpv.api.kinds.localdisk import LOCAL_DISKS, LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.kinds.meta import ObjectMeta, Part
from localpv.api.patch import merge_patch
from localpv.client.codec import TypedCodec
from localpv.client.informer import Handler
from localpv.runtime.clock import Clock, SystemClock

ENDING = ".json"
LOCK = ".lock"
UNFINISHED = ".new-"
"""How names of files begin that were not put in place yet; what a crash leaves of them is removed at the next start."""

LONGEST_NAME = 255 - len(ENDING)

N = TypeVar("N", bound=LocalDisk | None)

log = logging.getLogger(__name__)
_codec = TypedCodec(LocalDisk)


class FolderRecords:
    """The records in one folder. `open` it first; it is this process's until `close`."""

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self._folder = folder
        self._clock = clock or SystemClock()
        self._records: dict[str, LocalDisk] = {}
        self._handlers: list[Handler[LocalDisk]] = []
        self._writing = asyncio.Lock()
        self._version = 0
        self._lock_file: int | None = None
        self.damaged: dict[str, str] = {}
        """Records that cannot be read, and why. Their disks are left alone: nobody knows whether they are clean."""

    def open(self) -> None:
        """Read what is there; StartError when another process has the folder, or it cannot be used."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_file = os.open(self._folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in sorted(self._folder.iterdir()):
                if path.name.startswith(UNFINISHED):
                    path.unlink()
                elif path.name.endswith(ENDING) and not path.name.startswith("."):
                    self._read(path)
        except BlockingIOError as error:
            self.close()
            raise errors.StartError(
                f"another process has the state folder {self._folder} open", hint="stop it first, or use another folder"
            ) from error
        except OSError as error:
            self.close()
            raise errors.StartError(f"the state folder {self._folder} cannot be used: {error.strerror}") from error

    def close(self) -> None:
        """Let others have the folder."""
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    async def get(self, name: str) -> LocalDisk | None:
        self._check_readable(name)
        return self._records.get(name)

    async def list(self) -> Sequence[LocalDisk]:
        return [*self._records.values()]

    async def create(self, disk: LocalDisk) -> LocalDisk:
        name = disk.metadata.name
        if names.dns_subdomain(name) or len(name) > LONGEST_NAME:
            raise errors.Invalid(f'"{name}" cannot be the name of a record')
        self._check_readable(name)

        def created(old: LocalDisk | None) -> LocalDisk:
            if old is not None:
                raise statuses.already_exists(LOCAL_DISKS.plural, LOCAL_DISKS.group, name)
            now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            meta = msgspec.structs.replace(
                disk.metadata,
                uid=str(uuid.uuid4()),
                generation=1,
                creation_timestamp=now,
                resource_version=self._next(),
            )
            return msgspec.structs.replace(disk, metadata=meta, status=LocalDiskStatus())

        return await self._change(name, created)

    async def write_spec(self, disk: LocalDisk, spec: LocalDiskSpec) -> LocalDisk:
        if spec == disk.spec:
            return disk

        def written(old: LocalDisk) -> LocalDisk:
            new = _merged(LocalDiskSpec, old.spec, disk.spec, spec)
            meta = self._stamped(old.metadata, generation=old.metadata.generation + (new != old.spec))
            return msgspec.structs.replace(old, metadata=meta, spec=new)

        return await self._update(disk, written, locked=True)

    async def write_status(self, disk: LocalDisk, status: LocalDiskStatus, *, locked: bool = True) -> LocalDisk:
        if status == disk.status:
            return disk

        def written(old: LocalDisk) -> LocalDisk:
            new = _merged(LocalDiskStatus, old.status, disk.status, status)
            return msgspec.structs.replace(old, metadata=self._stamped(old.metadata), status=new)

        return await self._update(disk, written, locked=locked)

    async def delete(self, disk: LocalDisk) -> None:
        def deleted(old: LocalDisk | None) -> None:
            if old is not None:
                _check_same(old, disk, locked=True)

        await self._change(disk.metadata.name, deleted)

    async def follow(self, handler: Handler[LocalDisk], *, synced: Callable[[], None]) -> None:
        for disk in [*self._records.values()]:
            handler(None, disk)
        self._handlers.append(handler)
        try:
            synced()
            await asyncio.get_running_loop().create_future()
        finally:
            self._handlers.remove(handler)

    async def _update(self, disk: LocalDisk, written: Callable[[LocalDisk], LocalDisk], *, locked: bool) -> LocalDisk:
        name = disk.metadata.name

        def updated(old: LocalDisk | None) -> LocalDisk:
            if old is None:
                raise statuses.not_found(LOCAL_DISKS.plural, LOCAL_DISKS.group, name)
            _check_same(old, disk, locked=locked)
            return written(old)

        return await self._change(name, updated)

    async def _change(self, name: str, change: Callable[[LocalDisk | None], N]) -> N:
        """Write what `change` makes of a record, or remove it when that is nothing.

        A caller that is cancelled does not stop a write halfway: memory and disk would differ.
        """

        async def changed() -> N:
            async with self._writing:
                old = self._records.get(name)
                new = change(old)
                if old is None and new is None:
                    return new
                try:
                    await asyncio.to_thread(self._store, name, None if new is None else _codec.write(new))
                except OSError as error:
                    # It can be in place already, and only not safe there: go on from what is to be read.
                    self._remember(name, old, self._found(name))
                    raise _explained(self._folder, error) from error
                self._remember(name, old, new)
                return new

        return await asyncio.shield(asyncio.ensure_future(changed()))

    def _remember(self, name: str, old: LocalDisk | None, new: LocalDisk | None) -> None:
        if new is None:
            self._records.pop(name, None)
        else:
            self._records[name] = new
        if new != old:
            for handler in [*self._handlers]:
                handler(old, new)

    def _found(self, name: str) -> LocalDisk | None:
        """The record as it is in its file."""
        try:
            return _codec.read((self._folder / (name + ENDING)).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, errors.InternalError):
            return self._records.get(name)

    def _store(self, name: str, content: bytes | None) -> None:
        path = self._folder / (name + ENDING)
        if content is None:
            path.unlink(missing_ok=True)
        else:
            unfinished = self._folder / f"{UNFINISHED}{uuid.uuid4().hex}"
            try:
                with unfinished.open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                unfinished.rename(path)
            except OSError:
                unfinished.unlink(missing_ok=True)
                raise
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self, path: Path) -> None:
        name = path.name.removesuffix(ENDING)
        try:
            disk = _codec.read(path.read_bytes())
            if disk.metadata.name != name:
                raise errors.InternalError(f"holds a record with the name {disk.metadata.name}")
            version = int(disk.metadata.resource_version)
        except (errors.InternalError, ValueError) as error:
            self.damaged[name] = str(error)
            log.error("record cannot be read file=%s reason=%s", path, error)
            return
        self._version = max(self._version, version)
        self._records[name] = disk

    def _check_readable(self, name: str) -> None:
        if name in self.damaged:
            raise errors.StoreDamaged(
                f"{self._folder / (name + ENDING)} cannot be read: {self.damaged[name]}",
                hint="mend the file, or, when the disk is known to hold nothing of value, remove it and start again",
            )

    def _stamped(self, meta: ObjectMeta, **more: int) -> ObjectMeta:
        return msgspec.structs.replace(meta, resource_version=self._next(), **more)

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def _check_same(old: LocalDisk, read: LocalDisk, *, locked: bool) -> None:
    same = old.metadata.uid == read.metadata.uid
    if same and locked:
        same = old.metadata.resource_version == read.metadata.resource_version
    if not same:
        raise statuses.modified(LOCAL_DISKS.plural, LOCAL_DISKS.group, old.metadata.name)


def _merged(part: type[Any], now: Part, read: Part, wanted: Part) -> Any:
    """What is there now with the changes from `read` to `wanted`."""
    patch = merge_patch.diff(msgspec.to_builtins(read), msgspec.to_builtins(wanted))
    return msgspec.convert(merge_patch.apply(msgspec.to_builtins(now), patch), part)


def _explained(folder: Path, error: OSError) -> errors.StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.StoreFull(f"there is no room left in {folder}", hint="make room; the write is tried again")
    return errors.StoreError(f"{folder} cannot be written: {error.strerror}")
