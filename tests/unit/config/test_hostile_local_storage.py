"""Attempts to have a node do something else than link devices, through every field of a LocalStorage: none gets on."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from localpv import errors
from localpv.agent.udev import rules_file
from localpv.api.kinds.localstorage import LocalStorage
from localpv.config import local_storage
from localpv.config.local_storage import GroupDevices, NodeConfiguration

RULES = (
    'RUN+="/bin/sh -c id"',
    'KERNEL=="sdb", RUN+="/bin/sh"',
    'KERNEL=="sdb", RUN="/bin/sh"',
    'KERNEL=="sdb", RUN{program}+="/bin/sh"',
    'KERNEL=="sdb", RUN{builtin}+="kmod load x"',
    'KERNEL=="sdb" RUN+="/bin/sh"',
    'KERNEL=="sdb"RUN+="/bin/sh"',
    'KERNEL=="sdb",RUN+="/bin/sh"',
    'KERNEL=="sdb",\tRUN+="/bin/sh"',
    'KERNEL=="sdb"\nRUN+="/bin/sh"',
    'KERNEL=="sdb"\r\nRUN+="/bin/sh"',
    'KERNEL=="sdb"\rRUN+="/bin/sh"',
    'KERNEL=="sdb"\x0bRUN+="/bin/sh"',
    'KERNEL=="sdb"\x0cRUN+="/bin/sh"',
    'KERNEL=="sdb"\x85RUN+="/bin/sh"',
    'KERNEL=="sdb"\u2028RUN+="/bin/sh"',
    'KERNEL=="sdb\nRUN+=x"',
    'KERNEL=="sdb"\\\nRUN+="/bin/sh"',
    'KERNEL=="sdb\x00", RUN+="/bin/sh"',
    'KERNEL=="sdb\\", RUN+=\\"/bin/sh"',
    'KERNEL=="sdb\\"", RUN+="/bin/sh"',
    'KERNEL==e"sdb\\"", RUN+="/bin/sh"',
    'KERNEL==e"sdb\\x22, RUN+=\\x22/bin/sh"',
    'KERNEL==i"sdb"',
    'KERNEL==ei"sdb"',
    'PROGRAM=="/bin/sh -c id"',
    'PROGRAM="/bin/sh"',
    'PROGRAM!="/bin/false"',
    'RESULT=="x"',
    'IMPORT{program}="/bin/sh"',
    'IMPORT{program}=="/bin/sh"',
    'IMPORT{builtin}=="kmod load x"',
    'IMPORT{file}=="/etc/shadow"',
    'IMPORT{db}=="X"',
    'IMPORT{cmdline}=="x"',
    'IMPORT{parent}=="*"',
    'TEST=="/etc/shadow"',
    'TEST{0777}=="x"',
    'SYSCTL{kernel/hostname}=="x"',
    'SYSCTL{kernel/hostname}="x"',
    'GOTO="kubernetes_local_storage_end"',
    'LABEL="kubernetes_local_storage_end"',
    'KERNEL=="sdb", GOTO="x"',
    'OPTIONS+="static_node=x"',
    'OPTIONS="link_priority=100"',
    'OPTIONS+="db_persist"',
    'OWNER="nobody"',
    'GROUP="nogroup"',
    'MODE="0666"',
    'SECLABEL{selinux}="x"',
    'TAG+="systemd"',
    'TAG="x"',
    'ENV{SYSTEMD_WANTS}="evil.service"',
    'ENV{SYSTEMD_WANTS}+="evil.service"',
    'ENV{ID_SERIAL}="x"',
    'ENV{ID_SERIAL}:="x"',
    'ENV{ID_SERIAL}-="x"',
    'ENV{KUBERNETES_STORAGE_CLASS_00000000}==""',
    'ENV{kubernetes_local_storage_kind_00000000}=="disk"',
    'ATTR{queue/rotational}="1"',
    'ATTR{../../../../etc/shadow}=="x"',
    'ATTR{/etc/shadow}=="x"',
    'ATTR{[net/eth0]address}=="x"',
    'ATTR{[net/eth0]address}="x"',
    'ATTR{$env{X}}=="x"',
    'ATTR{a"b}=="x"',
    'ATTR{a}b}=="x"',
    'ATTR{a\\}=="x"',
    'ATTR{}=="x"',
    'ATTR=="x"',
    'ENV{}=="x"',
    'KERNEL{x}=="sdb"',
    'NAME="x"',
    'NAME:="x"',
    'SYMLINK+="sda"',
    'SYMLINK="sda"',
    'SYMLINK-="sda"',
    'SYMLINK:="sda"',
    'KERNEL="sdb"',
    'KERNEL=="$env{X}"',
    'KERNEL=="%c"',
    'KERNEL=="$(id)"',
    'KERNEL=="`id`\\"',
    "KERNEL=='sdb'",
    "KERNEL==sdb",
    'KERNEL=="sdb',
    'KERNEL=="sdb" "',
    'KERNEL=="sdb""sdc"',
    'KERNEL=~"sdb"',
    'KERNEL=>"sdb"',
    'KERNEL<"sdb"',
    'KERNEL==="sdb"',
    'KERNEL!=="sdb"',
    'KERNEL=="sdb",,RUN+="x"',
    ',RUN+="x"',
    ', KERNEL=="sdb"',
    'KERNEL=="sdb", ',
    "#",
    '# KERNEL=="sdb"',
    'KERNEL=="sdb" # RUN',
    "",
    " ",
    "\t",
    "\n",
    'kernel=="sdb"',
    'Run+="/bin/sh"',
    '\uff2bERNEL=="sdb"',
    'KERNEL=="sdé"',
    'ACTION=="add"',
    'SUBSYSTEM="block"',
    'CONST{arch}=="x86-64"',
    'WAIT_FOR="/x"',
    'KERNEL=="' + "x" * 1024 + '"',
    "," * 1000,
    '"' * 1000,
    "{" * 1000,
    "RUN" * 300,
)
"""As udevRules."""

NAMES = (
    "/dev/sdb",
    "../sdb",
    "..\\sdb",
    "disk/by-id/ata-X",
    'sdb", RUN+="/bin/sh',
    'sdb"',
    '"',
    "sdb\\",
    "sdb\n",
    'sdb\nKERNEL=="x',
    "sdb\r",
    "sdb\x00",
    "sdb\t",
    "sdb sdc",
    "sdb,sdc",
    "sdb|sda",
    "|",
    "$env{X}",
    "%k",
    "$(reboot)",
    "`reboot`",
    "sdb;reboot",
    "sdb&",
    "{sdb}",
    "sd[b-z",
    "sd]",
    "sd[]",
    "sd[!]",
    "sd[[a]",
    "",
    " ",
    "x" * 65,
    "sdé",
    "sd\u2028b",
    "#sdb",
    "sdb=",
    "~",
    "<x>",
    "'sdb'",
)
"""As deviceNames and as excludeDeviceNames."""

CLASSES = (
    "..", ".", "a/../b", "../../etc", "/etc", "a/b", "a b", 'a", RUN+="x', "a\nb", "a\\", "$env{X}", "%k", "A", "-a",
    "a-", "a..b", ".a", "a.", "", "x" * 254, "é", "a_b", "a\x00", "a|b", "a*",
)  # fmt: skip
"""As names of classes."""

STORAGE_NAMES = (
    "../x", "/x", "a/b", "..", ".", "", "a\nb", 'a"b', "a b", "$x", "%k", "A", "a_b", "-a", "x" * 254,
    "a.rules\x00", "é", "a\\b",
)  # fmt: skip
"""As names of a LocalStorage, and most of its namespace."""

PROPERTIES = ('x", RUN+="y', "x\ny", "x\\", "$env{X}", "%c", "a|b", "", "x" * 65, "[a", "é", "a\x00b", '"')
"""As vendors and models."""

SELECTORS: tuple[Any, ...] = (
    {"a b": "c"},
    {"a": "b c"},
    {"a": True},
    {"a": 1},
    {"a": None},
    {"a": ["b"]},
    {"a": {"b": "c"}},
    {"/a": "b"},
    {"a": "x" * 64},
    {"nodeSelectorTerms": []},
    {"nodeSelectorTerms": {}},
    {"nodeSelectorTerms": None},
    {"nodeSelectorTerms": ["x"]},
    {"nodeSelectorTerms": [{"matchExpressions": "x"}]},
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Matches", "values": ["b"]}]}]},
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}]},
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": 1, "operator": "In", "values": ["b"]}]}]},
    {"nodeSelectorTerms": [{"matchFields": [{"key": "spec.x", "operator": "In", "values": ["b"]}]}]},
    {"nodeSelectorTerms": [{"matchLabels": {"a": "b"}}]},
    {"nodeSelectorTerms": [{"matchExpressions": []}] * 65},
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}], "a": "b"},
)

CLEANERS = (
    ("/bin/sh", "-c", "id"),
    ("/usr/bin/env", "sh"),
    ("/scripts/../bin/sh",),
    ("/scripts/quick_reset.sh/../x",),
    ("sh", "-c", "id"),
    ("../sh",),
    ("dd-zero", "1; reboot"),
    ("dd-zero", "-1"),
    ("dd-zero", "1", "2"),
    ("blkdiscard", "/dev/sda"),
    ("zeroout", "--help"),
    ("shred", "$(id)"),
    ("fs-clean",),
    ("",),
    ("nvme-format", "none"),
    ("hdparm", "enhanced"),
    ("fs-remake",),
)

FILE_SYSTEMS = (
    "ext4 -O x",
    "ext4,suid",
    "../x",
    "zfs",
    "vfat",
    "EXT4",
    "xfs\n",
    "-f",
    "$x",
    "ext4;id",
    "nfs",
    "tmpfs",
    "fuse",
)

GOOD: dict[str, Any] = {"storageClassName": "local", "deviceNames": ["sdb"]}

ATTEMPTS: list[tuple[str, Any]] = [
    *(("udevRules", {**GOOD, "udevRules": [each]}) for each in RULES),
    *(("deviceNames", {**GOOD, "deviceNames": [each]}) for each in NAMES),
    *(("excludeDeviceNames", {**GOOD, "excludeDeviceNames": [each]}) for each in NAMES),
    *(("vendors", {**GOOD, "vendors": [each]}) for each in PROPERTIES),
    *(("models", {**GOOD, "models": [each]}) for each in PROPERTIES),
    *(("storageClassName", {**GOOD, "storageClassName": each}) for each in CLASSES),
    *(("blockCleanerCommand", {**GOOD, "blockCleanerCommand": each}) for each in CLEANERS),
    *(("fsType", {**GOOD, "fsType": each}) for each in FILE_SYSTEMS),
    ("volumeMode", {**GOOD, "volumeMode": "../.."}),
    ("volumeMode", {**GOOD, "volumeMode": "block"}),
    ("minSize", {**GOOD, "minSize": "1; id"}),
    ("maxSize", {**GOOD, "maxSize": "9" * 2000}),
    ("mediumTypes", {**GOOD, "mediumTypes": ["SSD\n"]}),
    ("maxDeviceCount", {**GOOD, "maxDeviceCount": -1}),
]


def storage(nodes: list[Any], *, name: str = "local", namespace: str = "default", **spec: Any) -> LocalStorage:
    meta = {"name": name, "namespace": namespace, "uid": "u", "generation": 1}
    moment = "2026-01-01T00:00:00Z"
    return msgspec.convert(
        {"metadata": {**meta, "creationTimestamp": moment}, "spec": {"nodes": nodes, **spec}}, LocalStorage
    )


def written(given: LocalStorage) -> None:
    """What a node would do that is told about it by somebody who did not look."""
    ids = [f"{index:08x}" for index, _ in enumerate(given.spec.nodes)]
    told = NodeConfiguration(
        namespace=given.metadata.namespace,
        name=given.metadata.name,
        uid="u",
        created="2026-01-01T00:00:00Z",
        groups={
            each: GroupDevices(index=0, generation=1, devices=group.devices)
            for each, group in zip(ids, given.spec.nodes, strict=True)
        },
    )
    rules_file.files([local_storage.read(told.text())], namespace="default")


def test_there_are_more_than_a_hundred_attempts() -> None:
    assert len(ATTEMPTS) + len(STORAGE_NAMES) * 2 + len(SELECTORS) + len(CLASSES) > 250
    assert local_storage.problems(storage([{"devices": [GOOD]}])) == ()
    written(storage([{"devices": [GOOD]}]))


@pytest.mark.seed("OPR-15")
@pytest.mark.parametrize(("field", "devices"), ATTEMPTS)
def test_no_group_of_devices_gets_anything_else_onto_a_node(field: str, devices: Any) -> None:
    given = storage([{"devices": [devices]}])
    found = local_storage.problems(given)
    assert found and all(problem.place.startswith(f"spec.nodes[0].devices[0].{field}") for problem in found)
    assert all(0 < len(problem.message) < 3000 and "\n" not in problem.message for problem in found)
    with pytest.raises(errors.ConfigurationError):
        written(given)


@pytest.mark.seed("OPR-15")
@pytest.mark.parametrize("name", STORAGE_NAMES)
def test_no_name_leads_out_of_the_folder_of_rules(name: str) -> None:
    for given in (
        storage([{"devices": [GOOD]}], name=name),
        storage([{"devices": [GOOD]}], namespace=name.replace(".", "..")),
    ):
        assert local_storage.problems(given)
        with pytest.raises(errors.ConfigurationError):
            written(given)


@pytest.mark.seed("OPR-15")
@pytest.mark.parametrize("name", CLASSES)
def test_no_class_that_is_only_made_has_another_name(name: str) -> None:
    [problem] = local_storage.problems(storage([{"devices": [GOOD]}], storageClasses=[name]))[:1]
    assert problem.place == "spec.storageClasses[0]"


@pytest.mark.parametrize("selector", SELECTORS)
def test_no_selector_is_guessed_at(selector: Any) -> None:
    found = local_storage.problems(storage([{"nodeSelector": selector, "devices": [GOOD]}]))
    assert found and all(problem.place.startswith("spec.nodes[0].nodeSelector") for problem in found)


@pytest.mark.parametrize(
    "change",
    [
        {"uid": "a\nb"},
        {"uid": ""},
        {"created": "yesterday"},
        {"created": '2026-01-01T00:00:00Z"'},
        {"name": "../x"},
        {"namespace": "a/b"},
        {"groups": {"../x": {"index": 0, "generation": 1, "devices": [GOOD]}}},
        {"groups": {"00000000-r1": {"index": 0, "generation": 1, "devices": [GOOD]}}},
        {"groups": {"00000000-rx": {"index": 0, "generation": 1, "devices": [GOOD], "retired": True}}},
        {"groups": {"00000000": {"index": -1, "generation": 1, "devices": [GOOD]}}},
        {"groups": {"00000000": {"index": 10**9, "generation": 1, "devices": [GOOD]}}},
        {"groups": {"00000000": {"index": 0, "generation": -1, "devices": [GOOD]}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": []}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD], "kept": ["a/block/../x"]}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD], "kept": ['a/block/x", RUN+="y']}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD], "kept": ["a/block/*"]}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD], "kept": ["a/raw/x"]}}},
        {"groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD], "kept": ["a/block/x"] * 2000}}},
        {"pinned": {"scsi-1": 'pci-1", RUN+="x'}},
        {"pinned": {"scsi-1*": "pci-1"}},
        {"pinned": {"../x": "pci-1"}},
        {"pinned": {"scsi-1": ""}},
        {"pinned": {f"scsi-{number}": "pci-1" for number in range(300)}},
        {"groups": []},
        {"groups": None},
    ],
)
def test_a_node_believes_no_configuration_that_we_would_not_write(change: dict[str, Any]) -> None:
    good = {
        "namespace": "default",
        "name": "local",
        "uid": "u",
        "created": "2026-01-01T00:00:00Z",
        "groups": {"00000000": {"index": 0, "generation": 1, "devices": [GOOD]}},
    }
    local_storage.read(json.dumps(good))
    with pytest.raises(local_storage.WrongConfiguration):
        local_storage.read(json.dumps(good | change))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 100_000, '"' * 10, "x" * (1 << 20), b"\xff\xfe"])
def test_a_node_reads_no_other_text(text: str | bytes) -> None:
    with pytest.raises(local_storage.WrongConfiguration):
        local_storage.read(text)
