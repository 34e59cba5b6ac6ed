"""What a LocalStorage means, and what of it is refused."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from localpv.api.kinds import localstorage
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localstorage import DeviceGroup, LocalStorage
from localpv.config import local_storage
from localpv.config.local_storage import GroupDevices, NodeConfiguration
from localpv.config.settings import DeviceFilter, Folder
from localpv.host import filesystems

EXAMPLE_1 = [{"devices": [{"storageClassName": "local", "volumeMode": "Block", "deviceNames": ["sd[b-z]"]}]}]
EXAMPLE_2 = [
    {
        "nodeSelector": {"localStorage": "true"},
        "devices": [
            {
                "storageClassName": "local-ssd",
                "volumeMode": "Block",
                "udevRules": ['KERNEL!="sda" , ATTR{queue/rotational}=="0"'],
            },
            {
                "storageClassName": "local-hdd",
                "volumeMode": "Block",
                "udevRules": ['KERNEL!="sda",  ATTR{queue/rotational}=="1"'],
            },
        ],
    }
]


def storage(nodes: list[Any], *, name: str = "local", namespace: str = "localpv-system", **spec: Any) -> LocalStorage:
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": "11111111-2222-3333-4444-555555555555",
                "generation": 3,
                "creationTimestamp": "2026-01-02T03:04:05Z",
            },
            "spec": {"nodes": nodes, **spec},
        },
        LocalStorage,
    )


def a_group(**more: Any) -> DeviceGroup:
    return DeviceGroup(**{"storage_class_name": "fast", "volume_mode": "Block", "device_names": ("sd?",)} | more)


def node(name: str, **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def told(nodes: list[Any], **more: Any) -> list[str]:
    return [str(problem) for problem in local_storage.problems(storage(nodes, **more))]


@pytest.mark.seed("OPR-13")
@pytest.mark.parametrize("nodes", [EXAMPLE_1, EXAMPLE_2])
def test_the_examples_of_the_document_are_accepted(nodes: list[Any]) -> None:
    assert told(nodes, storageClasses=["local"]) == []


@pytest.mark.seed("OPR-2")
def test_nodes_are_selected_by_name_by_labels_by_a_node_selector_or_all() -> None:
    devices = EXAMPLE_1[0]["devices"]
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disks", "operator": "In", "values": ["a", "b"]}]}]}
    every, by_name, by_label, by_terms = storage(
        [
            {"devices": devices},
            {"nodeName": "one", "devices": devices},
            {"nodeSelector": {"disks": "a"}, "devices": devices},
            {"nodeSelector": terms, "devices": devices},
        ]
    ).spec.nodes

    def selected(group: Any) -> list[str]:
        nodes = [node("one"), node("two", disks="a"), node("three", disks="b")]
        return [each.metadata.name for each in nodes if local_storage.selects(group, each)]

    assert selected(every) == ["one", "two", "three"]
    assert selected(by_name) == ["one"]
    assert selected(by_label) == ["two"]
    assert selected(by_terms) == ["two", "three"]


@pytest.mark.seed("OPR-2")
def test_a_name_and_a_selector_together_are_refused() -> None:
    [problem] = told([{**EXAMPLE_2[0], "nodeName": "one"}])
    assert problem == ("spec.nodes[0]: has nodeName and nodeSelector; leave one of them out, or both for all nodes")


def test_groups_keep_their_ids_when_they_are_reordered_or_their_devices_change() -> None:
    one, two = {"nodeName": "one", **EXAMPLE_1[0]}, {"nodeSelector": {"a": "b", "c": "d"}, **EXAMPLE_1[0]}
    ids = {group.node_name: each for each, group in local_storage.groups(storage([one, two])).items()}
    changed = {**two, "nodeSelector": {"c": "d", "a": "b"}, "devices": EXAMPLE_2[0]["devices"]}
    assert {group.node_name: each for each, group in local_storage.groups(storage([changed, one])).items()} == ids


def test_groups_of_the_same_nodes_have_ids_of_their_own() -> None:
    ids = list(local_storage.groups(storage([*EXAMPLE_1, *EXAMPLE_1, *EXAMPLE_1])))
    assert ids == [ids[0], f"{ids[0]}-1", f"{ids[0]}-2"]


def test_what_a_node_is_told_survives_the_way_as_json() -> None:
    given = storage(EXAMPLE_2)
    [each] = local_storage.groups(given)
    made = local_storage.node_configuration(given, [each])
    assert local_storage.read(made.text()) == made
    assert made.generation == 3 and made.key == "localpv-system/local"
    assert [(match.place, match.mode, match.storage_class_name) for match in local_storage.matches(made)] == [
        ("nodes[0].devices[0].udevRules[0]", "block", "local-ssd"),
        ("nodes[0].devices[1].udevRules[0]", "block", "local-hdd"),
    ]


def test_what_a_node_is_told_is_checked_again_there() -> None:
    given = storage(EXAMPLE_1)
    made = json.loads(local_storage.node_configuration(given, local_storage.groups(given)).text())
    [group] = made["groups"].values()
    group["devices"][0]["udevRules"] = ['KERNEL=="sdb", RUN+="/bin/sh"']
    with pytest.raises(local_storage.WrongConfiguration, match="RUN, which runs a program"):
        local_storage.read(json.dumps(made))


def test_of_each_group_the_newest_generation_counts() -> None:
    given = storage([{"nodeName": "one", **EXAMPLE_1[0]}, *EXAMPLE_2])
    first, second = local_storage.groups(given)
    old = local_storage.node_configuration(given, [first])
    newer = msgspec.structs.replace(
        local_storage.node_configuration(given, [first, second]),
        groups={
            each: msgspec.structs.replace(group, generation=4)
            for each, group in local_storage.node_configuration(given, [first, second]).groups.items()
        },
    )
    assert local_storage.merged(old, newer) == newer
    assert local_storage.merged(newer, old) == newer
    assert local_storage.merged(None, old) == old


def test_a_class_with_both_modes_has_two_folders() -> None:
    block, formatted = {**EXAMPLE_1[0]["devices"][0]}, {"storageClassName": "local", "deviceNames": ["vd?"]}
    [group] = storage(
        [{"devices": [block, {**formatted, "fsType": "xfs", "blockCleanerCommand": ["blkdiscard"]}]}]
    ).spec.nodes
    settings = local_storage.class_settings(group.devices)["local"]
    base = "/dev/disk/kubernetes-local-storage/local"
    assert settings.folders == (
        Folder(host_dir=f"{base}/block", mount_dir=f"{base}/block", volume_mode="Block"),
        Folder(host_dir=f"{base}/filesystem", mount_dir=f"{base}/filesystem", volume_mode="Filesystem"),
    )
    assert settings.fs_type == "xfs"
    assert settings.block_cleaner is not None and settings.block_cleaner.method == ("blkdiscard",)


def test_the_file_systems_that_can_be_chosen_are_those_that_are_made() -> None:
    assert localstorage.FILE_SYSTEMS == filesystems.KNOWN


def test_filters_of_a_group_are_found_by_the_place_that_its_rules_are_named_by() -> None:
    younger = NodeConfiguration(
        namespace="localpv-system",
        name="b",
        uid="u2",
        created="2026-01-02T00:00:00Z",
        groups={"00000001": GroupDevices(index=0, generation=1, devices=(a_group(volume_mode="Filesystem"),))},
    )
    limited = a_group(min_size="1Gi", max_size="2Ti", medium_types=("SSD",), max_device_count=3)
    older = msgspec.structs.replace(
        younger,
        name="a",
        created="2026-01-01T00:00:00Z",
        groups={"00000002": GroupDevices(index=4, generation=1, devices=(a_group(storage_class_name="x"), limited))},
    )

    found = local_storage.classes([younger, older])

    assert set(found) == {"fast", "x"}
    assert found["fast"].device_filters == {
        "localpv-system/a nodes[4].devices[1]": DeviceFilter(
            min_bytes=1 << 30, max_bytes=2 << 40, media=("SSD",), max_count=3
        )
    }
    assert [folder.volume_mode for folder in found["fast"].folders] == ["Block", "Filesystem"]
    assert all(settings.from_local_storage for settings in found.values())


def test_cleaner_of_a_file_system_group_is_never_that_of_raw_devices_of_the_class() -> None:
    formatted = DeviceGroup(storage_class_name="fast", device_names=("sdb",), block_cleaner_command=("fs-reset",))
    raw = DeviceGroup(storage_class_name="fast", device_names=("sdc",), volume_mode="Block")
    shredded = msgspec.structs.replace(raw, block_cleaner_command=("shred", "1"))
    for groups, cleaner in (
        ((formatted, raw), "zeroout"),
        ((raw, formatted), "zeroout"),
        ((formatted, shredded), "shred"),
    ):
        settings = local_storage.class_settings(groups)["fast"]
        assert settings.cleaner(on_device=True, volume_mode="Block").method[0] == cleaner
        assert settings.cleaner(on_device=True, volume_mode="Filesystem").method == ("fs-reset",)
        assert settings.shows_old_data(("fs-reset",))


def test_a_retired_group_retires_no_disk_of_another_one_at_its_place() -> None:
    live = GroupDevices(index=0, generation=2, devices=(a_group(),))
    retired = GroupDevices(index=0, generation=1, devices=(a_group(),), retired=True)
    made = local_storage.node_configuration(
        storage([{"devices": [{"storageClassName": "x", "deviceNames": ["x"]}]}]), ()
    )
    made = msgspec.structs.replace(made, groups={"0000000b": live, "0000000a": retired, "0000000b-r1": retired})

    filters = local_storage.classes([made])[a_group().storage_class_name].device_filters
    groups = {match.group_id: f"{made.key} {match.place.rpartition('.')[0]}" for match in local_storage.matches(made)}

    assert {id: filters.get(group, DeviceFilter()).retired for id, group in groups.items()} == {
        "0000000a": True,
        "0000000b": False,
        "0000000b-r1": True,
    }
    assert len(set(groups.values())) == 3
    assert made.generation == 1
    assert local_storage.read(made.text()) == made


def test_groups_of_one_local_storage_in_several_configurations_are_judged_together() -> None:
    live = GroupDevices(index=0, generation=2, devices=(a_group(),))
    going = GroupDevices(index=0, generation=1, devices=(a_group(),), retired=True)
    made = local_storage.node_configuration(
        storage([{"devices": [{"storageClassName": "x", "deviceNames": ["x"]}]}]), ()
    )
    spec = msgspec.structs.replace(made, groups={"0000000b": live})
    told = msgspec.structs.replace(made, groups={"0000000a": going})

    def retired(place: str, *configurations: NodeConfiguration) -> bool:
        settings = local_storage.classes(configurations)[a_group().storage_class_name]
        return settings.device_filter(f"{made.key} {place}.devices[0].deviceNames[0]").retired

    for order in ((spec, told), (told, spec)):
        assert retired("nodes[0:0000000a]", *order)
        assert not retired("nodes[0]", *order), "another group stands there by now"
    assert retired("nodes[0]", told), "udev tells devices only a moment later"
    assert retired("nodes[0]", local_storage.retired(spec), told)
    assert not retired("nodes[1]", spec, told)


def test_what_a_group_had_before_says_nothing_about_the_generation_in_force() -> None:
    group = GroupDevices(index=0, generation=7, devices=(a_group(),))
    earlier = msgspec.structs.replace(group, generation=3, retired=True)
    made = local_storage.node_configuration(
        storage([{"devices": [{"storageClassName": "x", "deviceNames": ["x"]}]}]), ()
    )
    id = local_storage.earlier_id("0000000b", earlier)

    assert local_storage.is_earlier(id)
    assert msgspec.structs.replace(made, groups={"0000000b": group, id: earlier}).generation == 7
