"""Logs do not grow without end."""

from __future__ import annotations

from pathlib import Path

from tests.unit.engine.kubelet.builders import record

from localpv.engine.kubelet import logs
from localpv.engine.kubelet.logs import LogRotation
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.records import Records
from localpv.testing.clock import FakeClock
from localpv.testing.fake_containers import FakeContainers


async def test_long_log_is_put_aside_and_the_oldest_goes(tmp_path: Path) -> None:
    records, containers, clock = Records(KubeletPaths(tmp_path, tmp_path)), FakeContainers(), FakeClock()
    one = record()
    records.save(one)
    bundle = records.bundle(one)
    bundle.log.parent.mkdir(parents=True)
    rotator = LogRotation(containers=containers, records=records, clock=clock, most=100, files=3)
    bundle.log.write_text("short")
    await rotator.look()
    assert logs.older(bundle.log) == []
    for number in range(5):
        bundle.log.write_text(str(number) * 200)
        await clock.advance(1)
        await rotator.look()
        assert bundle.log.read_text() == ""
    kept = [path.read_text()[0] for path in logs.older(bundle.log)]
    assert kept == ["3", "4"]
    assert containers.journal == ["reopen main.0"] * 5


async def test_log_that_was_put_aside_just_before_a_crash_is_begun_anew(tmp_path: Path) -> None:
    records, containers = Records(KubeletPaths(tmp_path, tmp_path)), FakeContainers()
    one = record()
    records.save(one)
    records.bundle(one).log.parent.mkdir(parents=True)
    await LogRotation(containers=containers, records=records, clock=FakeClock()).look()
    assert containers.journal == ["reopen main.0"]
