"""ATA drives that erase themselves, or say so.

The emulator's drives know no security commands, and hdparm ends well on them all the same. So what is real here: the
drive, hdparm's commands to it and their exit status, and the data that is left. What is not: a drive that erases. Where
a test needs one that says it can, or one that does, a program in front of hdparm plays that part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.vm import hardware
from tests.vm.node import Node

BlankDisk = Callable[[str], Path]
IN_FRONT = Path("/usr/local/sbin/hdparm")
"""Where tools are looked for first."""

LOG = Path("/run/hdparm.log")
PASSWORD = Path("/run/hdparm.password")

SAYS_IT_CAN = """#!/bin/sh
# Says that the drive has security commands; the rest is between hdparm and the drive.
echo "$*" >>/run/hdparm.log
[ "$1" = -I ] || exec /usr/sbin/hdparm "$@"
printf 'Security: \\n\\tMaster password revision code = 65534\\n\\t\\tsupported\\n'
if [ -e /run/hdparm.password ]; then printf '\\t\\tenabled\\n'; else printf '\\tnot\\tenabled\\n'; fi
printf '\\tnot\\tlocked\\n\\tnot\\tfrozen\\n\\tnot\\texpired: security count\\n\\t\\tsupported: enhanced erase\\n'
"""

ERASES = (
    SAYS_IT_CAN.replace("""[ "$1" = -I ] || exec /usr/sbin/hdparm "$@"\n""", "")
    + """
case "$*" in
*--security-set-pass*) touch /run/hdparm.password ;;
*--security-erase*) [ -e /run/hdparm.password ] && blkdiscard -z "$5" && rm /run/hdparm.password ;;
*--security-disable*) rm -f /run/hdparm.password ;;
esac
"""
)


@pytest.fixture(autouse=True)
def _nothing_left_in_front() -> Iterator[None]:
    yield
    for path in (IN_FRONT, LOG, PASSWORD):
        path.unlink(missing_ok=True)


def put_in_front(program: str) -> None:
    IN_FRONT.write_text(program)
    IN_FRONT.chmod(0o755)


@pytest.mark.seed("CLN-5", "DEL-4")
def test_drive_without_security_commands_is_not_touched_and_not_offered(node: Node, blank_disk: BlankDisk) -> None:
    device = blank_disk("SATASSD")
    with node.linked("erase", "unable", device):
        volume = node.volume("erase", "unable")
        hardware.fill(device)
        node.release(volume)

        disk = node.cleaning("erase", "unable", "Failed", "NotSupported")
        assert "it knows no security commands" in disk["status"]["cleaning"]["error"]
        assert disk["status"]["phase"] == "CleanFailed"
        assert hardware.old_mib(device) == 32
        assert node.volume_is(volume)["status"]["phase"] == "Released"


@pytest.mark.seed("CLN-5", "DEL-4", "DEL-6")
def test_erasure_that_hdparm_calls_done_is_found_out_and_another_way_brings_the_disk_back(
    node: Node, blank_disk: BlankDisk
) -> None:
    device = blank_disk("SATAHDD")
    put_in_front(SAYS_IT_CAN)
    with node.linked("erase", "liar", device):
        volume = node.volume("erase", "liar")
        hardware.fill(device)
        node.release(volume)

        disk = node.cleaning("erase", "liar", "Failed", "NotClean")
        assert "--security-erase" in LOG.read_text()
        assert hardware.old_mib(device) == 32
        assert disk["status"]["phase"] == "CleanFailed"
        assert disk["status"]["cleaning"]["nextAttemptAt"]
        assert not disk["status"].get("eligible")
        assert node.volume_is(volume)["status"]["phase"] == "Released"

        # While an attempt is under way another method is refused; the next one is always later.
        again = ("wipe", disk["metadata"]["name"], "--method", "dd-zero", "--yes")
        node.eventually(lambda: node.run(*again).returncode == 0, "a person's order is taken")
        node.comes_back("erase", "liar", volume)
        assert hardware.is_zero(device)


@pytest.mark.seed("CLN-5")
def test_drive_that_erases_itself_is_offered_again_without_a_password_on_it(node: Node, blank_disk: BlankDisk) -> None:
    device = blank_disk("SATAHDD")
    put_in_front(ERASES)
    PASSWORD.touch()  # of an erasure that was cut short before it began
    with node.linked("erase", "able", device):
        volume = node.volume("erase", "able")
        hardware.fill(device)
        node.release(volume)

        node.comes_back("erase", "able", volume)
        assert hardware.is_zero(device)
        said = [line.split("--security-")[1].split()[0] for line in LOG.read_text().splitlines() if "security-" in line]
        assert said == ["disable", "set-pass", "erase", "disable"]
        assert not PASSWORD.exists()


@pytest.mark.seed("CLN-5", "CLN-6")
def test_own_command_that_believes_hdparm_is_found_out_on_raw_data(node: Node, blank_disk: BlankDisk) -> None:
    device = blank_disk("SATASSD")
    command = Path("/run/own-cleaner")
    command.write_text(
        "#!/bin/sh -e\n"
        'hdparm --user-master u --security-set-pass x "$LOCAL_PV_BLKDEVICE"\n'
        'hdparm --user-master u --security-erase x "$LOCAL_PV_BLKDEVICE"\n'
    )
    command.chmod(0o755)
    with node.linked("own", "command", device):
        volume = node.volume("own", "command")
        hardware.fill(device)
        node.release(volume)

        disk = node.cleaning("own", "command", "Failed", "NotClean")
        assert "/run/own-cleaner ended well" in disk["status"]["cleaning"]["error"]
        assert node.volume_is(volume)["status"]["phase"] == "Released"

        command.write_text('#!/bin/sh -e\nblkdiscard -z "$LOCAL_PV_BLKDEVICE"\n')
        node.comes_back("own", "command", volume)
        assert hardware.is_zero(device)
