"""What stands in a rules file is what was meant, to us and to udev, whatever a LocalStorage says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tests.unit.agent.udev import grammar

from localpv import errors
from localpv.agent.udev import rules_file
from localpv.api.kinds.localstorage import LocalStorage
from localpv.config import local_storage, udev_match
from localpv.config.local_storage import NodeConfiguration, WrongConfiguration

GOOD: dict[str, Any] = {"storageClassName": "local", "deviceNames": ["sdb"]}
SMUGGLED = (
    '"',
    "\\",
    "\n",
    "\r",
    "$",
    "%",
    ",",
    "{",
    "}",
    "=",
    "+=",
    'RUN+="',
    "#",
    "|",
    "é",
    "\x00",
    " ",
    "'",
    "i",
    "e",
)


def storage(nodes: Any, *, name: str = "local", namespace: str = "default", created: int = 0) -> LocalStorage:
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": "u",
                "generation": 1,
                "creationTimestamp": f"2026-01-01T00:00:{created:02}Z",
            },
            "spec": {"nodes": nodes},
        },
        LocalStorage,
    )


def configured(nodes: Any, **more: Any) -> NodeConfiguration:
    given = storage(nodes, **more)
    assert local_storage.problems(given) == ()
    return local_storage.node_configuration(given, local_storage.groups(given))


def devices(*groups: dict[str, Any]) -> Any:
    return [{"devices": list(groups)}]


class Author:
    """Writes LocalStorages that are likely to be right, with something smuggled in now and then."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._hostile = self._random.random() < 0.5

    def storage(self) -> LocalStorage:
        name = self._random.choice(["local", "a", "z-9", "x" * 253])
        groups = [self._group() for _ in range(self._random.randint(1, 2))]
        return storage([{"devices": groups}], name=name, created=self._random.randint(0, 59))

    def rule(self) -> str:
        between = self._random.choice([", ", ",", " , ", " ", "\t,\t", *(["", ",,", "\n"] if self._hostile else [])])
        return self._smuggled(between.join(self._key() for _ in range(self._random.randint(1, 4))))

    def _group(self) -> dict[str, Any]:
        some_of = self._some
        return {
            "storageClassName": self._smuggled(self._random.choice(["fast", "a.b-c", "x" * 253])),
            "deviceNames": some_of(self._name, 3) or ["sdb"],
            "udevRules": some_of(self.rule, 3),
            "excludeDeviceNames": some_of(self._name, 2),
            "vendors": some_of(self._property, 2),
            "models": some_of(self._property, 2),
            "volumeMode": self._random.choice(["Block", "Filesystem"]),
            "allowNetworkDisks": self._random.random() < 0.5,
        }

    def _some(self, one: Callable[[], str], most: int) -> list[str]:
        return [one() for _ in range(self._random.randint(0, most))]

    def _name(self) -> str:
        known = ["sdb", "sd[b-z]", "nvme?n1", "vd*", "loop1", "dm-4", "cciss!c0d0", "md127p1"]
        return self._smuggled(self._random.choice([*known, self._letters("sdabc[]!^-*?.:0")]))

    def _property(self) -> str:
        return self._smuggled(self._letters("abcXYZ 0*?-_.") + "x")

    def _key(self) -> str:
        hostile = ["RUN", "PROGRAM", "OPTIONS"] if self._hostile else []
        key = self._random.choice([*sorted(udev_match.KEYS), *hostile])
        attributes = [
            "queue/rotational",
            "ID_SERIAL",
            "size",
            "ID_PART_ENTRY_TYPE",
            *(["../x"] if self._hostile else []),
        ]
        attribute = f"{{{self._random.choice(attributes)}}}" if key in udev_match.WITH_ATTRIBUTE else ""
        operator = self._random.choice(["==", "!=", *(["=", "+="] if self._hostile else [])])
        blank = self._random.choice(["", "", " ", "\t"])
        return f'{key}{attribute}{blank}{operator}{blank}"{self._letters("abc0*?[]|-_ .:/()+;&#=,{}")}"'

    def _letters(self, alphabet: str) -> str:
        return "".join(self._random.choices(alphabet, k=self._random.randint(0, 12)))

    def _smuggled(self, text: str) -> str:
        if not self._hostile or self._random.random() < 0.8:
            return text
        at = self._random.randint(0, len(text))
        return text[:at] + self._random.choice(SMUGGLED) + text[at:]


def check_against_udev(text: str, meant: NodeConfiguration, older: list[NodeConfiguration]) -> None:
    """Read a file as udev does: every rule of ours is there as it was meant, and nothing else is."""
    seen = grammar.read(text)
    matched = [
        [(token.key, token.attribute or "", token.operator, token.value) for token in rule]
        for rule in seen
        if any(
            token.operator == "="
            and (token.attribute or "").startswith((rules_file.RULE, "KUBERNETES_LOCAL_STORAGE_TAKEN_"))
            and token.value
            for token in rule
        )
    ]
    wanted = [match for each in (*older, meant) for match in local_storage.matches(each)]
    assert len(matched) == len(wanted)
    for rule, match in zip(matched, wanted, strict=True):
        keys = [(key.key, key.attribute, "==" if key.equal else "!=", key.value) for key in match.keys]
        assert rule[: len(keys)] == keys
    labels = {token.value for rule in seen for token in rule if token.key == "LABEL"}
    assert len(labels) == 1
    for rule in seen:
        for token in rule:
            check_token(token, labels)


def check_token(token: grammar.Seen, labels: set[str]) -> None:
    match token.key, token.operator:
        case key, "==" | "!=" if key in udev_match.KEYS | {"ACTION"}:
            assert "$" not in token.value and "%" not in token.value
        case "TEST", "==" | "!=":
            assert token.value.startswith(
                ("device/", "../device/", "/dev/disk/kubernetes-local-storage/$env{KUBERNETES_")
            )
        case "ENV", "=":
            assert (token.attribute or "").startswith("KUBERNETES_")
            assert len(token.value) < 512
        case "IMPORT", "=":
            assert token.attribute == "db" and token.value.startswith("KUBERNETES_")
        case "SYMLINK", "+=":
            assert token.value.startswith("disk/kubernetes-local-storage/$env{KUBERNETES_")
        case "OPTIONS", "+=":
            assert token.value == "string_escape=replace"
        case "GOTO" | "LABEL", "=":
            assert token.value in labels
        case _:
            raise AssertionError(f"udev would see {token}")


@pytest.mark.seed("OPR-15")
@settings(max_examples=150)
@given(seed=some.integers(0, 2**32))
def test_what_is_written_is_exactly_what_was_meant_whatever_was_asked_for(seed: int) -> None:
    author = Author(seed)
    storages = {each.metadata.name: each for each in (author.storage() for _ in range(3))}
    accepted = [each for each in storages.values() if not local_storage.problems(each)]
    told = [local_storage.node_configuration(each, local_storage.groups(each)) for each in accepted]
    files = rules_file.files(told, namespace="default")
    assert len(files) == len(told)
    in_order = sorted(told, key=lambda each: each.age)
    for index, each in enumerate(in_order):
        name = rules_file.file_name(each, namespace="default")
        assert name.startswith(rules_file.PREFIX) and "/" not in name and len(name) <= 255
        assert rules_file.configuration(files[name]) == each
        check_against_udev(files[name], each, in_order[:index])


def test_some_of_what_is_asked_for_is_accepted_and_some_is_not() -> None:
    refused = [bool(local_storage.problems(Author(seed).storage())) for seed in range(60)]
    assert 10 < sum(refused) < 50


@pytest.mark.seed("OPR-15")
@settings(max_examples=200)
@given(seed=some.integers(0, 2**32))
def test_a_rule_that_is_taken_reads_the_same_to_udev(seed: int) -> None:
    text = Author(seed).rule()
    try:
        keys = udev_match.parse(text)
    except udev_match.WrongMatch:
        return
    [seen] = grammar.read(text)
    assert [(token.key, token.attribute or "", token.operator, token.value) for token in seen] == [
        (key.key, key.attribute, "==" if key.equal else "!=", key.value) for key in keys
    ]
    assert udev_match.parse(udev_match.text(keys)) == keys


@settings(max_examples=100)
@given(text=some.text(max_size=200), at=some.integers(0, 10_000))
def test_a_file_that_somebody_changed_is_not_taken_for_ours_or_is_refused(text: str, at: int) -> None:
    whole = rules_file.files([configured(devices(GOOD))], namespace="default").popitem()[1]
    at %= len(whole)
    try:
        found, rules = rules_file.parse(whole[:at] + text + whole[at:])
    except errors.ConfigurationError:
        return
    assert found.name and all(token.key not in ("RUN", "PROGRAM") for rule in rules for token in rule)


@pytest.mark.seed("OPR-6")
def test_the_sample_of_the_document_is_corrected() -> None:
    rotational = [
        {"storageClassName": f"local-{kind}", "volumeMode": "Block", "udevRules": [rule]}
        for kind, rule in (
            ("ssd", 'KERNEL!="sda" , ATTR{queue/rotational}=="0"'),
            ("hdd", 'KERNEL!="sda",  ATTR{queue/rotational}=="1"'),
        )
    ]
    [(name, text)] = rules_file.files([configured(devices(*rotational))], namespace="default").items()
    assert name == "99-kubernetes-local-storage-local.rules"
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0].startswith('SUBSYSTEM!="block", GOTO="kubernetes_local_storage_end_')
    assert lines[-1].startswith('LABEL="kubernetes_local_storage_end_')
    assert any(line.startswith('KERNEL!="sda", ATTR{queue/rotational}=="0", ') for line in lines)
    [link] = [line for line in lines if "SYMLINK" in line]
    assert link.startswith('SYMLINK+="disk/kubernetes-local-storage/$env{KUBERNETES_LOCAL_STORAGE_LINK_')


def test_files_of_several_namespaces_do_not_meet() -> None:
    told = [
        configured(devices(GOOD), name="a.b"),
        configured(devices(GOOD), name="b", namespace="a"),
        configured(devices(GOOD), name="x" * 253, namespace="n" * 63),
        configured(devices(GOOD), name="x" * 252 + "y", namespace="n" * 63),
    ]
    names = list(rules_file.files(told, namespace="default"))
    assert names[:2] == ["99-kubernetes-local-storage-a_b.rules", "99-kubernetes-local-storage-a.b.rules"]
    assert len(set(names)) == 4 and max(map(len, names)) <= 255


@pytest.mark.seed("OPR-16")
def test_only_younger_ones_are_guarded_against() -> None:
    older, younger = configured(devices(GOOD), name="z", created=1), configured(devices(GOOD), name="a", created=2)
    files = rules_file.files([younger, older], namespace="default")
    assert '="default/z", GOTO=' in files["99-kubernetes-local-storage-a.rules"]
    assert "default/a" not in files["99-kubernetes-local-storage-z.rules"]
    assert rules_file.marks([younger, older]) != rules_file.marks([younger]) | rules_file.marks([older])


def test_a_retired_group_keeps_only_links_in_use() -> None:
    [(group_id, group)] = configured(devices(GOOD)).groups.items()
    kept = ("local/filesystem/scsi-1", "local/filesystem/sdb")
    retired = msgspec.structs.replace(
        configured(devices(GOOD)), groups={group_id: msgspec.structs.replace(group, retired=True, kept=kept)}
    )
    text = rules_file.files([retired], namespace="default").popitem()[1]
    beginning = "ENV{KUBERNETES_LOCAL_STORAGE_LINK_"
    lines = [line for line in text.splitlines() if line.startswith(beginning) and "_RETIRED_" in line]
    assert [line.split('"')[1] for line in lines] == list(kept)


def test_links_that_a_group_kept_are_asked_about_before_all_rules_of_now() -> None:
    made = configured(devices(GOOD))
    [(group_id, group)] = made.groups.items()
    earlier = local_storage.earlier_id(group_id, group)
    kept = msgspec.structs.replace(group, retired=True, kept=("local/filesystem/scsi-1",))
    text = rules_file.files(
        [msgspec.structs.replace(made, groups={group_id: group, earlier: kept})], namespace="default"
    ).popitem()[1]

    asked = text.index(f"nodes[0:{earlier}].devices[0]")
    assert asked < text.index('=="local/filesystem/scsi-1"') < text.index(" nodes[0].devices[0]")
    labels = re.findall(r'LABEL="([^"]*)"', text)
    assert len(labels) == len(set(labels)) and set(labels) == set(re.findall(r'GOTO="([^"]*)"', text))


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"uid":', '"uix":'),
        lambda text: text.replace("|\n", "\n", 1),
        lambda text: text.replace('deviceNames":["sdb"', 'deviceNames":["/dev/sdb"'),
        lambda text: text[:120],
        lambda text: "# something else\n" + text,
    ],
)
def test_a_damaged_header_is_an_error_and_no_configuration(damage: Any) -> None:
    text = rules_file.files([configured(devices(GOOD))], namespace="default").popitem()[1]
    with pytest.raises(WrongConfiguration):
        rules_file.configuration(damage(text))


def test_long_configurations_come_back_whole() -> None:
    names = [f'ENV{{ID_SERIAL}}=="{index:040}"' for index in range(64)]
    made = configured(devices({"storageClassName": "local", "udevRules": names}))
    text = rules_file.files([made], namespace="default").popitem()[1]
    assert max(len(line) for line in text.splitlines() if line.startswith("#")) <= 1000
    assert not any(line.endswith("\\") for line in text.splitlines())
    assert rules_file.configuration(text) == made


def test_the_most_that_is_accepted_fits_into_a_file_and_a_line() -> None:
    wildcards = [f"{index:02}{'x' * 62}" for index in range(64)]
    besides = {"excludeDeviceNames": wildcards, "vendors": wildcards, "models": wildcards}
    one = {"storageClassName": "c" * 253, "udevRules": ['KERNEL!="' + "y" * 1014 + '"'], **besides}
    text = rules_file.files([configured(devices(one, one))], namespace="other").popitem()[1]
    assert max(map(len, text.splitlines())) < grammar.LONGEST_LINE
    many = [{"storageClassName": "c" * 100, "deviceNames": [f"sd{number}" for number in range(64)]}] * 8
    whole = rules_file.files([configured(devices(*many))], namespace="other").popitem()[1]
    assert len(whole) < rules_file.LONGEST_FILE


def test_what_is_too_much_in_all_is_refused() -> None:
    many = [{"storageClassName": "local", "deviceNames": ["sdb"] * 64}] * 9
    assert any("there can be 512" in str(each) for each in local_storage.problems(storage(devices(*many))))
    wildcards = [f"{index:02}{'x' * 62}" for index in range(64)]
    wide = {"storageClassName": "local", "deviceNames": ["sdb"] * 64, "vendors": wildcards}
    assert any("KiB of rules" in str(each) for each in local_storage.problems(storage(devices(wide))))
    long = {"storageClassName": "local", "udevRules": ['KERNEL!="' + "y" * 1014 + '"'] * 64}
    assert any("KiB as JSON" in str(each) for each in local_storage.problems(storage(devices(long, long))))


def properties(told: NodeConfiguration, named: str, path: str, folder: str = "local/filesystem") -> dict[str, str]:
    """What the rules of a LocalStorage leave on a disk with the serial number X."""
    ending = next(iter(rules_file.marks([told]))).rpartition("_")[2]
    return {
        f"KUBERNETES_STORAGE_CLASS_{ending}": folder.partition("/")[0],
        f"KUBERNETES_LOCAL_STORAGE_FOLDER_{ending}": folder,
        f"KUBERNETES_LOCAL_STORAGE_NAMED_{ending}": named,
        f"KUBERNETES_LOCAL_STORAGE_SERIAL_{ending}": "scsi-X",
        "ID_PATH": path,
    }


def with_pins(told: NodeConfiguration, *devices: dict[str, str]) -> NodeConfiguration:
    [(_, pinned)] = rules_file.with_pins({told.key: told}, devices).items()
    return pinned


def test_who_has_a_shared_name_is_told_in_the_header_and_outlives_updates() -> None:
    told = configured(devices(GOOD))
    owner, other = properties(told, "serial", "pci-0000:00:04.0-scsi-0:0:1:0"), properties(told, "path", "pci-2")
    assert with_pins(told, owner) == told
    assert with_pins(told, {**owner, "ID_PATH": 'x", RUN+="y'}, other) == told
    pinned = with_pins(told, other, owner)
    assert pinned.pinned == {"local/filesystem/scsi-X": "pci-0000:00:04.0-scsi-0:0:1:0"}
    text = rules_file.files([pinned], namespace="default").popitem()[1]
    assert rules_file.configuration(text) == pinned
    check_against_udev(text, pinned, [])
    assert local_storage.merged(pinned, told) == pinned
    assert with_pins(pinned, properties(told, "serial", "pci-2"), other) == pinned
    of_before = msgspec.structs.replace(told, pinned={"scsi-X": "pci-1"})
    assert local_storage.read(of_before.text()) == with_pins(of_before, owner, other) == of_before


def test_a_name_that_is_shared_in_one_folder_is_free_in_another() -> None:
    told = configured(devices(GOOD, {**GOOD, "storageClassName": "slow"}))
    in_local = properties(told, "serial", "pci-1"), properties(told, "path", "pci-2")
    elsewhere = properties(told, "serial", "pci-3", folder="slow/filesystem")

    assert with_pins(told, elsewhere, *in_local).pinned == {"local/filesystem/scsi-X": "pci-1"}


def test_what_is_held_is_named_in_no_line_that_is_too_long() -> None:
    names = tuple(sorted(f"local/filesystem/{'x' * 508}{number:04}" for number in range(256)))
    young = msgspec.structs.replace(configured(devices(GOOD), name="young", created=2), held=names[:100])
    old = configured(devices(GOOD), name="old", created=1)
    for text in rules_file.files([old, young], namespace="default").values():
        assert max(map(len, text.splitlines())) < grammar.LONGEST_LINE
        for rule in grammar.read(text):
            for token in rule:
                if token.key == "ENV" and token.operator == "=":
                    assert (token.attribute or "").startswith("KUBERNETES_")
