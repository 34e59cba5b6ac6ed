"""CSIStorageCapacity: what is free of each class on each node, so that kube-scheduler looks before it chooses.

One object for each class and pool, written when a reservation, a pool or a class changes. They are ours by their
labels: what is not wanted, or there twice, is deleted. The embedded engine's scheduler asks the ledger itself.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.csi import CSIStorageCapacity
from localpv.api.kinds.localpool import LocalPool
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import LabelSelector, StorageClass
from localpv.client.client import Client
from localpv.client.informer import Informer
from localpv.client.informer_factory import InformerFactory
from localpv.client.objects import Selection
from localpv.manager.provision import persistent_volume
from localpv.runtime.controller import Done, Outcome
from localpv.volume import pool_names
from localpv.volume.pool_ledger import PoolKey, PoolLedger, key_of

DRIVER_LABEL = f"{well_known.CSI_PREFIX}drivername"
MANAGED_BY_LABEL = f"{well_known.CSI_PREFIX}managed-by"
MANAGER = "localpv-manager"
DIGITS = 20


class Capacities:
    """Looks at one object by its name, which follows from class and pool."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        informers: InformerFactory,
        classes: Informer[StorageClass],
        ledger: PoolLedger,
    ) -> None:
        self._objects = client.objects(CSIStorageCapacity)
        self._namespace = namespace
        self._classes = classes
        self._ledger = ledger
        ours = f"{DRIVER_LABEL}={pool_names.DRIVER},{MANAGED_BY_LABEL}={MANAGER}"
        self._about: dict[str, tuple[str, PoolKey]] = {}
        """By name, the class and the pool that an object is about."""

        self.informer = informers.informer(CSIStorageCapacity, Selection(namespace=namespace, labels=ours))

    def follow(self, pool: LocalPool) -> Iterable[str]:
        """Names of the objects that are about a pool."""
        names = [name_of(class_name, pool) for class_name in pool.spec.class_names]
        self._about.update(zip(names, ((each, key_of(pool)) for each in pool.spec.class_names), strict=True))
        return names

    def of_class(self, class_name: str) -> Iterable[str]:
        return [name for name, (each, _) in self._about.items() if each == class_name]

    def of_pool(self, key: PoolKey) -> Iterable[str]:
        return [name for name, (_, each) in self._about.items() if each == key]

    async def step(self, name: str) -> Outcome:
        """Make one object as it should be; one that should not be goes."""
        wanted = self._wanted(name)
        known = self.informer.get(name, self._namespace)
        if wanted is None:
            self._about.pop(name, None)
            if known is not None:
                with contextlib.suppress(errors.NotFound):
                    await self._objects.delete(name, self._namespace, uid=known.metadata.uid)
                self.informer.deleted(known)
        elif known is None:
            self.informer.wrote(await self._objects.create(wanted))
        elif not _same(known, wanted):
            patch = {
                "metadata": {"uid": known.metadata.uid, "resourceVersion": known.metadata.resource_version},
                "capacity": wanted.capacity,
                "maximumVolumeSize": wanted.maximum_volume_size,
            }
            self.informer.wrote(await self._objects.patch(name, patch, self._namespace))
        return Done()

    def _wanted(self, name: str) -> CSIStorageCapacity | None:
        class_name, key = self._about.get(name, ("", PoolKey("", "")))
        pool, storage_class = self._ledger.pool(key), self._classes.get(class_name)
        if pool is None or class_name not in pool.spec.class_names:
            return None
        if storage_class is None or storage_class.provisioner != pool_names.DRIVER:
            return None
        return CSIStorageCapacity(
            metadata=ObjectMeta(
                name=name_of(class_name, pool),
                namespace=self._namespace,
                labels={DRIVER_LABEL: pool_names.DRIVER, MANAGED_BY_LABEL: MANAGER},
            ),
            node_topology=LabelSelector(match_labels={pool_names.TOPOLOGY: pool.spec.node_name}),
            storage_class_name=class_name,
            capacity=persistent_volume.size_text(self._ledger.free(pool)),
            maximum_volume_size=persistent_volume.size_text(self._ledger.largest(pool)),
        )


def name_of(class_name: str, pool: LocalPool) -> str:
    """A name that follows from class, node and pool, so that no object is there twice."""
    words = "\0".join((class_name, pool.spec.node_name, pool.spec.pool_name))
    return f"csisc-{hashlib.sha256(words.encode()).hexdigest()[:DIGITS]}"


def _same(known: CSIStorageCapacity, wanted: CSIStorageCapacity) -> bool:
    return (known.capacity, known.maximum_volume_size) == (wanted.capacity, wanted.maximum_volume_size)
