"""What a LocalStorage means: which nodes, which devices there, and the classes that the devices belong to.

Computed only. The operator and the discoverer ask the same questions here, and so agree: what is refused, which group
of nodes is which when the list was reordered, which rule of which LocalStorage is meant, and where the links of a class
are found.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from localpv import errors
from localpv.api import fields, names, node_selector
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localdisk import Medium, VolumeMode
from localpv.api.kinds.localstorage import FILE_SYSTEMS, DeviceGroup, LocalStorage, NodeGroup
from localpv.api.kinds.meta import NOTHING, Part
from localpv.api.kinds.pods import Toleration
from localpv.api.quantity import Quantity
from localpv.config import cleaners, udev_match
from localpv.config.settings import ClassSettings, DeviceFilter, Folder
from localpv.config.udev_match import MatchKey, WrongMatch
from localpv.config.values import Problem

KEY: Final = "localStorage"
"""Key of the ConfigMap under which a discoverer finds its NodeConfiguration."""

LINKS: Final = "disk/kubernetes-local-storage"
"""Below /dev: where the links of all classes are."""

MOST_NODE_GROUPS: Final = 64
MOST_DEVICE_GROUPS: Final = 64
"""In one group of nodes."""

MOST_RULES: Final = 64
"""Of each kind (deviceNames, udevRules, ...) in one group of devices."""

MOST_CLASSES: Final = 64
MOST_MATCHES: Final = 512
"""Wildcards and rules of one LocalStorage; each becomes a line of a rules file."""

MOST_BYTES: Final = 64 << 10
"""Of all that is said about nodes, as JSON. It travels in a ConfigMap and in comments of a rules file."""

MOST_RULE_BYTES: Final = 128 << 10
"""Of all match keys of one LocalStorage: exclusions, vendors and models are written into each of its rules."""

MOST_PROBLEMS: Final = 100
"""Problems of one LocalStorage that are told."""

LONGEST_NAME: Final = 253
_HASH: Final = 10
_ID: Final = re.compile(r"[0-9a-f]{8}(-[1-9][0-9]?)?(-r[0-9]{1,19})?", re.ASCII).fullmatch
_ENGINE: Final = re.compile(r"[0-9a-f]{8}", re.ASCII).fullmatch
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,128}", re.ASCII).fullmatch
_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z", re.ASCII).fullmatch
_ENTRY: Final = re.compile(r"[A-Za-z0-9#+.:=@_-]{1,512}", re.ASCII).fullmatch
_EFFECTS: Final = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


class WrongConfiguration(errors.ConfigurationError):
    """A NodeConfiguration cannot be what we wrote."""


class GroupDevices(Part, frozen=True, kw_only=True):
    """What one group of nodes has to do, as its nodes are told."""

    index: int
    """Where the group stands in spec.nodes: rules are named by it."""

    generation: int
    """Generation of the LocalStorage that says so."""

    devices: tuple[DeviceGroup, ...] = ()

    retired: bool = False
    """Whether the group is going: nothing new is linked, and only `kept` stays."""

    kept: tuple[str, ...] = ()
    """Of a retired group: links, as CLASS/MODE/ID, under which volumes are in use."""


class NodeConfiguration(Part, frozen=True, kw_only=True):
    """One LocalStorage as a node is told about it. Travels as JSON."""

    namespace: str
    name: str
    uid: str
    created: str
    """creationTimestamp of the LocalStorage: of two that match one device the older wins."""

    groups: Mapping[str, GroupDevices]
    """By the id of the group."""

    pinned: Mapping[str, str] = NOTHING
    """Added on the node: of links, as CLASS/MODE/ID, that several devices could have, since they have the same serial
    number, the ID_PATH of the one that has it. Without this another one may have it after a restart. A name alone, as
    earlier versions wrote it, is meant in all folders."""

    held: tuple[str, ...] = ()
    """Added on the node: links, as CLASS/MODE/ID, of volumes that this one keeps although an older LocalStorage has
    come to match their devices, or may have."""

    engine: str = ""
    """Added on the node: which `localpv up` of the machine has the LocalStorage; empty for a cluster. Who serves one
    knows nothing of the LocalStorages of another, and leaves its files alone."""

    @property
    def generation(self) -> int:
        """Generation that all groups have at least; what an earlier one left for its volumes does not count."""
        return min((group.generation for id, group in self.groups.items() if not is_earlier(id)), default=0)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def age(self) -> tuple[str, str, str]:
        """What sorts older ones first; equal moments are told apart by name."""
        return self.created, self.namespace, self.name

    def text(self) -> str:
        """As JSON on one line, ASCII only, the same for equal configurations."""
        # An empty map is one that is left out: a file is written again only when it says something else.
        said = self if self.pinned else msgspec.structs.replace(self, pinned=NOTHING)
        return _canonical(msgspec.to_builtins(said))


@dataclass(frozen=True, slots=True)
class Match:
    """One wildcard of deviceNames or one entry of udevRules, with everything that the device must be besides."""

    place: str
    """Where it stands: nodes[0].devices[1].udevRules[0]."""

    group_id: str
    devices: DeviceGroup
    keys: tuple[MatchKey, ...]

    @property
    def storage_class_name(self) -> str:
        return self.devices.storage_class_name

    @property
    def mode(self) -> str:
        """block or filesystem, as links have it."""
        return mode_of(self.devices)


def problems(storage: LocalStorage) -> tuple[Problem, ...]:
    """Everything that is wrong with a LocalStorage, each with its field and what to do about it."""
    found: list[Problem] = []
    for problem in _problems(storage):
        found.append(problem)
        if len(found) == MOST_PROBLEMS:
            break
    return tuple(found)


def groups(storage: LocalStorage) -> dict[str, NodeGroup]:
    """The groups of nodes by ids that stay when groups are reordered or their devices change."""
    found: dict[str, NodeGroup] = {}
    for group in storage.spec.nodes:
        selection = {"nodeName": group.node_name, "nodeSelector": group.node_selector or {}}
        base = hashlib.sha256(_canonical(selection).encode()).hexdigest()[:8]
        same, count = base, 0
        while same in found:
            count += 1
            same = f"{base}-{count}"
        found[same] = group
    return found


def selects(group: NodeGroup, node: Node) -> bool:
    """Whether a node belongs to a group: by name, by labels, by a NodeSelector; a group without any has all nodes."""
    name, labels = node.metadata.name, node.metadata.labels
    if group.node_name:
        return group.node_name == name
    if not group.node_selector:
        return True
    if _is_node_selector(group.node_selector):
        return node_selector.NodeSelector(group.node_selector).matches(labels, name)
    return all(labels.get(key) == value for key, value in group.node_selector.items())


def node_configuration(storage: LocalStorage, ids: Iterable[str]) -> NodeConfiguration:
    """What nodes are told of the groups with these ids."""
    wanted = set(ids)
    return NodeConfiguration(
        namespace=storage.metadata.namespace,
        name=storage.metadata.name,
        uid=storage.metadata.uid,
        created=storage.metadata.creation_timestamp or "",
        groups={
            each: GroupDevices(index=index, generation=storage.metadata.generation, devices=group.devices)
            for index, (each, group) in enumerate(groups(storage).items())
            if each in wanted
        },
    )


def report_name(storage: str, node: str) -> str:
    """Name of the LocalStorageNode; what is too long for a name ends with a hash of the whole."""
    name = f"{storage}.{node}"
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - _HASH - 1].rstrip('.-')}-{hashlib.sha256(name.encode()).hexdigest()[:_HASH]}"


def read(text: str | bytes) -> NodeConfiguration:
    """The NodeConfiguration that a text holds; WrongConfiguration when it is none that we would have written."""
    if len(text) > 2 * MOST_BYTES:
        raise WrongConfiguration(f"the configuration of a LocalStorage is longer than {2 * MOST_BYTES} bytes")
    try:
        found = msgspec.json.decode(text, type=NodeConfiguration)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WrongConfiguration(f"cannot be read as the configuration of a LocalStorage: {error}") from error
    for problem in _node_problems(found):
        raise WrongConfiguration(f"is no configuration of a LocalStorage: {problem}")
    return found


def merged(old: NodeConfiguration | None, new: NodeConfiguration) -> NodeConfiguration:
    """What a node has to do once it is told `new`: of each group what the newest generation says.

    Groups of one LocalStorage come from several ConfigMaps, each at its own time. One of another UID is another
    LocalStorage, and the one that was created last is the one that exists.
    """
    if old is None or (old.uid != new.uid and old.created <= new.created):
        return new
    if old.uid != new.uid:
        return old
    kept = dict(old.groups)
    for each, group in new.groups.items():
        if each not in kept or kept[each].generation <= group.generation:
            kept[each] = group
    return msgspec.structs.replace(new, groups=kept, pinned={**new.pinned, **old.pinned}, held=old.held)


def retired(configuration: NodeConfiguration) -> NodeConfiguration:
    """The same with all its groups going."""
    groups = {id: msgspec.structs.replace(group, retired=True) for id, group in configuration.groups.items()}
    return msgspec.structs.replace(configuration, groups=groups)


def earlier_id(id: str, group: GroupDevices) -> str:
    """The id under which the devices of a group stay for their volumes when it has others; never that of a group."""
    return f"{id}-r{group.generation}"


def is_earlier(id: str) -> bool:
    """Whether an id is that of devices which a group had before."""
    return "-r" in id


def is_linked(path: str) -> bool:
    """Whether a path is that of a link which rules of LocalStorages make."""
    return path.startswith(f"/dev/{LINKS}/")


def class_settings(devices: Iterable[DeviceGroup]) -> dict[str, ClassSettings]:
    """The classes that groups of devices mean, by name: where their links are, and how they are offered and cleaned.

    A class has a folder for each mode. Where groups of different LocalStorages disagree about a class, the first says
    how it is.
    """
    found: dict[str, ClassSettings] = {}
    for group in devices:
        name, mode = group.storage_class_name, VolumeMode(group.volume_mode or VolumeMode.FILESYSTEM)
        path = f"/dev/{LINKS}/{name}/{mode_of(group)}"
        folder = Folder(host_dir=path, mount_dir=path, volume_mode=mode)
        settings = found.get(name)
        cleaner = _cleaner(group)
        formatted, raw = (None, cleaner) if mode is VolumeMode.BLOCK else (cleaner, None)
        if settings is None:
            settings = ClassSettings(
                name=name,
                host_dir=path,
                mount_dir=path,
                volume_mode=mode,
                fs_type=group.fs_type,
                block_cleaner=formatted,
                raw_cleaner=raw,
                from_local_storage=True,
            )
        else:
            settings = replace(
                settings,
                more_folders=settings.more_folders if folder in settings.folders else (*settings.more_folders, folder),
                fs_type=settings.fs_type or group.fs_type,
                block_cleaner=settings.block_cleaner or formatted,
                raw_cleaner=settings.raw_cleaner or raw,
            )
        found[name] = settings
    return found


def classes(
    configurations: Iterable[NodeConfiguration], marks: Mapping[str, str] = NOTHING
) -> dict[str, ClassSettings]:
    """The classes of several LocalStorages together, with the filters of each group of devices.

    Groups of one LocalStorage can be in several configurations. `marks` are digests of their rules, by NAMESPACE/NAME,
    where it is known which those are.
    """
    in_order = sorted(configurations, key=lambda each: each.age)
    live = {(each.key, group.index) for each in in_order for group in each.groups.values() if not group.retired}
    groups_of = [
        (f"{each.key} {place}.devices[{number}]", devices, group.retired, _looked_with(group, each, marks))
        for each in in_order
        for id, group in sorted(each.groups.items(), key=lambda item: (item[1].retired, item[1].index, item[0]))
        for place in _places(id, group, taken=(each.key, group.index) in live)
        for number, devices in enumerate(group.devices)
    ]
    found = class_settings(devices for _, devices, _, _ in groups_of)
    for name, settings in found.items():
        storages = {place.partition(" ")[0] for place, devices, _, _ in groups_of if devices.storage_class_name == name}
        found[name] = replace(settings, local_storages=frozenset(storages))
    for place, devices, retired, looked_with in groups_of:
        if (limits := _filter(devices, retired=retired, looked_with=looked_with)) != DeviceFilter():
            settings = found[devices.storage_class_name]
            filters = {**settings.device_filters, place: limits}
            found[devices.storage_class_name] = replace(settings, device_filters=filters)
    return found


def _looked_with(group: GroupDevices, configuration: NodeConfiguration, marks: Mapping[str, str]) -> str:
    """Where a group stands at which one stood that is retired, a device may say of that one that it stands there, until
    udev has looked at it with the rules of now."""
    others = configuration.groups.values()
    shared = not group.retired and any(each.retired and each.index == group.index for each in others)
    return marks.get(configuration.key, "") if shared else ""


def _filter(devices: DeviceGroup, *, retired: bool, looked_with: str) -> DeviceFilter:
    return DeviceFilter(
        min_bytes=Quantity.parse(devices.min_size).value if devices.min_size else 0,
        max_bytes=Quantity.parse(devices.max_size).value if devices.max_size else 0,
        media=devices.medium_types,
        max_count=devices.max_device_count,
        retired=retired,
        looked_with=looked_with,
    )


def matches(configuration: NodeConfiguration) -> tuple[Match, ...]:
    """Every rule in the order in which the first that matches wins."""
    return tuple(
        match
        for group_id, group in sorted(configuration.groups.items(), key=lambda item: (item[1].index, item[0]))
        for number, devices in enumerate(group.devices)
        for match in _matches(group_id, devices, f"{_place(group_id, group)}.devices[{number}]")
    )


def _place(id: str, group: GroupDevices) -> str:
    """Where a group stands. Another one may stand there since it is retired, so such a one has its id with it."""
    return f"nodes[{group.index}:{id}]" if group.retired else f"nodes[{group.index}]"


def _places(id: str, group: GroupDevices, *, taken: bool) -> Iterator[str]:
    """Where devices may say that a group stands: udev tells them only a moment later that it is retired. `taken` says
    whether a group that stays stands there by now."""
    yield _place(id, group)
    if group.retired and not taken:
        yield f"nodes[{group.index}]"


def mode_of(devices: DeviceGroup) -> str:
    """block or filesystem: the volume mode as links have it."""
    return (devices.volume_mode or VolumeMode.FILESYSTEM).lower()


def _matches(group_id: str, devices: DeviceGroup, place: str) -> Iterator[Match]:
    besides = tuple(_besides(devices))
    for index, wildcard in enumerate(devices.device_names):
        keys = (udev_match.kernel(wildcard), *besides)
        yield Match(f"{place}.deviceNames[{index}]", group_id, devices, keys)
    for index, rule in enumerate(devices.udev_rules):
        keys = (*udev_match.parse(rule), *besides)
        yield Match(f"{place}.udevRules[{index}]", group_id, devices, keys)


def _besides(devices: DeviceGroup) -> Iterator[MatchKey]:
    if devices.exclude_device_names:
        yield MatchKey("KERNEL", "", False, "|".join(map(udev_match.check_name, devices.exclude_device_names)))
    for name, wildcards in (("ID_VENDOR", devices.vendors), ("ID_MODEL", devices.models)):
        if wildcards:
            yield MatchKey("ENV", name, True, "|".join(map(udev_match.check_property, wildcards)))


def _cleaner(devices: DeviceGroup) -> cleaners.Cleaner | None:
    if not devices.block_cleaner_command:
        return None
    return cleaners.read(devices.block_cleaner_command, for_devices=True)


# What is refused.


def _problems(storage: LocalStorage) -> Iterator[Problem]:
    meta, spec = storage.metadata, storage.spec
    for sentence in names.dns_subdomain(meta.name):
        yield Problem("metadata.name", sentence)
    for sentence in names.dns_label(meta.namespace):
        yield Problem("metadata.namespace", sentence)
    yield from _too_many("spec.storageClasses", spec.storage_classes, MOST_CLASSES)
    for index, name in enumerate(spec.storage_classes[:MOST_CLASSES]):
        yield from _class_name(f"spec.storageClasses[{index}]", name)
    if not spec.nodes:
        yield Problem("spec.nodes", "is empty; say which devices are meant, such as nodes: [{devices: [...]}]")
    yield from _too_many("spec.nodes", spec.nodes, MOST_NODE_GROUPS)
    for index, group in enumerate(spec.nodes[:MOST_NODE_GROUPS]):
        place = f"spec.nodes[{index}]"
        yield from _selection(place, group)
        for number, toleration in enumerate(group.tolerations):
            yield from _toleration(f"{place}.tolerations[{number}]", toleration)
        yield from _devices(place, group.devices)
    yield from _disagreements(spec.nodes)
    yield from _lengths("spec.nodes", [group.devices for group in spec.nodes], msgspec.to_builtins(spec.nodes))


def _selection(place: str, group: NodeGroup) -> Iterator[Problem]:
    if group.node_name and group.node_selector is not None:
        yield Problem(place, "has nodeName and nodeSelector; leave one of them out, or both for all nodes")
    if group.node_name:
        for sentence in names.dns_subdomain(group.node_name):
            yield Problem(f"{place}.nodeName", sentence)
    selector = group.node_selector
    if not selector:
        return
    if _is_node_selector(selector):
        yield from _node_selector(f"{place}.nodeSelector", selector)
        return
    yield from _too_many(f"{place}.nodeSelector", selector, MOST_RULES)
    for key, value in list(selector.items())[:MOST_RULES]:
        for sentence in names.qualified_name(key):
            yield Problem(f"{place}.nodeSelector", f"{fields.shown(key)} is no key of a label: {sentence}")
        if not isinstance(value, str):
            told = f"{fields.shown(key)} has a value that is no string; put it into quotes, or write nodeSelectorTerms"
            yield Problem(f"{place}.nodeSelector", told)
        elif wrong := names.label_value(value):
            yield Problem(f"{place}.nodeSelector", f"{fields.shown(value)} is no value of a label: {', '.join(wrong)}")


def _is_node_selector(selector: Mapping[str, Any]) -> bool:
    return "nodeSelectorTerms" in selector and not isinstance(selector["nodeSelectorTerms"], str)


def _node_selector(place: str, selector: Mapping[str, Any]) -> Iterator[Problem]:
    for key in selector:
        if key != "nodeSelectorTerms":
            told = f"has {fields.shown(key)} beside nodeSelectorTerms; write labels, or nodeSelectorTerms alone"
            yield Problem(place, told)
    if wrong := _shape(selector["nodeSelectorTerms"]):
        yield Problem(f"{place}.nodeSelectorTerms", wrong)
        return
    yield from (Problem(each.field, each.message) for each in node_selector.validate(selector, place))


def _shape(terms: Any) -> str:
    """What is not of the types of a NodeSelector: the schema lets labels and terms through alike."""
    if not isinstance(terms, list | tuple) or not all(isinstance(term, Mapping) for term in terms):
        return "must be a list of terms"
    if len(terms) > MOST_RULES:
        return f"has more than {MOST_RULES} terms"
    for term in terms:
        if unknown := set(term) - {"matchExpressions", "matchFields"}:
            return f"has a term with {fields.shown(min(unknown))}; there are matchExpressions and matchFields"
        for requirements in term.values():
            if not isinstance(requirements, list | tuple) or len(requirements) > MOST_RULES:
                return f"has a term whose requirements are no list of at most {MOST_RULES}"
            for each in requirements:
                if not isinstance(each, Mapping) or not all(isinstance(each.get(key, ""), str) for key in _WORDS):
                    return "has a requirement that is not key, operator and values"
                values = each.get("values") or ()
                if not isinstance(values, list | tuple) or not all(isinstance(value, str) for value in values):
                    return "has a requirement whose values are no list of strings; put numbers into quotes"
    return ""


_WORDS: Final = ("key", "operator")


def _toleration(place: str, toleration: Toleration) -> Iterator[Problem]:
    if toleration.operator not in ("", "Exists", "Equal"):
        yield Problem(f"{place}.operator", f"{fields.shown(toleration.operator)} is not known; use Exists or Equal")
    if toleration.effect not in _EFFECTS:
        told = f"{fields.shown(toleration.effect)} is not known; use {', '.join(_EFFECTS[1:])}, or leave it out for all"
        yield Problem(f"{place}.effect", told)
    if toleration.key:
        for sentence in names.qualified_name(toleration.key):
            yield Problem(f"{place}.key", sentence)
    elif toleration.operator != "Exists":
        yield Problem(f"{place}.operator", "must be Exists where there is no key")
    if toleration.value and toleration.operator == "Exists":
        yield Problem(f"{place}.value", "must be left out with operator Exists")
    for sentence in names.label_value(toleration.value):
        yield Problem(f"{place}.value", sentence)


def _devices(place: str, devices: tuple[DeviceGroup, ...]) -> Iterator[Problem]:
    if not devices:
        yield Problem(f"{place}.devices", "is empty; say which devices are meant, or remove the group")
    yield from _too_many(f"{place}.devices", devices, MOST_DEVICE_GROUPS)
    for index, group in enumerate(devices[:MOST_DEVICE_GROUPS]):
        yield from _device_group(f"{place}.devices[{index}]", group)


def _device_group(place: str, group: DeviceGroup) -> Iterator[Problem]:
    yield from _class_name(f"{place}.storageClassName", group.storage_class_name)
    if group.volume_mode not in ("", *VolumeMode):
        told = f"{fields.shown(group.volume_mode)} is not known; use Block or Filesystem"
        yield Problem(f"{place}.volumeMode", told)
    if not group.device_names and not group.udev_rules:
        yield Problem(place, 'has neither deviceNames nor udevRules; for all devices write deviceNames: ["*"]')
    checks = {
        "deviceNames": (group.device_names, udev_match.check_name),
        "udevRules": (group.udev_rules, udev_match.parse),
        "excludeDeviceNames": (group.exclude_device_names, udev_match.check_name),
        "vendors": (group.vendors, udev_match.check_property),
        "models": (group.models, udev_match.check_property),
    }
    for field, (texts, check) in checks.items():
        yield from _too_many(f"{place}.{field}", texts, MOST_RULES)
        for index, text in enumerate(texts[:MOST_RULES]):
            try:
                check(text)
            except WrongMatch as error:
                yield Problem(f"{place}.{field}[{index}]", str(error))
    if group.fs_type and group.fs_type not in FILE_SYSTEMS:
        told = f"{fields.shown(group.fs_type)} is no file system that can be made; use {', '.join(FILE_SYSTEMS)}"
        yield Problem(f"{place}.fsType", told)
    if group.fs_type and group.volume_mode == VolumeMode.BLOCK:
        yield Problem(f"{place}.fsType", "must be left out with volumeMode Block, which has no file system")
    yield from _cleaner_problems(f"{place}.blockCleanerCommand", group.block_cleaner_command)
    yield from _sizes(place, group)
    for index, medium in enumerate(group.medium_types):
        if medium not in _MEDIA:
            told = f"{fields.shown(medium)} is not known; use {', '.join(_MEDIA)}"
            yield Problem(f"{place}.mediumTypes[{index}]", told)
            break
    if group.max_device_count < 0:
        yield Problem(f"{place}.maxDeviceCount", "must not be negative; leave it out for all devices")


_MEDIA: Final = tuple(medium.value for medium in Medium if medium)


def _cleaner_problems(place: str, command: tuple[str, ...]) -> Iterator[Problem]:
    if not command:
        return
    # A command would be a program that runs as root on every node; that belongs into the configuration of localpv
    # itself, and not into an object of a namespace.
    if command[0].startswith("/") and command[0] not in cleaners.SCRIPTS:
        methods = ", ".join(method.name for method in cleaners.METHODS.values() if method.for_devices)
        yield Problem(place, f"{fields.shown(command[0])} is a program; here can be {methods}")
        return
    try:
        cleaners.read(command, for_devices=True)
    except cleaners.WrongCleaner as error:
        yield Problem(place, str(error)[: fields.LONGEST_SHOWN])


def _sizes(place: str, group: DeviceGroup) -> Iterator[Problem]:
    sizes: dict[str, int] = {}
    for field, text in (("minSize", group.min_size), ("maxSize", group.max_size)):
        if not text:
            continue
        try:
            sizes[field] = Quantity.parse(text).value
        except ValueError as error:
            yield Problem(f"{place}.{field}", str(error)[: fields.LONGEST_SHOWN])
            continue
        if sizes[field] <= 0:
            yield Problem(f"{place}.{field}", "must be more than nothing; leave it out for no limit")
    if len(sizes) == 2 and sizes["minSize"] > sizes["maxSize"]:
        yield Problem(f"{place}.maxSize", "must not be less than minSize")


def _disagreements(nodes: tuple[NodeGroup, ...]) -> Iterator[Problem]:
    """Groups that say different things about one class, which has one file system and one way of cleaning."""
    said: dict[tuple[str, str], tuple[str, object]] = {}
    for index, group in enumerate(nodes[:MOST_NODE_GROUPS]):
        for number, devices in enumerate(group.devices[:MOST_DEVICE_GROUPS]):
            place = f"spec.nodes[{index}].devices[{number}]"
            for field, value in (("fsType", devices.fs_type), ("blockCleanerCommand", devices.block_cleaner_command)):
                if not value:
                    continue
                what = f"{devices.storage_class_name}/{mode_of(devices)}"
                first, earlier = said.setdefault((what, field), (place, value))
                if earlier != value:
                    told = f"differs from {first} of the same class; write the same, or use another storageClassName"
                    yield Problem(f"{place}.{field}", told)


def _lengths(place: str, groups: Iterable[Iterable[DeviceGroup]], whole: Any) -> Iterator[Problem]:
    """What is too much of it all together."""
    if len(_canonical(whole)) > MOST_BYTES:
        yield Problem(place, f"is longer than {MOST_BYTES >> 10} KiB as JSON; write several LocalStorages")
    count = size = 0
    for devices in (each for group in groups for each in group):
        own = len(devices.device_names) + len(devices.udev_rules)
        besides = (*devices.exclude_device_names, *devices.vendors, *devices.models)
        count += own
        size += sum(map(len, (*devices.device_names, *devices.udev_rules))) + own * (
            len("".join(besides)) + len(besides)
        )
    if count > MOST_MATCHES:
        yield Problem(place, f"has {count} deviceNames and udevRules; there can be {MOST_MATCHES}: use wildcards")
    if size > MOST_RULE_BYTES:
        told = f"comes to more than {MOST_RULE_BYTES >> 10} KiB of rules, for what is excluded and which vendors and"
        yield Problem(place, f"{told} models there are stands in each of them; write fewer")


def _class_name(place: str, name: str) -> Iterator[Problem]:
    for sentence in names.dns_subdomain(name):
        yield Problem(place, sentence)


def _too_many(place: str, values: Iterable[object], most: int) -> Iterator[Problem]:
    if (count := len(tuple(values))) > most:
        yield Problem(place, f"has {count} entries; there can be {most}")


def _node_problems(found: NodeConfiguration) -> Iterator[Problem]:
    for place, wrong in (
        ("name", names.dns_subdomain(found.name)),
        ("namespace", names.dns_label(found.namespace)),
        ("uid", [] if _UID(found.uid) else ["is no UID"]),
        ("engine", [] if not found.engine or _ENGINE(found.engine) else ["is no engine"]),
        ("created", [] if _TIME(found.created) else ["is no moment in UTC"]),
    ):
        for sentence in wrong:
            yield Problem(place, sentence)
    yield from _too_many("groups", found.groups, MOST_NODE_GROUPS)
    for each, group in found.groups.items():
        place = f"groups.{each}"
        if not _ID(each):
            yield Problem("groups", f"{fields.shown(each)} is no id of a group")
        if is_earlier(each) and not group.retired:
            yield Problem(place, "is what a group had before, and is not retired")
        if not 0 <= group.index < MOST_NODE_GROUPS or group.generation < 0:
            yield Problem(place, "has no place in a LocalStorage")
        if len(group.kept) > MOST_KEPT or not all(map(_is_link, group.kept)):
            yield Problem(f"{place}.kept", "is no list of links")
        yield from _devices(place, group.devices)
    names_of = all(is_entry(name) or _is_link(name) for name in found.pinned)
    if len(found.pinned) > MOST_KEPT or not names_of or not all(map(is_entry, found.pinned.values())):
        yield Problem("pinned", "is no list of names and paths of devices")
    if len(found.held) > MOST_KEPT or not all(map(_is_link, found.held)):
        yield Problem("held", "is no list of links")
    yield from _lengths("groups", [group.devices for group in found.groups.values()], msgspec.to_builtins(found.groups))


MOST_KEPT: Final = 256
"""Links of one retired group that stay, links that are held, names that are pinned; a node has fewer disks."""


def is_entry(name: str) -> bool:
    """Whether a name can stand in a folder of links, and in a rule as a value without wildcards."""
    return _ENTRY(name) is not None


def _is_link(link: str) -> bool:
    name, _, rest = link.partition("/")
    mode, _, entry = rest.partition("/")
    known = mode in {each.lower() for each in VolumeMode}
    return known and not names.dns_subdomain(name) and is_entry(entry) and entry not in (".", "..")


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
