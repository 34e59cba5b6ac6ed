"""Every rule: what it objects to, with which word, and that its sentence says what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localpv.agent.discover import candidate, eligibility, presence, remains, rules
from localpv.agent.discover.candidate import Candidate
from localpv.agent.discover.entry import Sighting
from localpv.agent.discover.probe import Facts
from localpv.api.kinds.localdisk import (
    Cleaning,
    DiskIdentity,
    EarlierDevice,
    LocalDisk,
    LocalDiskSpec,
    LocalDiskStatus,
    OfferedVolume,
)
from localpv.api.kinds.meta import ObjectMeta
from localpv.config.cleaners import Cleaner
from localpv.config.settings import ClassSettings, DeviceFilter
from localpv.host.contents import BLANK, Contents, of_names
from localpv.host.folders import Entry, FileKind
from localpv.host.marks import Mark
from localpv.host.model.devices import BlockDevice, DeviceKind, DeviceNumber, Medium, RuleMatch, Signature
from localpv.host.model.identity import Identity, Twin
from localpv.host.mounts import Mount
from localpv.testing.fake_host import block_device

GIB = 1024**3
FOLDER = Path("/mnt/fast")
SDB = DeviceNumber(8, 16)
RECORDED = DiskIdentity(serial="S1", major_minor="8:16", size_bytes=10 * GIB)
FILES = of_names(["data", "more"])
BYTES = Contents(data="data of an unknown kind near byte 0")
EXT4 = Signature(type="ext4", usage="filesystem", uuid="11111111-0000-4000-8000-000000000000")


def a_device(**known: Any) -> BlockDevice:
    base = {"path": Path("/dev/sdb"), "kernel_name": "sdb", "number": SDB, "size_bytes": 10 * GIB, "serial": "S1"}
    return block_device(**{**base, "opens_exclusively": True, **known})


def a_mount(**known: Any) -> Mount:
    base = {"mount_id": 70, "device": SDB, "root": "/", "mount_point": FOLDER / "a", "options": ("rw",)}
    return Mount(**{**base, **known})


def settings(**known: Any) -> ClassSettings:
    return ClassSettings(name="fast", host_dir=str(FOLDER), mount_dir=str(FOLDER), **known)


def a_record(
    *,
    published: bool = False,
    identity: DiskIdentity | None = None,
    identity_now: DiskIdentity | None = None,
    **status: Any,
) -> LocalDisk:
    return LocalDisk(
        metadata=ObjectMeta(name="node-1-a-0123abcd"),
        spec=LocalDiskSpec(
            node_name="node-1",
            storage_class_name="fast",
            entry="a",
            path="/mnt/fast/a",
            volume_mode="Filesystem",
            volume=OfferedVolume(name="pv-a", uid="uid-a") if published else None,
            identity=identity,
        ),
        status=LocalDiskStatus(identity=identity_now, **status),
    )


def cleaned_elsewhere(method: str) -> LocalDisk:
    return a_record(kind="BlockDevice", cleaning=Cleaning(volume_uid="u", state="Verified", method=(method,)))


def device_case(
    device: BlockDevice | None = None,
    *,
    mode: str = "Block",
    fs_type: str = "",
    adopt: bool | None = None,
    contents: Contents | None = BLANK,
    **more: Any,
) -> Candidate:
    device = device or a_device()
    entry = Entry(name="a", kind=FileKind.BLOCK_DEVICE, is_link=True, target=device.path, device=device.number)
    return Candidate(
        settings=settings(volume_mode=mode, fs_type=fs_type, adopt_existing=adopt),
        sighting=Sighting(entry=entry, folder=FOLDER, target=f"device {device.number}"),
        facts=Facts(device=device, identity=device.identity, capacity_bytes=device.size_bytes, contents=contents),
        **more,
    )


def with_facts(case: Candidate, **facts: Any) -> Candidate:
    return replace(case, facts=replace(case.facts, **facts))


def mount_case(mount: Mount | None = None, *, identity: Identity | None = None, **more: Any) -> Candidate:
    mount = mount or a_mount()
    return Candidate(
        settings=more.pop("settings", settings()),
        sighting=Sighting(
            entry=Entry(name="a", kind=FileKind.DIRECTORY),
            folder=FOLDER,
            mount=mount,
            target=f"directory {mount.device} /",
        ),
        facts=Facts(
            identity=identity or Identity(fs_uuid="u1", major_minor="8:16", mount_id=mount.mount_id),
            capacity_bytes=more.pop("capacity", 10 * GIB),
            contents=more.pop("contents", BLANK),
        ),
        **more,
    )


def directory_case(**more: Any) -> Candidate:
    around = more.pop("around", a_mount(device=DeviceNumber(8, 1), mount_point=Path("/")))
    return Candidate(
        settings=more.pop("settings", settings()),
        sighting=Sighting(
            entry=more.pop("entry", Entry(name="a", kind=FileKind.DIRECTORY)),
            folder=FOLDER,
            around=around,
            target="directory 8:1 /mnt/fast/a",
            root=more.pop("root", False),
        ),
        facts=Facts(
            identity=Identity(fs_uuid="root", major_minor="8:1"),
            capacity_bytes=more.pop("capacity", 10 * GIB),
            contents=more.pop("contents", BLANK),
        ),
        **more,
    )


RULE = "localpv-system/fast nodes[0].devices[1].udevRules[0]"


def matched_case(*, medium: Medium = Medium.SSD, rule: str = RULE, of_group: int = 0, **filters: Any) -> Candidate:
    """A device that a rule of a LocalStorage matched, whose group takes what the filters say."""
    device = a_device(matches=(RuleMatch("fast", rule),) if rule else (RuleMatch("slow", RULE),))
    case = device_case(device, of_group=of_group)
    group = {"localpv-system/fast nodes[0].devices[1]": DeviceFilter(**filters)}
    own = replace(case.settings, from_local_storage=True, device_filters=group)
    return replace(case, settings=own, facts=replace(case.facts, medium=medium))


def twice(case: Candidate) -> Candidate:
    """The same where another directory of the class has an entry of that name."""
    return replace(case, sighting=replace(case.sighting, twice="/mnt/more"))


def replace_fs(identity: DiskIdentity) -> DiskIdentity:
    """With the UUID of a file system, which is not there any more when the device was cleaned."""
    return msgspec.structs.replace(identity, fs_uuid="was-there")


def used(case: Candidate) -> Candidate:
    """The same with a mark of a tenant on the disk."""
    return replace(case, facts=replace(case.facts, mark=Mark(volume="pv-old", uid="uid-old")))


def other_case(kind: FileKind, **more: Any) -> Candidate:
    entry = Entry(name="a", kind=kind, is_link=kind is FileKind.DANGLING_LINK, target=Path("/dev/gone"))
    return Candidate(settings=settings(), sighting=Sighting(entry=entry, folder=FOLDER), facts=Facts(), **more)


OFFERED = {
    "a raw device": device_case(),
    "a device to be formatted": device_case(mode="Filesystem"),
    "a device with the file system that the class names": device_case(
        a_device(signatures=(EXT4,)), mode="Filesystem", fs_type="ext4"
    ),
    "a partition with an ordinary label": device_case(a_device(part_label="data", kind=DeviceKind.PARTITION)),
    "a mount point": mount_case(),
    "a plain directory": directory_case(),
    "a mount point that is required": mount_case(settings=settings(require_mount_point=True)),
    "a mount point that is new": mount_case(settling=True),
    "a directory whose record was always one": directory_case(record=a_record(kind="Directory")),
    "a disk that was cleaned": device_case(
        record=a_record(kind="BlockDevice", cleaning=Cleaning(volume_uid="uid-old", state="Verified"))
    ),
    "a device that was cleaned by a method that leaves bytes": device_case(
        contents=BYTES,
        record=a_record(
            kind="BlockDevice",
            identity_now=RECORDED,
            cleaning=Cleaning(volume_uid="uid-old", state="Verified", method=("fs-reset",)),
        ),
    ),
    "a directory with files where what exists is adopted": directory_case(
        contents=FILES, settings=settings(adopt_existing=True)
    ),
    "a device with files where what exists is adopted": device_case(
        a_device(signatures=(EXT4,)), mode="Filesystem", fs_type="ext4", contents=FILES, adopt=True
    ),
    "a device with bytes where what exists is adopted": device_case(contents=BYTES, adopt=True),
    "a device that a rule matched": matched_case(),
    "a device of just the smallest and largest size": matched_case(min_bytes=10 * GIB, max_bytes=10 * GIB),
    "a device of a medium that its group takes": matched_case(media=("HDD", "SSD")),
    "the last device that its group takes": matched_case(max_count=2, of_group=1),
}


@pytest.mark.seed("DSC-1")
@pytest.mark.parametrize("case", OFFERED.values(), ids=OFFERED)
def test_offered_is(case: Candidate) -> None:
    verdict = rules.judge(case)

    assert verdict.eligible, verdict
    assert verdict.reason == "Available"


REFUSED = {
    "a disk that gives no answer": (
        Candidate(
            settings=settings(),
            sighting=device_case().sighting,
            facts=Facts(hung=True, trouble="/dev/sdb gave no answer in 10 s"),
        ),
        "Hung",
    ),
    "a disk whose copy is there as well": (device_case(a_device(twins=(Twin("serial S1", "sdc"),))), "SameNames"),
    "a disk that nothing tells from the next one": (device_case(a_device(serial="")), "NoIdentity"),
    "a disk that cannot be read": (
        Candidate(settings=settings(), sighting=device_case().sighting, facts=Facts(trouble="/dev/sdb does not open")),
        "Unreadable",
    ),
    "a file": (other_case(FileKind.OTHER), "NotADirectoryNorDevice"),
    "a link to nowhere": (other_case(FileKind.DANGLING_LINK), "DanglingLink"),
    "a directory that was a mount point": (directory_case(record=a_record(kind="MountPoint")), "WasMountPoint"),
    "a disk whose cleaning failed": (
        device_case(record=a_record(cleaning=Cleaning(volume_uid="uid-old", state="Failed"))),
        "NotCleaned",
    ),
    "a disk whose cleaning was cut short": (
        device_case(record=a_record(cleaning=Cleaning(volume_uid="uid-old", state="Running"))),
        "NotCleaned",
    ),
    "a disk that a pod had before all records were lost": (used(device_case()), "UsedBefore"),
    "a directory that a pod had before all records were lost": (used(directory_case()), "UsedBefore"),
    "a directory where devices are offered": (directory_case(settings=settings(volume_mode="Block")), "NotADevice"),
    "a mount point where devices are offered": (mount_case(settings=settings(volume_mode="Block")), "NotADevice"),
    "the root directory": (directory_case(root=True), "RootDirectory"),
    "a link to a directory": (
        directory_case(entry=Entry(name="a", kind=FileKind.DIRECTORY, is_link=True, target=Path("/srv/a"))),
        "LinkToDirectory",
    ),
    "a plain directory where mount points are required": (
        directory_case(settings=settings(require_mount_point=True)),
        "NotMounted",
    ),
    "a device mounted somewhere": (device_case(a_device(mounted_at=("/data",), opens_exclusively=False)), "Mounted"),
    "a member of LVM or RAID": (device_case(a_device(holders=("dm-0",), opens_exclusively=False)), "Held"),
    "swap in use": (device_case(a_device(swap=True, opens_exclusively=False)), "Swap"),
    "swap not in use": (device_case(a_device(signatures=(Signature(type="swap", usage="other"),))), "Swap"),
    "a disk with partitions": (device_case(a_device(partitions=("sdb1",))), "Partitioned"),
    "a disk with an empty partition table": (
        device_case(a_device(signatures=(Signature(type="gpt", usage="partition-table"),))),
        "Partitioned",
    ),
    "a BIOS boot partition": (device_case(a_device(part_label="BIOS boot partition")), "BootPartition"),
    "an EFI partition": (device_case(a_device(part_label="EFI System")), "BootPartition"),
    "a boot file system": (
        device_case(a_device(signatures=(Signature(type="ext4", usage="filesystem", label="boot"),))),
        "BootPartition",
    ),
    "a device that cannot be written": (device_case(a_device(read_only=True)), "ReadOnly"),
    "a CD drive": (device_case(a_device(kind=DeviceKind.ROM)), "ReadOnly"),
    "a file system mounted read-only": (mount_case(a_mount(options=("ro",))), "ReadOnly"),
    "a directory in a read-only file system": (
        directory_case(around=a_mount(mount_point=Path("/"), super_options=("ro",))),
        "ReadOnly",
    ),
    "a file system where a raw device was announced": (device_case(a_device(signatures=(EXT4,))), "HasFileSystem"),
    "a file system where none was announced": (
        device_case(a_device(signatures=(EXT4,)), mode="Filesystem"),
        "HasFileSystem",
    ),
    "another file system than announced": (
        device_case(a_device(signatures=(EXT4,)), mode="Filesystem", fs_type="xfs"),
        "HasFileSystem",
    ),
    "a member of LVM not yet in use": (
        device_case(a_device(signatures=(Signature(type="LVM2_member", usage="raid"),)), mode="Filesystem"),
        "HasSignature",
    ),
    "an encrypted disk": (
        device_case(a_device(signatures=(Signature(type="crypto_LUKS", usage="crypto"),))),
        "HasSignature",
    ),
    "a directory with files": (directory_case(contents=FILES), "NotEmpty"),
    "a mount point with files": (mount_case(contents=FILES), "NotEmpty"),
    "a directory with files where adopting is forbidden": (
        directory_case(contents=FILES, settings=settings(adopt_existing=False)),
        "NotEmpty",
    ),
    "a directory that was cleaned and got files since": (
        directory_case(
            contents=FILES,
            record=a_record(
                kind="Directory",
                identity_now=DiskIdentity(fs_uuid="root", major_minor="8:1"),
                cleaning=Cleaning(volume_uid="uid-old", state="Verified"),
            ),
        ),
        "NotEmpty",
    ),
    "a file system with files where one of its type is accepted": (
        device_case(a_device(signatures=(EXT4,)), mode="Filesystem", fs_type="ext4", contents=FILES),
        "NotEmpty",
    ),
    "a file system that nobody can look into": (
        device_case(
            a_device(signatures=(EXT4,)), mode="Filesystem", fs_type="ext4", contents=Contents(unknown="no tool")
        ),
        "NotEmpty",
    ),
    "a device with bytes of an unknown kind": (device_case(contents=BYTES), "NotEmpty"),
    "a device to be formatted with bytes of an unknown kind": (
        device_case(mode="Filesystem", contents=BYTES),
        "NotEmpty",
    ),
    "another device than the one that was cleaned": (
        device_case(
            a_device(serial="S2"),
            contents=BYTES,
            record=a_record(
                kind="BlockDevice", identity_now=RECORDED, cleaning=Cleaning(volume_uid="uid-old", state="Verified")
            ),
        ),
        "NotEmpty",
    ),
    "a disk that nobody has looked into": (device_case(contents=None), "NotEmpty"),
    "a device that another process has open exclusively": (device_case(a_device(opens_exclusively=False)), "InUse"),
    "an empty device": (device_case(a_device(size_bytes=0)), "TooSmall"),
    "a file system without room": (mount_case(capacity=4096), "TooSmall"),
    "a second way to the same disk": (device_case(rival="entry b of class fast"), "DuplicateDevice"),
    "a disk that another engine of the machine means": (
        with_facts(device_case(), foreign=(RuleMatch("fast", RULE, "0123abcd"),)),
        "MatchedByOtherEngine",
    ),
    "a device that may be of a group that is going": (matched_case(looked_with="new"), "NotLookedAt"),
    "a disk that was not cleaned elsewhere": (device_case(unclean=cleaned_elsewhere("zeroout")), "NotCleaned"),
    "a disk after many others": (
        device_case(
            device=a_device(serial="third"),
            record=a_record(
                kind="BlockDevice",
                identity_now=DiskIdentity(serial="another", size_bytes=GIB),
                cleaning=Cleaning(volume_uid="u", state="Verified", method=("fs-reset",)),
                earlier=(EarlierDevice(identity=RECORDED, cleaning=Cleaning(volume_uid="u", state="Verified")),) * 8,
            ),
        ),
        "TooManyEarlier",
    ),
    "a raw device that was cleaned elsewhere for a file system": (
        device_case(left=cleaned_elsewhere("fs-reset")),
        "NotErased",
    ),
    "the same of a class that offers what exists": (
        device_case(adopt=True, left=cleaned_elsewhere("fs-reset")),
        "NotErased",
    ),
    "a raw device that was cleaned elsewhere by a command": (
        device_case(left=cleaned_elsewhere("/opt/clean")),
        "NotErased",
    ),
    "a raw device that was cleaned for a file system, where a command cleans": (
        replace(
            device_case(left=cleaned_elsewhere("fs-reset")),
            settings=settings(volume_mode="Block", block_cleaner=Cleaner(("/opt/clean",), ("/opt/clean",))),
        ),
        "NotErased",
    ),
    "an entry whose name is in two directories of its class": (twice(device_case()), "EntryTwice"),
    "a link that no rule made": (matched_case(rule=""), "NotMatched"),
    "a device of a group that is going": (matched_case(retired=True), "Retired"),
    "a directory in a class of a LocalStorage": (
        directory_case(settings=settings(from_local_storage=True, volume_mode="Filesystem")),
        "NotADevice",
    ),
    "a mount point in a class of a LocalStorage": (
        mount_case(settings=settings(from_local_storage=True)),
        "NotADevice",
    ),
    "a device below the smallest size of its group": (matched_case(min_bytes=10 * GIB + 1), "TooSmall"),
    "a device above the largest size of its group": (matched_case(max_bytes=10 * GIB - 1), "TooLarge"),
    "a device of another medium than its group takes": (matched_case(media=("HDD", "NVMe")), "OtherMedium"),
    "a device of an unknown medium where one is named": (
        matched_case(medium=Medium.UNKNOWN, media=("SSD",)),
        "OtherMedium",
    ),
    "one device more than its group takes": (matched_case(max_count=2, of_group=2), "CountReached"),
    "a directory made a moment ago": (directory_case(settling=True), "Settling"),
}


@pytest.mark.seed("DSC-8")
@pytest.mark.parametrize(("case", "reason"), REFUSED.values(), ids=REFUSED)
def test_never_offered_is(case: Candidate, reason: str) -> None:
    verdict = rules.judge(case)

    assert not verdict.eligible
    assert verdict.reason == reason
    assert verdict.message.endswith(".")


@pytest.mark.parametrize(("case", "reason"), REFUSED.values(), ids=REFUSED)
def test_the_word_of_a_rule_fits_the_field_that_programs_read(case: Candidate, reason: str) -> None:
    assert rules.judge(case).reason.isalnum()
    assert len(rules.judge(case).message) < 400


def test_what_is_adopted_is_told_by_name() -> None:
    verdict = rules.judge(directory_case(contents=FILES, settings=settings(adopt_existing=True)))

    assert "it holds 'data', 'more': the class says adoptExisting" in verdict.message


@pytest.mark.parametrize("name", ["x" * 255, "\x1b[31mred", "a\nReason: fine", "\udcff"])
def test_names_of_files_cannot_say_more_than_their_name(name: str) -> None:
    message = rules.judge(directory_case(contents=of_names([name] * 5))).message

    assert message.isprintable()
    assert message.encode()
    assert len(message) < 400


def test_every_rule_has_a_case_above() -> None:
    reasons = {reason for _, reason in REFUSED.values()} | {"IdentityChanged"}
    assert len(reasons) == len(presence.RULES) + len(eligibility.RULES)


@pytest.mark.seed("OPR-17")
@pytest.mark.parametrize(
    "filters",
    [{"min_bytes": 20 * GIB}, {"max_bytes": GIB}, {"media": ("HDD",)}, {"max_count": 1, "of_group": 1}, {"rule": ""}],
    ids=["TooSmall", "TooLarge", "OtherMedium", "CountReached", "NotMatched"],
)
def test_disk_that_has_a_volume_is_not_refused_by_what_its_group_says_later(filters: dict[str, Any]) -> None:
    case = matched_case(**filters)
    assert not rules.judge(case).eligible

    record = a_record(published=True, identity=RECORDED, kind="BlockDevice")
    assert rules.judge(replace(case, record=record)).eligible


def test_a_published_disk_that_is_mounted_and_has_a_file_system_is_as_it_should_be() -> None:
    device = a_device(mounted_at=("/var/lib/kubelet/x",), signatures=(EXT4,), opens_exclusively=None)

    verdict = rules.judge(device_case(device, record=a_record(published=True, identity=RECORDED, kind="BlockDevice")))

    assert verdict.eligible


@pytest.mark.parametrize(
    "device",
    [
        a_device(serial="S2"),
        a_device(size_bytes=20 * GIB),
        a_device(serial="", number=DeviceNumber(8, 32)),
        a_device(serial=""),
        a_device(twins=(Twin("serial S1", "sdc"),)),
    ],
    ids=[
        "another serial number",
        "another size",
        "another number and nothing that lasts",
        "the same number and nothing that lasts",
        "a copy is there as well",
    ],
)
def test_another_disk_behind_a_published_link_is_missing_not_offered(device: BlockDevice) -> None:
    verdict = rules.judge(device_case(device, record=a_record(published=True, identity=RECORDED, kind="BlockDevice")))

    assert (verdict.eligible, verdict.reason, verdict.missing) == (False, "IdentityChanged", True)


def test_a_published_device_is_the_same_after_a_restart_gave_it_another_number() -> None:
    device = a_device(number=DeviceNumber(8, 48))

    assert rules.judge(
        device_case(device, record=a_record(published=True, identity=RECORDED, kind="BlockDevice"))
    ).eligible


def test_a_directory_where_a_device_was_published_is_another_disk() -> None:
    verdict = rules.judge(directory_case(record=a_record(published=True, identity=RECORDED, kind="BlockDevice")))

    assert (verdict.reason, verdict.missing) == ("IdentityChanged", True)


def test_a_mount_over_a_published_directory_is_another_disk() -> None:
    recorded = DiskIdentity(fs_uuid="root", major_minor="8:1")

    verdict = rules.judge(mount_case(record=a_record(published=True, identity=recorded, kind="Directory")))

    assert (verdict.reason, verdict.missing) == ("IdentityChanged", True)


def test_another_file_system_at_a_published_mount_point_is_another_disk() -> None:
    recorded = DiskIdentity(fs_uuid="u0", major_minor="8:16", mount_id=12)

    verdict = rules.judge(mount_case(record=a_record(published=True, identity=recorded, kind="MountPoint")))

    assert (verdict.reason, verdict.missing) == ("IdentityChanged", True)


def test_a_file_system_in_memory_may_have_another_number_after_a_restart() -> None:
    recorded = DiskIdentity(major_minor="0:51", size_bytes=GIB, mount_id=12)
    now = Identity(major_minor="0:77", size_bytes=2 * GIB, mount_id=70)

    verdict = rules.judge(
        mount_case(
            a_mount(device=DeviceNumber(0, 77)),
            identity=now,
            record=a_record(published=True, identity=recorded, kind="MountPoint"),
        )
    )

    assert verdict.eligible


def test_the_frozen_identity_tells_that_it_was_a_mount_point_whatever_the_status_says() -> None:
    recorded = DiskIdentity(fs_uuid="u1", major_minor="8:16", mount_id=12)

    verdict = rules.judge(directory_case(record=a_record(published=True, identity=recorded, kind="Directory")))

    assert (verdict.reason, verdict.missing) == ("WasMountPoint", True)


@pytest.mark.seed("DSC-9", "DSC-13")
def test_where_the_class_leaves_it_open_each_kind_has_its_own_mode() -> None:
    assert rules.judge(device_case(mode="")).mode == "Block"
    assert rules.judge(mount_case(settings=settings(volume_mode=""))).mode == "Filesystem"
    assert rules.judge(device_case(mode="Filesystem")).mode == "Filesystem"


def test_mark_that_cannot_be_read_is_told_with_what_helps() -> None:
    """Wiping would not: nobody knows of which device of the directory it is."""
    case = device_case()
    unreadable = Mark(volume="(unreadable mark)", uid="", entry=".localpv-used-x")
    found = rules.judge(replace(case, facts=replace(case.facts, mark=unreadable)))
    assert found.reason == "UsedBefore"
    assert ".localpv-used-x" in found.message and "localpv wipe" not in found.message


VERIFIED, FAILED = Cleaning(volume_uid="u", state="Verified"), Cleaning(volume_uid="u", state="Failed")
NOW = Identity(serial="S1", fs_uuid="another", major_minor="8:16", size_bytes=10 * GIB)


@pytest.mark.parametrize(
    ("record", "now", "cleaned", "unclean"),
    [
        (a_record(identity_now=replace_fs(RECORDED), cleaning=VERIFIED), NOW, True, False),
        (a_record(identity_now=RECORDED, cleaning=VERIFIED), None, False, False),
        (a_record(cleaning=VERIFIED), NOW, False, False),
        (a_record(identity_now=RECORDED, cleaning=VERIFIED), Identity(serial="S2"), False, False),
        (a_record(identity_now=RECORDED, cleaning=FAILED), NOW, False, True),
        (a_record(identity_now=RECORDED), NOW, False, False),
    ],
)
def test_disk_was_cleaned_when_its_record_says_so_of_the_disk_that_is_there(
    record: LocalDisk, now: Identity | None, cleaned: bool, unclean: bool
) -> None:
    assert remains.cleaned(record, now) is cleaned
    assert remains.unclean(record) is unclean


def test_file_system_is_accepted_only_where_the_class_offers_file_systems() -> None:
    device = device_case().sighting
    assert candidate.accepted_type(settings(volume_mode="Filesystem", fs_type="ext4"), device) == "ext4"
    assert candidate.accepted_type(settings(volume_mode="Block", fs_type="ext4"), device) == ""
    assert candidate.accepted_type(settings(fs_type="ext4"), device) == ""


def test_only_what_is_adopted_with_data_on_it_is_told_as_such() -> None:
    published = a_record(published=True, identity=RECORDED, kind="BlockDevice")
    for case in (device_case(), device_case(record=published), device_case(record=published, contents=BYTES)):
        assert rules.judge(case).message == "It can be offered."


def test_file_in_the_place_of_a_volume_means_that_the_volume_is_missing() -> None:
    for kind in (FileKind.OTHER, FileKind.DANGLING_LINK):
        verdict = rules.judge(other_case(kind, record=a_record(published=True, identity=RECORDED)))
        assert verdict.missing and not verdict.eligible


def test_first_mount_of_a_machine_is_a_mount_point_too() -> None:
    recorded = DiskIdentity(fs_uuid="u1", mount_id=1)
    verdict = rules.judge(directory_case(record=a_record(published=True, identity=recorded, kind="Directory")))
    assert verdict.reason == "WasMountPoint"


def test_kind_that_changed_is_told_by_name() -> None:
    published = a_record(published=True, identity=RECORDED, kind="BlockDevice")
    assert "it was a BlockDevice and is a Directory" in rules.judge(directory_case(record=published)).message
    plain = a_record(published=True, identity=DiskIdentity(fs_uuid="u1"), kind="Directory")
    assert "it was a plain directory and something is mounted over it" in rules.judge(mount_case(record=plain)).message
    unseen = a_record(published=True, identity=RECORDED, kind="")
    assert rules.judge(device_case(record=unseen)).eligible, "nobody has seen what it was"


def test_disk_of_which_nothing_was_read_is_not_said_to_be_another() -> None:
    case = device_case(record=a_record(published=True, identity=RECORDED, kind="BlockDevice"))
    assert rules.judge(replace(case, facts=replace(case.facts, identity=None))).eligible


def test_record_of_an_earlier_version_is_told_with_the_way_out() -> None:
    old = DiskIdentity(major_minor="8:16", size_bytes=10 * GIB)
    verdict = rules.judge(
        device_case(a_device(serial="", boot_id="b", disk_sequence=4), record=a_record(published=True, identity=old))
    )
    assert (verdict.reason, verdict.missing) == ("IdentityChanged", True)
    assert "cannot be told" in verdict.message and "--release-finalizers" in verdict.message


def test_directory_is_a_copy_when_only_its_file_system_names_it_and_a_device_never_is_by_that() -> None:
    twins = (Twin("fs_uuid u1", "sdc1"),)
    copy = Identity(fs_uuid="u1", major_minor="8:16", mount_id=70, twins=twins)
    assert rules.judge(mount_case(identity=copy)).reason == "SameNames"
    device = a_device(signatures=(EXT4,), twins=(Twin(f"fs_uuid {EXT4.uuid}", "sdc"),))
    assert rules.judge(device_case(device, mode="Filesystem", fs_type="ext4")).eligible
    nothing = mount_case()
    assert eligibility.twins(replace(nothing, facts=replace(nothing.facts, identity=None))) is None


@pytest.mark.parametrize(
    ("mode", "fs_type", "wanted"),
    [("Block", "", "raw devices;"), ("Filesystem", "xfs", "devices with xfs;"), ("Filesystem", "", "with nothing;")],
)
def test_unwanted_file_system_is_told_with_what_the_class_offers(mode: str, fs_type: str, wanted: str) -> None:
    verdict = rules.judge(device_case(a_device(signatures=(EXT4,)), mode=mode, fs_type=fs_type))
    assert verdict.reason == "HasFileSystem" and wanted in verdict.message


@pytest.mark.parametrize(("size", "eligible"), [(eligibility.LEAST_BYTES - 1, False), (eligibility.LEAST_BYTES, True)])
def test_smallest_disk_that_is_offered(size: int, eligible: bool) -> None:
    assert rules.judge(directory_case(capacity=size)).eligible is eligible


@pytest.mark.seed("OPR-18")
def test_an_offer_of_a_group_that_is_going_does_not_stand_and_other_filters_take_no_offer_back() -> None:
    offered = a_record(published=True, kind="BlockDevice")
    case = replace(matched_case(retired=True), record=offered)
    verdict = rules.judge(case)
    assert (verdict.eligible, verdict.reason, verdict.missing) == (False, "Retired", False)
    assert rules.judge(replace(matched_case(max_bytes=1), record=offered)).eligible
