"""LocalVolume and LocalVolumeSet of OpenShift's Local Storage Operator as LocalStorages.

They name devices by paths, or by properties; ours names them by kernel names and udev matches. What one says and the
other cannot is told by name, with what to do, and is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from localpv.api.kinds.localstorage import FILE_SYSTEMS, LOCAL_STORAGES
from localpv.api.objects import Object
from localpv.api.translate.notes import Note

GROUPS: Final = ("local.storage.openshift.com", "local.storage.openshift.io")
VERSIONS: Final = ("v1", "v1alpha1")

_KERNEL_NAME: Final = re.compile(r"/dev/([A-Za-z0-9_.:!+@-]{1,64})", re.ASCII).fullmatch
_LINK: Final = re.compile(r"/dev/((?:disk/by-[a-z]+|mapper)/[A-Za-z0-9#+.:=@_-]{1,200})", re.ASCII).fullmatch
_LVM: Final = re.compile(r"/dev/([A-Za-z0-9+_.-]+/[A-Za-z0-9+_.-]+)", re.ASCII).fullmatch
_WILDCARD: Final = re.compile(r"[A-Za-z0-9_.:+@!^*?\[\]-]{1,64}", re.ASCII).fullmatch
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.:+@()/,-]+", re.ASCII).fullmatch

_LONGEST_WILDCARD: Final = 64
_LEAST_SIZE: Final = "1Gi"
"""What a LocalVolumeSet takes at least where it says nothing."""

_TYPES: Final[dict[str, tuple[str, str]]] = {
    "disk": ("udevRules", 'ENV{DEVTYPE}=="disk"'),
    "part": ("udevRules", 'ENV{DEVTYPE}=="partition"'),
    "loop": ("deviceNames", "loop*"),
    "mpath": ("udevRules", 'KERNEL=="dm-*", ENV{DM_UUID}=="mpath-*"'),
}
_MEDIA: Final = {"Rotational": ["HDD"], "NonRotational": ["SSD", "NVMe"]}
_TOLERATION: Final = ("key", "operator", "value", "effect")
_INSTEAD: Final = {
    "LocalVolumeDiscovery": "localpv reports all devices of a node by itself: see `kubectl get localstoragenodes`",
    "LocalVolumeDiscoveryResult": "localpv reports devices in LocalStorageNodes: see `kubectl get localstoragenodes`",
    "LocalVolumeDeviceLink": "links of localpv have stable names, and their devices are compared with what is known",
}


def is_known(obj: Object) -> bool:
    """Whether an object is one of the operator's kinds."""
    group, _, version = str(obj.get("apiVersion", "")).partition("/")
    return group in GROUPS and version in VERSIONS and (obj.get("kind") in _KINDS or obj.get("kind") in _INSTEAD)


def translate(obj: Object) -> Iterator[Note]:
    """Turn an object into a LocalStorage in place; one that cannot be stays as it is."""
    kind = str(obj["kind"])
    if kind in _INSTEAD:
        yield Note(f"{kind} has no counterpart: {_INSTEAD[kind]}; leave it out", done=False)
        return
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        yield Note("it has no spec", done=False)
        return
    notes: list[Note] = []
    devices = list(_KINDS[kind](spec, notes))
    group: Object = {}
    if spec.get("nodeSelector"):
        group["nodeSelector"] = spec["nodeSelector"]
    if tolerations := _tolerations(spec, notes):
        group["tolerations"] = tolerations
    if not devices:
        yield from notes
        yield Note("no device is left that could be named; it stays as it is", done=False)
        return
    metadata: Object = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    obj.clear()
    obj.update(
        apiVersion=f"{LOCAL_STORAGES.group}/{LOCAL_STORAGES.version}",
        kind=LOCAL_STORAGES.kind,
        metadata=kept,
        spec={"nodes": [{**group, "devices": devices}]},
    )
    yield Note(f"{kind} is now a {LOCAL_STORAGES.kind}; apply it in the namespace that localpv runs in")
    yield from notes


def _of_local_volume(spec: Object, notes: list[Note]) -> Iterator[Object]:
    state = spec.get("managementState") or "Managed"
    if state != "Managed":
        told = f"managementState {state} cannot be said: delete the LocalStorage where nothing is to be managed"
        notes.append(Note(told, done=False))
    if spec.get("logLevel"):
        notes.append(Note("logLevel is left out: the log level is an option of the programs"))
    listed = spec.get("storageClassDevices")
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and (group := _storage_class_devices(each, notes)):
            yield group


def _storage_class_devices(given: Object, notes: list[Note]) -> Object | None:
    name = str(given.get("storageClassName") or "")
    group: Object = {"storageClassName": name, **_modes(given, notes, default="Filesystem")}
    found: dict[str, list[str]] = {"deviceNames": [], "udevRules": []}
    paths = given.get("devicePaths")
    for path in paths if isinstance(paths, list) else ():
        field, value = _device(str(path))
        if field:
            found[field].append(value)
        else:
            notes.append(Note(f"class {name}: device path {path!s:.200} is left out: {value}", done=False))
    if given.get("forceWipeDevicesAndDestroyAllData"):
        told = "forceWipeDevicesAndDestroyAllData is left out: localpv offers no device that holds data"
        notes.append(Note(f"class {name}: {told}; wipe the devices yourself once", done=False))
    named = {field: values for field, values in found.items() if values}
    return {**group, **named} if named else None


def _device(path: str) -> tuple[str, str]:
    """The field and the match of a device path; no field, and why there is none."""
    if found := _KERNEL_NAME(path):
        return "deviceNames", found[1]
    if (found := _LINK(path)) or (found := _LVM(path)):
        # Devices of the device mapper must be named as such.
        mapper = "" if found[1].startswith("disk/") else 'KERNEL=="dm-*", '
        return "udevRules", f'{mapper}SYMLINK=="{found[1]}"'
    return "", "it is no path of a device below /dev that a match of udev can name; write a udevRules entry for it"


def _of_local_volume_set(spec: Object, notes: list[Note]) -> Iterator[Object]:
    group: Object = {
        "storageClassName": str(spec.get("storageClassName") or ""),
        **_modes(spec, notes, default="Block"),
    }
    included = spec.get("deviceInclusionSpec")
    included = included if isinstance(included, dict) else {}
    for kind in included.get("deviceTypes") or ["disk"]:
        if kind in _TYPES:
            field, match = _TYPES[kind]
            group.setdefault(field, []).append(match)
        else:
            told = f"device type {kind!s:.60} cannot be named; there are {', '.join(_TYPES)}, or write udevRules"
            notes.append(Note(told, done=False))
    if "deviceNames" not in group and "udevRules" not in group:
        return
    wanted = included.get("deviceMechanicalProperties") or []
    media = [medium for each in wanted for medium in _MEDIA.get(str(each), ())]
    if media and len(set(wanted)) < len(_MEDIA):
        group["mediumTypes"] = media
    group["minSize"] = str(included.get("minSize") or _LEAST_SIZE)
    if included.get("maxSize"):
        group["maxSize"] = str(included["maxSize"])
    for field in ("models", "vendors"):
        if found := list(_substrings(field, included.get(field), notes)):
            group[field] = found
        elif included.get(field):
            # Without them it would take devices that were not meant.
            return
    excluded = spec.get("deviceExclusionSpec")
    filters = excluded.get("deviceNameFilter") if isinstance(excluded, dict) else None
    if filters:
        wrong = [str(each) for each in filters if not _WILDCARD(str(each))]
        if wrong:
            notes.append(Note(f"deviceNameFilter {wrong[0]:.100} cannot be a wildcard on kernel names", done=False))
            return
        group["excludeDeviceNames"] = [str(each) for each in filters]
    if spec.get("maxDeviceCount") is not None:
        group["maxDeviceCount"] = spec["maxDeviceCount"]
    yield group


def _substrings(field: str, given: Any, notes: list[Note]) -> Iterator[str]:
    """Parts of a vendor's or a model's name in any case, as wildcards on what udev has: blanks are _ there."""
    for each in given if isinstance(given, list) else ():
        text = str(each)
        wildcard = "".join(
            f"[{char.upper()}{char.lower()}]" if char.isalpha() else "_" if char == " " else char
            for char in text.strip()
        )
        if _PLAIN(text) and len(wildcard) + 2 <= _LONGEST_WILDCARD:
            yield f"*{wildcard}*"
        else:
            told = f"{field}: {text:.100} is too long or has characters that a wildcard cannot have"
            notes.append(Note(f"{told}; write one by hand, as in {field}: [Samsung*]", done=False))


def _modes(given: Object, notes: list[Note], *, default: str) -> Object:
    mode = str(given.get("volumeMode") or default)
    made: Object = {"volumeMode": mode}
    kind = given.get("fsType")
    if kind and mode == "Filesystem":
        if kind in FILE_SYSTEMS:
            made["fsType"] = kind
        else:
            told = f"fsType {kind!s:.60} is left out: there are {', '.join(FILE_SYSTEMS)}"
            notes.append(Note(told, done=False))
    return made


def _tolerations(spec: Object, notes: list[Note]) -> list[Object]:
    given = spec.get("tolerations")
    made = []
    for each in given if isinstance(given, list) else ():
        if isinstance(each, dict):
            made.append({key: each[key] for key in _TOLERATION if each.get(key)})
            if "tolerationSeconds" in each:
                notes.append(Note("tolerationSeconds is left out: pods of localpv stay on their nodes"))
    return made


_KINDS: Final[dict[str, Callable[[Object, list[Note]], Iterator[Object]]]] = {
    "LocalVolume": _of_local_volume,
    "LocalVolumeSet": _of_local_volume_set,
}
