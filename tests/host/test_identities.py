"""Which loop device is which: by the file, the part of it, and the kernel's own count of disks."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contract import wire

from localpv import errors
from localpv.host import identities, loop
from localpv.host.devices import KernelDevices
from localpv.host.model import methods
from localpv.host.model.identity import Identity
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers

MIB = 1024 * 1024


class Loops:
    """Loop devices of parts of files. What was taken off is no longer ours: others get its number next."""

    def __init__(self) -> None:
        self.made: set[Path] = set()

    def attach(self, file: Path, *, offset: int = 0, limit: int = 0, at: str = "--find") -> Path:
        argv = ["losetup", "--show", "--offset", str(offset), "--sizelimit", str(limit), at, str(file)]
        device = Path(subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip())
        self.made.add(device)
        return device

    def detach(self, device: Path) -> None:
        """Return when it has lost its file: while a neighbour has it open for a look the kernel waits with that."""
        self.made.remove(device)
        before = _sequence(device)
        loop.detach(device)
        wire.eventually(lambda: not _file(device) or _sequence(device) != before, f"{device} is detached")


def _sequence(device: Path) -> str:
    """The kernel's own count of disks: another one when somebody else has the number by now."""
    return Path(f"/sys/block/{device.name}/diskseq").read_text()


def _file(device: Path) -> str:
    try:
        return Path(f"/sys/block/{device.name}/loop/backing_file").read_text()
    except OSError:
        return ""


@pytest.fixture
def loops() -> Iterator[Loops]:
    loops = Loops()
    yield loops
    for device in tuple(loops.made):
        loops.detach(device)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "image"
    file.write_bytes(bytes(16 * MIB))
    return file


async def identity(devices: KernelDevices, path: Path) -> Identity:
    return (await devices.describe(path)).identity


async def test_parts_of_one_file_are_different_disks(devices: KernelDevices, image: Path, loops: Loops) -> None:
    parts = [
        loops.attach(image, offset=0, limit=8 * MIB),
        loops.attach(image, offset=8 * MIB),
        loops.attach(image, limit=4 * MIB),
    ]
    found = [await identity(devices, part) for part in parts]
    for one in found:
        assert [one.same_device(other) for other in found] == [one is other for other in found]
    assert (found[1].offset_bytes, found[2].size_limit_bytes) == (8 * MIB, 4 * MIB)


async def test_a_part_of_a_file_is_the_same_on_any_loop_device(
    devices: KernelDevices, image: Path, loops: Loops
) -> None:
    first = loops.attach(image, offset=8 * MIB)
    before = await identity(devices, first)
    loops.detach(first)
    other = image.with_name("other")
    other.write_bytes(bytes(8 * MIB))
    in_its_place = await identity(devices, loops.attach(other))
    assert not before.same_device(in_its_place)

    after = await identity(devices, loops.attach(image, offset=8 * MIB))

    assert before.same_device(after) and after.disk_sequence != before.disk_sequence


async def test_a_file_made_anew_under_its_old_name_is_another_disk(
    devices: KernelDevices, image: Path, loops: Loops
) -> None:
    first = loops.attach(image)
    before = await identity(devices, first)
    assert before.inode_generation, "the file system of the temporary folder tells no generations"
    loops.detach(first)
    image.unlink()
    image.write_bytes(bytes(16 * MIB))  # on ext4 mostly under the same inode

    assert not before.same_device(await identity(devices, loops.attach(image)))


async def test_a_loop_device_in_memory_is_known_until_it_is_taken_off(
    devices: KernelDevices, tmp_path: Path, mount: Callable[..., None], loops: Loops
) -> None:
    folder = tmp_path / "memory"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=32m", "tmpfs", folder)
    (folder / "image").write_bytes(bytes(8 * MIB))
    for _ in range(20):
        device = loops.attach(folder / "image")
        before = await identity(devices, device)
        assert before.same_device(await identity(devices, device))
        assert not (before.filesystem_id or before.by_id or before.serial)
        loops.detach(device)
        with contextlib.suppress(subprocess.CalledProcessError):  # somebody else was faster
            after = await identity(devices, loops.attach(folder / "image", at=str(device)))
            break

    assert after.major_minor == before.major_minor
    assert [found.field for found in before.mismatches(after)] == ["disk_sequence"]


async def test_two_devices_of_one_part_are_told_apart_by_the_kernel_only(
    workers: Workers, image: Path, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identities, "TWINS_SECONDS", 0.0)
    devices = KernelDevices(workers=workers)
    first = loops.attach(image)
    recorded = await identity(devices, first)
    assert recorded.twins == ()
    second = loops.attach(image)

    original, other = await identity(devices, first), await identity(devices, second)

    assert [twin.device for twin in (*original.twins, *other.twins)] == [second.name, first.name]
    assert recorded.same_device(original) and not recorded.same_device(other)
    with pytest.raises(errors.DeviceChanged, match="goes by the same names"):
        await KernelWiper(workers=workers, devices=devices).wipe(second, methods.Zero(), expected=recorded)
    loops.detach(first)
    assert recorded.same_device(await identity(devices, second)), "alone it is the same part of the same file"


async def test_boot_and_disk_sequence_number_are_those_of_the_kernel(
    devices: KernelDevices, image: Path, loops: Loops
) -> None:
    device = loops.attach(image)
    found = await identity(devices, device)
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert found.disk_sequence == int(Path(f"/sys/block/{device.name}/diskseq").read_text())
