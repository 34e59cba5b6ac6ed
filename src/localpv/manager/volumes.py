"""PersistentVolumes as the manager sees and changes them: every change names the very object it was decided for."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.localdisk import LocalDisk, Phase
from localpv.api.kinds.volumes import PersistentVolume
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer import Handler
from localpv.client.informer_factory import InformerFactory
from localpv.client.objects import Selection
from localpv.config.settings import Configuration
from localpv.disk import labels as disk_labels
from localpv.runtime.clock import Clock

NO_VOLUME = "localpv-no-such-volume"
"""Changing it shows what we may do to volumes, and does nothing."""

BY_PATH = "path"
LOOK_EVERY_SECONDS = 10.0
"""As often as the classic provisioner looks."""

log = logging.getLogger(__name__)


def is_unclaimed(volume: PersistentVolume) -> bool:
    """Whether nobody has the volume, and nobody has it reserved."""
    return volume.status.phase == "Available" and volume.spec.claim_ref is None


def is_unused(volume: PersistentVolume) -> bool:
    """Whether the volume itself shows that nobody has had it since it was made, or since it was last cleaned."""
    claim = volume.spec.claim_ref
    return (
        volume.status.phase in ("", "Pending", "Available")
        and (claim is None or not claim.uid)
        and well_known.BOUND_BY_CONTROLLER not in volume.metadata.annotations
    )


def is_held(volume: PersistentVolume) -> bool:
    """Whether the volume cannot go before we let it."""
    return disk_labels.FINALIZER in volume.metadata.finalizers


def is_held_alone(volume: PersistentVolume) -> bool:
    """Whether the volume is gone as soon as we let it go."""
    return volume.metadata.finalizers == (disk_labels.FINALIZER,)


def is_withdrawn(disk: LocalDisk) -> bool:
    """Whether the agent has looked and found that an offer of the disk must not stand."""
    looked = (Phase.PUBLISHED, Phase.UNAVAILABLE, Phase.MISSING)
    return disk.status.eligible is False and disk.status.phase in looked


def is_retired(disk: LocalDisk, configuration: Configuration) -> bool:
    """Whether the LocalStorage that the disk was found by, or its group, is going. Agents hear of it later than we do,
    and may have ended by then."""
    settings = configuration.classes.get(disk.spec.storage_class_name)
    return settings is not None and settings.device_filter(disk.status.matched_by).retired


class Volumes(Protocol):
    """The volumes of one node, or of all."""

    @property
    def holds(self) -> bool:
        """Whether volumes may be held by our finalizer: who cannot change volumes could never let them go again."""

    def seen(self, name: str) -> PersistentVolume | None:
        """The volume as it was seen last, which may be a moment ago."""

    def at(self, path: str) -> Sequence[PersistentVolume]:
        """Volumes with this path, of any node, as they were seen last."""

    async def find(self, name: str) -> PersistentVolume | None:
        """The volume as it is now."""

    async def create(self, volume: Object) -> PersistentVolume:
        """A new volume, held from the start where that is allowed; AlreadyExists when its name is taken."""

    async def delete(self, volume: PersistentVolume) -> bool:
        """Delete the volume if it still is as it was read; Conflict when not. Whether it is gone already: others may
        hold it by their finalizers."""

    async def free(self, volume: PersistentVolume) -> None:
        """Take the claim off the volume if it still is as it was read; Conflict when not."""

    async def take_over(self, volume: PersistentVolume, node_label: str) -> PersistentVolume:
        """Label (unless with an empty one) and hold the volume if it still is as it was read; Conflict when not. Where
        that is not allowed, the volume is looked after without."""

    async def let_go(self, volume: PersistentVolume) -> PersistentVolume:
        """Take our finalizer off if the volume still is as it was read; Conflict when not. The volume as it is then,
        or was last."""

    async def annotate(self, volume: PersistentVolume, annotation: str, value: str | None) -> None:
        """Set an annotation, or take it off, if the volume still is as it was read; Conflict when not."""

    async def explain(self, volume: PersistentVolume, reason: str, message: str) -> None:
        """Say in the volume's status what is wrong with its disk; nothing with two empty texts."""


class ApiVolumes:
    """The volumes at an API server, of one node when its label is given. What is written here is seen at once."""

    def __init__(self, client: Client, *, informers: InformerFactory, clock: Clock, node_label: str = "") -> None:
        self._objects = client.objects(PersistentVolume)
        labels = f"{disk_labels.NODE}={node_label}" if node_label else disk_labels.NODE
        self.informer = informers.informer(PersistentVolume, Selection(labels=labels))
        self.informer.add_indexers({BY_PATH: _path_of})

        self.holds = True
        self._clock = clock
        self._strays: dict[str, PersistentVolume] = {}
        """Volumes of ours that we may not label, and so do not see among the watched ones."""

        self._handlers: list[Handler[PersistentVolume]] = []

    def add_event_handler(self, handler: Handler[PersistentVolume]) -> None:
        """Call the handler for every change of a volume."""
        self._handlers.append(handler)
        self.informer.add_event_handler(handler)

    def seen(self, name: str) -> PersistentVolume | None:
        return self.informer.get(name) or self._strays.get(name)

    def at(self, path: str) -> Sequence[PersistentVolume]:
        strays = [volume for volume in self._strays.values() if path in _path_of(volume)]
        return [*self.informer.find(BY_PATH, path), *strays]

    async def follow_strays(self) -> None:
        """Look after volumes without a label until cancelled; each goes its way once it was cleaned and made anew."""
        while True:
            await self._clock.sleep(LOOK_EVERY_SECONDS)
            for name, old in [*self._strays.items()]:
                try:
                    new = await self._objects.find(name)
                except errors.LocalpvError as error:
                    log.warning("volume cannot be read volume=%s reason=%s", name, error)
                    break
                if new is None or new.metadata.labels.get(disk_labels.NODE):
                    del self._strays[name]
                elif new.metadata.resource_version == old.metadata.resource_version:
                    continue
                else:
                    self._strays[name] = new
                for handler in self._handlers:
                    handler(old, new)

    async def find(self, name: str) -> PersistentVolume | None:
        return await self._objects.find(name)

    async def learn_rights(self) -> bool:
        """Find out whether volumes may be changed, without changing one; whether that is news."""
        allowed = True
        try:
            await self._objects.patch(NO_VOLUME, {"metadata": {"finalizers": None}}, dry_run=True)
        except errors.Forbidden:
            allowed = False
        except errors.NotFound:
            pass  # we were allowed to ask
        before, self.holds = self.holds, allowed
        return allowed != before

    async def create(self, volume: Object) -> PersistentVolume:
        if self.holds:
            # In the very request: there is no moment at which the volume could be used and be gone without a trace.
            volume = {**volume, "metadata": {**volume["metadata"], "finalizers": [disk_labels.FINALIZER]}}
        return self.informer.wrote(await self._objects.create_from(volume))

    async def delete(self, volume: PersistentVolume) -> bool:
        meta = volume.metadata
        try:
            left = await self._objects.delete(meta.name, uid=meta.uid, resource_version=meta.resource_version)
        except errors.NotFound:
            left = None
        if left is None:
            self.informer.deleted(volume)
        else:
            self.informer.wrote(left)
        return left is None

    async def free(self, volume: PersistentVolume) -> None:
        # The disk is clean: that an earlier claim was bound by the cluster says nothing about it any more.
        gone = (
            {"annotations": {well_known.BOUND_BY_CONTROLLER: None}}
            if well_known.BOUND_BY_CONTROLLER in volume.metadata.annotations
            else {}
        )
        await self._patch(volume, {"metadata": gone, "spec": {"claimRef": None}})

    async def take_over(self, volume: PersistentVolume, node_label: str) -> PersistentVolume:
        meta = volume.metadata
        changes: Object = {}
        if node_label and meta.labels.get(disk_labels.NODE) != node_label:
            changes["labels"] = {disk_labels.NODE: node_label}
        if self.holds and not is_held(volume) and not meta.deleting:
            changes["finalizers"] = [*meta.finalizers, disk_labels.FINALIZER]
        if not changes:
            return volume
        try:
            return await self._patch(volume, {"metadata": changes})
        except errors.Forbidden:
            # With the permissions of the classic provisioner volumes can be made and deleted, but not changed.
            if "labels" in changes:
                self._strays[volume.key] = volume
            if "finalizers" in changes:
                log.warning("volumes are not held any more volume=%s", volume.key)
                self.holds = False
            return volume

    async def let_go(self, volume: PersistentVolume) -> PersistentVolume:
        if not is_held(volume):
            return volume
        left = [each for each in volume.metadata.finalizers if each != disk_labels.FINALIZER]
        try:
            return await self._patch(volume, {"metadata": {"finalizers": left or None}})
        except errors.NotFound:
            # By somebody's force.
            return msgspec.structs.replace(volume, metadata=msgspec.structs.replace(volume.metadata, finalizers=()))

    async def annotate(self, volume: PersistentVolume, annotation: str, value: str | None) -> None:
        await self._patch(volume, {"metadata": {"annotations": {annotation: value}}})

    async def explain(self, volume: PersistentVolume, reason: str, message: str) -> None:
        try:
            await self._patch(volume, {"status": {"reason": reason or None, "message": message or None}}, "status")
        except errors.Forbidden as error:
            log.debug("volume not explained volume=%s reason=%s", volume.key, error)

    async def _patch(self, volume: PersistentVolume, patch: Object, subresource: str = "") -> PersistentVolume:
        meta = volume.metadata
        same = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        body = patch | {"metadata": {**patch.get("metadata", {}), **same}}
        return self.informer.wrote(await self._objects.patch(meta.name, body, subresource=subresource))


def _path_of(volume: PersistentVolume) -> Iterable[str]:
    return (volume.spec.local.path,) if volume.spec.local is not None else ()
