"""What the mount table says about paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.host.model.devices import DeviceNumber
from localpv.host.mounts import Mount, MountTable

POINTS = ("/", "/mnt", "/mnt/a", "/mnt/ab", "/mnt/a/deep/er", "/mnt/a")
TABLE = MountTable(
    tuple(
        Mount(mount_id=number, device=DeviceNumber(0, number), root="/", mount_point=Path(point))
        for number, point in enumerate(POINTS)
    )
)


@pytest.mark.parametrize(
    ("path", "below"),
    [
        ("/mnt/a", ["/mnt/a/deep/er"]),
        ("/mnt/a/deep", ["/mnt/a/deep/er"]),
        ("/mnt/ab", []),
        ("/mn", []),
        ("/", ["/mnt", "/mnt/a", "/mnt/ab", "/mnt/a/deep/er", "/mnt/a"]),
    ],
)
def test_mounts_below_a_path_are_those_in_it_and_not_those_at_it(path: str, below: list[str]) -> None:
    assert [str(mount.mount_point) for mount in TABLE.below(Path(path))] == below
    at = [point for point in POINTS if point == path]
    assert sorted(str(mount.mount_point) for mount in TABLE.at_or_below(Path(path))) == sorted([*at, *below])


@pytest.mark.parametrize(
    ("path", "number"),
    [("/etc", 0), ("/mnt/abc", 1), ("/mnt/ab/x", 3), ("/mnt/a/deep/er", 4), ("/mnt/a/deep", 5), ("/mnt/a", 5)],
)
def test_file_lies_in_the_nearest_mount_and_in_the_last_where_several_are_stacked(path: str, number: int) -> None:
    mount = TABLE.containing(Path(path))
    assert mount is not None and mount.mount_id == number


def test_path_of_an_empty_table_lies_nowhere() -> None:
    assert MountTable().containing(Path("/mnt")) is None
