"""Objects in the words of the drafts, one by one and in files of several, YAML or JSON.

PersistentVolumes and claims have classes and affinity in annotations there, and a volume source of the name
`localVolume`. What can be translated is, the rest stays as it is: documents that do not change, to the letter.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from localpv.api import volume_affinity, well_known, yamls
from localpv.api.objects import Object
from localpv.api.translate import inline, openshift
from localpv.api.translate.notes import Note
from localpv.errors import ConfigurationError

AFFINITY = volume_affinity.ANNOTATION
SPACE_LEFT = "volume.alpha.kubernetes.io/vgallocatable"


def volume(obj: Object) -> Iterator[Note]:
    """Translate a PersistentVolume in place."""
    spec = obj.setdefault("spec", {})
    yield from _storage_class(obj, spec)
    yield from _affinity(obj, spec)
    if inline.FIELD in spec:
        yield from _source(spec)


def claim(obj: Object) -> Iterator[Note]:
    """Translate a PersistentVolumeClaim, or a template for one, in place."""
    yield from _storage_class(obj, obj.setdefault("spec", {}))
    if well_known.VOLUME_GROUP in _annotations(obj):
        yield Note(
            f"{well_known.VOLUME_GROUP} is kept: localpv binds the claims of a group together,"
            " Kubernetes alone does not read it"
        )


def node(obj: Object) -> Iterator[Note]:
    """A Node has nothing that could be translated."""
    if SPACE_LEFT in _annotations(obj):
        why = "nobody reads it: the space that is left is in the CSIStorageCapacity objects of the driver"
        yield Note(f"{SPACE_LEFT} is left as it is: {why}", done=False)


def _annotations(obj: Object) -> dict[str, Any]:
    annotations = (obj.get("metadata") or {}).get("annotations")
    return annotations if isinstance(annotations, dict) else {}


def _forget(obj: Object, name: str) -> None:
    annotations = obj["metadata"]["annotations"]
    del annotations[name]
    if not annotations:
        del obj["metadata"]["annotations"]


def _storage_class(obj: Object, spec: Object) -> Iterator[Note]:
    for name in (well_known.BETA_STORAGE_CLASS, well_known.ALPHA_STORAGE_CLASS):
        wanted = _annotations(obj).get(name)
        if wanted is None:
            continue
        present = spec.get("storageClassName")
        if present is not None and present != wanted:
            why = f"it says {wanted!r}, but spec.storageClassName says {present!r}; remove the wrong one"
            yield Note(f"{name} is left as it is: {why}", done=False)
            continue
        spec["storageClassName"] = wanted
        _forget(obj, name)
        yield Note(f"{name} is now spec.storageClassName: {wanted}")


def _affinity(obj: Object, spec: Object) -> Iterator[Note]:
    text = _annotations(obj).get(AFFINITY)
    if text is None:
        return
    selector, why = volume_affinity.parse(text)
    present = spec.get("nodeAffinity")
    if selector is not None and present not in (None, {"required": selector}):
        selector, why = None, "spec.nodeAffinity names other nodes; remove the wrong one"
    if selector is None:
        yield Note(f"{AFFINITY} is left as it is: {why}", done=False)
        return
    spec["nodeAffinity"] = {"required": selector}
    _forget(obj, AFFINITY)
    yield Note(f"{AFFINITY} is now spec.nodeAffinity.required")


def _source(spec: Object) -> Iterator[Note]:
    """`localVolume` of a PersistentVolume is `local` with the node beside it."""
    source = spec[inline.FIELD]
    path = source.get("path") if isinstance(source, dict) else None
    if not path or "local" in spec:
        why = "it has no path" if not path else "there is a spec.local already"
        yield Note(f"spec.{inline.FIELD} is left as it is: {why}", done=False)
        return
    host = source.get("nodename")
    if host and "nodeAffinity" not in spec:
        term = {"matchExpressions": [{"key": well_known.HOSTNAME, "operator": "In", "values": [host]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    del spec[inline.FIELD]
    spec["local"] = {"path": path, **({"fsType": source["fsType"]} if source.get("fsType") else {})}
    if source.get("volumesize") and not (spec.get("capacity") or {}).get("storage"):
        spec["capacity"] = {**(spec.get("capacity") or {}), "storage": str(source["volumesize"])}
    yield Note(f"spec.{inline.FIELD} is now spec.local, with the node in spec.nodeAffinity")
    if "nodeAffinity" not in spec:
        yield Note("spec.nodeAffinity is missing: Kubernetes takes no local volume without its node", done=False)


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
    "PersistentVolume": volume,
    "PersistentVolumeClaim": claim,
    "Node": node,
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
    if openshift.is_known(obj):
        yield from openshift.translate(obj)
        return
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
                for note in claim(template):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedText:
    text: str
    notes: tuple[tuple[str, Note], ...]


def translate_text(text: str, *, source: str = "input") -> TranslatedText:
    """Translate every document of a text."""
    if text.lstrip()[:1] == "{":
        return _json(text, source)
    return _yaml(text, source)


def _json(text: str, source: str) -> TranslatedText:
    """JSON objects, one after the other."""
    parts: list[str] = []
    notes: list[tuple[str, Note]] = []
    decoder = json.JSONDecoder()
    begin = 0
    while begin < len(text):
        if text[begin].isspace():
            parts.append(text[begin])
            begin += 1
            continue
        try:
            value, end = decoder.raw_decode(text, begin)
        except ValueError as error:
            if begin == 0 or not parts:
                return _yaml(text, source)  # YAML may begin with a brace too
            raise _unreadable(source, error) from error
        done = translate(value) if isinstance(value, dict) else None
        if done is not None:
            notes += done.notes
        parts.append(json.dumps(done.obj, indent=2, ensure_ascii=False) if done and done.changed else text[begin:end])
        begin = end
    return TranslatedText(text="".join(parts), notes=tuple(notes))


def _yaml(text: str, source: str) -> TranslatedText:
    import yaml

    parts: list[str] = []
    notes: list[tuple[str, Note]] = []
    before = 0
    for head, body in _documents(text):
        try:
            value = yamls.load(body)
        except (yaml.YAMLError, ValueError) as error:
            raise _unreadable(source, error, lines_before=before + head.count("\n")) from error
        before += f"{head}{body}".count("\n")
        done = translate(value) if isinstance(value, dict) else None
        if done is None or not done.changed:
            parts += (head, body)
        else:
            fresh = yaml.safe_dump(done.obj, sort_keys=False, default_flow_style=False, width=120, allow_unicode=True)
            parts += (head if head.endswith("\n") or not head else "---\n", _comments_before(body), fresh)
        if done is not None:
            notes += done.notes
    return TranslatedText(text="".join(parts), notes=tuple(notes))


def _documents(text: str) -> list[tuple[str, str]]:
    """The documents of a YAML text, each with the separator before it; a separator stands at the start of a line."""
    found: list[tuple[str, str]] = []
    head, body = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("---") and (len(line) == 3 or line[3].isspace()):
            if head or body:
                found.append((head, body))
            rest = line[3:].strip()
            # A document may begin on the very line of its separator.
            head, body = (line, "") if not rest or rest.startswith("#") else ("--- ", line[4:])
        else:
            body += line
    found.append((head, body))
    return found


def _comments_before(body: str) -> str:
    """The comments at the head of a document: they say what it is for, and dumping it would lose them."""
    kept = []
    for line in body.splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        kept.append(line)
    return "".join(kept)


def _unreadable(source: str, error: Exception, *, lines_before: int = 0) -> ConfigurationError:
    detail = yamls.trouble(error, lines_before=lines_before)
    return ConfigurationError(f"{source} cannot be read: {detail}", hint="it must be YAML or JSON, as kubectl takes it")
