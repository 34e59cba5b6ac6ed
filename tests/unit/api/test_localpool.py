"""LocalPool, PoolVolume and PoolSnapshot: structs and the definitions that are generated from them, held together."""

from __future__ import annotations

import json
from types import ModuleType

import msgspec
import pytest
from tests.unit.volume.pools import GI, MI, NOW, pool, snapshot, volume
from tools import generate_crds

from localpv.api import crds, jsonpath
from localpv.api.crds import localpools, poolsnapshots, poolvolumes
from localpv.api.kinds.localpool import (
    LocalPool,
    PoolClaim,
    PoolCondition,
    PoolSnapshot,
    PoolSource,
    PoolVolume,
    Progress,
)
from localpv.api.kinds.meta import Kind
from localpv.api.schema import structural, walk
from localpv.api.schema.node import check_values
from localpv.client.codec import TypedCodec
from localpv.engine.apiserver.kinds import crd_checks

CONDITION = PoolCondition(type="Full", status="True", reason="Full", message="No room.", last_transition_time=NOW)
PROGRESS = Progress(bytes_done=1, bytes_total=2)
POOL = pool(
    foreign_bytes=1,
    free_bytes=2,
    size="100Gi",
    free="2",
    data_percent=3,
    metadata_percent=4,
    snapshots=True,
    error="Gone.",
    conditions=(CONDITION,),
)
VOLUME = msgspec.structs.replace(
    volume("pvc-1", GI),
    spec=msgspec.structs.replace(
        volume("pvc-1", GI).spec, fs_type="xfs", source=PoolSource(volume="pvc-0"), wipe_method=("blkdiscard",)
    ),
    status=msgspec.structs.replace(
        volume("pvc-1", GI).status,
        phase="Failed",
        size_bytes=MI,
        code="RESOURCE_EXHAUSTED",
        message="Full.",
        progress=PROGRESS,
        observed_generation=1,
    ),
)
SNAPSHOT = msgspec.structs.replace(
    snapshot("snapshot-1", GI),
    status=msgspec.structs.replace(
        snapshot("snapshot-1", GI).status,
        phase="Ready",
        size_bytes=MI,
        restore_bytes=GI,
        created_at=NOW,
        code="INTERNAL",
        message="Full.",
        progress=PROGRESS,
    ),
)
KINDS = [
    pytest.param("localpools", localpools, POOL, id="LocalPool"),
    pytest.param("poolvolumes", poolvolumes, VOLUME, id="PoolVolume"),
    pytest.param("poolsnapshots", poolsnapshots, SNAPSHOT, id="PoolSnapshot"),
]


@pytest.mark.parametrize(("name", "module", "full"), KINDS)
def test_definition_is_what_the_structs_say_and_sound(name: str, module: ModuleType, full: Kind) -> None:
    definition = crds.load(name)
    assert crds.text(name) == generate_crds.written(name)
    assert definition == module.definition()
    assert not crd_checks.wrong_name(definition)
    assert not crd_checks.wrong_spec(definition["spec"] | {"conversion": {"strategy": "None"}})


@pytest.mark.parametrize(("name", "module", "full"), KINDS)
def test_full_object_fits_the_schema_and_is_read_back_as_it_was(name: str, module: ModuleType, full: Kind) -> None:
    codec = TypedCodec(type(full))
    sent = json.loads(codec.write(full))
    [version] = crds.load(name)["spec"]["versions"]
    node = structural.build(version["schema"]["openAPIV3Schema"])
    taken = walk.take_in(sent, node)
    assert not taken.type_errors and not taken.unknown
    assert not check_values(sent, node)
    assert codec.read(codec.write(full)) == full


@pytest.mark.parametrize(("name", "module", "full"), KINDS)
def test_every_column_shows_a_field_that_the_schema_has(name: str, module: ModuleType, full: Kind) -> None:
    sent = json.loads(TypedCodec(type(full)).write(full)) | {"metadata": {"creationTimestamp": NOW}}
    assert [one["name"] for one in module.COLUMNS if jsonpath.compile(one["jsonPath"]).first(sent) is None] == []


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        (LocalPool, "poolName", "../etc"),
        (LocalPool, "kind", "tape"),
        (PoolVolume, "poolName", "a/b"),
        (PoolVolume, "sizeBytes", 0),
        (PoolVolume, "volumeMode", "Tape"),
        (PoolSnapshot, "sourceVolume", "../pvc-1"),
        (PoolSnapshot, "sizeBytes", -1),
    ],
)
def test_what_would_leave_the_pool_or_make_no_sense_is_refused(kind: type[Kind], path: str, wrong: object) -> None:
    full = {LocalPool: POOL, PoolVolume: VOLUME, PoolSnapshot: SNAPSHOT}[kind]
    sent = json.loads(TypedCodec(kind).write(full))
    sent["spec"][path] = wrong
    [version] = crds.load(kind.resource.plural)["spec"]["versions"]
    assert check_values(sent, structural.build(version["schema"]["openAPIV3Schema"]))


def test_a_claim_is_named_whole() -> None:
    with pytest.raises(TypeError):
        PoolClaim(namespace="shop", name="data")  # type: ignore[call-arg]
