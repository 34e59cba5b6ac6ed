"""LocalDisk: the struct, the definition that is generated from it, and the two held together."""

from __future__ import annotations

import json

import msgspec
import pytest
from tools import generate_crds

from localpv.api import crds, jsonpath
from localpv.api.crds import localdisks, schema
from localpv.api.kinds import localdisk
from localpv.api.kinds.localdisk import LocalDisk, LocalDiskSpec, LocalDiskStatus
from localpv.api.kinds.meta import ObjectMeta, Part
from localpv.api.schema import structural, walk
from localpv.api.schema.node import check_values
from localpv.client.codec import TypedCodec
from localpv.engine.apiserver.kinds import crd_checks

FULL = LocalDisk(
    metadata=ObjectMeta(name="node-1-sdb-0a1b2c3d"),
    spec=LocalDiskSpec(
        node_name="node-1",
        storage_class_name="fast",
        entry="sdb",
        path="/mnt/disks/sdb",
        volume_mode="Block",
        fs_type="ext4",
        volume=localdisk.OfferedVolume(name="local-pv-1", uid="u1"),
        identity=localdisk.DiskIdentity(by_id=("wwn-0x1",), wwn="0x1", serial="S1", size_bytes=1 << 40),
        clean=localdisk.CleanOrder(
            volume_name="local-pv-1", volume_uid="u1", method=("dd-zero", "1"), requested_at="2030-01-01T00:00:00Z"
        ),
    ),
    status=LocalDiskStatus(
        phase=localdisk.Phase.CLEANING,
        eligible=False,
        reason="Cleaning",
        message="The disk is being wiped.",
        kind=localdisk.DiskKind.BLOCK_DEVICE,
        medium=localdisk.Medium.NVME,
        capacity_bytes=1 << 40,
        size="1Ti",
        identity=localdisk.DiskIdentity(
            part_uuid="p",
            fs_uuid="f",
            major_minor="8:16",
            model="M",
            mount_id=3,
            filesystem_id="uuid-f",
            inode=12,
            inode_generation=7,
            offset_bytes=1 << 20,
            size_limit_bytes=1 << 30,
            boot_id="b",
            disk_sequence=41,
        ),
        cleaning=localdisk.Cleaning(
            volume_uid="u1",
            state=localdisk.CleaningState.FAILED,
            method=("dd-zero", "1"),
            attempt=2,
            bytes_done=1,
            bytes_total=2,
            started_at="2030-01-01T00:00:00Z",
            finished_at="2030-01-01T00:00:01Z",
            next_attempt_at="2030-01-01T00:00:02Z",
            error="EIO",
        ),
        conditions=(
            localdisk.DiskCondition(type="Healthy", status="True", last_transition_time="2030-01-01T00:00:00Z"),
        ),
    ),
)


def whole_schema() -> dict[str, object]:
    [version] = crds.load("localdisks")["spec"]["versions"]
    found: dict[str, object] = version["schema"]["openAPIV3Schema"]
    return found


def test_file_is_what_the_structs_say() -> None:
    assert crds.text("localdisks") == generate_crds.written("localdisks")
    assert crds.load("localdisks") == localdisks.definition()


def test_definition_is_sound() -> None:
    definition = crds.load("localdisks")
    assert not crd_checks.wrong_name(definition)
    assert not crd_checks.wrong_spec(definition["spec"] | {"conversion": {"strategy": "None"}})


def test_full_disk_fits_the_schema_and_is_read_back_as_it_was() -> None:
    codec = TypedCodec(LocalDisk)
    sent = json.loads(codec.write(FULL))
    node = structural.build(whole_schema())
    taken = walk.take_in(sent, node)
    assert not taken.type_errors and not taken.unknown
    assert not check_values(sent, node)
    assert codec.read(codec.write(FULL)) == FULL


def test_fields_are_named_as_the_api_names_them() -> None:
    sent = json.loads(msgspec.json.encode(FULL))
    assert sent["spec"]["clean"]["volumeUID"] == "u1"
    assert sent["spec"]["identity"]["byID"] == ["wwn-0x1"]
    assert {"partUUID", "fsUUID", "majorMinor", "mountID"} <= set(sent["status"]["identity"])


def test_disk_that_is_not_offered_says_so_on_the_wire() -> None:
    sent = json.loads(msgspec.json.encode(LocalDiskStatus(phase=localdisk.Phase.UNAVAILABLE, eligible=False)))
    assert sent == {"phase": "Unavailable", "eligible": False}


def test_word_of_a_newer_version_does_not_make_a_disk_unreadable() -> None:
    sent = json.loads(TypedCodec(LocalDisk).write(FULL))
    sent["status"]["phase"] = "Teleporting"
    assert TypedCodec(LocalDisk).read(json.dumps(sent).encode()).status.phase == "Teleporting"


def test_every_column_shows_a_field_that_the_schema_has() -> None:
    sent = json.loads(TypedCodec(LocalDisk).write(FULL)) | {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}}
    sent["status"]["identity"]["serial"] = "S1"
    missing = [
        column["name"] for column in localdisks.COLUMNS if jsonpath.compile(column["jsonPath"]).first(sent) is None
    ]
    assert missing == []


def test_field_without_a_description_is_refused() -> None:
    with pytest.raises(schema.CannotDescribe, match=r"Bare\.name"):
        schema.of(Bare)


class Bare(Part, frozen=True, kw_only=True):
    """A struct that says nothing about its field."""

    name: str


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (10 << 30, "10Gi"),
        ((10 << 30) - 1, "9.9Gi"),
        (1000204886016, "931.5Gi"),
        (1 << 40, "1Ti"),
        (3 << 70, "3072Ei"),
    ],
)
def test_size_is_short_and_never_more_than_there_is(size_bytes: int, text: str) -> None:
    assert localdisk.size_text(size_bytes) == text
