"""What the mount table shows of an entry: where else the same directory is mounted, and what it is a part of."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv.agent.discover.entry import Index, Sighting, see
from localpv.host.folders import Entry, FileKind
from localpv.host.model.devices import DeviceNumber
from localpv.host.mounts import Mount, MountTable

DISK, ROOT = DeviceNumber(8, 16), DeviceNumber(8, 1)


def mount(number: int, at: str, *, root: str = "/", device: DeviceNumber = DISK) -> Mount:
    return Mount(mount_id=number, device=device, root=root, mount_point=Path(at))


TOP = mount(1, "/", device=ROOT)


def seen(*mounts: Mount) -> Sighting:
    entry = Entry(name="vol", kind=FileKind.DIRECTORY, inode=7)
    return see(entry, folder=Path("/seen"), real_folder="/mnt", mounts=Index(MountTable((TOP, *mounts))))


@pytest.mark.parametrize("root", ["/", "/part"])
def test_mount_point_is_used_where_the_same_part_is_mounted_too(root: str) -> None:
    own = mount(2, "/mnt/vol", root=root)
    found = seen(own, mount(3, "/pod", root=root), mount(4, "/other", root="/else"))
    assert (found.mount, found.around, found.elsewhere) == (own, None, ("/pod",))
    assert found.target == f"directory 8:16 {root}"
    assert not found.root
    assert seen(own).elsewhere == ()


def test_plain_directory_is_used_where_that_very_directory_is_mounted() -> None:
    found = seen(mount(3, "/pod", root="/mnt/vol", device=ROOT), mount(4, "/all", root="/mnt", device=ROOT))
    assert (found.mount, found.around, found.elsewhere) == (None, TOP, ("/pod",))
    assert found.target == "directory 8:1 /mnt/vol"
    assert not found.root


def test_root_directory_under_another_name_is_known_as_such() -> None:
    assert seen(mount(2, "/mnt/vol", device=ROOT)).root
    assert not seen(mount(2, "/mnt/vol", root="/x", device=ROOT)).root


def test_last_of_several_mounts_at_one_place_is_the_one_that_is_seen() -> None:
    upper = mount(3, "/mnt/vol", device=DeviceNumber(8, 32))
    assert seen(mount(2, "/mnt/vol"), upper).mount == upper


def test_directory_in_no_mount_is_known_by_its_path() -> None:
    entry = Entry(name="vol", kind=FileKind.DIRECTORY)
    found = see(entry, folder=Path("/seen"), real_folder="/mnt", mounts=Index(MountTable(())))
    assert found == Sighting(entry=entry, folder=Path("/seen"), target="directory /mnt/vol")


def device(entry: Entry, *mounts: Mount) -> Sighting:
    return see(entry, folder=Path("/seen"), real_folder="/mnt", mounts=Index(MountTable((TOP, *mounts))))


LINK = Entry(name="sdb", kind=FileKind.BLOCK_DEVICE, is_link=True, target=Path("/dev/sdb"), device=DISK)
NODE = Entry(name="node", kind=FileKind.BLOCK_DEVICE, device=DISK)
DEV = DeviceNumber(0, 6)


def bound(at: str, root: str, *, fs_type: str = "devtmpfs", on: DeviceNumber = DEV) -> Mount:
    return Mount(mount_id=9, device=on, root=root, mount_point=Path(at), fs_type=fs_type)


def test_device_is_used_where_it_or_its_node_is_mounted() -> None:
    assert device(LINK).elsewhere == ()
    assert device(LINK, mount(2, "/a"), mount(3, "/b", device=ROOT)).elsewhere == ("/a",)
    assert device(LINK, bound("/pod/dev", "/sdb")).elsewhere == ("/pod/dev",)
    assert device(LINK, bound("/pod/dev", "/sdc")).elsewhere == ()
    assert device(LINK, bound("/pod/dev", "/sdb", fs_type="ext4")).elsewhere == (), "a file that is called like it"
    assert device(LINK).target == device(NODE).target == "device 8:16"


def test_node_in_the_folder_itself_is_used_where_it_is_mounted_and_not_at_its_own_place() -> None:
    assert device(NODE, bound("/pod/dev", "/mnt/node", fs_type="ext4", on=ROOT)).elsewhere == ("/pod/dev",)
    assert device(NODE, bound("/pod/dev", "/mnt/other", fs_type="ext4", on=ROOT)).elsewhere == ()
    assert device(NODE, bound("/mnt/node", "/sdb")).elsewhere == ()
    nowhere = see(NODE, folder=Path("/seen"), real_folder="/mnt", mounts=Index(MountTable(())))
    assert nowhere.elsewhere == ()


def test_link_to_a_directory_is_what_it_leads_to() -> None:
    entry = Entry(name="vol", kind=FileKind.DIRECTORY, is_link=True, target=Path("/other/place"))
    own = mount(2, "/other/place")
    assert device(entry, own).mount == own
    assert device(entry).target == "directory 8:1 /other/place"


@pytest.mark.parametrize("kind", [FileKind.OTHER, FileKind.DANGLING_LINK])
def test_what_is_neither_device_nor_directory_leads_nowhere(kind: FileKind) -> None:
    entry = Entry(name="x", kind=kind, device=DISK)
    found = device(entry, mount(2, "/mnt/x"))
    assert found == Sighting(entry=entry, folder=Path("/seen"))
    assert found.kind is None
