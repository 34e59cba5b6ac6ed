"""The StorageClasses of LocalStorages.

A class that is there already is used as it is, whoever made it. One that we made goes when no LocalStorage names it and
no volume of it is left.

What if we die here: a class is made in one request that also says whose it is, and deleted only as the very object that
was looked at. Between two of them nothing is half done.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import ClassVar

import msgspec

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.localstorage import LocalStorage
from localpv.api.kinds.meta import Kind, Part, resource_of
from localpv.api.kinds.volumes import StorageClass
from localpv.api.resources import Resource
from localpv.disk import labels
from localpv.manager.operator.informers import Informers
from localpv.manager.operator.objects import NodeObjects
from localpv.observe.recorder import Recorder
from localpv.runtime.controller import Done, LookAgain, Outcome

LOOK_AGAIN_SECONDS = 60.0
"""How often a class that nobody names is looked at while volumes of it are left, should nothing tell of their end."""

WAITS = "WaitForFirstConsumer"

log = logging.getLogger(__name__)


class _VolumeSpec(Part, frozen=True, kw_only=True):
    storage_class_name: str = ""


class _Volume(Kind, frozen=True, kw_only=True):
    """A PersistentVolume: its class."""

    resource: ClassVar[Resource] = resource_of("PersistentVolume")
    shared: ClassVar[tuple[str, ...]] = (*Kind.shared, "spec.storage_class_name")

    spec: _VolumeSpec = _VolumeSpec()


def named_by(storage: LocalStorage) -> Iterable[str]:
    """All classes that a LocalStorage means, each once."""
    devices = (group.storage_class_name for nodes in storage.spec.nodes for group in nodes.devices)
    return dict.fromkeys((*storage.spec.storage_classes, *devices))


def is_ours(storage_class: StorageClass) -> bool:
    """Whether the operator made it, and so may delete it."""
    meta = storage_class.metadata
    return well_known.MANAGED_BY in meta.labels and labels.LOCAL_STORAGE in meta.annotations


class Classes:
    """Makes classes and takes them away."""

    def __init__(
        self,
        informers: Informers,
        *,
        objects: NodeObjects,
        recorder: Recorder,
        is_configured: Callable[[str], bool],
    ) -> None:
        """`is_configured` tells whether a class is also in use outside of LocalStorages."""
        self._seen = informers
        self._untyped = informers.client.untyped(StorageClass.resource)
        self._classes = informers.client.objects(StorageClass)
        self._volumes = informers.client.objects(_Volume)
        self._objects = objects
        self._recorder = recorder
        self._is_configured = is_configured
        self.kept: set[str] = set()
        """Classes that nobody names any more, and that are there for their volumes."""

    async def ensure(self, storage: LocalStorage) -> None:
        """Make the classes that are missing."""
        for name in named_by(storage):
            if (present := self._seen.classes.get(name)) is None:
                try:
                    made = await self._untyped.create(self._objects.storage_class(name, made_for=storage.key))
                except errors.AlreadyExists:
                    present = await self._classes.find(name)
                else:
                    present = msgspec.convert(made, StorageClass)
                    log.info("made class class=%s storage=%s", name, storage.key)
            if present is not None and (wrong := _unsuitable(present)):
                message = f"StorageClass {name} is used as it is, but {wrong}."
                self._recorder.event(storage, "UnsuitableClass", message, warning=True)

    async def remove_unused(self, name: str) -> Outcome:
        """Delete a class of ours that nothing needs any more, one class per call."""
        self.kept.discard(name)
        present = self._seen.classes.get(name)
        if present is None or not is_ours(present) or self._is_named(name):
            return Done()
        if self._is_configured(name):
            return LookAgain(after=LOOK_AGAIN_SECONDS)
        async for page in self._volumes.pages():
            if any(volume.spec.storage_class_name == name for volume in page.items):
                self.kept.add(name)
                return LookAgain(after=LOOK_AGAIN_SECONDS)
        meta = present.metadata
        try:
            await self._classes.delete(name, uid=meta.uid, resource_version=meta.resource_version)
        except errors.NotFound:
            return Done()
        log.info("deleted class class=%s", name)
        return Done()

    def _is_named(self, name: str) -> bool:
        return any(name in named_by(storage) for storage in self._seen.storages.list())


def _unsuitable(present: StorageClass) -> str:
    if present.provisioner != well_known.NO_PROVISIONER:
        return f"its provisioner is {present.provisioner}, which makes volumes of its own"
    if present.volume_binding_mode != WAITS:
        return f"its volumeBindingMode is not {WAITS}: claims are bound before it is known where their pods can run"
    return ""
