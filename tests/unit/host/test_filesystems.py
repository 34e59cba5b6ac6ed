"""Devices that do not open are told as errors of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpv import errors
from localpv.host import commands, filesystems
from localpv.host.filesystems import KernelFileSystems
from localpv.host.model.devices import BlockDevice, DeviceNumber
from localpv.host.workers import Workers


def a_device(path: Path, *, read_only: bool = False) -> BlockDevice:
    return BlockDevice(
        path=path, kernel_name=path.name, number=DeviceNumber(8, 16), size_bytes=1 << 20, read_only=read_only
    )


async def test_device_that_is_gone_cannot_be_read_or_written(tmp_path: Path) -> None:
    device, parts = a_device(tmp_path / "sdb"), KernelFileSystems(workers=Workers())
    with pytest.raises(errors.HostError, match="cannot be read: No such file"):
        await parts.content(device)
    with pytest.raises(errors.HostError, match=r"No such file|does not open"):
        await parts.make(device, "ext4", uuid="11111111-aaaa-4aaa-8aaa-111111111111")


@pytest.mark.parametrize(
    ("fs_type", "read_only", "checked"),
    [("ext4", False, True), ("ext3", False, True), ("ext4", True, False), ("xfs", False, False), ("xfs", True, False)],
)
async def test_only_what_can_be_mended_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fs_type: str, read_only: bool, checked: bool
) -> None:
    ran: list[list[str]] = []

    async def run(argv: list[str], **_: object) -> None:
        ran.append(argv)

    monkeypatch.setattr(commands, "run", run)
    device = a_device(tmp_path / "sdb", read_only=read_only)
    await KernelFileSystems(workers=Workers()).check(device, fs_type)
    assert ran == ([["e2fsck", "-p", str(device.path)]] if checked else [])


async def test_damaged_file_system_is_told_with_the_way_to_look_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(argv: list[str], **_: object) -> None:
        raise errors.CommandFailed(argv, exit_code=4, stderr="bad")

    monkeypatch.setattr(filesystems.commands, "run", run)
    with pytest.raises(errors.HostError, match="is damaged") as refused:
        await KernelFileSystems(workers=Workers()).check(a_device(tmp_path / "sdb"), "ext4")
    assert "e2fsck -n" in refused.value.hint
