"""csi-sanity, the specification's own judge of a driver, over pools of files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.csi.driver import Driver
from tests.kubernetes import build

MIB = 1024 * 1024

NOT_OFFERED = (
    "ControllerPublishVolume",  # nothing is attached to a node: volumes are made on it
    "ControllerUnpublishVolume",
    "[Controller Server] volume lifecycle",
    "ModifyVolume",
    "volume attribute class",
    "GroupController",
    "StorageHealth",
    "accessibility requirements",
)
"""What the specification leaves to a driver and this one does not do; csi-sanity skips it by itself."""


@pytest.mark.parametrize("access", ["mount", "block"])
async def test_every_case_of_what_is_offered_passes(driver: Driver, place: Path, access: str) -> None:
    try:
        program = build.program("csi-sanity")
    except build.Missing as missing:
        pytest.skip(str(missing))
    parameters, report = place / "parameters.yaml", place / "report.json"
    # Online growth of ext4 needs a capability that not every root has; xfs needs volumes of 300 MiB.
    parameters.write_text("fsType: xfs\n")
    process = await asyncio.create_subprocess_exec(
        program,
        f"--csi.endpoint=unix://{driver.plugin.socket}",
        f"--csi.testvolumeaccesstype={access}",
        f"--csi.testvolumesize={320 * MIB}",
        f"--csi.testvolumeexpandsize={400 * MIB}",
        f"--csi.testvolumeparameters={parameters}",
        f"--csi.mountdir={driver.kubelet}/target",
        f"--csi.stagingdir={driver.kubelet}/staging",
        f"--ginkgo.json-report={report}",
        "--ginkgo.no-color",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    cases = [
        case
        for case in json.loads(report.read_text())[0]["SpecReports"]
        if case["LeafNodeType"] == "It" and case["State"] != "pending"
    ]
    named = {" ".join((*case["ContainerHierarchyTexts"], case["LeafNodeText"])): case["State"] for case in cases}
    failed = [name for name, state in named.items() if state not in ("passed", "skipped")]
    assert not failed, said.decode()[-20_000:]
    assert process.returncode == 0
    skipped = [name for name, state in named.items() if state == "skipped"]
    assert [name for name in skipped if not any(word in name for word in NOT_OFFERED)] == []
    assert len(named) - len(skipped) >= 76
    assert (await driver.call("ListVolumes")).get("entries", []) == []
    assert (await driver.call("ListSnapshots")).get("entries", []) == []
