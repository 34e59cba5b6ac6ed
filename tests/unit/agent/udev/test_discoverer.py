"""What LocalStorages say becomes rules and links on a node, and the LocalStorageNode says what came of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.agent.udev.node_world import NODE, OLD, YOUNG, NodeWorld, devices, told

from localpv import errors
from localpv.agent.udev import lock, rules_file
from localpv.agent.udev.discoverer import FIRST_AGAIN, LOOK_EVERY, LOOK_WHILE_GOING
from localpv.agent.udev.report import MOST_DEVICES
from localpv.config import local_storage
from localpv.host import sysfs

FILE = "99-kubernetes-local-storage-a.rules"


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    made = NodeWorld(tmp_path)
    made.disk("sda", "ROOT")
    made.disk("sdb", "S1")
    made.disk("nvme0n1", ID_SERIAL="N1")
    return made


@pytest.mark.seed("OPR-5", "OPR-6")
async def test_devices_get_links_by_their_serial_number_or_else_by_their_kernel_name(world: NodeWorld) -> None:
    await world.discoverer(told(world.storage("a", devices("fast", "sdb", "nvme*")))).look()

    assert [*world.udev.rules] == [FILE]
    assert world.links() == {"fast/block/nvme-N1": "nvme0n1", "fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-12")
async def test_the_report_names_each_device_with_its_link_or_the_reason(world: NodeWorld) -> None:
    world.udev.plug("loop7", empty=True)
    await world.discoverer(told(world.storage("a", devices("fast", "sdb")))).look()

    found = world.report("a")
    assert found is not None
    assert (found.spec.node_name, found.spec.local_storage_name) == (NODE, "a")
    assert found.metadata.owner_references[0].uid == found.spec.local_storage_uid == "uid-of-a"
    assert (found.status.generation, found.status.matched, found.status.error) == (1, 1, "")
    first, *others = found.status.devices
    assert (first.device, first.link) == ("sdb", "/dev/disk/kubernetes-local-storage/fast/block/scsi-S1")
    assert (first.storage_class_name, first.volume_mode) == ("fast", "Block")
    assert first.rule == "nodes[0].devices[0].deviceNames[0]"
    assert {(other.device, other.reason, other.link) for other in others} == {
        ("nvme0n1", "NoRuleMatches", ""),
        ("sda", "NoRuleMatches", ""),
    }


@pytest.mark.seed("OPR-5")
async def test_nothing_is_written_read_again_or_triggered_when_nothing_changed(world: NodeWorld) -> None:
    configuration = told(world.storage("a", devices("fast", "sdb")))
    await world.discoverer(configuration).look()
    before = world.writes(), world.udev.reloads, [*world.udev.triggered]

    again = world.discoverer(configuration)
    await again.look()
    await again.look()

    assert (world.writes(), world.udev.reloads, world.udev.triggered) == before


@pytest.mark.seed("OPR-5")
async def test_a_change_is_in_force_at_once_and_moves_no_link_that_still_matches(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    discoverer.configure([told(world.storage("a", devices("fast", "sd[bc]", "nvme*")))])
    await discoverer.look()

    assert world.links() == {"fast/block/nvme-N1": "nvme0n1", "fast/block/scsi-S1": "sdb"}
    found = world.report("a")
    assert found is not None and found.status.generation == 2


@pytest.mark.seed("OPR-6")
async def test_two_disks_that_found_one_name_free_in_the_same_moment_have_a_link_each(world: NodeWorld) -> None:
    """udev looks at several devices at once; here both have looked before either had its link."""
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sd[b-z]"))))
    await discoverer.look()
    world.udev.blind = True
    world.disk("sdc", "S1", ID_PATH="pci-0000:00:1f.2-ata-2")
    world.udev.blind = False
    assert world.links() == {"fast/block/scsi-S1": "sdb"}

    await discoverer.look()

    assert world.links() == {"fast/block/scsi-S1": "sdb", "fast/block/scsi-S1-pci-0000:00:1f.2-ata-2": "sdc"}
    triggered = [*world.udev.triggered]
    await discoverer.look()
    assert world.udev.triggered == triggered


@pytest.mark.seed("OPR-7")
async def test_a_disk_that_comes_or_goes_later_is_linked_and_reported(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sd[b-z]"))))
    await discoverer.look()
    world.disk("sdc", "S2")
    await discoverer.look()
    found = world.report("a")
    assert found is not None and found.status.matched == 2

    world.udev.pull("sdb")
    await discoverer.look()
    found = world.report("a")
    assert found is not None and found.status.matched == 1
    assert world.links() == {"fast/block/scsi-S2": "sdc"}


@pytest.mark.seed("OPR-16")
async def test_of_two_that_match_one_device_the_older_wins_and_the_other_says_so(world: NodeWorld) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    assert world.links() == {"slow/block/scsi-S1": "sdb"}

    await world.discoverer(told(world.storage("old", devices("fast", "sdb"), created=OLD))).look()
    await young.look()

    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    found = world.report("young")
    assert found is not None
    (device,) = [each for each in found.status.devices if each.device == "sdb"]
    assert device.reason == "TakenByOther"
    assert "localpv-system/old" in device.message


# An older one takes nothing from under a volume of a younger one.


@pytest.mark.seed("OPR-16", "OPR-17")
@pytest.mark.parametrize("how", ["edited", "new on the node"])
async def test_an_older_one_that_comes_to_match_a_disk_in_use_leaves_it_to_the_younger(
    world: NodeWorld, how: str
) -> None:
    old = world.discoverer()
    if how == "edited":
        old.configure([told(world.storage("old", devices("fast", "nvme*"), created=OLD))])
        await old.look()
    young = world.discoverer(told(world.storage("young", devices("slow", "sd[b-z]"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    world.disk("sdc", "S2")

    edited = told(world.storage("old", devices("fast", "sd[b-z]", "nvme*"), created=OLD))
    old.configure([edited])
    wanted = {"fast/block/nvme-N1": "nvme0n1", "fast/block/scsi-S2": "sdc", "slow/block/scsi-S1": "sdb"}
    for _ in range(2):
        await old.look()
        assert world.links() == wanted
        await young.look()
        assert world.links() == wanted
    world.udev.restart()
    assert world.links() == wanted
    found = world.report("old")
    assert found is not None
    (device,) = [each for each in found.status.devices if each.device == "sdb"]
    assert device.reason == "TakenByOther"
    assert "localpv-system/young has the device, and a volume is on it" in device.message

    world.release("slow/block/scsi-S1")
    await world.discoverer(edited).look()
    taken = {"fast/block/nvme-N1": "nvme0n1", "fast/block/scsi-S1": "sdb", "fast/block/scsi-S2": "sdc"}
    assert world.links() == taken
    found = world.report("old")
    assert found is not None and found.status.matched == 3
    assert '"held"' not in "".join(world.udev.rules.values())


@pytest.mark.seed("OPR-17")
async def test_what_a_younger_one_keeps_of_an_earlier_rule_is_not_taken_either(world: NodeWorld) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    young.configure([told(world.storage("young", devices("slow", "nvme*"), created=YOUNG))])
    await young.look()

    await world.discoverer(told(world.storage("old", devices("fast", "sd[bc]"), created=OLD))).look()
    await young.look()

    assert world.links() == {"slow/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-17")
async def test_nothing_is_taken_while_nobody_says_which_disks_volumes_have(world: NodeWorld) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    old = world.discoverer(told(world.storage("old", devices("fast", "sdb", "nvme*"), created=OLD)))
    world.server.down = errors.ConnectionLost("down")
    with pytest.raises(errors.ConnectionLost):
        await old.look()
    assert world.links() == {"fast/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}

    world.server.down = None
    world.release("slow/block/scsi-S1")
    await old.look()
    assert world.links() == {"fast/block/nvme-N1": "nvme0n1", "fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-17")
async def test_a_disk_in_use_that_is_away_while_an_older_one_changes_is_still_its_own(world: NodeWorld) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    world.udev.pull("sdb")
    old = world.discoverer(told(world.storage("old", devices("fast", "sd*"), created=OLD)))
    for _ in range(3):
        await old.look()
        await young.look()
    world.disk("sdb", "S1")
    await old.look()

    assert world.links() == {"fast/block/scsi-ROOT": "sda", "slow/block/scsi-S1": "sdb"}


async def test_links_that_no_older_one_would_take_are_held_only_until_udev_has_looked(world: NodeWorld) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    old = world.discoverer(told(world.storage("old", devices("fast", "nvme*"), created=OLD)))
    await old.look()
    await old.look()

    assert '"held"' not in "".join(world.udev.rules.values())
    asked = len(world.server.requests)
    assert await old.look() == LOOK_EVERY
    assert not [each for each in world.server.requests[asked:] if "localdisks" in each.path]


@pytest.mark.seed("OPR-17")
async def test_too_many_links_that_others_hold_make_a_change_wait(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    young = world.discoverer(told(world.storage("young", devices("slow", "sdb"), created=YOUNG)))
    await young.look()
    world.publish("slow/block/scsi-S1")
    monkeypatch.setattr(local_storage, "MOST_KEPT", 0)
    await world.discoverer(told(world.storage("old", devices("fast", "sdb"), created=OLD))).look()

    assert world.links() == {"slow/block/scsi-S1": "sdb"}
    found = world.report("old")
    assert found is not None and "too many volumes" in found.status.error


@pytest.mark.seed("OPR-17")
async def test_which_disks_volumes_have_is_asked_when_nobody_else_changes_rules(world: NodeWorld) -> None:
    """A volume that was made while somebody else had the lock of the node is one that counts."""
    storage = world.storage("a", devices("fast", "sdb"))
    discoverer = world.discoverer(told(storage))
    await discoverer.look()
    discoverer.configure([told(storage, retired=True)])
    async with lock.held(world.state, clock=world.clock):
        looking = asyncio.create_task(discoverer.look())
        await world.clock.advance(lock.TRY_EVERY)
        world.publish("fast/block/scsi-S1")
    await world.clock.advance(lock.TRY_EVERY)
    await looking

    assert world.links() == {"fast/block/scsi-S1": "sdb"}


# Equal serial numbers.


@pytest.mark.seed("OPR-6")
async def test_disks_of_two_local_storages_with_one_serial_number_never_change_places(world: NodeWorld) -> None:
    first, second = "pci-0000:00:1f.2-ata-1", "pci-0000:00:1f.2-ata-2"
    world.disk("sdz", "X", ID_PATH=first)
    of_path = [told(world.storage("z", devices("fast", rules=(f'ENV{{ID_PATH}}=="{first}"',)), created=OLD))]
    await world.discoverer(*of_path).look()
    world.disk("sdd", "X", ID_PATH=second)
    of_path.append(told(world.storage("d", devices("fast", rules=(f'ENV{{ID_PATH}}=="{second}"',)), created=YOUNG)))
    wanted = {"fast/block/scsi-X": "sdz", f"fast/block/scsi-X-{second}": "sdd"}
    for each in of_path * 2:
        await world.discoverer(each).look()
    assert world.links() == wanted

    world.udev.restart()

    assert world.links() == wanted, "udev looks at sdd first, and nothing is known of before"


# A file whose header is damaged.


@pytest.mark.seed("OPR-17")
async def test_a_file_with_a_damaged_header_is_not_written_anew_under_a_volume(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    edited = told(world.storage("a", devices("other", "nvme*")))
    discoverer.configure([edited])
    await discoverer.look()
    assert "-r1" in world.udev.rules[FILE]
    world.udev.rules[FILE] = world.udev.rules[FILE].replace('"uid"', '"uix"', 1)
    again = world.discoverer(edited)
    with pytest.raises(errors.ConfigurationError):
        await again.look()
    world.udev.restart()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "other/block/nvme-N1": "nvme0n1"}
    found = world.report("a")
    assert found is not None and "damaged" in found.status.error and "fast/block/scsi-S1" in found.status.error

    world.release("fast/block/scsi-S1")
    await again.look()
    assert world.links() == {"other/block/nvme-N1": "nvme0n1"}
    assert rules_file.configuration(world.udev.rules[FILE]).name == "a"


@pytest.mark.seed("OPR-17")
@pytest.mark.parametrize("why", ["no answer", "the disk is away"])
async def test_a_damaged_file_stays_while_it_is_not_known_what_it_is_needed_for(world: NodeWorld, why: str) -> None:
    configuration = told(world.storage("a", devices("fast", "sdb")))
    await world.discoverer(configuration).look()
    world.publish("fast/block/scsi-S1")
    damaged = world.udev.rules[FILE] = world.udev.rules[FILE].replace('"uid"', '"uix"', 1)
    if why == "no answer":
        world.server.down = errors.ConnectionLost("down")
    else:
        world.udev.pull("sdb")
    with pytest.raises(errors.LocalpvError):
        await world.discoverer(configuration).look()

    assert world.udev.rules[FILE] == damaged


@pytest.mark.seed("OPR-17")
async def test_nothing_changes_beside_a_damaged_file_of_which_nobody_is_told(world: NodeWorld) -> None:
    """Its devices are guarded in the files of younger ones, and nobody knows them any more."""
    await world.discoverer(told(world.storage("a", devices("fast", "sdb"), created=OLD))).look()
    young = world.discoverer(told(world.storage("young", devices("slow", "sd[b-z]"), created=YOUNG)))
    await young.look()
    world.udev.rules[FILE] = world.udev.rules[FILE].replace('"uid"', '"uix"', 1)
    before = dict(world.udev.rules)
    with pytest.raises(errors.ConfigurationError):
        await young.look()
    await young.leave()

    assert world.udev.rules == before
    found = world.report("young")
    assert found is not None and f"header of {FILE} is damaged" in found.status.error


async def test_groups_of_one_local_storage_are_merged_and_an_older_generation_changes_nothing(world: NodeWorld) -> None:
    first = told(world.storage("a", devices("fast", "sdb")))
    newer = told(world.storage("a", devices("fast", "nvme*")))
    await world.discoverer(newer).look()
    await world.discoverer(first).look()

    assert world.links() == {"fast/block/nvme-N1": "nvme0n1"}


async def test_network_disks_are_left_alone_and_the_report_says_so(world: NodeWorld) -> None:
    world.udev.plug("rbd0")
    await world.discoverer(told(world.storage("a", devices("fast", "*")))).look()

    assert "rbd0" not in world.links().values()
    found = world.report("a")
    assert found is not None
    (device,) = [each for each in found.status.devices if each.device == "rbd0"]
    assert device.reason == "NetworkDisk"


async def test_a_udev_that_does_not_take_the_rules_over_is_found_out(world: NodeWorld) -> None:
    world.udev.deaf = True
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    found = world.report("a")
    assert found is not None
    assert (found.status.generation, found.status.matched) == (0, 0)
    assert "has not taken the rules over" in found.status.error
    assert not discoverer.synced

    world.udev.deaf = False
    await world.clock.advance(FIRST_AGAIN)
    await discoverer.look()
    found = world.report("a")
    assert found is not None and (found.status.generation, found.status.error) == (1, "")
    assert discoverer.synced


async def test_a_device_that_somebody_has_locked_is_looked_at_later(world: NodeWorld) -> None:
    world.udev.lock("sdb")
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb", "nvme*"))))
    await discoverer.look()
    found = world.report("a")
    assert found is not None and found.status.error == ""
    (device,) = [each for each in found.status.devices if each.device == "sdb"]
    assert device.reason == "NotLookedAt"
    assert discoverer.synced, "one disk that hangs or is locked stops nothing else"
    assert discoverer.unseen == 1

    asked = world.udev.triggered.count("sdb")
    await discoverer.look()
    assert world.udev.triggered.count("sdb") == asked, "each question is a uevent, which makes us look"
    world.udev.lock("sdb", False)
    await world.clock.advance(FIRST_AGAIN)
    await discoverer.look()
    assert world.links()["fast/block/scsi-S1"] == "sdb"


async def test_a_node_without_udev_says_so_in_the_report(world: NodeWorld) -> None:
    world.udev.is_running = False
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    with pytest.raises(errors.NotSupported):
        await discoverer.look()

    found = world.report("a")
    assert found is not None and "runs no udev" in found.status.error
    assert world.udev.rules == {}


async def test_a_file_of_somebody_else_with_our_name_is_left_as_it_is(world: NodeWorld) -> None:
    world.udev.rules[FILE] = 'KERNEL=="sdb", SYMLINK+="mine"\n'
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    with pytest.raises(errors.ConfigurationError, match="not written by localpv"):
        await discoverer.look()

    assert world.udev.rules == {FILE: 'KERNEL=="sdb", SYMLINK+="mine"\n'}
    found = world.report("a")
    assert found is not None and "not written by localpv" in found.status.error


async def test_the_report_is_bounded_and_counts_all_the_same(world: NodeWorld) -> None:
    for number in range(300):
        world.disk(f"sdx{number}", f"X{number}")
    await world.discoverer(told(world.storage("a", devices("fast", "sdx*")))).look()

    found = world.report("a")
    assert found is not None
    assert (found.status.matched, len(found.status.devices)) == (300, MOST_DEVICES)


def test_long_names_are_cut_and_stay_apart() -> None:
    names = {local_storage.report_name("a" * 253, f"node-{number}") for number in range(3)}
    assert len(names) == 3
    assert all(len(name) == 253 for name in names)
    assert local_storage.report_name("a", "one") == "a.one"


# The end.


@pytest.mark.seed("OPR-17")
async def test_an_update_leaves_rules_links_and_report(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    rules, links, triggered = dict(world.udev.rules), world.links(), [*world.udev.triggered]

    await discoverer.leave()

    assert (world.udev.rules, world.links(), world.udev.triggered) == (rules, links, triggered)
    assert world.report("a") is not None


@pytest.mark.seed("OPR-8")
async def test_what_another_engine_of_the_machine_has_linked_is_neither_taken_nor_touched(world: NodeWorld) -> None:
    """A node of a cluster on which somebody tries `localpv up`: its API knows nothing of the LocalStorages there."""
    cluster = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await cluster.look()
    rules = dict(world.udev.rules)

    storage = world.storage("tried", devices("slow", "nvme*"))
    world.delete_storage("a")
    tried = world.discoverer(told(storage), engine="0123abcd")
    await tried.look()
    assert rules.items() < world.udev.rules.items()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}
    assert tried.synced and not tried.unseen

    world.delete_storage("tried")
    await tried.leave()
    assert world.udev.rules == rules
    assert world.links() == {"fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-8", "OPR-17")
@pytest.mark.parametrize("why", ["gone", "deleting", "another", "no group", "node not selected"])
async def test_a_removal_takes_rules_links_and_report(world: NodeWorld, why: str) -> None:
    selector = {"disks": "yes"}
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"), node_selector=selector)))
    await discoverer.look()
    match why:
        case "gone":
            world.delete_storage("a")
        case "deleting":
            world.change_storage("a", deletionTimestamp="2030-01-01T00:00:00Z")
        case "another":
            world.change_storage("a", uid="another")
        case "no group":
            world.storage("a", devices("fast", "sdb"), node_selector={"other": "nodes"})
        case "node not selected":
            world.label_node(disks="no")

    await discoverer.leave()

    assert world.udev.rules == {}
    assert world.links() == {}
    assert world.report("a") is None


@pytest.mark.seed("OPR-17")
async def test_a_removal_leaves_the_links_that_volumes_have(world: NodeWorld) -> None:
    world.publish("fast/block/scsi-S1")
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb", "nvme*"))))
    await discoverer.look()
    world.delete_storage("a")

    await discoverer.leave()

    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    assert world.report("a") is not None
    world.disk("sdc", "S1x")
    world.udev.restart()
    assert world.links() == {"fast/block/scsi-S1": "sdb"}


async def test_without_an_answer_everything_stays(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.delete_storage("a")
    world.server.down = errors.ConnectionLost("down")

    await discoverer.leave()

    assert [*world.udev.rules] == [FILE]
    assert world.links() == {"fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-8")
async def test_files_whose_local_storage_is_gone_are_removed_by_whoever_starts_next(world: NodeWorld) -> None:
    await world.discoverer(told(world.storage("a", devices("fast", "sdb")))).look()
    world.udev.rules["99-kubernetes-local-storage-strange.rules"] = "# an administrator's\n"
    world.delete_storage("a")

    await world.discoverer(told(world.storage("b", devices("slow", "nvme*")))).look()

    assert [*sorted(world.udev.rules)] == [
        "99-kubernetes-local-storage-b.rules",
        "99-kubernetes-local-storage-strange.rules",
    ]
    assert world.links() == {"slow/block/nvme-N1": "nvme0n1"}


@pytest.mark.seed("OPR-8", "OPR-17")
async def test_files_of_others_that_exist_or_have_volumes_stay(world: NodeWorld) -> None:
    await world.discoverer(told(world.storage("a", devices("fast", "sdb")))).look()
    b = told(world.storage("b", devices("slow", "nvme*"), created=YOUNG))
    await world.discoverer(b).look()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}

    world.publish("fast/block/scsi-S1")
    world.delete_storage("a")
    other = world.discoverer(b)
    await other.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}

    world.release("fast/block/scsi-S1")
    await other.look()
    assert world.links() == {"slow/block/nvme-N1": "nvme0n1"}


# Other devices in a group that stays.


@pytest.mark.seed("OPR-17")
@pytest.mark.parametrize(
    ("edit", "unbound"),
    [
        (devices("fast", "nvme*"), {"fast/block/nvme-N1": "nvme0n1"}),
        (devices("other", "sd[bc]"), {"other/block/scsi-S2": "sdc"}),
        (devices("fast", "sd[bc]", volumeMode="Filesystem"), {"fast/filesystem/scsi-S2": "sdc"}),
        (devices("fast", "sd[bc]", excludeDeviceNames=["sdb"]), {"fast/block/scsi-S2": "sdc"}),
    ],
    ids=["deviceNames", "storageClassName", "volumeMode", "excludeDeviceNames"],
)
async def test_a_disk_that_a_volume_has_keeps_its_link_when_its_group_changes(
    world: NodeWorld, edit: dict[str, Any], unbound: dict[str, str]
) -> None:
    world.disk("sdc", "S2")
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sd[bc]"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")

    discoverer.configure([told(world.storage("a", edit))])
    for _ in range(3):
        assert await discoverer.look() == LOOK_WHILE_GOING
        assert world.links() == {"fast/block/scsi-S1": "sdb"} | unbound
    world.udev.restart()
    again = world.discoverer(told(world.storage("a", edit)))
    await again.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb"} | unbound
    found = world.report("a")
    assert found is not None and (found.status.generation, found.status.error) == (3, "")
    (device,) = [each for each in found.status.devices if each.device == "sdb"]
    assert device.rule.startswith("nodes[0:") and device.storage_class_name == "fast"
    headers = local_storage.classes([rules_file.configuration(world.udev.rules[FILE])])
    assert "/dev/disk/kubernetes-local-storage/fast/block" in [each.host_dir for each in headers["fast"].folders]

    world.release("fast/block/scsi-S1")
    await again.look()
    assert "fast/block/scsi-S1" not in world.links()
    assert world.links().items() >= unbound.items()
    assert await again.look() == LOOK_EVERY
    assert "-r1" not in world.udev.rules[FILE]


@pytest.mark.seed("OPR-17")
async def test_a_group_stays_as_it_is_while_nobody_says_which_of_its_disks_volumes_have(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    discoverer.configure([told(world.storage("a", devices("other", "nvme*")))])
    world.server.down = errors.ConnectionLost("down")
    with pytest.raises(errors.ConnectionLost):
        await discoverer.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb"}

    world.server.down = None
    await discoverer.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "other/block/nvme-N1": "nvme0n1"}


async def test_nothing_is_left_of_rules_whose_links_those_of_now_give_too(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    discoverer.configure([told(world.storage("a", devices("fast", "sd[bc]")))])
    await discoverer.look()
    found = world.report("a")
    assert found is not None and found.status.devices[0].rule == "nodes[0].devices[0].deviceNames[0]"

    assert await discoverer.look() == LOOK_EVERY
    assert "-r1" not in world.udev.rules[FILE]
    assert world.links() == {"fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-17")
async def test_a_disk_in_use_that_is_not_there_has_its_link_when_it_is_back(world: NodeWorld) -> None:
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    world.udev.pull("sdb")
    for name in ("other", "third", "fourth"):
        discoverer.configure([told(world.storage("a", devices(name, "sdb", "nvme*")))])
        await discoverer.look()
        await discoverer.look()
    world.disk("sdb", "S1")

    assert world.links() == {"fast/block/scsi-S1": "sdb", "fourth/block/nvme-N1": "nvme0n1"}


@pytest.mark.seed("OPR-17")
async def test_volumes_of_several_earlier_rules_keep_their_links_side_by_side(world: NodeWorld) -> None:
    world.disk("sdc", "S2")
    world.disk("sdd", "S3")
    discoverer = world.discoverer(told(world.storage("a", devices("one", "sd[bcd]"))))
    await discoverer.look()
    world.publish("one/block/scsi-S1")
    discoverer.configure([told(world.storage("a", devices("two", "sd[bcd]")))])
    await discoverer.look()
    world.publish("two/block/scsi-S2")
    discoverer.configure([told(world.storage("a", devices("three", "sd[bcd]")))])
    await discoverer.look()
    world.udev.restart()

    assert world.links() == {"one/block/scsi-S1": "sdb", "two/block/scsi-S2": "sdc", "three/block/scsi-S3": "sdd"}


@pytest.mark.seed("OPR-17")
async def test_a_link_in_use_stays_when_another_group_takes_the_device(world: NodeWorld) -> None:
    made = told(world.storage("a", devices("slow", "sdb")))
    [(id, group)] = made.groups.items()
    discoverer = world.discoverer(made)
    await discoverer.look()
    world.publish("slow/block/scsi-S1")
    [before] = told(world.storage("a", devices("fast", "sd[b-z]", "nvme*"))).groups.values()
    moved = msgspec.structs.replace(group, index=1, generation=2)
    discoverer.configure([msgspec.structs.replace(made, groups={"00000000": before, id: moved})])
    for _ in range(3):
        await discoverer.look()
        assert world.links() == {"fast/block/nvme-N1": "nvme0n1", "slow/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-17")
async def test_too_many_earlier_rules_make_a_change_wait(world: NodeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_storage, "MOST_NODE_GROUPS", 1)
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    discoverer.configure([told(world.storage("a", devices("other", "sdb")))])

    assert await discoverer.look() == LOOK_WHILE_GOING
    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    found = world.report("a")
    assert found is not None and "earlier rules" in found.status.error

    world.release("fast/block/scsi-S1")
    await discoverer.look()
    assert world.links() == {"other/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-18")
async def test_a_device_of_a_group_that_goes_does_not_pass_for_one_of_the_group_at_its_place(world: NodeWorld) -> None:
    """The header says what is meant before udev has looked: a device says still that it is of the group at nodes[0]."""
    made = told(world.storage("a", devices("fast", "sdb")))
    [(id, group)] = made.groups.items()
    discoverer = world.discoverer(made)
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    [other] = told(world.storage("a", devices("fast", "nvme*"))).groups.values()
    going = msgspec.structs.replace(group, retired=True, generation=2)
    discoverer.configure([msgspec.structs.replace(made, groups={"00000000": other, id: going})])
    world.udev.deaf = True
    await discoverer.look()

    def offered(name: str) -> bool:
        configurations = [rules_file.configuration(world.udev.rules[FILE])]
        settings = local_storage.classes(configurations, rules_file.digests(configurations))["fast"]
        properties = world.udev._records[name][0]
        matches = [match for match in sysfs.rule_matches(dict(properties)) if match.storage_class == "fast"]
        limits = [(match, settings.device_filter(match.rule)) for match in matches]
        return any(not limit.retired and limit.looked_with in ("", match.mark) for match, limit in limits)

    assert not offered("sdb"), "udev has not looked at it with these rules"
    world.udev.deaf = False
    await world.clock.advance(FIRST_AGAIN)
    await discoverer.look()
    assert not offered("sdb"), "its group is going"
    assert offered("nvme0n1")


# Retired groups.


@pytest.mark.seed("OPR-18")
async def test_a_retired_group_links_nothing_new_and_keeps_what_volumes_have(world: NodeWorld) -> None:
    storage = world.storage("a", devices("fast", "sd[b-z]", "nvme*"))
    discoverer = world.discoverer(told(storage))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")

    discoverer.configure([told(storage, retired=True)])
    assert await discoverer.look() == LOOK_WHILE_GOING
    world.disk("sdc", "S2")
    await discoverer.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    found = world.report("a")
    assert found is not None
    assert {each.device: each.reason for each in found.status.devices}["sdc"] == "Retired"

    world.release("fast/block/scsi-S1")
    assert await discoverer.look() == LOOK_EVERY
    assert world.links() == {}
    assert world.udev.rules == {}


async def test_a_retired_group_stays_as_it_is_while_nobody_says_what_volumes_have(world: NodeWorld) -> None:
    storage = world.storage("a", devices("fast", "sdb"))
    discoverer = world.discoverer(told(storage))
    await discoverer.look()
    world.publish("fast/block/scsi-S1")
    discoverer.configure([told(storage, retired=True)])
    world.server.down = errors.ConnectionLost("down")
    with pytest.raises(errors.ConnectionLost):
        await discoverer.look()

    assert world.links() == {"fast/block/scsi-S1": "sdb"}


@pytest.mark.seed("OPR-5")
async def test_rules_come_into_force_also_while_the_api_server_is_away(world: NodeWorld) -> None:
    await world.discoverer(told(world.storage("gone", devices("slow", "nvme*")))).look()
    configuration = told(world.storage("a", devices("fast", "sdb")))
    world.delete_storage("gone")
    world.server.down = errors.ConnectionLost("down")
    discoverer = world.discoverer(configuration)
    with pytest.raises(errors.ConnectionLost):
        await discoverer.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb", "slow/block/nvme-N1": "nvme0n1"}
    assert discoverer.synced

    world.server.down = None
    await discoverer.look()
    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    assert world.report("a") is not None


async def test_another_local_storage_of_the_same_name_waits_for_the_volumes_of_the_first(world: NodeWorld) -> None:
    await world.discoverer(told(world.storage("a", devices("fast", "sdb")))).look()
    world.publish("fast/block/scsi-S1")
    world.delete_storage("a")
    second = world.discoverer(told(world.storage("a", devices("slow", "nvme*"), created=YOUNG, uid="second")))

    assert await second.look() == LOOK_WHILE_GOING
    assert world.links() == {"fast/block/scsi-S1": "sdb"}
    found = world.report("a")
    assert found is not None and "fast/block/scsi-S1" in found.status.error

    world.release("fast/block/scsi-S1")
    await second.look()
    assert world.links() == {"slow/block/nvme-N1": "nvme0n1"}
    found = world.report("a")
    assert found is not None and (found.status.error, found.spec.local_storage_uid) == ("", "second")


@pytest.mark.seed("OPR-19")
async def test_a_group_that_was_let_go_in_the_middle_of_a_look_does_not_come_back(world: NodeWorld) -> None:
    """On one machine a LocalStorage goes while the discoverer goes on."""
    discoverer = world.discoverer(told(world.storage("a", devices("fast", "sdb"))))
    await discoverer.look()
    inner, entered, go_on = world.udev.running, asyncio.Event(), asyncio.Event()

    async def running() -> bool:
        entered.set()
        await go_on.wait()
        return await inner()

    world.udev.running = running  # type: ignore[method-assign]
    looking = asyncio.create_task(discoverer.look())
    await entered.wait()
    going = told(world.storage("a", devices("fast", "sdb")))
    world.delete_storage("a")
    discoverer.configure([])
    await discoverer.leave([going])
    assert world.udev.rules == {}
    go_on.set()
    await looking
    assert world.udev.rules == {}
    assert world.links() == {}
