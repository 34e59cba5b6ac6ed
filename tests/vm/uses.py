"""Ways in which others use a disk, each as a block in which it is used so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tests.vm import hardware
from tests.vm.hardware import run

PLACE = Path("/run/elsewhere")


@contextmanager
def logical_volume(device: Path) -> Iterator[Path]:
    """A volume group with a logical volume that is active; yields the logical volume."""
    run("vgcreate", "-qq", "-ff", "-y", "localpv-test", device)
    run("lvcreate", "-qq", "-y", "-Wn", "-n", "data", "-l", "50%FREE", "localpv-test")
    try:
        yield Path("/dev/localpv-test/data")
    finally:
        run("vgchange", "-qq", "-an", "localpv-test")


@contextmanager
def raid_array(device: Path) -> Iterator[Path]:
    """An array of the disk and nothing else yet; yields the array."""
    array = Path("/dev/md/localpv-test")
    run("mdadm", "--create", array, "--run", "--force", "--level=1", "--raid-devices=2", device, "missing")
    hardware.settle()
    try:
        yield array
    finally:
        hardware.settle()  # udev has it open while it looks
        run("mdadm", "--stop", array)


@contextmanager
def encryption(device: Path) -> Iterator[Path]:
    """An encrypted disk that is open; yields what is inside."""
    key = Path("/run/localpv-test.key")
    key.write_text("key")
    weak = ("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--type", "luks1")
    run("cryptsetup", "luksFormat", "-q", *weak, "--key-file", key, device)
    run("cryptsetup", "open", "--key-file", key, device, "localpv-test")
    try:
        yield Path("/dev/mapper/localpv-test")
    finally:
        run("cryptsetup", "close", "localpv-test")


@contextmanager
def multipath(device: Path) -> Iterator[Path]:
    """The only path of a multipath device."""
    number, sectors = hardware.attribute(device, "dev"), hardware.attribute(device, "size")
    table = f"0 {sectors} multipath 0 0 1 1 round-robin 0 1 1 {number} 1000"
    run("dmsetup", "create", "localpv-test", "--uuid", "mpath-localpv-test", "--table", table)
    try:
        yield Path("/dev/mapper/localpv-test")
    finally:
        run("dmsetup", "remove", "--retry", "localpv-test")


@contextmanager
def swap(device: Path) -> Iterator[None]:
    run("mkswap", "-f", device)
    run("swapon", device)
    try:
        yield
    finally:
        run("swapoff", device)


@contextmanager
def mounted(device: Path) -> Iterator[None]:
    run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", device)
    PLACE.mkdir(exist_ok=True)
    run("mount", device, PLACE)
    try:
        yield
    finally:
        run("umount", PLACE)


@contextmanager
def mounted_partition(device: Path) -> Iterator[None]:
    hardware.partition(device)
    with mounted(hardware.part(device, 1)):
        yield


@contextmanager
def read_only(device: Path) -> Iterator[None]:
    run("blockdev", "--setro", device)
    try:
        yield
    finally:
        run("blockdev", "--setrw", device)


Use = Callable[[Path], AbstractContextManager[object]]
