"""The classes that rules files of a node say: damaged ones say what they said before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localpv.agent.udev import rules_file
from localpv.agent.udev.headers import Headers
from localpv.api.kinds.localstorage import DeviceGroup
from localpv.config.local_storage import GroupDevices, NodeConfiguration

pytestmark = pytest.mark.seed("OPR-7")


def write(folder: Path, *classes: str) -> list[Path]:
    """Rules files of a LocalStorage for each class."""
    configurations = [
        NodeConfiguration(
            namespace="localpv-system",
            name=f"of-{name}",
            uid=f"uid-{name}",
            created="2026-01-01T00:00:00Z",
            groups={
                "00000001": GroupDevices(
                    index=0,
                    generation=1,
                    devices=(DeviceGroup(storage_class_name=name, device_names=("sd?",), min_size="1Gi"),),
                )
            },
        )
        for name in classes
    ]
    made = []
    for name, text in sorted(rules_file.files(configurations, namespace="localpv-system").items()):
        (folder / name).write_text(text)
        made.append(folder / name)
    return made


async def test_all_files_of_ours_are_read_and_no_others(tmp_path: Path) -> None:
    write(tmp_path, "fast", "slow")
    (tmp_path / "99-kubernetes-local-storage-foreign.rules").write_text('SUBSYSTEM=="block", SYMLINK+="x"\n')
    (tmp_path / "60-other.rules").write_bytes(b"\xff")
    found, problems = await Headers(tmp_path).classes()

    assert (set(found), problems) == ({"fast", "slow"}, ())
    assert found["fast"].from_local_storage
    assert found["fast"].host_dir == "/dev/disk/kubernetes-local-storage/fast/filesystem"
    assert found["fast"].device_filters["localpv-system/of-fast nodes[0].devices[0]"].min_bytes == 1 << 30


async def test_files_of_another_engine_of_the_machine_are_not_ours(tmp_path: Path) -> None:
    write(tmp_path, "fast")
    assert await Headers(tmp_path, engine="0123abcd").classes() == ({}, ())


async def test_machine_without_the_folder_has_no_classes(tmp_path: Path) -> None:
    assert await Headers(tmp_path / "none").classes() == ({}, ())


@pytest.mark.parametrize("damage", ["cut", "emptied", "replaced", "not text", "too long", "a link", "a folder"])
async def test_damaged_file_says_what_it_said_before_and_is_named(tmp_path: Path, damage: str) -> None:
    fast, _ = write(tmp_path, "fast", "slow")
    headers = Headers(tmp_path)
    before, _ = await headers.classes()
    text = fast.read_text()
    fast.unlink()
    match damage:
        case "cut":
            fast.write_text(text[:200])
        case "emptied":
            fast.write_text("")
        case "replaced":
            fast.write_text("# somebody else's\n")
        case "not text":
            fast.write_bytes(b"\xff\xfe")
        case "too long":
            fast.write_text(text + "#" * (2 << 20))
        case "a link":
            fast.symlink_to(tmp_path / "elsewhere")
        case "a folder":
            fast.mkdir()

    after, problems = await headers.classes()
    assert after == before
    assert [problem.place for problem in problems] == [str(fast)]
    assert set((await Headers(tmp_path).classes())[0]) == {"slow"}  # who starts now has nothing to go by


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
async def test_folder_that_may_not_be_read_takes_nothing_away(tmp_path: Path) -> None:
    write(tmp_path, "fast")
    headers = Headers(tmp_path)
    before, _ = await headers.classes()
    tmp_path.chmod(0)
    try:
        after, problems = await headers.classes()
    finally:
        tmp_path.chmod(0o700)
    assert after == before and problems


async def test_class_goes_with_its_file(tmp_path: Path) -> None:
    fast, _ = write(tmp_path, "fast", "slow")
    headers = Headers(tmp_path)
    await headers.classes()
    fast.unlink()
    assert set((await headers.classes())[0]) == {"slow"}
