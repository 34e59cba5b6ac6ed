"""How containers use the volumes of their pod: mounted as a directory, or mapped as a block device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from localpv.api import fields
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.volume_paths import has_backstep, inside

Errors = Iterator[FieldError]

PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
RECURSIVE = ("Disabled", "Enabled", "IfPossible")
FOR_BLOCK = frozenset({"ephemeral", "persistentVolumeClaim"})
"""Sources that can be a block device: only a claim says so."""


def errors(container: Object, path: str, volumes: Mapping[str, Object]) -> Errors:
    """What is wrong with volumeMounts and volumeDevices, by themselves and with each other."""
    mounts, devices = container.get("volumeMounts") or [], container.get("volumeDevices") or []
    if mounts:
        mapped = {device.get("name", ""): device.get("devicePath", "") for device in devices}
        privileged = bool((container.get("securityContext") or {}).get("privileged"))
        yield from _mounts(mounts, f"{path}.volumeMounts", volumes, mapped, privileged=privileged)
    if devices:
        mounted = {mount.get("name", ""): mount.get("mountPath", "") for mount in mounts}
        yield from _devices(devices, f"{path}.volumeDevices", volumes, mounted)


def _mounts(
    mounts: list[Object], path: str, volumes: Mapping[str, Object], mapped: Mapping[str, str], *, privileged: bool
) -> Errors:
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        at, name, place = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield fields.required(f"{at}.name")
        if name not in volumes:
            yield fields.not_found(f"{at}.name", name)
        if not place:
            yield fields.required(f"{at}.mountPath")
        if place in places:
            yield fields.invalid(f"{at}.mountPath", place, "another volume is mounted here already")
        places.add(place)
        if name in mapped:
            yield fields.invalid(
                f"{at}.name", name, "the same volume is in volumeDevices: it is a device or a directory"
            )
        if place in mapped.values():
            yield fields.invalid(f"{at}.mountPath", place, "volumeDevices puts a device here")
        yield from _details(mount, at, path, privileged=privileged)


def _details(mount: Object, at: str, path: str, *, privileged: bool) -> Errors:
    # Kubernetes names the list and not the element for these fields.
    sub, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    if sub:
        yield from inside(sub, f"{path}.subPath")
    if expression:
        if sub:
            yield fields.invalid(f"{at}.subPathExpr", expression, "subPath and subPathExpr exclude each other")
        yield from inside(expression, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in PROPAGATIONS:
        yield fields.not_supported(f"{path}.mountPropagation", propagation, PROPAGATIONS)
    if propagation == "Bidirectional" and not privileged:
        yield fields.forbidden(f"{path}.mountPropagation", "only a privileged container may mount things for the host")
    recursive = mount.get("recursiveReadOnly")
    if recursive is None or recursive == "Disabled":
        return
    if recursive not in RECURSIVE:
        yield fields.not_supported(f"{path}.recursiveReadOnly", recursive, RECURSIVE)
        return
    if not mount.get("readOnly"):
        yield fields.forbidden(f"{path}.recursiveReadOnly", "goes with readOnly only")
    if propagation not in (None, "None"):
        yield fields.forbidden(f"{path}.recursiveReadOnly", "does not go with mountPropagation")


def _devices(devices: list[Object], path: str, volumes: Mapping[str, Object], mounted: Mapping[str, str]) -> Errors:
    names: set[str] = set()
    places: set[str] = set()
    for index, device in enumerate(devices):
        at, name, place = f"{path}[{index}]", device.get("name", ""), device.get("devicePath", "")
        if not name:
            yield fields.required(f"{at}.name")
        elif name in names:
            yield fields.invalid(f"{at}.name", name, "the same volume is in this list already")
        names.add(name)
        if name not in volumes:
            yield fields.not_found(f"{at}.name", name)
        elif not FOR_BLOCK & volumes[name].keys():
            why = "only a persistentVolumeClaim or an ephemeral volume can be a block device"
            yield fields.invalid(f"{at}.name", name, why)
        if not place:
            yield fields.required(f"{at}.devicePath")
        if place in places:
            yield fields.invalid(f"{at}.devicePath", place, "another device is here already")
        if has_backstep(place):
            yield fields.invalid(f"{at}.devicePath", place, "must not contain '..' as a component")
        else:
            places.add(place)
        if name in mounted:
            yield fields.invalid(
                f"{at}.name", name, "the same volume is in volumeMounts: it is a device or a directory"
            )
        if place in mounted.values():
            yield fields.invalid(f"{at}.devicePath", place, "volumeMounts mounts a volume here")
