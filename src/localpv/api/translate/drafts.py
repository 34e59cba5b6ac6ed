"""PersistentVolumes and claims in the words of the drafts: classes and affinity in annotations, a volume source of the
name `localVolume`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from localpv.api import volume_affinity, well_known
from localpv.api.objects import Object
from localpv.api.translate import inline

AFFINITY = volume_affinity.ANNOTATION
SPACE_LEFT = "volume.alpha.kubernetes.io/vgallocatable"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was changed, or could not be."""

    message: str
    done: bool = True
    """False: the object is as it was in this respect, and Kubernetes will not do with it what was meant."""


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
