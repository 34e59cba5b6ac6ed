"""From the texts of a ConfigMap to a configuration, or to everything that is wrong with it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from localpv.api import names, node_selector
from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.objects import Object
from localpv.config import cleaners, globs, overlaps, pools, values
from localpv.config.cleaners import Cleaner
from localpv.config.globs import NamePattern
from localpv.config.settings import (
    CLEANINGS_AT_ONCE,
    LEAST_RESYNC_SECONDS,
    MIN_RESYNC_SECONDS,
    MOST_CLEANINGS_AT_ONCE,
    NODE_LOSS_GRACE_SECONDS,
    ClassSettings,
    Configuration,
    Folder,
    NodeLoss,
    NodeLossPolicy,
    Reclaim,
)
from localpv.config.values import Notes, Problem, Value

KEYS = (
    "storageClassMap",
    "nodeLabelsForPV",
    "labelsForPV",
    "useAlphaAPI",
    "useJobForCleaning",
    "jobTolerations",
    "cleaningsAtOnce",
    "minResyncPeriod",
    "useNodeNameOnly",
    "setPVOwnerRef",
    "removeNodeNotReadyTaint",
    "provisionerNotReadyNodeTaintKey",
)
CLASS_KEYS = (
    "hostDir",
    "mountDir",
    "directories",
    "blockCleanerCommand",
    "fsCleanerCommand",
    "volumeMode",
    "accessMode",
    "fsType",
    "namePattern",
    "selector",
    "requireMountPoint",
    "adoptExisting",
    "reclaim",
    "useJobForCleaning",
    "nodeLoss",
    "pool",
)
WITH_POOL_KEYS = ("pool", "fsType", "blockCleanerCommand", "reclaim", "nodeLoss")
"""What can be said of a class with a pool; all else is about disks that are found."""

DIRECTORY_KEYS = ("hostDir", "mountDir", "volumeMode")
MOST_DIRECTORIES = 8
"""Discovery directories that a class has besides its first one: each is watched and looked through."""

AUTO_MODE = "Auto"
"""Devices become Block volumes and directories Filesystem volumes, in one class."""

ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")

SYSTEM_FOLDERS = frozenset(
    {
        "/", "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root", "/run",
        "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/lib/kubelet", "/var/log", "/var/run",
    }
)  # fmt: skip
"""Everything in a discovery directory is offered and one day wiped: these can only be a mistake."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, or None and why there is none."""

    config: Configuration | None
    problems: tuple[Problem, ...] = ()
    """With a configuration: what could not be taken over into it."""


def read(texts: Mapping[str, str]) -> Loaded:
    """The configuration that the keys of a ConfigMap and their texts mean."""
    notes = Notes()
    found: dict[str, Value] = {}
    for key, text in texts.items():
        if key not in KEYS:
            notes.note(key, values.unknown_key(key, KEYS))
        elif (value := values.parse(key, text, notes)) is not None:
            found[key] = value
    config = _configuration(found)
    for problem in overlaps.problems(config.classes.values()):
        notes.problems.append(problem)
    return Loaded(None, tuple(notes.problems)) if notes.problems else Loaded(config)


def _configuration(found: Mapping[str, Value]) -> Configuration:
    def flag(key: str) -> bool:
        return bool(key in found and found[key].boolean())

    resync = found["minResyncPeriod"].seconds() if "minResyncPeriod" in found else None
    if resync is not None and resync < LEAST_RESYNC_SECONDS:
        found["minResyncPeriod"].wrong(f"must be at least {LEAST_RESYNC_SECONDS:g}s")
    taint = found["provisionerNotReadyNodeTaintKey"].text() if "provisionerNotReadyNodeTaintKey" in found else None
    if taint and (wrong := names.qualified_name(taint)):
        found["provisionerNotReadyNodeTaintKey"].wrong(f'"{taint}" is no key of a taint: {", ".join(wrong)}')
    return Configuration(
        classes=_classes(found["storageClassMap"]) if "storageClassMap" in found else {},
        node_labels_for_pv=_label_keys(found["nodeLabelsForPV"]) if "nodeLabelsForPV" in found else (),
        labels_for_pv=_labels(found["labelsForPV"]) if "labelsForPV" in found else {},
        use_alpha_api=flag("useAlphaAPI"),
        use_job_for_cleaning=flag("useJobForCleaning"),
        job_tolerations=found["jobTolerations"].each(_toleration) if "jobTolerations" in found else (),
        cleanings_at_once=_cleanings(found["cleaningsAtOnce"]) if "cleaningsAtOnce" in found else CLEANINGS_AT_ONCE,
        min_resync_seconds=MIN_RESYNC_SECONDS if resync is None else resync,
        use_node_name_only=flag("useNodeNameOnly"),
        set_pv_owner_ref=flag("setPVOwnerRef"),
        remove_node_not_ready_taint=flag("removeNodeNotReadyTaint"),
        not_ready_taint_key=taint or "",
    )


def _cleanings(value: Value) -> int:
    count = value.whole_number()
    if count is not None and not 1 <= count <= MOST_CLEANINGS_AT_ONCE:
        value.wrong(f"must be from 1 to {MOST_CLEANINGS_AT_ONCE}, but is {count}")
    return count or CLEANINGS_AT_ONCE


def _classes(value: Value) -> dict[str, ClassSettings]:
    made: dict[str, ClassSettings] = {}
    for name, entry in (value.entries() or {}).items():
        if wrong := names.dns_subdomain(name):
            entry.wrong(f'"{name}" is no name of a StorageClass: {", ".join(wrong)}')
        elif entry.absent:
            entry.wrong("has no hostDir and no pool")
        elif (settings := _class(name, entry)) is not None:
            made[name] = settings
    return made


def _class(name: str, value: Value) -> ClassSettings | None:
    found = value.struct(CLASS_KEYS)
    if found is None:
        return None
    if "pool" in found:
        return _class_of_pool(name, found)
    pattern = _pattern(found["namePattern"]) if "namePattern" in found else globs.ALL
    first = _directory(value, found, pattern)
    more = _more_directories(found["directories"], pattern) if "directories" in found else ()
    access = found["accessMode"].choice(ACCESS_MODES) if "accessMode" in found else None
    reclaim = found["reclaim"].choice([*Reclaim]) if "reclaim" in found else None
    settings = ClassSettings(
        name=name,
        host_dir=first.host_dir,
        mount_dir=first.mount_dir,
        volume_mode=first.volume_mode,
        more_folders=more,
        access_mode=access or ACCESS_MODES[0],
        fs_type=(found["fsType"].text() or "") if "fsType" in found else "",
        name_pattern=pattern,
        selector=_terms(found["selector"]) if "selector" in found else (),
        block_cleaner=_cleaner(found.get("blockCleanerCommand"), for_devices=True),
        fs_cleaner=_cleaner(found.get("fsCleanerCommand"), for_devices=False) or cleaners.FILE_SYSTEM_DEFAULT,
        require_mount_point=bool("requireMountPoint" in found and found["requireMountPoint"].boolean()),
        adopt_existing=found["adoptExisting"].boolean() if "adoptExisting" in found else None,
        reclaim=Reclaim(reclaim) if reclaim else None,
        use_job_for_cleaning=found["useJobForCleaning"].boolean() if "useJobForCleaning" in found else None,
        node_loss=_node_loss(found["nodeLoss"]) if "nodeLoss" in found else NodeLoss(),
    )
    # Without its directories a class cannot be compared with others; what is wrong is noted.
    return settings if all(folder.host_dir and folder.mount_dir for folder in settings.folders) else None


def _class_of_pool(name: str, found: Mapping[str, Value]) -> ClassSettings | None:
    for key in found.keys() - set(WITH_POOL_KEYS):
        found[key].wrong("is for classes that find disks in a directory; this one has a pool")
    pool = pools.read(found["pool"], folder=lambda value: _folder(value, globs.ALL))
    reclaim = found["reclaim"].choice([Reclaim.DELETE, Reclaim.RETAIN]) if "reclaim" in found else None
    settings = ClassSettings(
        name=name,
        pool=pool,
        fs_type=(found["fsType"].text() or "") if "fsType" in found else "",
        block_cleaner=_cleaner(found.get("blockCleanerCommand"), for_devices=True),
        reclaim=Reclaim(reclaim) if reclaim else None,
        node_loss=_node_loss(found["nodeLoss"]) if "nodeLoss" in found else NodeLoss(),
    )
    return settings if pool is not None else None


def _directory(value: Value, found: Mapping[str, Value], pattern: NamePattern) -> Folder:
    """What is wrong is noted, and empty."""
    if "hostDir" not in found:
        value.wrong("has no hostDir and no pool")
    host_dir = _folder(found["hostDir"], pattern) if "hostDir" in found else None
    mount_dir = _folder(found["mountDir"], pattern) if "mountDir" in found else host_dir
    mode = found["volumeMode"].choice([*VolumeMode, AUTO_MODE]) if "volumeMode" in found else None
    return Folder(host_dir=host_dir or "", mount_dir=mount_dir or "", volume_mode=mode or "")


def _more_directories(value: Value, pattern: NamePattern) -> tuple[Folder, ...]:
    def read(element: Value) -> Folder | None:
        found = element.struct(DIRECTORY_KEYS)
        return None if found is None else _directory(element, found, pattern)

    made = value.each(read)
    if len(made) > MOST_DIRECTORIES:
        value.wrong(f"has {len(made)} directories; at most {MOST_DIRECTORIES} are watched")
    return made[:MOST_DIRECTORIES]


def _folder(value: Value, pattern: NamePattern) -> str | None:
    text = value.text()
    if text is None:
        return None
    path = posixpath.normpath(text) if text else ""
    # POSIX leaves the meaning of two slashes in front open; to Linux they are one.
    path = "/" + path.lstrip("/") if path.startswith("/") else path
    if not path.startswith("/") or "\0" in path:
        value.wrong(f'must be a full path, but is "{text}"')
    elif ".." in text.split("/"):
        value.wrong(f'"{text}" must not contain ..')
    elif path in SYSTEM_FOLDERS:
        value.wrong(f"{path} belongs to the system: everything in it would be offered, and wiped one day")
    elif path == "/dev" and pattern.text == globs.EVERYTHING:
        value.wrong("/dev holds more than disks; say with namePattern which of it is meant")
    else:
        return path
    return None


def _pattern(value: Value) -> NamePattern:
    text = value.text()
    if not text:
        return globs.ALL
    try:
        pattern = NamePattern(text)
    except globs.Malformed as error:
        value.wrong(f"the glob {error}")
        return globs.ALL
    if not pattern.globs:
        value.wrong(f'"{text}" has no glob in it')
        return globs.ALL
    return pattern


def _cleaner(value: Value | None, *, for_devices: bool) -> Cleaner | None:
    command = value.texts() if value is not None else None
    if value is None or command is None:
        return None
    try:
        return cleaners.read(command, for_devices=for_devices)
    except cleaners.WrongCleaner as error:
        value.wrong(str(error))
        return None


def _node_loss(value: Value) -> NodeLoss:
    if value.node.id == "scalar":
        policy = value.choice([*NodeLossPolicy])
        return NodeLoss(policy=NodeLossPolicy(policy)) if policy else NodeLoss()
    found = value.struct(("policy", "grace")) or {}
    policy = found["policy"].choice([*NodeLossPolicy]) if "policy" in found else None
    grace = found["grace"].seconds() if "grace" in found else None
    return NodeLoss(
        policy=NodeLossPolicy(policy) if policy else NodeLossPolicy.WAIT,
        grace_seconds=NODE_LOSS_GRACE_SECONDS if grace is None else grace,
    )


def _terms(value: Value) -> tuple[Object, ...]:
    return value.each(_term)


def _term(value: Value) -> Object | None:
    found = value.struct(("matchExpressions", "matchFields"))
    if found is None:
        return None
    term: Object = {key: [*entry.each(_requirement)] for key, entry in found.items()}
    for error in node_selector.validate_term(term, value.place):
        value.notes.note(error.field, error.message)
    return term


def _requirement(value: Value) -> Object | None:
    found = value.struct(("key", "operator", "values"))
    if found is None:
        return None
    made: Object = {key: found[key].text() or "" for key in ("key", "operator") if key in found}
    if "values" in found:
        made["values"] = [*(found["values"].texts() or ())]
    return made


def _toleration(value: Value) -> Object | None:
    found = value.struct(TOLERATION_KEYS)
    if found is None:
        return None
    made: Object = {}
    for key, entry in found.items():
        match key:
            case "tolerationSeconds":
                made[key] = entry.whole_number()
            case "operator":
                made[key] = entry.choice(("Exists", "Equal"))
            case "effect":
                made[key] = entry.choice(("NoSchedule", "PreferNoSchedule", "NoExecute", ""))
            case _:
                made[key] = entry.text()
    return made


def _label_keys(value: Value) -> tuple[str, ...]:
    return value.each(_label_key)


def _label_key(value: Value) -> str | None:
    key = value.text()
    if key is not None and (wrong := names.qualified_name(key)):
        value.wrong(f'"{key}" is no key of a label: {", ".join(wrong)}')
    return key


def _labels(value: Value) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, entry in (value.entries() or {}).items():
        # A label without a value is one with an empty value.
        text = "" if entry.absent else entry.text()
        if wrong := names.qualified_name(key):
            entry.wrong(f'"{key}" is no key of a label: {", ".join(wrong)}')
        elif text is not None and (wrong := names.label_value(text)):
            entry.wrong(f'"{text}" is no value of a label: {", ".join(wrong)}')
        made[key] = text or ""
    return made
