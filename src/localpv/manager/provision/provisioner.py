"""From a claim to a volume in a pool, one step per call.

1.  Read what claim and class ask for; refuse what no pool can give, with an event on the claim.
2.  Choose the pool: of the node that the scheduler chose, or of the one with most room.
3.  Write the PoolVolume. That is the reservation: from now on the ledger counts it.
4.  Wait until the agent has made the volume.
5.  Create the PersistentVolume, which names the claim by its UID.

Every step reads what is there and is safe to repeat: names follow from the UID of the claim, so a manager that comes
after a crash finds what was begun and goes on, and a PoolVolume whose claim is gone is withdrawn.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from localpv import errors
from localpv.api import well_known
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localpool import LocalPool, PoolClaim, PoolPhase, PoolSource, PoolVolume, PoolVolumeSpec
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import DataSource, PersistentVolumeClaim, StorageClass
from localpv.client.informer import Informer
from localpv.config.settings import Configuration
from localpv.disk import labels
from localpv.manager.provision import persistent_volume, placement, request
from localpv.manager.provision.assume_cache import AssumeCache
from localpv.manager.provision.placement import NoPlace
from localpv.manager.provision.request import Request
from localpv.manager.provision.writes import Writes
from localpv.observe.claim_events import PROVISIONING_FAILED
from localpv.observe.recorder import Notice, Recorder
from localpv.runtime.controller import Done, LookAgain, Outcome
from localpv.volume import fit, pool_ledger, pool_names
from localpv.volume.pool_ledger import PoolLedger

NO_ROOM = "RESOURCE_EXHAUSTED"
PROVISIONING = "Provisioning"
PROVISIONED = "ProvisioningSucceeded"
CLAIM_KIND = PersistentVolumeClaim.resource.kind

REFUSED_SECONDS = 300.0
"""When a claim is looked at again that was refused though nothing has changed that we watch."""

log = logging.getLogger(__name__)


class Provisioner:
    """Looks at one volume that has no PersistentVolume yet."""

    def __init__(
        self,
        *,
        writes: Writes,
        ledger: PoolLedger,
        assumed: AssumeCache,
        classes: Informer[StorageClass],
        nodes: Informer[Node],
        configuration: Callable[[], Configuration],
        recorder: Recorder,
    ) -> None:
        self._writes = writes
        self._ledger = ledger
        self._classes = classes
        self._nodes = nodes
        self._configuration = configuration
        self._recorder = recorder
        self._assumed = assumed
        self.waiting: dict[str, str] = {}
        """Names of volumes that wait for room, and their class; room that comes free may help them."""

    async def step(self, name: str) -> Outcome:
        """One step for the volume of this name, which has no PersistentVolume as far as is known."""
        self.waiting.pop(name, None)
        order, claim = self._writes.orders.get(name), self._writes.claim_of(name)
        if order is None and name in self._assumed:
            order = await self._writes.order_now(name)  # the answer to its creation got lost
        self._assumed.forget(name)
        if claim is None or claim.metadata.deleting or claim.spec.volume_name not in ("", name):
            return await self._abandon(order) if order is not None else Done()
        if claim.spec.volume_name or not _is_ours(claim):
            return Done()
        storage_class = self._classes.get(fit.class_of(claim))
        if storage_class is None or storage_class.provisioner != pool_names.DRIVER:
            return Done()  # looked at again when the class comes
        selected = claim.metadata.annotations.get(well_known.SELECTED_NODE, "")
        waits = fit.waits_for_consumer(storage_class)
        if order is not None:
            return await self._follow(order, claim, storage_class, selected if waits else order.spec.node_name)
        if waits and not selected:
            return Done()
        return await self._order(name, claim, storage_class, selected if waits else "")

    # Before there is an order.

    async def _order(
        self, name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, selected: str
    ) -> Outcome:
        try:
            wanted = self._read(claim, storage_class)
            if wanted is None:
                return Done()
            only, source = self._source(claim, wanted)
        except request.Refused as refused:
            hint = f"; {refused.hint}" if refused.hint else ""
            self._tell(claim, PROVISIONING_FAILED, f"{refused.message}{hint}", warning=True)
            return LookAgain(after=REFUSED_SECONDS)
        pool = placement.choose(
            storage_class,
            wanted.size_bytes,
            ledger=self._ledger,
            node_of=self._nodes.get,
            selected=selected,
            assumed=self._assumed,
            pool_name=wanted.pool_name,
            only=only,
        )
        if isinstance(pool, NoPlace):
            await self._no_place(name, claim, storage_class, pool.why)
            return Done()
        size = pool_ledger.needed(pool, wanted.size_bytes)
        order = self._build(name, claim, wanted, pool, size, source)
        with self._assumed.assuming(name, pool_ledger.key_of(pool), size):
            try:
                await self._writes.create_order(order)
            except errors.AlreadyExists:
                if await self._writes.order_now(name) is None:
                    raise
        log.info("reserved volume=%s node=%s pool=%s bytes=%d", name, pool.spec.node_name, pool.spec.pool_name, size)
        self._tell(
            claim, PROVISIONING, f"a volume is being made in pool {pool.spec.pool_name} of node {pool.spec.node_name}"
        )
        return Done()

    def _read(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Request | None:
        """What the claim asks for; None when somebody else fills volumes from what it names."""
        wanted = request.read(claim, storage_class, self._configuration().classes.get(storage_class.key))
        source = wanted.source
        if source is not None and not (source.kind == CLAIM_KIND and not source.api_group):
            return None
        return wanted

    def _source(self, claim: PersistentVolumeClaim, wanted: Request) -> tuple[LocalPool | None, PoolSource | None]:
        """The pool in which the volume must be, and what it is filled with; Refused when that cannot be."""
        if wanted.source is None:
            return None, None
        order = self._cloned(claim, wanted.source)
        pool = self._ledger.pool(pool_ledger.key_of(order))
        if pool is None or not pool.status.snapshots:
            raise request.Refused(f"pool {order.spec.pool_name} of node {order.spec.node_name} makes no copies")
        if order.spec.volume_mode != wanted.volume_mode:
            raise request.Refused(f"claim {wanted.source.name} has volumeMode {order.spec.volume_mode}")
        if order.status.size_bytes > pool_ledger.needed(pool, wanted.size_bytes):
            size = persistent_volume.size_text(order.status.size_bytes)
            raise request.Refused(f"claim {wanted.source.name} has {size}: a copy must have at least as much")
        return pool, PoolSource(volume=order.metadata.name)

    def _cloned(self, claim: PersistentVolumeClaim, source: DataSource) -> PoolVolume:
        if source.namespace not in (None, "", claim.metadata.namespace):
            raise request.Refused("a claim of another namespace cannot be copied")
        found = self._writes.claims.get(source.name, claim.metadata.namespace)
        if found is None or found.status.phase != fit.BOUND:
            raise request.Refused(f"claim {source.name}, which is to be copied, is not bound")
        order = self._writes.orders.get(found.spec.volume_name)
        if order is None or order.metadata.deleting or order.status.phase != PoolPhase.READY:
            raise request.Refused(f"claim {source.name}, which is to be copied, has no volume of a pool that is ready")
        return order

    def _build(
        self,
        name: str,
        claim: PersistentVolumeClaim,
        wanted: Request,
        pool: LocalPool,
        size: int,
        source: PoolSource | None,
    ) -> PoolVolume:
        meta = claim.metadata
        return PoolVolume(
            metadata=ObjectMeta(
                name=name,
                labels={labels.NODE: labels.node_label(pool.spec.node_name)},
                finalizers=(labels.POOL_VOLUME, labels.PROTECTED),
            ),
            spec=PoolVolumeSpec(
                node_name=pool.spec.node_name,
                pool_name=pool.spec.pool_name,
                class_name=wanted.class_name,
                size_bytes=size,
                volume_mode=wanted.volume_mode,
                fs_type=wanted.fs_type,
                wipe_method=wanted.wipe_method,
                source=source,
                claim=PoolClaim(namespace=meta.namespace, name=meta.name, uid=meta.uid),
            ),
        )

    # With an order.

    async def _follow(
        self, order: PoolVolume, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str
    ) -> Outcome:
        status = order.status
        if order.metadata.deleting or order.spec.node_name != node:
            # The scheduler thinks of another node, or the agent had no room: the name is free when the old one is gone.
            await self._writes.withdraw(order)
        elif status.phase == PoolPhase.READY:
            await self._publish(order, claim, storage_class)
        elif status.phase == PoolPhase.FAILED and status.code == NO_ROOM:
            await self._writes.withdraw(order)
            await self._no_place(order.key, claim, storage_class, f"node {node}: {status.message}")
        elif status.code:
            # The agent tries again where that can help; nothing is given up that may be half made.
            self._tell(claim, PROVISIONING_FAILED, f"node {node}: {status.code}: {status.message}", warning=True)
        return Done()

    async def _publish(self, order: PoolVolume, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        try:
            wanted = request.read(claim, storage_class, self._configuration().classes.get(storage_class.key))
        except request.Refused as refused:
            # The class was changed since; what was reserved goes with the claim.
            self._tell(claim, PROVISIONING_FAILED, refused.message, warning=True)
            return
        try:
            made = await self._writes.create_volume(persistent_volume.build(order, claim, storage_class, wanted))
        except errors.AlreadyExists:
            return  # made before a crash: the watch tells
        log.info("provisioned volume=%s uid=%s claim=%s", made.key, made.metadata.uid, claim.key)
        self._tell(claim, PROVISIONED, f"Successfully provisioned volume {made.key}")

    async def _abandon(self, order: PoolVolume) -> Outcome:
        """Nobody wants the volume: the claim is gone, or has another one. Asked anew, for what follows is a wipe."""
        if order.key != pool_names.volume_name(order.spec.claim.uid) or labels.RETAINED in order.metadata.annotations:
            return Done()
        claim = await self._writes.claim_now(order)
        if claim is not None and not claim.metadata.deleting and claim.spec.volume_name in ("", order.key):
            return LookAgain(after=1.0)  # it is there after all, and the watch will tell
        if await self._writes.volume_now(order.key) is not None:
            return LookAgain(after=1.0)  # the PersistentVolume decides
        log.info("abandoned volume=%s claim=%s/%s", order.key, order.spec.claim.namespace, order.spec.claim.name)
        await self._writes.withdraw(order)
        return Done()

    async def _no_place(self, name: str, claim: PersistentVolumeClaim, storage_class: StorageClass, why: str) -> None:
        self._tell(claim, PROVISIONING_FAILED, why, warning=True)
        self.waiting[name] = storage_class.key
        if fit.waits_for_consumer(storage_class) and well_known.SELECTED_NODE in claim.metadata.annotations:
            # The scheduler chooses anew.
            await self._writes.change_claim(claim, {"metadata": {"annotations": {well_known.SELECTED_NODE: None}}})

    def _tell(self, claim: PersistentVolumeClaim, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.event_once(claim, Notice(reason=reason, message=message, warning=warning))


def _is_ours(claim: PersistentVolumeClaim) -> bool:
    """Whether whoever binds has asked for a volume of ours."""
    return provisioner_of(claim) == pool_names.DRIVER


def provisioner_of(claim: PersistentVolumeClaim) -> str:
    annotations = claim.metadata.annotations
    return annotations.get(well_known.STORAGE_PROVISIONER) or annotations.get(well_known.BETA_STORAGE_PROVISIONER, "")
