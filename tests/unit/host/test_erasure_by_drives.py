"""Drives that erase themselves: only whole ones that can, and none is left with our password."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.host import erasure
from localpv.host.model.devices import BlockDevice, DeviceKind, DeviceNumber

SATA = BlockDevice(path=Path("/dev/sdx"), kernel_name="sdx", number=DeviceNumber(8, 7), size_bytes=9)
NVME = replace(SATA, path=Path("/dev/nvme9n1"), kernel_name="nvme9n1")


@dataclass
class Said:
    stdout: str


class Commands:
    """Takes the place of hdparm and nvme."""

    def __init__(self) -> None:
        self.ran: list[list[str]] = []
        self.fails_at = ""
        self.ata: list[str] = []
        """What hdparm says about the drive, one time after the other."""

    async def run(self, argv: list[str], **how: Any) -> Said:
        self.ran.append(argv)
        if self.fails_at and self.fails_at in argv:
            raise errors.CommandFailed(argv, exit_code=5, stderr="no")
        if "-I" in argv:
            return Said(self.ata.pop(0))
        answers = {"id-ctrl": json.dumps({"oacs": 2, "fna": 0}), "list-ns": json.dumps({"nsid_list": [{"nsid": 1}]})}
        return Said(next((text for word, text in answers.items() if word in argv), ""))


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    made = Commands()
    monkeypatch.setattr(erasure.commands, "run", made.run)
    return made


@pytest.mark.parametrize("kind", [kind for kind in DeviceKind if kind is not DeviceKind.DISK])
async def test_what_is_no_whole_drive_is_not_even_asked(commands: Commands, kind: DeviceKind) -> None:
    for check, device in ((erasure.check_ata, SATA), (erasure.check_nvme, NVME)):
        with pytest.raises(errors.NotSupported, match="whole drives"):
            await check(replace(device, kind=kind))
    assert not commands.ran


async def test_whole_drive_may_be_formatted_if_its_controller_says_so(commands: Commands) -> None:
    await erasure.check_nvme(NVME)
    assert [argv[1] for argv in commands.ran] == ["id-ctrl", "list-ns"]
    with pytest.raises(errors.NotSupported, match="no NVMe"):
        await erasure.check_nvme(SATA)


async def test_format_erases_the_namespace_and_asks_nobody(commands: Commands) -> None:
    await erasure.format_nvme(NVME.path)
    assert commands.ran == [["nvme", "format", "/dev/nvme9n1", "--ses=1", "--force"]]


@pytest.mark.parametrize("fails_at", ["", "--security-erase"])
async def test_drive_that_did_not_erase_keeps_no_password_of_ours(commands: Commands, fails_at: str) -> None:
    commands.fails_at = fails_at
    if fails_at:
        with pytest.raises(errors.CommandFailed):
            await erasure.erase_ata(SATA.path)
    else:
        await erasure.erase_ata(SATA.path)
    done = [argv[3] for argv in commands.ran]
    assert done == ["--security-set-pass", "--security-erase", "--security-disable"]
    assert {argv[-1] for argv in commands.ran} == {"/dev/sdx"}
    assert len({argv[4] for argv in commands.ran}) == 1, "the password that was set is the one that is taken off"


def an_ata_drive(*flags: str) -> str:
    return "\n".join(
        ["Security:", *(f"\t{flag}" for flag in ("supported", *flags, "not locked", "not frozen")), "Logical"]
    )


async def test_password_of_an_erasure_that_died_is_taken_off_and_one_of_others_is_not_opened(
    commands: Commands,
) -> None:
    commands.ata = [an_ata_drive("not enabled")]
    await erasure.check_ata(SATA)
    assert [argv[1] for argv in commands.ran] == ["-I"], "without a password there is none to take off"
    commands.ata = [an_ata_drive("enabled"), an_ata_drive("not enabled")]
    await erasure.check_ata(SATA)
    assert "--security-disable" in commands.ran[2]
    commands.ata = [an_ata_drive("enabled"), an_ata_drive("enabled")]
    with pytest.raises(errors.NotSupported, match="password"):
        await erasure.check_ata(SATA)
