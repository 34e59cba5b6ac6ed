"""What is known of each container that was ever begun, kept on disk beside it.

A record is written before the container is made and again when it has ended, so that after a crash nothing runs that
nobody knows of and no exit code is lost. All records are held in memory too; the folder is read once, at the start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from localpv.engine.kubelet.paths import KubeletPaths
from localpv.host.containers import Bundle

FILE = "record.json"


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int
    reason: str
    message: str = ""
    finished_at: str


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to run one container of a pod."""

    id: str
    pod_uid: str
    pod_name: str
    namespace: str
    container: str
    attempt: int
    image: str
    image_id: str
    boot: str
    """Which run of the machine it belongs to: nothing survives the next one."""

    created_at: str
    started_at: str = ""
    delay: float = 0.0
    """Seconds that were waited before this attempt, because the one before ended badly."""

    stdin: bool = False
    terminal: bool = False
    stop_signal: str = ""
    """Such as SIGQUIT; empty for SIGTERM."""

    undone: bool = False
    """Whether it is being taken back before it was started: how it ends then means nothing."""

    end: End | None = None
    buried: bool = False
    """Whether the runtime has forgotten it and its root folder is gone."""

    @property
    def running(self) -> bool:
        return bool(self.started_at) and self.end is None


def id_of(uid: str, container: str, attempt: int) -> str:
    """The same for the same attempt, so that one that was cut off is found again."""
    return f"{uid}.{container}.{attempt}"


class Records:
    """All records, by pod and container."""

    def __init__(self, paths: KubeletPaths) -> None:
        self._paths = paths
        self._pods: dict[str, dict[str, list[Record]]] = {}

    def load(self) -> list[str]:
        """Read what is on disk; returns the folders without a record, which were cut off before they meant anything."""
        strangers = []
        self._pods.clear()
        for id_ in _listed(self._paths.containers):
            try:
                text = (self._paths.container(id_) / FILE).read_bytes()
                self._keep(msgspec.json.decode(text, type=Record))
            except (OSError, msgspec.DecodeError):
                strangers.append(id_)
        return strangers

    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    def of(self, uid: str) -> Mapping[str, list[Record]]:
        """By container, oldest attempt first."""
        return self._pods.get(uid, {})

    def all(self, uid: str) -> list[Record]:
        return [record for attempts in self.of(uid).values() for record in attempts]

    def latest(self, uid: str) -> dict[str, Record]:
        return {name: attempts[-1] for name, attempts in self.of(uid).items() if attempts}

    def find(self, record: Record) -> Record | None:
        """The same attempt as it is known now."""
        attempts = self.of(record.pod_uid).get(record.container, ())
        return next((one for one in attempts if one.attempt == record.attempt), None)

    def save(self, record: Record) -> None:
        folder = self._paths.container(record.id)
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / f".{FILE}"
        new.write_bytes(msgspec.json.encode(record))
        os.replace(new, folder / FILE)
        self._keep(record)

    def drop(self, record: Record) -> None:
        """Forget an attempt whose folder is gone."""
        pod = self._pods.get(record.pod_uid, {})
        kept = [one for one in pod.get(record.container, ()) if one.attempt != record.attempt]
        if kept:
            pod[record.container] = kept
        else:
            pod.pop(record.container, None)
        if not pod:
            self._pods.pop(record.pod_uid, None)

    def bundle(self, record: Record) -> Bundle:
        return Bundle(
            id=record.id,
            folder=self._paths.container(record.id),
            log=self._paths.log(record.pod_uid, record.container, record.attempt),
            stdin=record.stdin,
            terminal=record.terminal,
        )

    def _keep(self, record: Record) -> None:
        attempts = self._pods.setdefault(record.pod_uid, {}).setdefault(record.container, [])
        attempts[:] = sorted(
            [one for one in attempts if one.attempt != record.attempt] + [record], key=lambda one: one.attempt
        )


def used_images(containers: Path) -> Iterable[str]:
    """Ids of the images that containers run from; for other processes than the one that runs them."""
    for id_ in _listed(containers):
        try:
            record = msgspec.json.decode((containers / id_ / FILE).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError):
            continue
        if record.end is None:
            yield record.image_id


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
