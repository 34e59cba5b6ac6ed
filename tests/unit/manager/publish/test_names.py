"""Names of volumes and disks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import names
from localpv.manager.publish import names as publish_names
from localpv.manager.publish import ownership

NODE = "node-1"
UID = "0f2c1a34-5b6d-4e7f-8091-a2b3c4d5e6f7"


@pytest.mark.seed("DSC-6")
@pytest.mark.parametrize(
    ("entry", "storage_class", "digits"),
    [
        ("mount1", "sc1", "aaaafef5"),
        ("symlink2", "sc1", "23645a36"),
        ("symlink1", "sc2", "55d5adba"),
        ("symlink2", "sc2", "226458a3"),
        ("mount3", "sc1", "f34b8003"),
        ("mount2", "sc1", "79412c38"),
        ("mount1", "sc2", "a7aafa3c"),
        ("mount2", "sc2", "7c4130f1"),
        ("symlink3", "sc1", "4d24d329"),
    ],
)
def test_volume_has_the_name_that_the_classic_provisioner_gives(entry: str, storage_class: str, digits: str) -> None:
    assert publish_names.volume_name(entry, "test-node", storage_class) == f"local-pv-{digits}"


@pytest.mark.seed("DSC-6")
def test_hash_is_not_padded() -> None:
    short = [
        f"disk{number}" for number in range(200) if publish_names.fnv1a_32(f"disk{number}{NODE}fast".encode()) < 1 << 28
    ]
    assert short
    assert all(len(publish_names.volume_name(entry, NODE, "fast")) < len("local-pv-12345678") for entry in short)


@pytest.mark.parametrize(("data", "value"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)])
def test_hash_is_fnv_1a(data: bytes, value: int) -> None:
    assert publish_names.fnv1a_32(data) == value


@pytest.mark.seed("DSC-6")
def test_volumes_whose_short_names_collide_have_different_long_ones() -> None:
    one, two = ("a", "bc", "d"), ("ab", "c", "d")
    assert publish_names.volume_name(*one) == publish_names.volume_name(*two)
    assert publish_names.long_volume_name(*one) != publish_names.long_volume_name(*two)
    assert len(publish_names.long_volume_name(*one)) == len("local-pv-") + 16


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_names_of_volumes_are_names(entry: str, node: str, storage_class: str) -> None:
    try:
        parts = [text.encode().decode() for text in (entry, node, storage_class)]
    except UnicodeEncodeError:
        return
    assert not names.dns_subdomain(publish_names.volume_name(*parts))
    assert not names.dns_subdomain(publish_names.long_volume_name(*parts))


def test_file_name_that_is_no_text_still_has_a_name() -> None:
    entry = b"disk\xff".decode("utf-8", "surrogateescape")
    assert (
        publish_names.volume_name(entry, NODE, "fast")
        == f"local-pv-{publish_names.fnv1a_32(b'disk' + bytes([255]) + b'node-1fast'):x}"
    )
    assert not names.dns_subdomain(publish_names.disk_name(NODE, "fast", entry))


@pytest.mark.seed("DSC-11")
def test_annotation_names_the_provisioner_by_node_and_uid() -> None:
    assert publish_names.provisioned_by(NODE, UID) == f"local-volume-provisioner-node-1-{UID}"
    assert publish_names.provisioned_by(NODE, UID, node_name_only=True) == "local-volume-provisioner-node-1"


@pytest.mark.seed("DSC-11")
@pytest.mark.parametrize(
    ("annotation", "ours"),
    [
        ("local-volume-provisioner-node-1", True),
        (f"local-volume-provisioner-node-1-{UID}", True),
        ("local-volume-provisioner-node-1-2", False),
        (f"local-volume-provisioner-node-1-2-{UID}", False),
        ("local-volume-provisioner-node-", False),
        ("someone-else", False),
        ("", False),
    ],
)
def test_node_knows_its_own_volumes_from_those_of_its_neighbours(annotation: str, ours: bool) -> None:
    assert publish_names.made_on_node(annotation, NODE) is ours


def test_label_of_a_node_is_its_name_as_long_as_that_fits() -> None:
    assert publish_names.node_label("node-1.example.com") == "node-1.example.com"
    long = ".".join(["part-of-a-name"] * 10)
    assert publish_names.node_label(long) != publish_names.node_label(long + "x")
    assert not names.label_value(publish_names.node_label(long))


def test_name_of_a_disk_is_readable_and_its_own() -> None:
    name = publish_names.disk_name(NODE, "fast", "Samsung_SSD 970")
    assert name == "node-1-samsung-ssd-970-" + name[-8:]
    assert name != publish_names.disk_name(NODE, "slow", "Samsung_SSD 970")
    assert publish_names.disk_name("a", "b", "cd") != publish_names.disk_name("a", "bc", "d")


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]{1,60}){0,3}", fullmatch=True), st.text(min_size=1))
def test_names_of_disks_are_names(node: str, entry: str) -> None:
    name = publish_names.disk_name(node, "fast", entry.encode("utf-8", "replace").decode())
    assert not names.dns_subdomain(name)
    assert len(name) <= 250


def test_longest_name_that_fits_is_its_own_label_and_a_longer_one_ends_in_a_hash() -> None:
    fits = "n" * names.MAX_LABEL
    assert publish_names.node_label(fits) == fits
    cut, _, digest = publish_names.node_label(fits + "x").rpartition("-")
    assert (cut, len(digest)) == ("n" * (names.MAX_LABEL - 9), 8)


@pytest.mark.parametrize(
    ("written", "node"),
    [
        ("local-volume-provisioner-n1", "n1"),
        ("local-volume-provisioner-n1-0f2c1a34-5b6d-4e7f-8091-a2b3c4d5e6f7", "n1"),
        ("local-volume-provisioner-0f2c1a34-5b6d-4e7f-8091-a2b3c4d5e6f7", "0f2c1a34-5b6d-4e7f-8091-a2b3c4d5e6f7"),
        (
            "local-volume-provisioner-a-name-that-is-longer-than-a-uid-and-ends-in-none",
            "a-name-that-is-longer-than-a-uid-and-ends-in-none",
        ),
        ("another-provisioner-n1", ""),
        ("", ""),
    ],
)
def test_maker_of_a_volume_is_read_from_its_annotation(written: str, node: str) -> None:
    assert ownership.maker(written) == node
