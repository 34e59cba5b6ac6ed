"""Pools in storageClassMap: what they mean, and everything that is refused."""

from __future__ import annotations

import pytest

from localpv.config import reading
from localpv.config.pools import PoolSettings

GIB = 1024**3


def read(text: str) -> reading.Loaded:
    return reading.read({"storageClassMap": text})


def problem(text: str) -> str:
    loaded = read(text)
    assert loaded.config is None, loaded.config
    return "; ".join(map(str, loaded.problems))


def pool(text: str) -> PoolSettings:
    loaded = read(f"fast: {{pool: {{{text}}}}}")
    assert loaded.config is not None, loaded.problems
    found = loaded.config.classes["fast"].pool
    assert found is not None
    return found


def test_a_pool_of_files_has_a_directory_and_a_size() -> None:
    assert pool("kind: file, directory: /var/pool, size: 500Gi") == PoolSettings(
        name="pool", kind="file", directory="/var/pool", size_bytes=500 * GIB
    )
    assert pool("kind: file, directory: /srv/Fast_Disk").name == "fast-disk"
    assert pool("kind: file, directory: /srv/x, name: nvme").name == "nvme"


def test_a_class_with_a_pool_finds_no_disks() -> None:
    loaded = read("fast: {pool: {kind: file, directory: /var/pool}, fsType: xfs, reclaim: Retain}")
    assert loaded.config is not None
    settings = loaded.config.classes["fast"]
    assert (settings.folders, settings.host_dir, settings.fs_type, settings.reclaim) == ((), "", "xfs", "Retain")


def test_pools_of_lvm_have_a_group() -> None:
    assert pool("kind: lvm, volumeGroup: Vg_1, devices: [/dev/sdb, /dev/sdc], stripes: 2") == PoolSettings(
        name="vg-1", kind="lvm", volume_group="Vg_1", devices=("/dev/sdb", "/dev/sdc"), stripes=2
    )
    assert pool("kind: lvm-thin, volumeGroup: vg1, overprovision: 2.5, size: 1Ti") == PoolSettings(
        name="vg1",
        kind="lvm-thin",
        volume_group="vg1",
        thin_pool="localpv-thin",
        overprovision=2.5,
        size_bytes=1024 * GIB,
    )
    assert pool("kind: lvm-thin, volumeGroup: vg1, thinPool: fast").name == "vg1-fast"


def test_a_group_can_have_a_thick_pool_and_a_thin_one() -> None:
    two = "a: {pool: {kind: lvm, volumeGroup: vg1}}\nb: {pool: {kind: lvm-thin, volumeGroup: vg1}}"
    assert "another pool named vg1" in problem(two)
    assert read(two.replace("lvm-thin,", "lvm-thin, name: thin,")).config is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fast: {pool: {kind: lvm}}", "has no volumeGroup"),
        ("fast: {pool: {kind: lvm, volumeGroup: -a}}", "no name that LVM takes"),
        ("fast: {pool: {kind: lvm, volumeGroup: snapshots}}", "LVM keeps for itself"),
        ("fast: {pool: {kind: lvm, volumeGroup: ../vg1}}", "no name that LVM takes"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, thinPool: t}}", "unknown key"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, devices: [sdb]}}", "is no device"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, devices: [/dev/../etc/passwd]}}", "is no device"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, devices: ['/dev/a,/dev/b']}}", "is no device"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, devices: [/dev/a, /dev/a]}}", "names a device twice"),
        ("fast: {pool: {kind: lvm, volumeGroup: vg1, stripes: 0}}", "must be from 1 to 64"),
        ("fast: {pool: {kind: lvm-thin, volumeGroup: vg1, overprovision: 0.5}}", "must be a number from 1.0"),
        ("fast: {pool: {kind: lvm-thin, volumeGroup: vg1, overprovision: inf}}", "must be a number from 1.0"),
        ("fast: {pool: {kind: lvm-thin, volumeGroup: vg1, overprovision: 1e9}}", "must be a number from 1.0"),
        ("fast: {pool: {directory: /var/pool}}", "storageClassMap.fast.pool: has no kind"),
        ("fast: {pool: {kind: zfs}}", "storageClassMap.fast.pool.kind"),
        ("fast: {pool: {kind: file}}", "has no directory"),
        ("fast: {pool: {kind: file, directory: pool}}", "full path"),
        ("fast: {pool: {kind: file, directory: /var}}", "belongs to the system"),
        ("fast: {pool: {kind: file, directory: /var/../etc}}", "must not contain .."),
        ("fast: {pool: {kind: file, directory: /var/pool, sise: 1Gi}}", "did you mean size?"),
        ("fast: {pool: {kind: file, directory: /var/pool, size: much}}", "must be a size such as 500Gi"),
        ("fast: {pool: {kind: file, directory: /var/pool, size: -1Gi}}", "must be a size such as 500Gi"),
        ("fast: {pool: {kind: file, directory: /var/pool, size: 0}}", "must be a size such as 500Gi"),
        ("fast: {pool: {kind: file, directory: /var/pool, name: A_b}}", "no name of a pool"),
        ("fast: {pool: {kind: file, directory: /srv/§}}", "give it one with name"),
        ("fast: {pool: [file]}", "must be a map"),
        ("fast: {pool: {kind: file, directory: /var/pool}, hostDir: /mnt}", "hostDir: is for classes that find disks"),
        ("fast: {pool: {kind: file, directory: /var/pool}, reclaim: Recycle}", "reclaim"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(text: str, said: str) -> None:
    assert said in problem(text)


def test_two_classes_may_have_one_pool_and_then_say_the_same_of_it() -> None:
    one = "a: {pool: {kind: file, directory: /var/pool, size: 1Gi}}\n"
    assert read(one + "b: {pool: {kind: file, directory: /var/pool, size: 1Gi}, fsType: xfs}").config is not None
    assert "say the same" in problem(one + "b: {pool: {kind: file, directory: /var/pool, size: 2Gi}}")
    assert "another pool named" in problem(one + "b: {pool: {kind: file, directory: /srv/pool, size: 1Gi}}")
    assert "cannot be two pools" in problem(one + "b: {pool: {kind: file, name: b, directory: /var/pool, size: 1Gi}}")


@pytest.mark.parametrize("directory", ["/mnt/disks", "/mnt/disks/pool", "/mnt"])
def test_a_pool_is_not_where_disks_are_found(directory: str) -> None:
    said = problem(f"a: {{hostDir: /mnt/disks}}\nb: {{pool: {{kind: file, directory: {directory}}}}}")
    assert "a pool has a directory to itself" in said


def test_a_pool_is_not_inside_another() -> None:
    two = "a: {pool: {kind: file, directory: /srv/a}}\nb: {pool: {kind: file, directory: /srv/a/b}}"
    assert "a pool has a directory to itself" in problem(two)
