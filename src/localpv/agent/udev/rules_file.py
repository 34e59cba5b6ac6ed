"""The files of udev rules that make the links of LocalStorages: written from configurations, and read back.

A file begins with the configuration that it was made from, in comments, and goes on with rules that leave their result
in properties of the device, so that everybody can read in udev's database which rule matched and why a device has no
link. Rules do nothing but match, set properties of our own, and make one link.

Each file has properties of its own, which end with a hash of the LocalStorage: those that one file sets are there in
the next one. What udev kept about the device from the last event does not count, except how it was named.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from localpv import errors
from localpv.config import local_storage, udev_match
from localpv.config.local_storage import Match, NodeConfiguration, WrongConfiguration
from localpv.config.udev_match import MatchKey
from localpv.host.sysfs import HASH_DIGITS, MARK_PROPERTY

PREFIX: Final = "99-kubernetes-local-storage-"
"""What names of our files begin with: they come after the rules that find out serial numbers."""

ENDING: Final = ".rules"
LONGEST_FILE: Final = 900 << 10
"""Characters; who reads rules files of the host reads no longer ones."""

LONGEST_LINE: Final = 16_000
"""udev ignores lines of 16 KiB and more."""

LONGEST_FILE_NAME: Final = 255

_TITLE: Final = "# Written by localpv from a LocalStorage; changes are overwritten."
_HEADER: Final = "#localpv-local-storage "
_PIECE: Final = 960
"""Characters of the configuration in one line of comment."""

_STOP: Final = "|"
"""Ends each of those lines: none may end with a backslash, which would join it with the next line."""

_END: Final = "kubernetes_local_storage_end_"
_NEXT: Final = "kubernetes_local_storage_next_"
_LIVE: Final = "kubernetes_local_storage_live_"
_GUARDED: Final = "kubernetes_local_storage_guarded_"
_LINKING: Final = "kubernetes_local_storage_link_"

# Properties of a device; a hash follows. The first two have the names of the document.
_CLASS: Final = "KUBERNETES_STORAGE_CLASS_"
_MODE: Final = "KUBERNETES_VOLUME_MODE_"
RULE: Final = "KUBERNETES_LOCAL_STORAGE_RULE_"
"""Says for a device with a link which rule matched: NAMESPACE/NAME nodes[0].devices[1].udevRules[0]."""

_KIND: Final = "KUBERNETES_LOCAL_STORAGE_KIND_"
"""disk, or what else it is that is not meant unless it is named on purpose."""

_TAKEN: Final = "KUBERNETES_LOCAL_STORAGE_TAKEN_"
"""The other LocalStorage that has the device: an older one, or a younger one that holds it for a volume."""

_HELD: Final = "KUBERNETES_LOCAL_STORAGE_HELD_"
"""The younger LocalStorage that holds the device for a volume."""

_HOLDS: Final = "KUBERNETES_LOCAL_STORAGE_HOLDS_"
"""1 where the device is held for a volume here, whatever older ones match."""

_NAME: Final = "KUBERNETES_LOCAL_STORAGE_NAME_"
_NAME_BY_PATH: Final = "KUBERNETES_LOCAL_STORAGE_PATHNAME_"
"""The two names that the link of the device can have, in whichever folder."""

_ID: Final = "KUBERNETES_LOCAL_STORAGE_ID_"
_LINK: Final = "KUBERNETES_LOCAL_STORAGE_LINK_"
"""CLASS/MODE/ID."""

_FOLDER: Final = "KUBERNETES_LOCAL_STORAGE_FOLDER_"
"""CLASS/MODE in which the device was named."""

_SERIAL: Final = "KUBERNETES_LOCAL_STORAGE_SERIAL_"
"""The name that the device has or would have if no other had it."""

_NAMED: Final = "KUBERNETES_LOCAL_STORAGE_NAMED_"
"""How it was named there: `serial`, or `path` since another device has the same serial number."""

_RETIRED: Final = "KUBERNETES_LOCAL_STORAGE_RETIRED_"
_KEPT: Final = "KUBERNETES_LOCAL_STORAGE_KEPT_"
"""1 while a retired group keeps the link for a volume; then `same` or `other`, as the rule that has the device now."""

_MARK: Final = MARK_PROPERTY
"""A digest of the rules with which udev has looked at the device."""

_OWN: Final = (_CLASS, _MODE, RULE, _KIND, _TAKEN, _ID, _SERIAL, _LINK, _FOLDER, _NAMED, _RETIRED, _KEPT)

SAME_SERIAL: Final = "LOCALPVSAMESERIAL"
"""Argument of a synthetic uevent that tells the rules to name a device by its path: udev looks at several devices at
once, so two with one serial number can both find the name free."""

DISK: Final = "disk"
NETWORK: Final = "network"
BOOT: Final = "boot"

_KERNEL_KINDS: Final = {
    "loop": "loop*",
    "ram": "ram*",
    "zram": "zram*",
    "sr": "sr*|scd*",
    "fd": "fd[0-9]*",
    "dm": "dm-*",
    "md": "md*",
    "mtdblock": "mtdblock*|ubiblock*",
    "zd": "zd*",
    "bcache": "bcache*",
}
"""Devices that are no disks, by their kernel names: meant only where a rule names them so."""

_NETWORK: Final = (
    (MatchKey("KERNEL", "", True, "rbd*|nbd*|drbd*|vitastor*"),),
    # iSCSI, and Fibre Channel with or without a network below.
    (MatchKey("DEVPATH", "", True, "*/session[0-9]*/target*|*/rport-*/target*"),),
    (MatchKey("ENV", "ID_PATH", True, "ip-*|*-ip-*|fc-*|*-fc-0x*"),),
    (MatchKey("SUBSYSTEMS", "", True, "nvme"), MatchKey("ATTRS", "transport", True, "tcp|rdma|fc|loop")),
    (MatchKey("ENV", "ID_MODEL", True, "Amazon_Elastic_Block_Store|PersistentDisk|nvme_card-pd"),),
    (MatchKey("ENV", "ID_MODEL", True, "MSFT_NVMe_Accelerator*|Alibaba_Cloud_Elastic_Block_Storage"),),
    (MatchKey("ENV", "ID_VENDOR", True, "Msft"), MatchKey("ENV", "ID_MODEL", True, "Virtual_Disk")),
)
"""Disks that come over a network, or that a cloud attaches: others attach them for their own volumes."""

_MULTIPATH_NVME: Final = (
    MatchKey("KERNEL", "", True, "nvme*"),
    MatchKey("DEVPATH", "", True, "*/virtual/nvme-subsystem/*"),
)
"""Namespaces that can have several paths stand below no controller; one of those in the machine is a PCI device."""

_BOOT: Final = (
    (MatchKey("KERNEL", "", True, "mmcblk*boot*|mmcblk*rpmb"),),
    (
        # BIOS boot, EFI system, PReP boot, Microsoft reserved.
        MatchKey(
            "ENV",
            "ID_PART_ENTRY_TYPE",
            True,
            "21686148-6449-6e6f-744e-656564454649|c12a7328-f81f-11d2-ba4b-00a0c93ec93b"
            "|9e1a2d38-c612-4316-aa26-8b49521e5a8b|e3c9e316-0b5c-4db8-817d-f92df00215ae|0xef|0x41",
        ),
    ),
)
"""What a machine starts from and that nothing mounts: never meant."""

_OF_PARTITIONS: Final = ("DEVTYPE", "PARTN", "PARTNAME", "PARTUUID", "ID_PART_ENTRY_")
"""Properties by which a rule can mean partitions on purpose."""

_SAFE: Final = "A-Za-z0-9#+.:=@_-"
"""Characters of a name in a folder of links; with others the kernel name is taken."""


class WrongRules(errors.ConfigurationError):
    """A text is no rules file as we write them, or would not be read by udev."""


@dataclass(frozen=True, slots=True)
class Token:
    """One `KEY{attribute}operator"value"` of a rule."""

    key: str
    attribute: str
    operator: str
    value: str

    def __str__(self) -> str:
        braces = f"{{{self.attribute}}}" if self.attribute else ""
        return f'{self.key}{braces}{self.operator}"{self.value}"'


Rule = tuple[Token, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the rules of one LocalStorage say about a device."""

    storage_class_name: str = ""
    """Empty when they gave it no link; then `reason` and `message` say why."""

    mode: str = ""
    rule: str = ""
    """nodes[0].devices[1].udevRules[0]"""

    link: str = ""
    """Below /dev."""

    reason: str = ""
    message: str = ""


def file_name(configuration: NodeConfiguration, *, namespace: str) -> str:
    """Name of the file of a LocalStorage; those of one namespace have it without the namespace."""
    # No name of an object has a _ in it, so no two have the same file.
    prefix = "" if configuration.namespace == namespace else f"{configuration.namespace}_"
    name = f"{PREFIX}{prefix}{configuration.name}{ENDING}"
    if len(name) <= LONGEST_FILE_NAME:
        return name
    short = _hash(configuration)
    return f"{name[: LONGEST_FILE_NAME - len(short) - len(ENDING) - 1]}_{short}{ENDING}"


def files(configurations: Sequence[NodeConfiguration], *, namespace: str) -> dict[str, str]:
    """All our files on a node: older LocalStorages guard their devices in the files of younger ones, and younger ones
    what they hold for volumes in the files of older ones.

    Each text was read back, and was found to be exactly the rules that are meant.
    """
    in_order = sorted(configurations, key=lambda each: each.age)
    return {
        file_name(each, namespace=namespace): _text(each, older=in_order[:index], younger=in_order[index + 1 :])
        for index, each in enumerate(in_order)
    }


def marks(configurations: Sequence[NodeConfiguration]) -> dict[str, str]:
    """Properties that a device has once udev has looked at it with the rules of these configurations."""
    in_order = sorted(configurations, key=lambda each: each.age)
    return {
        f"{_MARK}{_hash(each)}": _digest(_rules(each, older=in_order[:index], younger=in_order[index + 1 :]))
        for index, each in enumerate(in_order)
    }


def digests(configurations: Sequence[NodeConfiguration]) -> dict[str, str]:
    """The values of those properties by NAMESPACE/NAME of the LocalStorage."""
    wanted = marks(configurations)
    return {each.key: wanted[f"{_MARK}{_hash(each)}"] for each in configurations}


def marks_of(properties: Mapping[str, str], *, engine: str = "") -> dict[str, str]:
    """Those that a device has from the files of an engine."""
    begins, length = f"{_MARK}{engine}", len(_MARK) + len(engine) + HASH_DIGITS
    return {name: value for name, value in properties.items() if name.startswith(begins) and len(name) == length}


def is_ours(text: str) -> bool:
    """Whether we wrote a file, as far as its beginning tells."""
    return text.startswith(f"{_TITLE}\n{_HEADER}")


def configuration(text: str) -> NodeConfiguration:
    """The configuration that a file of ours was made from; WrongConfiguration when it cannot be read."""
    if not is_ours(text):
        raise WrongConfiguration("is no rules file that localpv wrote")
    pieces: list[str] = []
    for line in text.split("\n")[1:]:
        if not line.startswith(_HEADER):
            break
        if not line.endswith(_STOP):
            raise WrongConfiguration("has a header that was cut")
        pieces.append(line[len(_HEADER) : -len(_STOP)])
    return local_storage.read("".join(pieces))


def parse(text: str) -> tuple[NodeConfiguration, tuple[Rule, ...]]:
    """The configuration and the rules of a file of ours; ConfigurationError when anything else is in it."""
    if len(text) > LONGEST_FILE:
        raise WrongRules(f"the rules come to more than {LONGEST_FILE >> 10} KiB; write fewer")
    made = configuration(text)
    return made, tuple(parse_rule(line) for line in text.split("\n") if line and not line.startswith("#"))


def parse_rule(line: str) -> Rule:
    """The tokens of one line as we write them: separated by a comma and a blank, nothing escaped."""
    if len(line) > LONGEST_LINE:
        raise WrongRules(f"a rule is longer than {LONGEST_LINE} characters")
    if not line.isascii() or not line.isprintable() or "\\" in line:
        raise WrongRules("a rule has characters that we never write")
    found: list[Token] = []
    at = 0
    while True:
        token, at = _token(line, at)
        found.append(token)
        if at == len(line):
            return tuple(found)
        if line[at : at + 2] != ", ":
            raise WrongRules(f"no comma after {token}")
        at += 2


def found(configuration: NodeConfiguration, properties: Mapping[str, str]) -> Found:
    """What the rules of a LocalStorage left in the properties of a device."""
    ending = _hash(configuration)

    def told(prefix: str) -> str:
        return properties.get(prefix + ending, "")

    if name := told(_CLASS):
        return Found(
            storage_class_name=name,
            mode=told(_MODE),
            rule=told(RULE).removeprefix(f"{configuration.key} "),
            link=f"{local_storage.LINKS}/{told(_LINK)}",
        )
    if holder := told(_HELD) if told(_TAKEN) else "":
        message = f"LocalStorage {holder} has the device, and a volume is on it: it stays there until that is gone"
        return Found(reason="TakenByOther", message=message)
    if older := told(_TAKEN):
        return Found(reason="TakenByOther", message=f"LocalStorage {older}, which is older, matches the device too")
    if told(_RETIRED):
        return Found(reason="Retired", message="the LocalStorage is going, and no volume uses the device")
    match told(_KIND):
        case "network":
            return Found(
                reason="NetworkDisk",
                message="the disk comes over a network or from a cloud, and no group that has it says"
                " allowNetworkDisks",
            )
        case "boot":
            return Found(reason="BootDevice", message="the machine starts from it")
        case "" | "disk":
            return Found(reason="NoRuleMatches", message="no rule matches the device")
        case kind:
            message = f"no rule matches the device; devices of its kind must be named, as in deviceNames: [{kind}...]"
            return Found(reason="NoRuleMatches", message=message)


def groups_of_links(
    configurations: Iterable[NodeConfiguration], devices: Iterable[Mapping[str, str]], *, engine: str
) -> dict[str, tuple[str, str]]:
    """UID and id of the group that gives each link, as CLASS/MODE/ID, told by the properties of all devices.

    Only of devices at which udev has looked with exactly these rules: others may have them from a group of before.
    """
    every = [*configurations]
    wanted = marks(every)
    places = [(each, {match.place: match.group_id for match in local_storage.matches(each)}) for each in every]
    given: dict[str, tuple[str, str]] = {}
    for properties in devices:
        if marks_of(properties, engine=engine) != wanted:
            continue
        for each, ids in places:
            it = found(each, properties)
            if it.link and it.rule in ids:
                given[it.link.removeprefix(f"{local_storage.LINKS}/")] = each.uid, ids[it.rule]
    return given


def linked_by(
    configurations: Iterable[NodeConfiguration], devices: Iterable[Mapping[str, str]]
) -> dict[str, frozenset[str]]:
    """Of each link that a device has, as CLASS/MODE/ID, the LocalStorages whose rules gave it, whichever rules that
    were."""
    every = [*configurations]
    given: dict[str, frozenset[str]] = {}
    for properties in devices:
        for each in every:
            if link := found(each, properties).link.removeprefix(f"{local_storage.LINKS}/"):
                given[link] = given.get(link, frozenset()) | {each.key}
    return given


def contested(configurations: Iterable[NodeConfiguration], devices: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Links, as CLASS/MODE/ID, that an older LocalStorage would take if the one that has them did not hold them."""
    by_key = {each.key: each for each in configurations}
    links: set[str] = set()
    for properties in devices:
        holders = {properties.get(_HELD + _hash(each), "") for each in by_key.values() if _taken(each, properties)}
        for holder in holders & by_key.keys():
            links.add(found(by_key[holder], properties).link.removeprefix(f"{local_storage.LINKS}/"))
    return frozenset(links - {""})


def _taken(configuration: NodeConfiguration, properties: Mapping[str, str]) -> bool:
    return bool(properties.get(_TAKEN + _hash(configuration)))


def with_pins(
    configurations: Mapping[str, NodeConfiguration], devices: Sequence[Mapping[str, str]]
) -> dict[str, NodeConfiguration]:
    """The configurations, with a note of who has a name that several devices could have.

    Told by the properties of all devices. The one that has the name keeps it over a restart of the machine, when udev
    looks at both at once and nothing is known of before: a volume must not find itself on the other disk. All
    configurations that link into a folder have the note: the other disk may be one of theirs.
    """
    named: dict[str, str] = {}
    shared: set[str] = set()
    for each in sorted(configurations.values(), key=lambda each: each.age):
        ending = _hash(each)
        for properties in devices:
            name, path = properties.get(_SERIAL + ending, ""), properties.get("ID_PATH", "")
            link = f"{properties.get(_FOLDER + ending, '')}/{name}"
            match properties.get(_NAMED + ending) if properties.get(_CLASS + ending) and name else "":
                case "path":
                    shared.add(link)
                case "serial" if local_storage.is_entry(name) and local_storage.is_entry(path):
                    named.setdefault(link, path)
    return {
        key: _pinned(each, {link: path for link, path in named.items() if link in shared})
        for key, each in configurations.items()
    }


def _pinned(configuration: NodeConfiguration, found: Mapping[str, str]) -> NodeConfiguration:
    folders = {f"{name}/{mode}" for name, mode in _folders(local_storage.matches(configuration))}
    pinned = dict(configuration.pinned)
    for link, path in found.items():
        folder, _, name = link.rpartition("/")
        if folder in folders and name not in pinned and len(pinned) < local_storage.MOST_KEPT:
            pinned.setdefault(link, path)
    return configuration if pinned == configuration.pinned else msgspec.structs.replace(configuration, pinned=pinned)


# How rules are made.


def _text(
    configuration: NodeConfiguration, *, older: Sequence[NodeConfiguration], younger: Sequence[NodeConfiguration]
) -> str:
    rules = tuple(_rules(configuration, older=older, younger=younger))
    header = configuration.text()
    lines = [_TITLE]
    lines += [f"{_HEADER}{header[at : at + _PIECE]}{_STOP}" for at in range(0, len(header), _PIECE)]
    # The digest is about the rules before it, and so cannot be one of them.
    mark = (_set(f"{_MARK}{_hash(configuration)}", _digest(rules)),)
    whole = (*rules[:_BEFORE_MARK], mark, *rules[_BEFORE_MARK:])
    lines += [", ".join(map(str, rule)) for rule in whole]
    text = "\n".join(lines) + "\n"
    if parse(text) != (configuration, whole):
        raise WrongRules(f"what would be written for LocalStorage {configuration.key} is not what is meant")
    return text


_BEFORE_MARK: Final = 2
"""Rules that leave the file at once."""


def _rules(
    configuration: NodeConfiguration, *, older: Sequence[NodeConfiguration], younger: Sequence[NodeConfiguration]
) -> Iterator[Rule]:
    own = _hash(configuration)
    end = Token("GOTO", "", "=", f"{_END}{own}")
    yield Token("SUBSYSTEM", "", "!=", "block"), end
    yield Token("ACTION", "", "==", "remove"), end
    yield tuple(_set(name + own, "") for name in _OWN)

    yield from _kinds(own)
    yield from _guarding(configuration, own, older=older, younger=younger)
    live = [match for match in local_storage.matches(configuration) if not _group(configuration, match).retired]
    kept = yield from _keeping(configuration, own)
    for match in live:
        conditions = _tokens(_conditions(match, own))
        rule = _set(RULE + own, f"{configuration.key} {match.place}")
        if kept:
            here = (_is(_CLASS + own, match.storage_class_name), _is(_MODE + own, match.mode))
            yield *conditions, _is(_KEPT + own, "1"), *here, rule, _set(_KEPT + own, "same")
            yield *conditions, _is(_KEPT + own, "1"), _set(_KEPT + own, "other")
        yield *conditions, _is(_CLASS + own, ""), *_belongs(match, own), rule
    yield _is(_CLASS + own, ""), end
    linking = f"{_LINKING}{own}"
    if kept:
        yield _is(_KEPT + own, "?*"), Token("GOTO", "", "=", linking)
    yield from _naming(own, _folders(live), configuration.pinned)
    if kept:
        yield (Token("LABEL", "", "=", linking),)
    yield Token("SYMLINK", "", "+=", f"{local_storage.LINKS}/$env{{{_LINK}{own}}}"), _REPLACE
    yield (Token("LABEL", "", "=", f"{_END}{own}"),)


def _guarding(
    configuration: NodeConfiguration,
    own: str,
    *,
    older: Sequence[NodeConfiguration],
    younger: Sequence[NodeConfiguration],
) -> Iterator[Rule]:
    """What older ones match is left to them, unless we hold it for a volume; and what younger ones hold, to those.

    What is held is known by the name of its link, in whichever folder: of two devices with one serial number both are.
    """
    end = Token("GOTO", "", "=", f"{_END}{own}")
    holders = {each.key: _entries(each) for each in younger if _entries(each)}
    holds = _entries(configuration) if older or holders else ()
    if holds or holders:
        yield from _names(own)
    for part in _parts(holds):
        yield from ((_is(name + own, part), _set(_HOLDS + own, "1")) for name in (_NAME, _NAME_BY_PATH))
    for key, entries in holders.items():
        for part in _parts(entries):
            for name in (_NAME, _NAME_BY_PATH):
                yield _is(_HOLDS + own, ""), _is(name + own, part), _set(_HELD + own, key)
    guarded = f"{_GUARDED}{own}"
    if holds and older:
        yield _is(_HOLDS + own, "1"), Token("GOTO", "", "=", guarded)
    for each in older:
        for match in local_storage.matches(each):
            if (group := _group(each, match)).retired and not group.kept:
                continue
            taken = _set(_TAKEN + own, each.key)
            yield (*_tokens(_conditions(match, own)), taken, end)
    if holds and older:
        yield (Token("LABEL", "", "=", guarded),)
    if holders:
        for match in local_storage.matches(configuration):
            if not _group(configuration, match).retired:
                taken = _set(_TAKEN + own, f"$env{{{_HELD}{own}}}")
                yield *_tokens(_conditions(match, own)), _is(_HELD + own, "?*"), taken
        yield _is(_HELD + own, "?*"), end


def _entries(configuration: NodeConfiguration) -> tuple[str, ...]:
    """Names of links, without their folders, that a configuration holds for volumes."""
    kept = (link for group in configuration.groups.values() if group.retired for link in group.kept)
    return tuple(sorted({link.rpartition("/")[2] for link in (*configuration.held, *kept)}))


def _parts(names: Sequence[str]) -> Iterator[str]:
    """Names as alternatives of match keys, in lines that are not too long."""
    for at in range(0, len(names), _NAMES_IN_LINE):
        yield "|".join(names[at : at + _NAMES_IN_LINE])


_NAMES_IN_LINE: Final = 16
"""Each has at most 512 characters."""


def _names(own: str) -> Iterator[Rule]:
    """The names that a link of the device can have, as `_naming` makes them."""
    name, by_path = _NAME + own, _NAME_BY_PATH + own
    yield tuple(_set(each + own, "") for each in (_NAME, _NAME_BY_PATH, _HOLDS, _HELD))
    yield from _by_serial(name)
    has_path = _is("ID_PATH", "?*")
    yield _is(name, "?*"), has_path, _set(by_path, f"$env{{{name}}}-$env{{ID_PATH}}"), _REPLACE
    yield _is(name, "?*"), _is("ID_PATH", ""), _set(by_path, f"$env{{{name}}}-$kernel"), _REPLACE
    yield _is(by_path, f"*[!{_SAFE}]*"), _set(by_path, "$kernel"), _REPLACE
    yield _is(name, ""), _set(name, "$kernel"), _REPLACE


def _keeping(configuration: NodeConfiguration, own: str) -> Generator[Rule, None, bool]:
    """Of groups that are going only links in use stay; whether there are any.

    Each is asked by itself before all others: a device that belongs elsewhere by now has the link of its volume still.
    Where that is the link that it has elsewhere too, the rule there is the one that counts.
    """
    live, kept = f"{_LIVE}{own}", False
    going = [match for match in local_storage.matches(configuration) if _group(configuration, match).retired]
    for number, id in enumerate(dict.fromkeys(match.group_id for match in going)):
        matches = [match for match in going if match.group_id == id]
        # A device that a group had before and has no more is one that no rule matches.
        retired = not local_storage.is_earlier(id)
        if not configuration.groups[id].kept:
            if retired:
                yield from ((*_tokens(_conditions(match, own)), _set(_RETIRED + own, "1")) for match in matches)
            continue
        kept, following = True, f"{_NEXT}{own}_{number}"
        for match in matches:
            rule = _set(RULE + own, f"{configuration.key} {match.place}")
            yield *_tokens(_conditions(match, own)), _is(_CLASS + own, ""), *_belongs(match, own), rule
        yield _is(_CLASS + own, ""), Token("GOTO", "", "=", following)
        yield from _naming(own, _folders(matches), configuration.pinned)
        for link in configuration.groups[id].kept:
            yield _is(_LINK + own, link), _set(_KEPT + own, "1"), _set(_RETIRED + own, "")
        yield _is(_KEPT + own, "1"), Token("GOTO", "", "=", live)
        gone = (_CLASS, _MODE, RULE, _ID, _SERIAL, _LINK, _FOLDER, _NAMED)
        yield *(_set(name + own, "") for name in gone), *((_set(_RETIRED + own, "1"),) if retired else ())
        yield (Token("LABEL", "", "=", following),)
    if kept:
        yield (Token("LABEL", "", "=", live),)
    return kept


def _belongs(match: Match, own: str) -> Rule:
    return _set(_CLASS + own, match.storage_class_name), _set(_MODE + own, match.mode)


def _folders(matches: Iterable[Match]) -> list[tuple[str, str]]:
    return sorted({(match.storage_class_name, match.mode) for match in matches})


def _kinds(own: str) -> Iterator[Rule]:
    yield (_set(_KIND + own, DISK),)
    for kind, wildcards in _KERNEL_KINDS.items():
        yield Token("KERNEL", "", "==", wildcards), _set(_KIND + own, kind)
    for keys in _NETWORK:
        yield *_tokens(keys), _set(_KIND + own, NETWORK)
    for device in ("device", "../device"):
        elsewhere = Token("TEST", "", "!=", f"{device}/*/device/vendor")
        of_disk = Token("ENV", "DEVTYPE", "!=" if device == "device" else "==", "partition")
        yield *_tokens(_MULTIPATH_NVME), of_disk, elsewhere, _set(_KIND + own, NETWORK)
    for keys in _BOOT:
        yield *_tokens(keys), _set(_KIND + own, BOOT)


_WITHOUT_BUS: Final = {"nvme*": "nvme", "vd*": "virtio", "mmcblk*": "mmc"}
"""Kernel names of disks for which udev sets no ID_BUS, and what their names below by-id begin with."""


def _naming(own: str, folders: Sequence[tuple[str, str]], pinned: Mapping[str, str]) -> Iterator[Rule]:
    """ID_BUS and ID_SERIAL, the path too where another device has the same, or else the kernel name.

    udev knows no bus of NVMe, virtio and MMC, and names them by-id with a word of its own; so do we. By their kernel
    names the links of two such disks could change places with a restart, and a kubelet mounts what a link leads to.
    """
    identity, named, link = _ID + own, _NAMED + own, _LINK + own
    yield from _by_serial(identity)
    # How it was named at the last event is the only thing that is remembered; in another folder it is named anew.
    yield (_kept_from_database(_FOLDER + own),)
    yield (_kept_from_database(named),)
    for name, mode in folders:
        folder = f"{name}/{mode}"
        here = (_is(_CLASS + own, name), _is(_MODE + own, mode))
        yield *here, Token("ENV", _FOLDER + own, "!=", folder), _set(named, ""), _set(_FOLDER + own, folder)
    path = f"$env{{{_FOLDER}{own}}}/$env{{{identity}}}"
    yield _is(identity, ""), _set(named, "")
    yield _is(identity, "?*"), _set(_SERIAL + own, f"$env{{{identity}}}")
    yield _is(f"SYNTH_ARG_{SAME_SERIAL}", "1"), _is(identity, "?*"), _set(named, "path")
    for its_link, its_path in sorted(pinned.items()):
        folder, _, name = its_link.rpartition("/")
        its = (_is(identity, name), *((_is(_FOLDER + own, folder),) if folder else ()))
        yield *its, _is("ID_PATH", its_path), _set(named, "serial")
        yield *its, Token("ENV", "ID_PATH", "!=", its_path), _set(named, "path")
    exists = Token("TEST", "", "==", f"/dev/{local_storage.LINKS}/{path}")
    yield _is(identity, "?*"), _is(named, ""), exists, _set(named, "path")
    yield _is(identity, "?*"), _is(named, ""), _set(named, "serial")
    yield _is(named, "path"), _is("ID_PATH", "?*"), _set(identity, f"$env{{{identity}}}-$env{{ID_PATH}}"), _REPLACE
    yield _is(named, "path"), _is("ID_PATH", ""), _set(identity, f"$env{{{identity}}}-$kernel"), _REPLACE
    yield _is(identity, f"*[!{_SAFE}]*"), _set(identity, "")
    yield _is(identity, ""), _set(identity, "$kernel"), _REPLACE
    yield (_set(link, path),)


def _by_serial(name: str) -> Iterator[Rule]:
    """Set a property to ID_BUS and ID_SERIAL, if the device has a name of them."""
    has_serial = (_is("ID_BUS", "?*"), _is("ID_SERIAL", "?*"))
    yield *has_serial, _set(name, "$env{ID_BUS}-$env{ID_SERIAL}"), _REPLACE
    for kernel, bus in _WITHOUT_BUS.items():
        without = (Token("KERNEL", "", "==", kernel), _is("ID_BUS", ""), _is("ID_SERIAL", "?*"))
        yield *without, _set(name, f"{bus}-$env{{ID_SERIAL}}"), _REPLACE
    yield _is(name, f"*[!{_SAFE}]*"), _set(name, "")
    yield _is(name, "?*"), _is("DEVTYPE", "partition"), _set(name, f"$env{{{name}}}-part$number")


def _conditions(match: Match, own: str) -> tuple[MatchKey, ...]:
    """What a device must be for a match: also one of the kinds that are meant."""
    kinds = [DISK]
    if match.devices.allow_network_disks:
        kinds.append(NETWORK)
    patterns = [key.value for key in match.keys if key.key == "KERNEL" and key.equal]
    named = [part for pattern in patterns for part in pattern.split("|")]
    kinds += [kind for kind in _KERNEL_KINDS if any(part.startswith(kind) for part in named)]
    whole = () if _means_partitions(match) else (MatchKey("ENV", "DEVTYPE", False, "partition"),)
    return (*match.keys, *whole, MatchKey("ENV", _KIND + own, True, "|".join(kinds)))


def _means_partitions(match: Match) -> bool:
    """Whether a rule says which partition it means. KERNEL!="sda" alone would also have what sda1 is needed for."""
    return any(
        key.equal
        and (
            (key.key in ("KERNEL", "SYMLINK", "DEVPATH") and key.value.strip("*") != "")
            or (key.key == "ATTR" and key.attribute == "partition")
            or (key.key == "ENV" and key.attribute.startswith(_OF_PARTITIONS))
        )
        for key in match.keys
    )


def _group(configuration: NodeConfiguration, match: Match) -> local_storage.GroupDevices:
    return configuration.groups[match.group_id]


_REPLACE: Final = Token("OPTIONS", "", "+=", "string_escape=replace")
"""For the assignments of this rule: what is not safe in a name becomes _, also blanks, which would end a link."""


def _set(name: str, value: str) -> Token:
    return Token("ENV", name, "=", value)


def _is(name: str, value: str) -> Token:
    return Token("ENV", name, "==", value)


def _kept_from_database(name: str) -> Token:
    return Token("IMPORT", "db", "=", name)


def _tokens(keys: Iterable[MatchKey]) -> Rule:
    return tuple(Token(key.key, key.attribute, "==" if key.equal else "!=", key.value) for key in keys)


def _hash(configuration: NodeConfiguration) -> str:
    """What tells the variables of one file from those of all others."""
    return configuration.engine + hashlib.sha256(configuration.key.encode()).hexdigest()[:HASH_DIGITS]


def _digest(rules: Iterable[Rule]) -> str:
    whole = "\n".join(", ".join(map(str, rule)) for rule in rules)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


# How a line is read.

_KEY_CHARS: Final = frozenset(string.ascii_uppercase)
_OPERATORS: Final = ("==", "!=", "+=", "=")


def _token(line: str, begin: int) -> tuple[Token, int]:
    at = begin
    while at < len(line) and line[at] in _KEY_CHARS:
        at += 1
    key, attribute = line[begin:at], ""
    if line[at : at + 1] == "{":
        end = line.find("}", at)
        attribute, at = line[at + 1 : end], end + 1
        if end < 0 or not attribute or not set(attribute).isdisjoint('"={'):
            raise WrongRules(f"no end of {key}{{")
    operator = next((each for each in _OPERATORS if line.startswith(each + '"', at)), "")
    end = line.find('"', at + len(operator) + 1)
    if not key or not operator or end < 0:
        raise WrongRules("a rule has something else than keys, operators and values in quotes")
    token = Token(key, attribute, operator, line[at + len(operator) + 1 : end])
    if (key, operator) not in _WRITTEN:
        raise WrongRules(f"{key}{operator} is never written")
    return token, end + 1


_WRITTEN: Final = frozenset(
    {(key, operator) for key in udev_match.KEYS for operator in ("==", "!=")}
    | {("ACTION", "=="), ("TEST", "=="), ("TEST", "!="), ("ENV", "="), ("IMPORT", "="), ("SYMLINK", "+=")}
    | {("OPTIONS", "+="), ("GOTO", "="), ("LABEL", "=")}
)
"""Keys and operators that our rules are made of."""
