"""Jobs that clean: made for orders that name one, deleted when nobody needs them. Over the real engine."""

# ruff: noqa: ASYNC110 - a test may look again and again, for a bounded time

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.manager.worlds import settings

from localpv.api import crds
from localpv.api.kinds.localdisk import (
    Cleaning,
    CleaningState,
    CleanOrder,
    DiskKind,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    VolumeMode,
)
from localpv.api.kinds.meta import ObjectMeta, resource_of
from localpv.api.kinds.workloads import Job
from localpv.client import client as clients
from localpv.client import config as connections
from localpv.client.client import Client
from localpv.config.settings import Configuration
from localpv.disk.records.api import ApiRecords
from localpv.engine.apiserver.server import ApiServer, Settings
from localpv.manager.release import jobs as cleaning_jobs
from localpv.manager.release.jobs import Jobs
from localpv.runtime.clock import SystemClock
from localpv.testing.api import FakeApi
from localpv.testing.waiting import PATIENCE_SECONDS, eventually

NAMESPACE, JOB = "kube-system", "cleanup-local-pv-1"


def agents() -> dict[str, Any]:
    """The DaemonSet of agents, as far as Jobs look at it."""
    labels = {"app": "agent"}
    container = {
        "name": "agent",
        "image": "localpv:1",
        "args": ["agent", "--listen-address=:8080"],
        "ports": [{"containerPort": 8080}],
        "livenessProbe": {"tcpSocket": {"port": 8080}},
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "state", "mountPath": "/var/lib/localpv"}],
    }
    volumes = [{"name": "state", "hostPath": {"path": "/var/lib/localpv"}}]
    spec = {"containers": [container], "volumes": volumes, "hostPID": True, "tolerations": [{"operator": "Exists"}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "localpv-agent", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }


def a_disk(name: str = "node-1-disk", **order: Any) -> LocalDisk:
    wanted = {"volume_name": "local-pv-1", "volume_uid": "u-1", "job": JOB} | order
    return LocalDisk(
        metadata=ObjectMeta(name=name),
        spec=LocalDiskSpec(
            node_name="node-1",
            storage_class_name="fast",
            entry="disk",
            path="/mnt/fast/disk",
            volume_mode=VolumeMode.BLOCK,
            volume=OfferedVolume(name="local-pv-1", uid="u-1"),
            clean=CleanOrder(**wanted),
        ),
        status=LocalDiskStatus(kind=DiskKind.BLOCK_DEVICE),
    )


class World:
    """An engine with the agents' DaemonSet, and what looks after Jobs in it."""

    def __init__(self, client: Client) -> None:
        self.client, clock = client, SystemClock()
        self.configuration = Configuration(use_job_for_cleaning=True, job_tolerations=({"key": "clean"},))
        self.records = ApiRecords(client, clock=clock)
        self.jobs = Jobs(
            client,
            namespace=NAMESPACE,
            agents="localpv-agent",
            image="",
            records=self.records,
            configuration=lambda: self.configuration,
            clock=clock,
        )
        self.untyped = client.untyped(Job.resource)

    async def seen(self, count: int) -> None:
        """Wait until so many Jobs are known to be there, and not on their way out."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(not job.metadata.deleting for job in self.jobs.informer.list()) != count:
                await asyncio.sleep(0.01)

    async def names(self) -> list[str]:
        return sorted(job["metadata"]["name"] for job in (await self.untyped.list()).items)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    server = ApiServer(Settings(data=tmp_path, port=0, durable=False))
    await server.start()
    try:
        async with clients.connect(connections.load(server.kubeconfig), component="test") as client:
            await client.untyped(resource_of("CustomResourceDefinition", "apiextensions.k8s.io")).create(
                crds.load("localdisks")
            )
            await eventually(lambda: server.kinds.find("localpv.dev", "v1alpha1", "localdisks"), what="they are served")
            await client.untyped(resource_of("DaemonSet", "apps")).create(agents())
            made = World(client)
            following = asyncio.create_task(made.jobs.informer.run())
            await made.jobs.informer.wait_synced()
            yield made
            following.cancel()
            await asyncio.wait({following})
    finally:
        await server.stop()


async def test_order_gets_a_job_that_is_an_agent_for_one_disk_on_its_node(world: World) -> None:
    disk = a_disk()
    assert await world.jobs.step(disk.key, disk) is None
    await world.seen(1)
    job = await world.untyped.get(JOB, NAMESPACE)
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"] == ["agent", "--clean", disk.key]
    assert container["image"] == "localpv:1"
    assert container["securityContext"] == {"privileged": True}
    assert not {"ports", "livenessProbe"} & set(container)
    assert (spec["nodeName"], spec["restartPolicy"], spec["hostPID"]) == ("node-1", "OnFailure", True)
    assert [each.get("key") for each in spec["tolerations"]] == [None, "clean"]
    assert job["metadata"]["labels"]["pvuuid"] == "u-1"
    assert job["spec"]["template"]["metadata"]["labels"].get("app") is None


async def test_second_look_makes_no_second_job(world: World) -> None:
    disk = a_disk()
    await world.jobs.step(disk.key, disk)
    assert await world.jobs.step(disk.key, disk) in (None, cleaning_jobs.FULL_SECONDS)
    await world.seen(1)
    assert await world.jobs.step(disk.key, disk) is None
    assert await world.names() == [JOB]


@pytest.mark.parametrize("end", ["verified", "called off", "left to the agent", "record gone"])
async def test_job_goes_when_its_order_is_done_or_taken_back(world: World, end: str) -> None:
    disk: LocalDisk | None = a_disk()
    assert disk is not None
    key = disk.key
    await world.jobs.step(key, disk)
    await world.seen(1)
    if end == "verified":
        done = Cleaning(volume_uid="u-1", state=CleaningState.VERIFIED)
        disk = msgspec.structs.replace(disk, status=LocalDiskStatus(cleaning=done))
    elif end == "called off":
        disk = msgspec.structs.replace(disk, spec=msgspec.structs.replace(disk.spec, clean=None))
    elif end == "left to the agent":
        disk = a_disk(job="")
    else:
        disk = None
    await world.jobs.step(key, disk)
    await world.seen(0)


async def test_job_that_ended_without_a_clean_disk_is_made_anew_later(world: World) -> None:
    disk = a_disk()
    await world.jobs.step(disk.key, disk)
    await world.seen(1)
    first = (await world.untyped.get(JOB, NAMESPACE))["metadata"]["uid"]
    now = "2026-01-01T00:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("FailureTarget", "Failed")]
    await world.untyped.patch(
        JOB, {"status": {"conditions": conditions, "startTime": now}}, NAMESPACE, subresource="status"
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (world.jobs.informer.list() and world.jobs.informer.list()[0].status.get("conditions")):
            await asyncio.sleep(0.01)
    assert await world.jobs.step(disk.key, disk) == cleaning_jobs.FAILED_SECONDS
    await world.seen(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await world.names():
            await asyncio.sleep(0.01)
    await world.jobs.step(disk.key, disk)
    await world.seen(1)
    assert (await world.untyped.get(JOB, NAMESPACE))["metadata"]["uid"] != first


async def test_job_of_an_earlier_volume_makes_room(world: World) -> None:
    await world.jobs.step("node-1-disk", a_disk())
    await world.seen(1)
    later = a_disk(volume_uid="u-2")
    await world.jobs.step(later.key, later)
    await world.seen(0)


async def test_no_more_jobs_run_on_a_node_than_cleanings_are_allowed_at_once(world: World) -> None:
    world.configuration = Configuration(use_job_for_cleaning=True, cleanings_at_once=1)
    first, second = a_disk(), a_disk("node-1-other", job="cleanup-local-pv-2")
    await world.jobs.step(first.key, first)
    await world.seen(1)
    assert await world.jobs.step(second.key, second) == cleaning_jobs.FULL_SECONDS
    assert await world.names() == [JOB]


async def test_without_agents_to_look_like_the_order_goes_back_to_the_agent(world: World) -> None:
    await world.client.untyped(resource_of("DaemonSet", "apps")).delete("localpv-agent", NAMESPACE)
    disk = await world.records.create(a_disk())
    await world.jobs.step(disk.key, disk)
    found = await world.records.get(disk.key)
    assert found is not None and found.spec.clean is not None
    assert (found.spec.clean.job, found.spec.clean.volume_uid) == ("", "u-1")
    assert await world.names() == []


@pytest.mark.parametrize(
    ("everywhere", "in_class", "kind", "job"),
    [
        (True, None, DiskKind.BLOCK_DEVICE, JOB),
        (True, False, DiskKind.BLOCK_DEVICE, ""),
        (False, True, DiskKind.BLOCK_DEVICE, JOB),
        (False, None, DiskKind.BLOCK_DEVICE, ""),
        (True, True, DiskKind.DIRECTORY, ""),
        (True, True, DiskKind.MOUNT_POINT, ""),
    ],
)
def test_devices_are_cleaned_in_jobs_where_class_or_configuration_say_so(
    everywhere: bool, in_class: bool | None, kind: DiskKind, job: str
) -> None:
    fast = settings(use_job_for_cleaning=in_class)
    configuration = Configuration(classes={"fast": fast}, use_job_for_cleaning=everywhere)
    disk = msgspec.structs.replace(a_disk(), status=LocalDiskStatus(kind=kind))
    assert cleaning_jobs.wanted(disk, configuration) == job
    assert configuration.cleans_in_jobs is (everywhere or bool(in_class))


@pytest.mark.parametrize("wanted", [True, False])
async def test_while_no_jobs_are_known_only_an_order_of_one_that_nobody_wants_is_left_to_the_agent(
    wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[LocalDisk] = []

    async def leave(disk: LocalDisk) -> None:
        left.append(disk)

    configuration = Configuration(use_job_for_cleaning=wanted)
    client = Client(FakeApi(), field_manager="test")
    jobs = Jobs(
        client,
        namespace=NAMESPACE,
        agents="localpv-agent",
        image="",
        records=ApiRecords(client, clock=SystemClock()),
        configuration=lambda: configuration,
        clock=SystemClock(),
    )
    monkeypatch.setattr(jobs, "_leave_to_agent", leave)
    assert await jobs.step("gone", None) is None
    assert await jobs.step("other", a_disk("other", job="")) is None
    assert left == []
    assert await jobs.step("disk", a_disk("disk")) == cleaning_jobs.FULL_SECONDS
    assert [disk.metadata.name for disk in left] == ([] if wanted else ["disk"])
