"""How a LocalStorage goes: after the volumes on its devices, and never later than the nodes that can still answer.

    retire     no device is linked any more but those of volumes; unclaimed volumes are withdrawn by the manager
    wait       for volumes that somebody has or has had: people are told which
    stop       the DaemonSets go; each discoverer takes its rules and links away, and its report
    forget     reports of nodes that could not answer, the ConfigMaps, and last the finalizer

A node that is gone, or has not been ready for five minutes, is not waited for, whatever it has: when it comes back, its
next discoverer, of whichever LocalStorage, removes rules whose LocalStorage is gone, and keeps those of volumes. Until
then nothing of them is published, and a disk that a volume had is not offered before it was cleaned: its record has the
volume until then.

What if we die here: every look begins anew with what is there, and the order is such that nothing is needed that an
earlier step has taken away. The finalizer goes last, so nothing is left that nobody knows of.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from localpv import errors
from localpv.api.kinds.localstorage import LocalStorage
from localpv.api.kinds.meta import read_time
from localpv.api.kinds.volumes import PersistentVolume
from localpv.disk import labels
from localpv.manager.operator.informers import BY_STORAGE, Disk, Informers, Report
from localpv.manager.operator.node_groups import PODS_SECONDS, SETTLE_SECONDS, NodeGroups
from localpv.observe.recorder import Recorder
from localpv.runtime.clock import Clock
from localpv.runtime.controller import Done, LookAgain, Outcome

WAIT_SECONDS = 10.0
"""How often the volumes of a LocalStorage that is to go are looked at, besides whenever a disk of it changes."""

MOST_NAMES = 10
"""Volumes that one event names."""

MOST_LOOKED_AT = 50
"""Volumes that are looked at to find so many names: the API server is not asked for thousands."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a deletion waits for, as the condition Deleting says it."""

    reason: str
    message: str


Leave = Callable[[LocalStorage], Awaitable[bool]]


async def _pods_left(storage: LocalStorage) -> bool:
    return True


class Deletion:
    """Takes LocalStorages away, one step per call."""

    def __init__(
        self, informers: Informers, *, groups: NodeGroups, recorder: Recorder, clock: Clock, leave: Leave = _pods_left
    ) -> None:
        """`leave` takes away what serves a LocalStorage besides pods; whether it is gone."""
        self._seen, self._leave = informers, leave
        self._groups = groups
        self._recorder = recorder
        self._clock = clock
        self._storages = informers.client.objects(LocalStorage)
        self._volumes = informers.client.objects(PersistentVolume)
        self._reports = informers.client.objects(Report)
        self._waiting: dict[str, Waiting] = {}

    def waiting(self, storage: LocalStorage) -> Waiting:
        return self._waiting.get(storage.metadata.uid, Waiting("Retiring", "Its rules are being taken off the nodes."))

    async def step(self, storage: LocalStorage) -> Outcome:
        if labels.LOCAL_STORAGE not in storage.metadata.finalizers:
            return Done()
        await self._groups.retire_all(storage)
        if needing := self._groups.needing(storage):
            await self._tell(storage, needing)
            return LookAgain(after=WAIT_SECONDS)
        if (linked := self._groups.linked(storage)) and self._age(storage) < SETTLE_SECONDS:
            # As long as an agent works there, what is left of them goes by itself.
            self._wait(storage, "WithdrawingDevices", f"{len(linked)} devices still have their links.")
            return LookAgain(after=WAIT_SECONDS)
        maps, sets = self._groups.of(storage)
        stopped = [await self._groups.stop(storage, group, sets.get(group)) for group in {**maps, **sets}]
        if not all(stopped):
            self._wait(storage, "StoppingPods", "Pods on nodes are taking their rules away.")
            return LookAgain(after=PODS_SECONDS)
        if not await self._leave(storage):
            self._wait(storage, "RemovingRules", "The rules of this machine are being taken away.")
            return LookAgain(after=PODS_SECONDS)
        await self._forget_reports(storage)
        for config_map in maps.values():
            await self._groups.forget(config_map)
        await self._let_go(storage)
        self._waiting.pop(storage.metadata.uid, None)
        return Done()

    async def _tell(self, storage: LocalStorage, needing: list[Disk]) -> None:
        used = []
        for disk in sorted(needing, key=lambda each: each.key)[:MOST_LOOKED_AT]:
            assert disk.spec.volume is not None
            volume = await self._volumes.find(disk.spec.volume.name)
            if volume is not None and volume.spec.claim_ref is not None:
                used.append(f"{volume.metadata.name} ({volume.status.phase or 'Pending'}, {disk.spec.node_name})")
            if len(used) == MOST_NAMES:
                break
        if not used:
            self._wait(storage, "WithdrawingVolumes", f"{len(needing)} volumes that nobody has are being withdrawn.")
            return
        left = len(needing) - len(used)
        more = f" and perhaps {left} more" if left else ""
        message = (
            f"Waits for volumes in use: {', '.join(used)}{more}. Delete their claims, or keep the LocalStorage;"
            " deleting goes on by itself when the volumes are released and cleaned."
        )
        if self._wait(storage, "WaitingForVolumes", message):
            self._recorder.event(storage, "WaitingForVolumes", message, warning=True)

    async def _forget_reports(self, storage: LocalStorage) -> None:
        """What is left are reports of nodes whose discoverers could not end in peace."""
        left = [
            report
            for report in self._seen.reports.find(BY_STORAGE, storage.key)
            if report.spec.local_storage_uid == storage.metadata.uid
        ]
        for report in left:
            meta = report.metadata
            try:
                await self._reports.delete(meta.name, meta.namespace, uid=meta.uid)
            except errors.NotFound:
                continue
        if left:
            names = ", ".join(sorted(report.spec.node_name for report in left)[:MOST_NAMES])
            message = (
                f"Rules may be left on {len(left)} nodes that did not answer: {names}. No device of theirs is offered."
                f" {labels.RULES_LEFT}"
            )
            self._recorder.event(storage, "RulesMayBeLeft", message, warning=True)
            log.warning("rules may be left storage=%s nodes=%s", storage.key, names)

    async def _let_go(self, storage: LocalStorage) -> None:
        meta = storage.metadata
        left = [each for each in meta.finalizers if each != labels.LOCAL_STORAGE]
        changed = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": left or None}
        try:
            await self._storages.patch(meta.name, {"metadata": changed}, meta.namespace)
        except errors.NotFound:
            return
        log.info("let go storage=%s", storage.key)

    def _wait(self, storage: LocalStorage, reason: str, message: str) -> bool:
        """Note what is waited for; whether that is news."""
        waiting = Waiting(reason, message)
        news = self._waiting.get(storage.metadata.uid) != waiting
        self._waiting[storage.metadata.uid] = waiting
        return news

    def _age(self, storage: LocalStorage) -> float:
        since = storage.metadata.deletion_timestamp
        return (self._clock.now() - read_time(since)).total_seconds() if since else 0.0
