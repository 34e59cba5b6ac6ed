"""The fake udev and the real one behave alike: one suite for both."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.private_udev import private_udev as private_udev

from localpv import errors
from localpv.host.udev import RULES_BYTES, HostUdev, Udev, UdevDevice
from localpv.host.workers import Workers
from localpv.testing.fake_udev import FakeUdev
from localpv.testing.waiting import PATIENCE_SECONDS

SETTLE_SECONDS = 60.0
NAME = "99-localpv-test.rules"


class Machine:
    """A udev, and two devices that it sees."""

    def __init__(self, udev: Udev, first: str, second: str) -> None:
        self.udev, self.first, self.second = udev, first, second

    async def in_force(self, text: str) -> None:
        """Put rules in force on both devices."""
        await self.udev.write(NAME, text)
        await self.looked_at()

    async def looked_at(self) -> None:
        await self.udev.reload()
        await self.udev.trigger([self.first, self.second])
        assert await self.udev.settle(seconds=SETTLE_SECONDS)

    async def device(self, name: str) -> UdevDevice:
        return next(device for device in await self.udev.devices() if device.name == name)

    def rules(self, *lines: str) -> str:
        """Rules about the two devices only."""
        both = f"{self.first}|{self.second}"
        return "\n".join(['SUBSYSTEM!="block", GOTO="end"', f'KERNEL!="{both}", GOTO="end"', *lines, 'LABEL="end"', ""])


@pytest.fixture(params=["fake", "real"])
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    if request.param == "fake":
        udev = FakeUdev()
        udev.plug("sdb")
        udev.plug("sdc")
        yield Machine(udev, "sdb", "sdc")
        return
    rules: Path = request.getfixturevalue("private_udev")
    make_disk: Callable[..., Path] = request.getfixturevalue("make_disk")
    yield Machine(HostUdev(rules=rules, workers=Workers()), make_disk().name, make_disk().name)


@pytest.mark.seed("OPR-5", "OPR-6")
async def test_rules_that_are_written_and_reloaded_make_links_and_properties(machine: Machine) -> None:
    await machine.in_force(
        machine.rules(
            f'KERNEL=="{machine.first}", ENV{{CLASS}}="fast"',
            'ENV{CLASS}=="", GOTO="end"',
            'SYMLINK+="disk/test/$env{CLASS}/$kernel"',
        )
    )

    first, second = await machine.device(machine.first), await machine.device(machine.second)
    assert first.properties["CLASS"] == "fast"
    assert first.links == (f"disk/test/fast/{machine.first}",)
    assert "CLASS" not in second.properties
    assert second.links == ()


async def test_rules_without_a_reload_are_not_in_force(machine: Machine) -> None:
    await machine.in_force(machine.rules('ENV{MARK}="one"'))
    await machine.udev.write(NAME, machine.rules('ENV{MARK}="two"'))

    assert (await machine.device(machine.first)).properties["MARK"] == "one"
    await machine.looked_at()
    assert (await machine.device(machine.first)).properties["MARK"] == "two"


async def test_links_and_properties_go_with_the_rules(machine: Machine) -> None:
    await machine.in_force(machine.rules('ENV{MARK}="one", SYMLINK+="disk/test/$kernel"'))
    await machine.udev.remove(NAME)
    await machine.looked_at()

    device = await machine.device(machine.first)
    assert "MARK" not in device.properties
    assert device.links == ()
    assert await machine.udev.files("99-localpv-test") == {}


async def test_a_link_that_two_devices_want_leads_to_one_and_to_the_other_when_the_first_gives_it_up(
    machine: Machine,
) -> None:
    await machine.in_force(machine.rules('SYMLINK+="disk/test/same"'))

    found = [await machine.device(name) for name in (machine.first, machine.second)]
    assert sorted(device.links for device in found) == [(), ("disk/test/same",)]
    (owner,) = [device.name for device in found if device.links]
    (other,) = {machine.first, machine.second} - {owner}

    await machine.in_force(machine.rules(f'KERNEL=="{other}", SYMLINK+="disk/test/same"'))
    assert (await machine.device(other)).links == ("disk/test/same",)
    assert (await machine.device(owner)).links == ()


async def test_what_the_database_kept_can_be_imported_and_is_else_gone(machine: Machine) -> None:
    await machine.in_force(machine.rules('ENV{KEPT}="old", ENV{LOST}="old"'))
    await machine.in_force(machine.rules('IMPORT{db}="KEPT"', 'ENV{KEPT}=="old", ENV{SEEN}="yes"'))

    properties = (await machine.device(machine.first)).properties
    assert properties["KEPT"] == "old"
    assert properties["SEEN"] == "yes"
    assert "LOST" not in properties


async def test_only_files_with_the_prefix_are_told_and_half_written_ones_never(machine: Machine) -> None:
    await machine.udev.write(NAME, "# ours\n")
    await machine.udev.write("10-other.rules", "# other\n")
    if isinstance(machine.udev, HostUdev):
        (Path("/etc/udev/rules.d") / ".new-99-localpv-test").write_text("# half")
        (Path("/etc/udev/rules.d") / "99-localpv-link.rules").symlink_to("/etc/passwd")

    links = {"99-localpv-link.rules": ""} if isinstance(machine.udev, HostUdev) else {}
    assert await machine.udev.files("99-localpv") == {NAME: "# ours\n", **links}


@pytest.mark.parametrize("name", ["../99-x.rules", "a/b.rules", ".hidden.rules", "99-x.conf"])
async def test_no_file_is_written_outside_of_the_folder(machine: Machine, name: str) -> None:
    with pytest.raises(errors.OutsideFolder):
        await machine.udev.write(name, "")
    with pytest.raises(errors.OutsideFolder):
        await machine.udev.remove(name)


async def test_a_device_that_is_gone_is_no_error(machine: Machine) -> None:
    await machine.udev.trigger(["sdnotthere"])
    await machine.udev.remove("99-localpv-not-there.rules")


async def test_a_machine_without_udev_says_so(tmp_path: Path) -> None:
    fake = FakeUdev()
    fake.is_running = False
    for udev in (HostUdev(rules=tmp_path, workers=Workers(), run=tmp_path), fake):
        assert not await udev.running()
        with pytest.raises(errors.NotSupported, match="no udev"):
            await udev.reload()


IN_A_POD = """
import asyncio, sys
from pathlib import Path
from localpv.host.udev import HostUdev
from localpv.host.workers import Workers

async def main(name):
    udev = HostUdev(rules=Path("/etc/udev/rules.d"), workers=Workers())
    await udev.write("99-localpv-test.rules", 'KERNEL=="' + name + '", SYMLINK+="disk/test/pod"')
    await udev.reload()
    await udev.trigger([name])
    assert await udev.settle(seconds=60)

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.seed("OPR-5")
def test_the_hosts_udev_takes_rules_from_a_pod_which_has_another_root(
    private_udev: Path, make_disk: Callable[..., Path], tmp_path: Path
) -> None:
    """There udevadm ignores what it is asked for and ends well, unless it is told otherwise."""
    device, root, script = make_disk(), tmp_path / "root", tmp_path / "in_a_pod.py"
    root.mkdir()
    script.write_text(IN_A_POD)
    enter = 'mount --rbind / "$0" && exec chroot "$0" "$@"'
    words = ["sh", "-c", enter, str(root), sys.executable, str(script), device.name]
    subprocess.run(["unshare", "--mount", "--propagation", "private", *words], check=True, timeout=PATIENCE_SECONDS)
    assert os.path.realpath("/dev/disk/test/pod") == str(device)


async def test_a_file_that_cannot_be_read_is_an_error_and_not_one_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who took it for a new one would write it anew, without the links that it keeps for volumes."""
    udev = HostUdev(rules=tmp_path, workers=Workers(at_once=1))
    (tmp_path / "99-x-long.rules").write_text("#" * (RULES_BYTES + 10))
    (tmp_path / "99-x-link.rules").symlink_to("/etc/passwd")
    (tmp_path / "99-x-folder.rules").mkdir()
    found = await udev.files("99-x-")
    assert {name: len(text) for name, text in found.items()} == {
        "99-x-folder.rules": 0,
        "99-x-link.rules": 0,
        "99-x-long.rules": RULES_BYTES,
    }
    real = os.open

    def broken(path: object, *more: int, **options: int) -> int:
        if str(path).endswith("long.rules"):
            raise OSError(errno.EIO, "Input/output error")
        return real(path, *more, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("localpv.host.udev.os.open", broken)
    with pytest.raises(errors.HostError, match=r"99-x-long\.rules cannot be read"):
        await udev.files("99-x-")
