"""Cleaning in Jobs: pods that come for one disk and go when it is clean.

The Job runs the agent's own program for one LocalDisk, with the agent's rights on that node, so identity, locks, state
and verification are the same as when the agent cleans. Only the manager may make Jobs: an agent that could, could run
anything anywhere. What the pod looks like is taken from the agents' DaemonSet, so it sees what an agent sees.

What if we die? The order names the Job before there is one, and the agent keeps off such an order. Whoever comes next
finds the Job by its name, or makes it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from localpv import errors
from localpv.api.kinds.localdisk import DiskKind, LocalDisk
from localpv.api.kinds.meta import resource_of
from localpv.api.kinds.workloads import Job
from localpv.api.objects import Object
from localpv.client.client import Client
from localpv.client.informer import SharedInformer
from localpv.client.objects import Selection
from localpv.config.settings import Configuration
from localpv.disk import labels as disk_labels
from localpv.disk.records import Records
from localpv.manager.release import decision
from localpv.runtime.clock import Clock

BACKOFF_LIMIT = 20
"""How often the kubelet starts a cleaner again that crashes, before the Job is given up and made anew."""

KEPT_SECONDS = 3600
"""How long Kubernetes keeps a Job that ended, if we never come to delete it."""

FULL_SECONDS = 5.0
FAILED_SECONDS = 30.0

_NOT_IN_A_JOB = ("ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")

log = logging.getLogger(__name__)


def name_for(volume: str) -> str:
    """The classic provisioner's name, so that two of whatever kind never work on one volume."""
    return f"cleanup-{volume}"


def wanted(disk: LocalDisk, configuration: Configuration) -> str:
    """The name of the Job for a disk that is about to be ordered clean; empty when its agent is to do it."""
    settings = configuration.classes.get(disk.spec.storage_class_name)
    asked = settings.use_job_for_cleaning if settings is not None else None
    in_job = configuration.use_job_for_cleaning if asked is None else asked
    if not in_job or disk.status.kind != DiskKind.BLOCK_DEVICE or disk.spec.volume is None:
        return ""
    return name_for(disk.spec.volume.name)


class Jobs:
    """Makes the Jobs that orders name and deletes those that nobody needs; run `informer` beside it."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        agents: str,
        image: str,
        records: Records,
        configuration: Callable[[], Configuration],
        clock: Clock,
    ) -> None:
        self._jobs = client.untyped(Job.resource)
        self._daemon_sets = client.untyped(resource_of("DaemonSet", "apps"))
        self._namespace, self._agents, self._image = namespace, agents, image
        self._records, self._configuration = records, configuration
        self.informer: SharedInformer[Job] = SharedInformer(
            client.objects(Job),
            clock=clock,
            selection=Selection(namespace=namespace, labels=disk_labels.CLEANING),
            indexes={"disk": lambda job: (disk_of(job),), "node": lambda job: (_node_of(job),)},
        )

    async def step(self, name: str, disk: LocalDisk | None) -> float | None:
        """See to the Job of one disk; in how many seconds to look again."""
        job = disk.spec.clean.job if disk is not None and disk.spec.clean is not None else ""
        if not self.informer.has_synced:
            if disk is not None and job and not self._configuration().cleans_in_jobs:
                # No Jobs are wanted any more. One that still runs holds the lock of its disk.
                await self._leave_to_agent(disk)
            return FULL_SECONDS if job else None
        if disk is None or not job or decision.is_verified(disk):
            for over in self.informer.find("disk", name):
                await self._delete(over)
            return None
        found = self.informer.get(job, self._namespace)
        if found is None:
            return await self._make(disk, job)
        if found.metadata.deleting:
            return None  # we are called when it is gone
        order = disk.spec.clean
        assert order is not None
        if disk_of(found) != name or found.metadata.labels.get("pvuuid") != order.volume_uid:
            log.warning("job of an earlier cleaning is in the way job=%s disk=%s", job, name)
            await self._delete(found)
        elif ended := _ended(found):
            # It ended, and the disk is not verified: crashed too often, or killed with its node.
            log.warning("job ended without a clean disk job=%s disk=%s outcome=%s", job, name, ended)
            await self._delete(found)
            return FAILED_SECONDS
        return None

    async def _make(self, disk: LocalDisk, name: str) -> float | None:
        node, at_once = disk.spec.node_name, self._configuration().cleanings_at_once
        if sum(not _ended(job) for job in self.informer.find("node", node)) >= at_once:
            return FULL_SECONDS
        try:
            agents = await self._daemon_sets.get(self._agents, self._namespace)
        except (errors.NotFound, errors.Forbidden) as error:
            # Better cleaned by the agent than not at all.
            log.warning("no job can be made, the agent cleans disk=%s reason=%s", disk.key, error)
            await self._leave_to_agent(disk)
            return None
        template = agents["spec"]["template"]
        tolerations = self._configuration().job_tolerations
        try:
            await self._jobs.create(
                job_for(disk, name, template, namespace=self._namespace, image=self._image, tolerations=tolerations)
            )
        except errors.AlreadyExists:
            return FULL_SECONDS  # one that is not ours, or that we have not seen yet
        log.info("made job=%s disk=%s node=%s", name, disk.key, node)
        return None

    async def _leave_to_agent(self, disk: LocalDisk) -> None:
        assert disk.spec.clean is not None
        order = msgspec.structs.replace(disk.spec.clean, job="")
        await self._records.write_spec(disk, msgspec.structs.replace(disk.spec, clean=order))

    async def _delete(self, job: Job) -> None:
        meta = job.metadata
        if meta.deleting:
            return
        try:
            await self._jobs.delete(meta.name, meta.namespace, uid=meta.uid, propagation="Background")
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one is there
        log.info("deleted job=%s disk=%s", meta.name, disk_of(job))


def disk_of(job: Job) -> str:
    return job.metadata.annotations.get(disk_labels.DISK, "")


def _node_of(job: Job) -> str:
    return job.metadata.annotations.get(disk_labels.NODE_NAME, "")


def _ended(job: Job) -> str:
    """How a Job ended; empty while it has not."""
    for condition in job.status.get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return ""


def job_for(
    disk: LocalDisk, name: str, template: Object, *, namespace: str, image: str, tolerations: Sequence[Object]
) -> Object:
    """The Job that cleans a disk: an agent's pod, on the disk's node, for this one order."""
    order = disk.spec.clean
    assert order is not None
    spec: dict[str, Any] = copy.deepcopy(template["spec"])
    container = {key: value for key, value in spec["containers"][0].items() if key not in _NOT_IN_A_JOB}
    container |= {"name": "cleaner", "args": ["agent", "--clean", disk.metadata.name]}
    if image:
        container["image"] = image
    spec["containers"] = [container]
    spec["restartPolicy"] = "OnFailure"
    # Named, not selected: a label with the name of a node need not have it, and no scheduler has a say here.
    spec["nodeName"] = disk.spec.node_name
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    labels = {disk_labels.CLEANING: "true", "pvuuid": order.volume_uid}
    # Not the labels of the agents: their DaemonSet would take the pod for one of its own, and end it.
    pod = {
        "metadata": {"labels": {disk_labels.CLEANING: "true"}, "annotations": {disk_labels.DISK: disk.metadata.name}},
        "spec": spec,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "annotations": {
                disk_labels.DISK: disk.metadata.name,
                disk_labels.NODE_NAME: disk.spec.node_name,
                "pv": order.volume_name,
            },
        },
        "spec": {
            "backoffLimit": BACKOFF_LIMIT,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": pod,
        },
    }
