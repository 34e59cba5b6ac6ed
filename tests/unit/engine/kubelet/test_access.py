"""Logs and commands, as whoever answers kubectl asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.engine.kubelet.builders import record

from localpv import errors
from localpv.api.pod_logs import PodLogOptions
from localpv.engine.apiserver import pod_subresources
from localpv.engine.kubelet.access import PodAccess
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.records import Record, Records
from localpv.host.containers import Bundle
from localpv.testing.fake_containers import FakeContainers

POD: dict[str, Any] = {"metadata": {"name": "pod", "uid": "uid"}, "status": {}}


@pytest.fixture
def paths(tmp_path: Path) -> KubeletPaths:
    return KubeletPaths(tmp_path, tmp_path)


@pytest.fixture
def records(paths: KubeletPaths) -> Records:
    return Records(paths)


@pytest.fixture
def containers() -> FakeContainers:
    return FakeContainers()


@pytest.fixture
def access(records: Records, containers: FakeContainers, paths: KubeletPaths) -> pod_subresources.PodAccess:
    return PodAccess(records=records, containers=containers, paths=paths)


def ran(records: Records, one: Record, text: str) -> Bundle:
    records.save(one)
    bundle = records.bundle(one)
    bundle.log.parent.mkdir(parents=True, exist_ok=True)
    bundle.log.write_text(f"2026-01-01T00:00:00.000000000+00:00 stdout F {text}\n")
    return bundle


async def log(access: pod_subresources.PodAccess, **options: Any) -> str:
    return b"".join([chunk async for chunk in access.logs(POD, "main", PodLogOptions(**options))]).decode()


async def test_log_is_that_of_the_present_attempt_and_of_the_one_before(
    access: pod_subresources.PodAccess, records: Records
) -> None:
    ran(records, record(code=1), "first")
    ran(records, record(attempt=1), "second")
    assert await log(access) == "second\n"
    assert await log(access, previous=True) == "first\n"


async def test_attempt_that_has_ended_is_both_the_present_and_the_previous(
    access: pod_subresources.PodAccess, records: Records
) -> None:
    ran(records, record(code=1), "only")
    assert await log(access) == "only\n"
    assert await log(access, previous=True) == "only\n"


async def test_log_that_is_followed_ends_with_the_container(
    access: pod_subresources.PodAccess, records: Records
) -> None:
    one = record()
    ran(records, one, "line")
    heard = []
    async for chunk in access.logs(POD, "main", PodLogOptions(follow=True)):
        heard.append(chunk)
        records.save(msgspec.structs.replace(record(code=0), started_at=one.started_at))
    assert heard == [b"line\n"]


async def test_container_that_has_not_begun_has_no_log(access: pod_subresources.PodAccess) -> None:
    with pytest.raises(errors.BadRequest, match="waiting to start: ContainerCreating"):
        await log(access)
    with pytest.raises(errors.BadRequest, match="previous terminated container"):
        await log(access, previous=True)


async def test_command_runs_in_a_container_that_runs(
    access: pod_subresources.PodAccess, records: Records, containers: FakeContainers
) -> None:
    with pytest.raises(errors.BadRequest, match="is not running"):
        await access.exec(POD, "main", ("ls",), stdin=False, tty=False)
    bundle = ran(records, record(), "line")
    await containers.create(bundle)
    await containers.start(bundle)
    containers.answers["ls", "/"] = (3, b"bin\n")
    process = await access.exec(POD, "main", ("ls", "/"), stdin=False, tty=False)
    assert [chunk async for chunk in process.output()] == [(1, b"bin\n")]
    assert await process.wait() == 3
    containers.end(bundle.id, 0)
    with pytest.raises(errors.BadRequest, match="is not running"):
        await access.exec(POD, "main", ("ls",), stdin=False, tty=False)
