"""A device on which anything is, is never formatted: whatever it is, however the volume asks."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from tests.unit.engine.kubelet.volumes.world import FakeLookup, a_pod, claim_volume

from localpv import errors
from localpv.engine.kubelet import volumes as mounting
from localpv.engine.kubelet.volumes import NotReady, PodVolumes
from localpv.host import commands
from localpv.host.devices import KernelDevices
from localpv.host.filesystems import KernelFileSystems
from localpv.host.model import methods
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers

MIB = 1024 * 1024
Disk = Callable[..., Path]


def run(*argv: object) -> None:
    subprocess.run([str(word) for word in argv], check=True, capture_output=True)


def ext4(disk: Path) -> None:
    run("mkfs.ext4", "-q", "-F", disk)


def xfs(disk: Path) -> None:
    run("mkfs.xfs", "-q", "-f", disk)


def swap(disk: Path) -> None:
    run("mkswap", "-q", disk)


def random_start(disk: Path) -> None:
    disk.write_bytes(os.urandom(512))


def random_end(disk: Path) -> None:
    with open(disk, "rb+") as device:
        device.seek(-100, os.SEEK_END)
        device.write(b"x")


def one_byte_in_the_first_mebibyte(disk: Path) -> None:
    with open(disk, "rb+") as device:
        device.seek(MIB - 1)
        device.write(b"x")


def partition_table(disk: Path) -> None:
    subprocess.run(["sfdisk", "-q", disk], input=b"label: gpt\n,8M\n", check=True, capture_output=True)


def dos_table(disk: Path) -> None:
    subprocess.run(["sfdisk", "-q", disk], input=b"label: dos\n,8M\n", check=True, capture_output=True)


def lvm_label(disk: Path) -> None:
    """The label of an LVM physical volume, as `pvcreate` leaves it in the second sector."""
    sector = bytearray(512)
    sector[0:8] = b"LABELONE"
    sector[8:16] = (1).to_bytes(8, "little")
    sector[20:24] = (32).to_bytes(4, "little")
    sector[24:32] = b"LVM2 001"
    sector[32:64] = b"abcdefghijklmnopqrstuvwxyz012345"
    crc = 0xF597A6CF
    for byte in sector[20:]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    sector[16:20] = crc.to_bytes(4, "little")
    with open(disk, "rb+") as device:
        device.seek(512)
        device.write(sector)


def digest(disk: Path) -> str:
    """Of both ends, where every file system and every table has what it is known by."""
    with open(disk, "rb") as device:
        start = device.read(32 * MIB)
        device.seek(-8 * MIB, os.SEEK_END)
        return sha256(start + device.read()).hexdigest()


@pytest.fixture
def lookup() -> FakeLookup:
    return FakeLookup()


@pytest.fixture
def volumes(tmp_path: Path, lookup: FakeLookup) -> Iterator[PodVolumes]:
    yield PodVolumes(root=tmp_path / "node", host=mounting.on_this_machine(), lookup=lookup)
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if str(tmp_path / "node") in line.split()[4]:
            subprocess.run(["umount", line.split()[4]], check=False)


@pytest.mark.seed("PLG-12")
@pytest.mark.parametrize("fs_type", [None, "ext4", "xfs"])
@pytest.mark.parametrize(
    "content",
    [
        swap,
        random_start,
        random_end,
        one_byte_in_the_first_mebibyte,
        partition_table,
        dos_table,
        lvm_label,
    ],
    ids=lambda content: content.__name__,
)
async def test_what_is_no_file_system_is_refused_and_not_a_byte_changes(
    volumes: PodVolumes,
    lookup: FakeLookup,
    make_disk: Disk,
    content: Callable[[Path], None],
    fs_type: str | None,
) -> None:
    disk = make_disk(16)
    content(disk)
    before = digest(disk)
    lookup.offer(disk, fs_type=fs_type)
    pod = a_pod(claim_volume())
    with pytest.raises(NotReady, match="it holds") as caught:
        await volumes.set_up(pod)
    assert caught.value.reason == "NotBlank" and caught.value.hint
    assert digest(disk) == before
    await volumes.tear_down(pod.metadata.uid)


@pytest.mark.parametrize(("made", "asked"), [(ext4, "xfs"), (xfs, "ext4")], ids=["ext4", "xfs"])
async def test_another_file_system_than_asked_for_is_refused_and_not_a_byte_changes(
    volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk, made: Callable[[Path], None], asked: str
) -> None:
    disk = make_disk(320)
    made(disk)
    before = digest(disk)
    lookup.offer(disk, fs_type=asked)
    with pytest.raises(NotReady, match=f"not {asked}") as caught:
        await volumes.set_up(a_pod(claim_volume()))
    assert caught.value.reason == "WrongFileSystem"
    assert digest(disk) == before


@pytest.mark.parametrize("made", [ext4, xfs], ids=["ext4", "xfs"])
@pytest.mark.parametrize("fs_type", [None, "as made"])
async def test_a_file_system_that_is_there_is_mounted_with_its_data(
    volumes: PodVolumes,
    lookup: FakeLookup,
    make_disk: Disk,
    mount: Callable[..., None],
    tmp_path: Path,
    made: Callable[[Path], None],
    fs_type: str | None,
) -> None:
    disk, place = make_disk(320), tmp_path / "before"
    made(disk)
    place.mkdir()
    mount(disk, place)
    (place / "data").write_text("precious")
    run("umount", place)
    lookup.offer(disk, fs_type=fs_type and made.__name__)
    pod = a_pod(claim_volume())
    assert ((await volumes.set_up(pod))["data"].path / "data").read_text() == "precious"
    await volumes.tear_down(pod.metadata.uid)


async def test_partitions_that_the_kernel_still_knows_keep_the_disk_from_being_formatted(
    make_disk: Disk, devices: KernelDevices
) -> None:
    file_systems = KernelFileSystems(workers=Workers())
    # The table may be overwritten already, while somebody still works in a partition.
    device = dataclasses.replace(await devices.describe(make_disk(16)), partitions=("loop0p1",))
    assert (await file_systems.content(device)).other == "partitions (loop0p1)"
    with pytest.raises(errors.NotClean, match="partitions"):
        await file_systems.make(device, "ext4", uuid=str(uuid.uuid4()))


async def test_a_read_only_device_is_not_formatted(volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk) -> None:
    lookup.offer(make_disk(16, read_only=True))
    with pytest.raises(NotReady, match="read-only"):
        await volumes.set_up(a_pod(claim_volume()))


@pytest.mark.parametrize("method", [methods.Zero(), methods.FsReset()], ids=["zero", "fs-reset"])
async def test_a_cleaned_device_reads_as_blank_again(
    volumes: PodVolumes,
    lookup: FakeLookup,
    make_disk: Disk,
    devices: KernelDevices,
    wiping: KernelWiper,
    method: methods.Method,
) -> None:
    disk = make_disk(16)
    lookup.offer(disk)
    pod = a_pod(claim_volume())
    (((await volumes.set_up(pod))["data"]).path / "secret").write_text("of the first tenant")
    await volumes.tear_down(pod.metadata.uid)
    await wiping.wipe(disk, method, expected=(await devices.describe(disk)).identity)
    assert (await KernelFileSystems(workers=Workers()).content(await devices.describe(disk))).blank
    lookup.offer(disk)
    pod = a_pod(claim_volume())
    assert {path.name for path in (await volumes.set_up(pod))["data"].path.iterdir()} == {"lost+found"}
    await volumes.tear_down(pod.metadata.uid)


@pytest.mark.parametrize("fs_type", ["xfs", "btrfs"])
async def test_a_blank_device_becomes_what_the_volume_says(
    volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk, devices: KernelDevices, fs_type: str
) -> None:
    if commands.find(f"mkfs.{fs_type}") is None:
        pytest.skip(f"mkfs.{fs_type} is not installed")
    disk = make_disk(320)
    lookup.offer(disk, fs_type=fs_type, mount_options=["noatime"])
    one, two = a_pod(claim_volume()), a_pod(claim_volume())
    path = (await volumes.set_up(one))["data"].path
    assert (await volumes.set_up(two))["data"].path.is_mount()
    assert (await devices.describe(disk, exclusive=False)).fs_type == fs_type
    line = next(line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(path) in line)
    assert "noatime" in line.split()[5]
    await volumes.tear_down(one.metadata.uid)
    await volumes.tear_down(two.metadata.uid)
    assert (await devices.describe(disk)).opens_exclusively


async def test_a_file_system_whose_tool_is_missing_is_told_and_nothing_is_written(
    volumes: PodVolumes, lookup: FakeLookup, make_disk: Disk, devices: KernelDevices, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = make_disk(16)
    monkeypatch.setattr(commands, "_PATH", "/nowhere")
    lookup.offer(disk, fs_type="btrfs")
    with pytest.raises(NotReady, match="not installed") as caught:
        await volumes.set_up(a_pod(claim_volume()))
    assert caught.value.reason == "NotSupported" and "install" in caught.value.hint
    assert (await KernelFileSystems(workers=Workers()).content(await devices.describe(disk))).blank
