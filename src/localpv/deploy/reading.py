"""The short configuration file: the keys of the ConfigMap, as they are known there, and a few about the installation.

Everything is checked, and everything wrong is told at once, with its place in the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from localpv import errors
from localpv.api import names, quantity
from localpv.api.kinds.localdisk import VolumeMode
from localpv.api.objects import Object
from localpv.config import reading as config_reading
from localpv.config import values
from localpv.config.settings import Configuration, Reclaim
from localpv.config.values import Notes, Problem, Value
from localpv.deploy.plan import NAMESPACE, PULL_POLICIES, ClassObject, Plan, Pods, agent_pods, manager_pods

CLASSES = "storageClassMap"
INSTALLATION_KEYS = ("image", "imagePullPolicy", "imagePullSecrets", "namespace", "agent", "manager", "podMonitor")
POD_KEYS = ("nodeSelector", "tolerations", "affinity", "resources", "priorityClassName", "podLabels", "podAnnotations")
CLASS_OBJECT = "storageClass"
"""Key in an entry of storageClassMap that is ours and does not go into the ConfigMap."""

CLASS_OBJECT_KEYS = ("default", "reclaimPolicy", "mountOptions", "allowedTopologies")
MOST_MANAGERS = 9

_BOOLEAN = "tag:yaml.org,2002:bool"
_INTEGER = "tag:yaml.org,2002:int"
_image = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)


def read(
    text: str, *, source: str, drop_in: bool = False, operator: bool = False, image: str = "", namespace: str = ""
) -> Plan:
    """The plan in a configuration file; options that are given win over the file. ConfigurationError names places."""
    notes = Notes()
    root = values.parse("", text, notes)
    found = root.struct((*config_reading.KEYS, *INSTALLATION_KEYS)) if root is not None else {}
    plan = replace(_plan(found or {}, notes, drop_in=drop_in), operator=operator)
    if not notes.problems and not plan.config.classes and not operator:
        notes.note(CLASSES, "names no class: there would be nothing to offer")
    refuse(notes.problems, source)
    return replace(plan, image=image or plan.image, namespace=namespace or plan.namespace)


def refuse(problems: list[Problem], source: str) -> None:
    """Say all that is wrong, or nothing."""
    if problems:
        listed = "\n".join(
            f"  {problem.place + ': ' if problem.place else ''}{problem.message}" for problem in problems
        )
        raise errors.ConfigurationError(
            f"{source} is not right:\n{listed}", hint="docs/deploy.md shows a configuration with every key"
        )


def _plan(found: Mapping[str, Value], notes: Notes, *, drop_in: bool) -> Plan:
    agent = found["agent"].struct((*POD_KEYS, "privileged")) if "agent" in found else None
    agents = _pods(agent or {}, agent_pods())
    given = {key: faithful(value) for key, value in found.items() if key in config_reading.KEYS}
    objects = _take_class_objects(found.get(CLASSES), given.get(CLASSES))
    if given.get("useJobForCleaning") is True and agents.tolerations:
        # A Job must get to every node that an agent gets to.
        given.setdefault("jobTolerations", list(agents.tolerations))
    texts = {key: _text(value) for key, value in given.items()}
    loaded = config_reading.read(texts)
    notes.problems += loaded.problems
    config = loaded.config or Configuration()
    manager = found["manager"].struct((*POD_KEYS, "replicas")) if "manager" in found else None
    if drop_in and "manager" in found:
        found["manager"].wrong("there is no manager beside a drop-in")
    privileged = (agent or {})["privileged"].boolean() if "privileged" in (agent or {}) else None
    for name, settings in config.classes.items():
        if settings.pool is not None and (drop_in or privileged is False):
            lacks = "a manager, and there is none beside a drop-in" if drop_in else "agents that are privileged"
            notes.note(f"{CLASSES}.{name}.pool", f"needs {lacks}")
    if privileged is False:
        for name, settings in config.classes.items():
            for number, folder in enumerate(settings.folders):
                if folder.volume_mode not in ("", VolumeMode.FILESYSTEM):
                    said = f"{folder.volume_mode} needs agents that are privileged, and agent says no"
                    further = f".directories[{number - 1}]" if number else ""
                    notes.note(f"{CLASSES}.{name}{further}.volumeMode", said)
    plan = Plan(
        config=config,
        texts=texts,
        classes=_class_objects(config, objects),
        drop_in=drop_in,
        namespace=_namespace(found["namespace"]) if "namespace" in found else NAMESPACE,
        privileged=privileged is not False,
        agent=agents,
        manager=_pods(manager or {}, manager_pods()),
        pull_secrets=_names(found["imagePullSecrets"]) if "imagePullSecrets" in found else (),
        pod_monitor=bool("podMonitor" in found and found["podMonitor"].boolean()),
    )
    if "image" in found:
        plan = replace(plan, image=_checked_image(found["image"]))
    if "imagePullPolicy" in found:
        plan = replace(plan, pull_policy=found["imagePullPolicy"].choice(PULL_POLICIES) or plan.pull_policy)
    if manager and "replicas" in manager:
        plan = replace(plan, managers=_replicas(manager["replicas"]))
    return plan


def faithful(value: Value) -> Any:
    """The value as lists, maps, booleans, whole numbers and strings; a string when a number would look different."""
    if value.node.id == "sequence":
        return [faithful(element) for element in value.elements() or ()]
    if value.node.id == "mapping":
        return {key: faithful(each) for key, each in (value.entries() or {}).items() if not each.absent}
    text = str(value.node.value)
    if value.node.tag == _BOOLEAN:
        return text.lower() in ("true", "yes", "on")
    if value.node.tag == _INTEGER and text == str(int(text) if text.lstrip("-").isdigit() else ""):
        return int(text)
    return text


def _text(value: Any) -> str:
    """The value as the text of a key of a ConfigMap."""
    import yaml

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return yaml.safe_dump(value, sort_keys=False, width=120)
    return str(value)


# -- StorageClasses ----------------------------------------------------------------------------------------------------


def _take_class_objects(classes: Value | None, given: Any) -> dict[str, ClassObject | None]:
    """Settings of the StorageClass objects, taken out of what goes into the ConfigMap; None: make no object."""
    made: dict[str, ClassObject | None] = {}
    if classes is None or not isinstance(given, dict):
        return made
    for name, entry in (classes.entries() or {}).items():
        settings = given.get(name)
        if not isinstance(settings, dict) or CLASS_OBJECT not in settings:
            continue
        del settings[CLASS_OBJECT]
        made[name] = _class_object(name, (entry.entries() or {})[CLASS_OBJECT])
    return made


def _class_object(name: str, value: Value) -> ClassObject | None:
    if value.node.id == "scalar":
        return ClassObject(name=name) if value.boolean() else None
    found = value.struct(CLASS_OBJECT_KEYS) or {}
    policy = found["reclaimPolicy"].choice(("Delete", "Retain")) if "reclaimPolicy" in found else None
    return ClassObject(
        name=name,
        reclaim_policy=policy or "",
        default=bool("default" in found and found["default"].boolean()),
        mount_options=(found["mountOptions"].texts() or ()) if "mountOptions" in found else (),
        allowed_topologies=found["allowedTopologies"].each(faithful) if "allowedTopologies" in found else (),
    )


def _class_objects(config: Configuration, given: Mapping[str, ClassObject | None]) -> tuple[ClassObject, ...]:
    made = []
    for name, settings in config.classes.items():
        found = given.get(name, ClassObject(name=name, reclaim_policy=""))
        if found is not None:
            kept = settings.reclaim is Reclaim.RETAIN
            policy = found.reclaim_policy or ("Retain" if kept else "Delete")
            made.append(replace(found, reclaim_policy=policy, pool=settings.pool is not None))
    return tuple(made)


# -- the installation --------------------------------------------------------------------------------------------------


def _namespace(value: Value) -> str:
    text = value.text() or ""
    if wrong := names.dns_label(text):
        value.wrong(f'"{text}" is no name of a namespace: {", ".join(wrong)}')
    return text


def _names(value: Value) -> tuple[str, ...]:
    found = value.texts() or ()
    for text in found:
        if wrong := names.dns_subdomain(text):
            value.wrong(f'"{text}" is no name of a Secret: {", ".join(wrong)}')
    return found


def _checked_image(value: Value) -> str:
    text = value.text() or ""
    if not _image.fullmatch(text):
        value.wrong(f'"{text}" is no name of an image')
    return text


def _replicas(value: Value) -> int:
    count = value.whole_number()
    if count is not None and not 1 <= count <= MOST_MANAGERS:
        value.wrong(f"must be from 1 to {MOST_MANAGERS}, but is {count}")
    return count or 1


def _pods(found: Mapping[str, Value], usual: Pods) -> Pods:
    made = usual
    for key, value in found.items():
        match key:
            case "nodeSelector":
                made = replace(made, node_selector=_labels(value))
            case "tolerations":
                made = replace(made, tolerations=value.each(_toleration))
            case "affinity":
                value.struct(("nodeAffinity", "podAffinity", "podAntiAffinity"))
                made = replace(made, affinity=faithful(value))
            case "resources":
                made = replace(made, resources=_resources(value))
            case "priorityClassName":
                made = replace(made, priority_class=value.text() or "")
            case "podLabels":
                made = replace(made, labels=_labels(value))
            case "podAnnotations":
                made = replace(made, annotations={name: each.text() or "" for name, each in _entries(value)})
    return made


def _toleration(value: Value) -> Object | None:
    found = value.struct(config_reading.TOLERATION_KEYS)
    if found is None:
        return None
    if "operator" in found:
        found["operator"].choice(("Exists", "Equal"))
    if "effect" in found:
        found["effect"].choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
    return {key: entry.whole_number() if key == "tolerationSeconds" else entry.text() for key, entry in found.items()}


def _entries(value: Value) -> list[tuple[str, Value]]:
    return list((value.entries() or {}).items())


def _labels(value: Value) -> dict[str, str]:
    made: dict[str, str] = {}
    for key, entry in _entries(value):
        text = "" if entry.absent else entry.text() or ""
        if wrong := names.qualified_name(key) or names.label_value(text):
            entry.wrong(f'"{key}: {text}" is no label: {", ".join(wrong)}')
        made[key] = text
    return made


def _resources(value: Value) -> Object:
    made: Object = {}
    for key, amounts in (value.struct(("requests", "limits")) or {}).items():
        made[key] = {}
        for name, amount in _entries(amounts):
            text = amount.text() or ""
            try:
                quantity.canonical(text)
            except ValueError:
                amount.wrong(f'"{text}" is no amount; write 100m, 0.5, 64Mi')
            made[key][name] = text
    return made
