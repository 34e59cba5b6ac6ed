"""What a wiping refuses, what it believes, and how it keeps others off: with a file in the place of the device."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host import commands, devices, erasure, readback, wiper, workers
from localpv.host.model import methods
from localpv.host.model.devices import BlockDevice, DeviceNumber
from localpv.host.model.identity import Identity
from localpv.host.model.methods import Method, Progress, Readback
from localpv.host.wiper import KernelWiper
from localpv.host.workers import Workers
from localpv.testing.fake_host import block_device

SIZE = 1 << 20
COMMAND = methods.Command(("clean-it",))
WATCHED = [methods.FsReset(), methods.AtaErase(), methods.NvmeFormat(), COMMAND]
HELD = [methods.Zero(), methods.Shred(1), methods.Discard(), methods.ZeroOut()]


@dataclass
class Place:
    """A device that is a file, and what stands for the tools that are run on it."""

    device: BlockDevice
    ran: list[list[str]] = field(default_factory=list)
    acts: Callable[[list[str]], object] = lambda argv: None
    """What a tool does when it is run; the default does nothing and ends well."""

    told: list[Progress] = field(default_factory=list)

    async def describe(self, path: Path, **_: object) -> BlockDevice:
        return self.device

    async def wipe(self, method: Method, **options: Any) -> None:
        wiper = KernelWiper(workers=Workers(), devices=self)  # type: ignore[arg-type]
        known = options.pop("expected", self.device.identity)
        await wiper.wipe(self.device.path, method, expected=known, on_progress=self.told.append, **options)

    def zero(self, argv: list[str]) -> None:
        with open(self.device.path, "r+b") as file:
            file.write(bytes(SIZE))

    def mark(self, *_: object) -> None:
        with open(self.device.path, "r+b") as file:
            readback.mark(file.fileno())

    @property
    def is_open(self) -> bool:
        return str(self.device.path) in map(os.path.realpath, Path("/proc/self/fd").iterdir())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    file = tmp_path / "disk"
    file.write_bytes(b"\xa5" * SIZE)
    found = Place(
        block_device(
            path=file,
            kernel_name="sdx",
            number=DeviceNumber(0, 0),  # which every file has
            size_bytes=SIZE,
            serial="S1",
            discard_max_bytes=SIZE,
        )
    )

    async def run(argv: list[str], **how: Any) -> commands.Output:
        found.ran.append([*argv, *(f"{key}={value}" for key, value in how.get("env", {}).items())])
        found.acts(argv)
        return commands.Output(exit_code=0, stdout="", stderr="")

    async def erase(path: Path) -> None:
        await run(["erase", str(path)])

    async def can(_: BlockDevice) -> None:
        pass

    monkeypatch.setattr(commands, "run", run)
    for name in ("erase_ata", "format_nvme"):
        monkeypatch.setattr(erasure, name, erase)
    for name in ("check_ata", "check_nvme"):
        monkeypatch.setattr(erasure, name, can)
    monkeypatch.setattr(devices, "size_of", lambda fd: os.fstat(fd).st_size)
    monkeypatch.setattr(erasure, "discard", lambda fd, size, control: erasure.punch(fd, size, control))
    monkeypatch.setattr(workers, "REPORT_SECONDS", 0.0)
    yield found
    assert not found.is_open


# What is refused before anything is written.


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"names": Identity(serial="S2")}, errors.DeviceChanged),
        ({"read_only": True}, errors.NotSupported),
        ({"size_bytes": 0}, errors.NotSupported),
        ({"mounted_at": ("/mnt",)}, errors.DeviceBusy),
        ({"holders": ("dm-0",)}, errors.DeviceBusy),
        ({"swap": True}, errors.DeviceBusy),
        ({"opens_exclusively": False}, errors.DeviceBusy),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", [methods.Zero(), COMMAND], ids=str)
async def test_device_that_is_another_one_or_in_use_is_not_touched(
    place: Place, change: dict[str, Any], refused: type[Exception], method: Method
) -> None:
    before, known = place.device.path.read_bytes(), place.device.identity
    place.device = replace(place.device, **change)
    with pytest.raises(refused):
        await place.wipe(method, expected=known)
    assert place.device.path.read_bytes() == before and place.ran == []


async def test_a_new_file_system_on_a_device_makes_it_no_other_one(place: Place) -> None:
    await place.wipe(methods.Zero(), expected=replace(place.device.identity, fs_uuid="of before"))


async def test_device_that_cannot_discard_is_refused_by_that_method_and_zeroed_by_others(place: Place) -> None:
    place.device = replace(place.device, discard_max_bytes=0)
    before = place.device.path.read_bytes()
    with pytest.raises(errors.NotSupported, match="cannot discard"):
        await place.wipe(methods.Discard())
    assert place.device.path.read_bytes() == before
    await place.wipe(methods.ZeroOut())


@pytest.mark.parametrize(("method", "asked"), [(methods.AtaErase(), "check_ata"), (methods.NvmeFormat(), "check_nvme")])
async def test_drive_that_cannot_erase_itself_is_not_touched(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method, asked: str
) -> None:
    async def cannot(_: BlockDevice) -> None:
        raise errors.NotSupported("no")

    monkeypatch.setattr(erasure, asked, cannot)
    before = place.device.path.read_bytes()
    with pytest.raises(errors.NotSupported):
        await place.wipe(method)
    assert place.device.path.read_bytes() == before and place.ran == []


@pytest.mark.parametrize("method", [*HELD, *WATCHED], ids=str)
async def test_device_that_became_another_one_at_the_last_moment_is_not_touched(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    monkeypatch.setattr(devices, "size_of", lambda fd: SIZE + 512)
    before = place.device.path.read_bytes()
    with pytest.raises(errors.DeviceChanged):
        await place.wipe(method)
    assert place.device.path.read_bytes() == before and place.ran == []


@pytest.mark.parametrize(("code", "refused"), [(errno.EBUSY, errors.DeviceBusy), (errno.EIO, errors.HostError)])
@pytest.mark.parametrize("method", [methods.Zero(), COMMAND], ids=str)
async def test_device_that_does_not_open_is_busy_only_if_somebody_claims_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method, code: int, refused: type[Exception]
) -> None:
    real = os.open

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == place.device.path and flags & os.O_EXCL:
            raise OSError(code, os.strerror(code))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", opened)
    with pytest.raises(errors.HostError) as raised:
        await place.wipe(method)
    assert type(raised.value) is refused and place.ran == []


async def test_device_that_cannot_be_read_past_the_cache_is_wiped_through_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "no")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", opened)
    await place.wipe(methods.Zero())
    assert place.device.path.read_bytes() == bytes(SIZE)


# How others are kept off.


@pytest.mark.parametrize("method", WATCHED, ids=str)
async def test_device_that_another_program_has_locked_is_not_touched(place: Place, method: Method) -> None:
    before = place.device.path.read_bytes()
    with open(place.device.path) as theirs:  # noqa: ASYNC230 - a test may open its own file
        fcntl.flock(theirs, fcntl.LOCK_SH)
        with pytest.raises(errors.DeviceBusy, match="locked"):
            await place.wipe(method)
    assert place.device.path.read_bytes() == before and place.ran == []


@pytest.mark.parametrize("method", WATCHED, ids=str)
async def test_device_is_locked_while_tools_work_on_it(place: Place, method: Method) -> None:
    def acts(argv: list[str]) -> None:
        with open(place.device.path) as theirs, pytest.raises(BlockingIOError):
            fcntl.flock(theirs, fcntl.LOCK_SH | fcntl.LOCK_NB)
        place.zero(argv)

    place.acts = acts
    await place.wipe(method)
    assert place.ran


@pytest.mark.parametrize("method", WATCHED, ids=str)
async def test_device_that_somebody_claimed_meanwhile_is_not_called_clean(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    place.acts = place.zero
    monkeypatch.setattr(devices, "opens_exclusively", lambda path: False)
    with pytest.raises(errors.DeviceBusy, match="claimed"):
        await place.wipe(method)


# What is believed.


@pytest.mark.parametrize("method", [*HELD, methods.AtaErase(), methods.NvmeFormat()], ids=str)
@pytest.mark.parametrize("verify", Readback)
async def test_every_byte_is_zero_at_the_end(place: Place, method: Method, verify: Readback) -> None:
    place.acts = place.zero
    await place.wipe(method, verify=verify)
    assert place.device.path.read_bytes() == bytes(SIZE)


@pytest.mark.parametrize("method", [*HELD, methods.AtaErase(), methods.NvmeFormat()], ids=str)
async def test_what_left_one_byte_is_not_believed(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    def all_but_one(*_: object, **__: object) -> bool:
        with open(place.device.path, "r+b") as file:
            file.write(bytes(SIZE // 2) + b"x" + bytes(SIZE // 2 - 1))
        return True

    place.acts = all_but_one
    for name in ("zero", "shred", "discard", "punch"):
        monkeypatch.setattr(erasure, name, all_but_one)
    with pytest.raises(errors.NotClean, match="old data is left"):
        await place.wipe(method)


@pytest.mark.parametrize("method", [methods.Discard(), methods.AtaErase(), methods.NvmeFormat()], ids=str)
async def test_drive_that_did_nothing_is_found_out(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    place.zero([])
    monkeypatch.setattr(erasure, "discard", lambda *_: None)
    with pytest.raises(errors.NotClean, match="said that it erased itself"):
        await place.wipe(method)


@pytest.mark.parametrize("method", HELD, ids=str)
async def test_signature_that_is_left_is_found_though_the_bytes_were_not(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    monkeypatch.setattr(readback, "verify_zero", place.mark)
    with pytest.raises(errors.NotClean, match="signature of swap"):
        await place.wipe(method)


async def test_zeroout_reads_all_of_it_though_a_sample_was_asked_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Readback] = []
    monkeypatch.setattr(readback, "verify_zero", lambda fd, size, how, control: asked.append(how))
    for punches in (True, False):
        monkeypatch.setattr(erasure, "punch", lambda *_, punches=punches: punches)
        place.device = replace(place.device, discard_max_bytes=0)
        await place.wipe(methods.ZeroOut(), verify=Readback.SAMPLE)
    assert asked == [Readback.FULL, Readback.FULL]


@pytest.mark.parametrize(
    ("vendor", "most", "used"),
    [("", SIZE, ["punch", "discard"]), ("ATA", SIZE, ["punch", "zero"]), ("", 0, ["punch", "zero"])],
)
async def test_zeroout_believes_a_discard_only_of_drives_that_read_the_same_each_time(
    place: Place, monkeypatch: pytest.MonkeyPatch, vendor: str, most: int, used: list[str]
) -> None:
    ways: list[str] = []
    real = erasure.zero

    def zero(*arguments: Any, **options: Any) -> None:
        ways.append("zero")
        real(*arguments, **options)

    def discard(*_: object) -> None:
        ways.append("discard")
        place.zero([])

    monkeypatch.setattr(erasure, "punch", lambda *_: bool(ways.append("punch")))  # type: ignore[func-returns-value]
    monkeypatch.setattr(erasure, "discard", discard)
    monkeypatch.setattr(erasure, "zero", zero)
    place.device = replace(place.device, vendor=vendor, discard_max_bytes=most)
    await place.wipe(methods.ZeroOut())
    assert ways == used and place.device.path.read_bytes() == bytes(SIZE)


async def test_zeroout_writes_where_a_discard_is_refused_after_all(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise errors.NotSupported("no")

    monkeypatch.setattr(erasure, "punch", lambda *_: False)
    monkeypatch.setattr(erasure, "discard", refused)
    await place.wipe(methods.ZeroOut())
    assert place.device.path.read_bytes() == bytes(SIZE)


@pytest.mark.parametrize("method", [methods.Zero(2), methods.Shred(2), methods.ZeroOut()], ids=str)
@pytest.mark.parametrize("most", [0, 1])
async def test_device_zeroes_itself_if_it_says_that_it_can(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method, most: int
) -> None:
    offloads: list[bool] = []

    def write(fd: int, size: int, control: object, *, passes: int, offload: bool) -> None:
        assert passes == getattr(method, "passes", 1)
        offloads.append(offload)
        place.zero([])

    for name in ("zero", "shred"):
        monkeypatch.setattr(erasure, name, write)
    monkeypatch.setattr(erasure, "punch", lambda *_: False)
    place.device = replace(place.device, write_zeroes_max_bytes=most, discard_max_bytes=0)
    await place.wipe(method)
    assert offloads == [bool(most)]


async def test_command_is_believed_when_what_was_recognised_before_is_gone(place: Place) -> None:
    """On a device with a signature of its own, and on one that is given one for that."""
    for marked in (True, False):
        place.zero([])
        if marked:
            place.mark()
        place.acts = lambda argv: None
        with pytest.raises(errors.NotClean, match="swap signature"):
            await place.wipe(COMMAND)
        place.acts = place.zero
        await place.wipe(COMMAND)
    assert place.ran == [["clean-it", f"LOCAL_PV_BLKDEVICE={place.device.path}"]] * 4


async def test_command_that_leaves_another_signature_has_done_something(place: Place) -> None:
    place.mark()
    place.acts = place.mark
    await place.wipe(COMMAND)


async def test_reset_makes_a_file_system_then_removes_every_trace_of_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "ENDS", 4096)
    path = str(place.device.path)
    await place.wipe(methods.FsReset())
    assert place.ran == [["mkfs.ext4", "-F", "-q", path], ["wipefs", "-a", "-q", path]]
    assert place.device.path.read_bytes() == bytes(4096) + b"\xa5" * (SIZE - 8192) + bytes(4096)


async def test_signature_that_is_left_after_a_reset_is_found(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "zero_ends", lambda fd, size: readback.mark(fd))
    with pytest.raises(errors.NotClean, match="signature of swap"):
        await place.wipe(methods.FsReset())


@pytest.mark.parametrize(("size", "tool"), [((16 << 40) - 512, "mkfs.ext4"), (16 << 40, "mkfs.xfs")])
async def test_reset_makes_xfs_where_ext4_ends(
    place: Place, monkeypatch: pytest.MonkeyPatch, size: int, tool: str
) -> None:
    monkeypatch.setattr(devices, "size_of", lambda fd: size)
    monkeypatch.setattr(erasure, "zero_ends", lambda fd, size: place.zero([]))
    place.device = replace(place.device, size_bytes=size)
    await place.wipe(methods.FsReset())
    assert place.ran[0][0] == tool


@pytest.mark.parametrize("method", [methods.Zero(), methods.AtaErase(), methods.FsReset(), COMMAND], ids=str)
async def test_kernel_is_told_to_forget_the_partitions(
    place: Place, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    told: list[int] = []

    def ioctl(fd: int, request: int, *_: object) -> int:
        told.append(request)
        raise OSError(errno.ENOTTY, "no")

    place.acts = place.zero
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    await place.wipe(method)
    assert told[-1] == wiper._BLKRRPART


@pytest.mark.parametrize(
    ("method", "steps"),
    [
        (methods.FsReset(), [(0, "making a file system"), (SIZE // 2, "removing signatures")]),
        (methods.AtaErase(), [(0, "erasing"), (0, "verifying")]),
        (COMMAND, [(0, "running a command")]),
    ],
    ids=str,
)
async def test_people_see_what_tools_are_doing(place: Place, method: Method, steps: list[tuple[int, str]]) -> None:
    place.acts = place.zero
    await place.wipe(method)
    assert place.told == [Progress(done=done, total=SIZE, step=step) for done, step in steps]
