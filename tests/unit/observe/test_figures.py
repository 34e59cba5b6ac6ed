"""What is counted under which name: dashboards of the classic provisioner go on working, and ours find theirs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.volume.samples import volume

from localpv.api.kinds.localdisk import (
    Cleaning,
    CleaningState,
    CleanOrder,
    DiskCondition,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
    Phase,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.volumes import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)
from localpv.observe.cleaning import Cleanings
from localpv.observe.disks import DisksOfNode, Volumes
from localpv.observe.process import ProcessMetrics
from localpv.observe.publishing import Publications
from localpv.observe.queues import Queues
from localpv.observe.registry import Registry
from localpv.observe.requests import Requests

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def samples(registry: Registry) -> dict[str, float]:
    lines = [line for line in registry.text().splitlines() if not line.startswith("#")]
    return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines)}


def a_disk(
    entry: str, *, volume: bool = False, clean: CleanOrder | None = None, mode: str = "Filesystem", **status: Any
) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name=entry),
        spec=LocalDiskSpec(
            node_name="node-1",
            storage_class_name="fast",
            entry=entry,
            path=f"/mnt/{entry}",
            volume_mode=mode,
            volume=OfferedVolume(name="pv", uid="uid-1") if volume else None,
            clean=clean,
        ),
        status=LocalDiskStatus(**status),
    )


def of_node(*disks: LocalDisk, ignored: tuple[tuple[str, str], ...] = (), hung: int = 0) -> dict[str, float]:
    registry = Registry()
    DisksOfNode(registry, disks=lambda: disks, ignored=lambda: ignored, hung=lambda: hung, now=lambda: NOW)
    return samples(registry)


# -- requests and queues -----------------------------------------------------------------------------------------------


def test_requests_are_counted_as_clients_of_kubernetes_count_them() -> None:
    registry = Registry()
    requests = Requests(registry, server="https://10.0.0.1:6443/prefix")
    requests.answered("GET", "/api/v1/nodes/a", code=200, seconds=0.01)
    requests.answered("GET", "/api/v1/nodes/a", code=0, seconds=10.0)
    found = samples(registry)
    assert found['rest_client_requests_total{code="200",method="GET",host="10.0.0.1:6443"}'] == 1
    assert found['rest_client_requests_total{code="<error>",method="GET",host="10.0.0.1:6443"}'] == 1
    assert found['rest_client_request_duration_seconds_count{verb="GET",host="10.0.0.1:6443"}'] == 2


@pytest.mark.parametrize(
    ("method", "path", "code", "counted", "failed"),
    [
        ("POST", "/api/v1/persistentvolumes", 201, ("create", 1), 0),
        ("POST", "/api/v1/persistentvolumes", 409, ("create", 1), 1),
        ("DELETE", "/api/v1/persistentvolumes/pv-1", 0, ("delete", 1), 1),
        ("PATCH", "/api/v1/persistentvolumes/pv-1", 200, ("create", 0), 0),
        ("DELETE", "/api/v1/persistentvolumes/pv-1/status", 200, ("delete", 0), 0),
        ("POST", "/api/v1/namespaces/a/persistentvolumeclaims", 201, ("create", 0), 0),
    ],
)
def test_volumes_asked_for_are_counted_under_the_classic_name(
    method: str, path: str, code: int, counted: tuple[str, int], failed: int
) -> None:
    registry = Registry()
    Requests(registry, server="https://x").answered(method, path, code=code, seconds=0.1)
    found, prefix = samples(registry), "local_volume_provisioner_apiserver_requests"
    assert found[f'{prefix}_total{{method="{counted[0]}"}}'] == counted[1]
    assert found[f'{prefix}_failed_total{{method="{counted[0]}"}}'] == failed
    assert found.get(f'{prefix}_duration_seconds_count{{method="{counted[0]}"}}', 0) == counted[1]


def test_queues_are_counted_by_name_and_failures_by_kind() -> None:
    registry = Registry()
    observer = Queues(registry)("look")
    observer.depth(3)
    observer.taken(0.2)
    observer.done(0.1)
    observer.retried("unexpected")
    found = samples(registry)
    assert found['workqueue_depth{name="look"}'] == 3
    assert found['workqueue_queue_duration_seconds_count{name="look"}'] == 1
    assert found['workqueue_work_duration_seconds_sum{name="look"}'] == 0.1
    assert found['workqueue_retries_total{name="look"}'] == 1
    assert found['localpv_reconcile_errors_total{controller="look",kind="unexpected"}'] == 1
    assert found['localpv_reconcile_errors_total{controller="look",kind="error"}'] == 0


# -- cleaning and publishing -------------------------------------------------------------------------------------------


@pytest.mark.seed("CFG-6")
def test_cleanings_have_latency_and_errors_under_the_classic_names() -> None:
    registry = Registry()
    cleanings = Cleanings(registry)
    disk, order = a_disk("a", mode="Block"), CleanOrder(volume_name="pv", volume_uid="u")
    cleanings.started(disk, order, "dd-zero")
    cleanings.failed(disk, order, "dd-zero", reason="NotClean", message="old data is left")
    cleanings.verified(disk, order, "dd-zero", seconds=7200.0, size_bytes=1200 << 30)
    found, prefix = samples(registry), "local_volume_provisioner_persistentvolume_delete"
    assert found[f'{prefix}_failed_total{{mode="Block",type="process"}}'] == 1
    labels = 'mode="Block",type="process",capacity="1000G",cleanup_command="dd-zero"'
    assert found[f"{prefix}_duration_seconds_sum{{{labels}}}"] == 7200
    # The classic bounds end at ten seconds, which tells nothing about a disk that takes hours.
    assert found[f'{prefix}_duration_seconds_bucket{{{labels},le="3600"}}'] == 0
    assert found[f'{prefix}_duration_seconds_bucket{{{labels},le="10800"}}'] == 1
    assert found['localpv_clean_verified_bytes_total{mode="Block",method="dd-zero"}'] == 1200 << 30
    assert found['localpv_clean_failed_total{method="dd-zero",reason="NotClean"}'] == 1


def test_refusals_to_wipe_are_there_from_the_start_and_count_as_failures() -> None:
    registry = Registry()
    cleanings = Cleanings(registry)
    name = 'localpv_clean_refused_total{reason="IdentityChanged"}'
    assert samples(registry)[name] == 0
    order = CleanOrder(volume_name="pv", volume_uid="u")
    cleanings.refused(a_disk("a"), order, reason="IdentityChanged", message="another disk")
    found = samples(registry)
    assert found[name] == 1
    failures = "local_volume_provisioner_persistentvolume_delete_failed_total"
    assert found[f'{failures}{{mode="Filesystem",type="process"}}'] == 1


@pytest.mark.seed("CFG-6")
def test_volumes_made_and_deleted_have_latency_and_errors_under_the_classic_names() -> None:
    registry = Registry()
    told = Publications(registry)
    block, files = a_disk("a", mode="Block"), a_disk("b")
    pv, claim = volume(phase="Released"), PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace="default"))
    told.created(block, seconds=0.02)
    told.refused(block, "quota")
    told.ordered(block, OfferedVolume(name="pv", uid="u"))
    told.deleted(block, pv)
    told.recycled(files, pv)
    told.withdrawn(files, pv)
    told.volume_lost(pv)
    told.volume_lost(pv, failed=True)
    told.claim_lost(pv, claim)
    told.claim_lost(pv, claim, failed=True)
    found, prefix = samples(registry), "local_volume_provisioner_persistentvolume"
    assert found[f'{prefix}_discovery_total{{mode="Block"}}'] == 1
    assert found[f'{prefix}_discovery_duration_seconds_bucket{{mode="Block",le="0.025"}}'] == 1
    assert found[f'{prefix}_delete_total{{mode="Block",type="process"}}'] == 1
    assert found['localpv_publish_failed_total{mode="Block"}'] == 1
    assert found['localpv_clean_ordered_total{mode="Block"}'] == 1
    assert found['localpv_volumes_recycled_total{mode="Filesystem"}'] == 1
    assert found['localpv_volumes_withdrawn_total{mode="Filesystem"}'] == 1
    lost = "local_volume_node_cleanup_persistentvolume"
    assert found[f'{lost}_delete_total{{phase="Released"}}'] == 1
    assert found[f'{lost}_delete_failed_total{{phase="Released"}}'] == 1
    assert (found[f"{lost}claim_delete_total"], found[f"{lost}claim_delete_failed_total"]) == (1, 1)


def test_cleaning_in_a_job_is_told_by_the_manager_when_its_volume_goes() -> None:
    registry = Registry()
    order = CleanOrder(volume_name="pv", volume_uid="u", job="cleanup-pv")
    cleaning = Cleaning(
        volume_uid="u",
        state=CleaningState.VERIFIED,
        method=("/scripts/shred.sh", "2"),
        bytes_total=600 << 30,
        started_at="2026-01-01T10:00:00Z",
        finished_at="2026-01-01T12:00:00Z",
    )
    Publications(registry).deleted(a_disk("a", mode="Block", clean=order, cleaning=cleaning), volume())
    found, prefix = samples(registry), "local_volume_provisioner_persistentvolume_delete"
    assert found[f'{prefix}_total{{mode="Block",type="job"}}'] == 1
    labels = 'mode="Block",type="job",capacity="500G",cleanup_command="/scripts/shred.sh"'
    assert found[f"{prefix}_duration_seconds_sum{{{labels}}}"] == 7200


# -- the state of disks ------------------------------------------------------------------------------------------------


def test_disks_are_counted_by_class_and_phase_and_every_phase_is_shown() -> None:
    found = of_node(
        a_disk("a", phase=Phase.AVAILABLE, capacity_bytes=100),
        a_disk("b", phase=Phase.AVAILABLE, capacity_bytes=50),
        a_disk("c", phase=Phase.UNAVAILABLE, eligible=False, reason="Mounted"),
        ignored=(("fast", "NameNotMatched"), ("fast", "NameNotMatched")),
        hung=1,
    )
    assert found['localpv_disks{storage_class="fast",phase="Available"}'] == 2
    assert found['localpv_disk_bytes{storage_class="fast",phase="Available"}'] == 150
    assert found['localpv_disks{storage_class="fast",phase="Missing"}'] == 0
    assert found['localpv_disks_unfit{reason="Mounted"}'] == 1
    assert found['localpv_discovery_ignored_entries{storage_class="fast",reason="NameNotMatched"}'] == 2
    assert found["localpv_host_hung_calls"] == 1


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": Phase.PUBLISHED, "eligible": False, "reason": "IdentityChanged"}, 1),
        ({"phase": Phase.MISSING, "eligible": False, "reason": "WasMountPoint"}, 1),
        (
            {
                "phase": Phase.CLEAN_FAILED,
                "cleaning": Cleaning(volume_uid="u", state=CleaningState.FAILED, reason="IdentityChanged"),
            },
            1,
        ),
        ({"phase": Phase.PUBLISHED, "eligible": True, "reason": "Available"}, 0),
        ({"phase": Phase.MISSING, "eligible": False, "reason": "Gone"}, 0),
    ],
)
def test_disk_that_is_not_the_recorded_one_is_a_metric(status: dict[str, Any], expected: int) -> None:
    assert of_node(a_disk("a", volume=True, **status))["localpv_disks_identity_mismatch"] == expected


def test_cleanings_under_way_are_counted_with_how_far_they_are_and_how_long_they_wait() -> None:
    order = CleanOrder(volume_name="pv", volume_uid="u", requested_at="2026-01-01T11:00:00Z")
    younger = CleanOrder(volume_name="pv", volume_uid="u", requested_at="2026-01-01T11:59:00Z")
    oldest_but_done = CleanOrder(volume_name="pv", volume_uid="u", requested_at="2026-01-01T01:00:00Z")
    unreadable = CleanOrder(volume_name="pv", volume_uid="u", requested_at="yesterday")
    running = Cleaning(volume_uid="u", state=CleaningState.RUNNING, bytes_done=30, bytes_total=100)
    found = of_node(
        a_disk("a", clean=order, cleaning=running),
        a_disk("b", clean=younger, cleaning=Cleaning(volume_uid="u", state=CleaningState.FAILED)),
        a_disk("c", clean=oldest_but_done, cleaning=Cleaning(volume_uid="u", state=CleaningState.VERIFIED)),
        a_disk("d", clean=unreadable),
        a_disk("e", cleaning=Cleaning(volume_uid="old", state=CleaningState.FAILED)),
    )
    prefix = "local_volume_provisioner_proctable"
    assert [found[f"{prefix}_{state}"] for state in ("running", "failed", "succeeded")] == [1, 1, 1]
    assert (found["localpv_cleaning_done_bytes"], found["localpv_cleaning_bytes"]) == (30, 100)
    assert found["localpv_clean_oldest_order_seconds"] == 3600


def test_volumes_are_counted_by_phase_with_what_keeps_disks_from_being_offered() -> None:
    registry = Registry()
    trouble = DiskCondition(type="Offered", status="False", reason="NoStorageClass")
    disks = [
        a_disk("a", volume=True, mode="Block", capacity_bytes=100),
        a_disk("b", capacity_bytes=50),
        a_disk("c", conditions=(trouble,)),
    ]
    volumes = [
        PersistentVolume(
            metadata=ObjectMeta(name=phase),
            spec=PersistentVolumeSpec(storage_class_name="fast"),
            status=PersistentVolumeStatus(phase=phase),
        )
        for phase in ("Bound", "Released", "")
    ]
    Volumes(registry, disks=lambda: disks, volumes=lambda: volumes)
    found = samples(registry)
    assert found['local_volume_provisioner_persistentvolume_capacity_bytes{mode="Block"}'] == 100
    assert found['local_volume_provisioner_persistentvolume_capacity_bytes{mode="Filesystem"}'] == 0
    phases = {
        phase: found[f'localpv_volumes{{storage_class="fast",phase="{phase}"}}'] for phase in ("Bound", "Available")
    }
    assert phases == {"Bound": 1, "Available": 0}
    assert found['localpv_volumes{storage_class="fast",phase="Pending"}'] == 1
    assert found['localpv_disks_not_offered{reason="NoStorageClass"}'] == 1


def test_process_tells_its_memory_time_and_files() -> None:
    registry = Registry()
    ProcessMetrics(registry, component="agent")
    found = samples(registry)
    assert found["process_resident_memory_bytes"] > 10 << 20
    assert found["process_cpu_seconds_total"] > 0
    assert 3 <= found["process_open_fds"] <= found["process_max_fds"]
    assert 0 <= datetime.now(UTC).timestamp() - found["process_start_time_seconds"] < 86400
    assert "# TYPE process_cpu_seconds_total counter\n" in registry.text()
