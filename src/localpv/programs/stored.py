"""What the database of an engine that has stopped says, for commands that work without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from localpv import errors
from localpv.api.kinds.pods import Pod
from localpv.api.kinds.volumes import PersistentVolume
from localpv.engine.store.database import Database
from localpv.engine.store.table import Change

FILE = "localpv.db"

K = TypeVar("K", Pod, PersistentVolume)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Pods and volumes, as far as they can be read."""

    pods: Mapping[str, Pod] = field(default_factory=dict)
    """By uid."""

    volumes: tuple[PersistentVolume, ...] = ()
    trouble: str = ""
    """Why nothing could be read."""


def read(data: Path) -> Stored:
    """Pods and volumes of a database that nobody has open: the caller holds the folder."""
    if not (data / FILE).exists():
        return Stored()
    database = Database(data / FILE)
    try:
        database.open()
        rows: dict[tuple[str, str], bytes] = {}
        for _, prefix, key, change, value in database.load():
            if Change(change) is Change.DELETED:
                rows.pop((prefix, key), None)
            else:
                rows[prefix, key] = value
        pods = {pod.metadata.uid: pod for pod in _of_kind(rows, Pod)}
        return Stored(pods=pods, volumes=tuple(_of_kind(rows, PersistentVolume)))
    except (errors.StoreError, msgspec.DecodeError) as error:
        return Stored(trouble=str(error))
    finally:
        database.close()


def _of_kind(rows: Mapping[tuple[str, str], bytes], kind: type[K]) -> list[K]:
    wanted = kind.resource.storage_prefix
    return [msgspec.json.decode(value, type=kind) for (prefix, _), value in rows.items() if prefix == wanted]
