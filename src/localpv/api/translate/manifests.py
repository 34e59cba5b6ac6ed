"""Whole objects, of any kind: what can be translated in them is, the rest stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from localpv.api.objects import Object
from localpv.api.translate import drafts, inline
from localpv.api.translate.drafts import Note

_POD_SPECS: dict[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template", "spec"),
    ),
}
"""Where each kind keeps the spec of its pods."""

_OTHERS: dict[str, Callable[[Object], Iterator[Note]]] = {
    "PersistentVolume": drafts.volume,
    "PersistentVolumeClaim": drafts.claim,
    "Node": drafts.node,
}

_VERSIONS = {
    ("StorageClass", "storage.k8s.io/v1beta1"): "storage.k8s.io/v1",
    ("DaemonSet", "extensions/v1beta1"): "apps/v1",
    ("Deployment", "extensions/v1beta1"): "apps/v1",
    ("ConfigMap", ""): "v1",
}
"""Versions that are no longer served, or that examples leave out, and the present one, which says the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """An object after translation, with what is to be said about it."""

    obj: Object
    changed: bool
    notes: tuple[tuple[str, Note], ...] = ()
    """Each with the name of the object that it is about: a List has many."""


def translate(obj: Object) -> Translated:
    """Translate one object; the one that is given stays as it is."""
    if obj.get("kind") == "List" and isinstance(obj.get("items"), list):
        items = [translate(each) if isinstance(each, dict) else None for each in obj["items"]]
        done = [each for each in items if each is not None]
        return Translated(
            obj={
                **obj,
                "items": [old if new is None else new.obj for old, new in zip(obj["items"], items, strict=True)],
            },
            changed=any(each.changed for each in done),
            notes=tuple(note for each in done for note in each.notes),
        )
    made = copy.deepcopy(obj)
    notes = tuple((title(obj), note) for note in _notes(made))
    return Translated(obj=made, changed=made != obj, notes=notes)


def title(obj: Object) -> str:
    """How people name an object: kind/name."""
    metadata = obj.get("metadata")
    name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else ""
    return f"{str(obj.get('kind', 'object')).lower()}/{name}" if name else str(obj.get("kind", "object")).lower()


def _notes(obj: Object) -> Iterator[Note]:
    kind = obj.get("kind", "")
    version = _VERSIONS.get((kind, obj.get("apiVersion", "")))
    if version is not None:
        yield Note(f"apiVersion {obj.get('apiVersion', '(none)')} is now {version}")
        obj["apiVersion"] = version
        if version == "apps/v1":
            yield from _selector(obj)
    if kind in _OTHERS:
        yield from _OTHERS[kind](obj)
    if kind in _POD_SPECS and (spec := _at(obj, _POD_SPECS[kind])) is not None:
        yield from _pod(spec)
    if kind == "StatefulSet":
        templates = (obj.get("spec") or {}).get("volumeClaimTemplates")
        for template in templates if isinstance(templates, list) else ():
            if isinstance(template, dict):
                name = (template.get("metadata") or {}).get("name", "")
                for note in drafts.claim(template):
                    yield Note(f"claim template {name}: {note.message}", note.done)


def _selector(obj: Object) -> Iterator[Note]:
    """The first version took the labels of the pods for the selector where there was none; now it must be said."""
    spec = obj.get("spec")
    labels = (_at(obj, ("spec", "template", "metadata")) or {}).get("labels")
    if isinstance(spec, dict) and "selector" not in spec and labels:
        spec["selector"] = {"matchLabels": dict(labels)}
        yield Note("spec.selector is now said: the labels of its pods")


def _at(obj: Any, path: tuple[str, ...]) -> Object | None:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else None


def _pod(spec: Object) -> Iterator[Note]:
    volumes = spec.get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        if isinstance(volume, dict) and "PersistentVolumeClaim" in volume and "persistentVolumeClaim" not in volume:
            volume["persistentVolumeClaim"] = volume.pop("PersistentVolumeClaim")
            yield Note(f"volume {volume.get('name')}: PersistentVolumeClaim is now written persistentVolumeClaim")
    sources = {
        str(volume.get("name", "")): volume[inline.FIELD]
        for volume in (volumes if isinstance(volumes, list) else ())
        if isinstance(volume, dict) and isinstance(volume.get(inline.FIELD), dict)
    }
    for name in inline.translate_spec(spec):
        source = sources.pop(name)
        yield Note(
            f"volume {name}: {inline.FIELD} is now an ephemeral volume of class {inline.CLASSES[source['type']]}"
        )
        if source.get("nodename"):
            yield Note(f"volume {name}: its node {source['nodename']} is now a nodeSelector of the pod")
        if source.get("fsType"):
            why = f"a claim cannot ask for it: let the class {inline.CLASSES[source['type']]} say it"
            yield Note(f"volume {name}: fsType {source['fsType']} is only an annotation now: {why}")
    for name, source in sources.items():
        wrong = inline.errors(source, inline.FIELD)
        why = "; ".join(map(str, wrong)) or "the pod has another source or another node for it"
        yield Note(f"volume {name}: {inline.FIELD} is left as it is: {why}", done=False)
