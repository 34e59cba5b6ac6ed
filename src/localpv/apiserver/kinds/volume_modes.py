"""Whether a pod uses each claim the way the claim's volume can be used: as a directory or as a block device.

Kubernetes lets such a pod in and the kubelet fails to start it, because the claim may be made after the
pod. So this is no part of the pod's validation: it is asked where the claims are known.
"""

from __future__ import annotations

from collections.abc import Mapping

from localpv.api import fields
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object

_LISTS = ("initContainers", "containers", "ephemeralContainers")


def check(pod: Object, claims: Mapping[str, Object]) -> FieldErrors:
    """Uses that contradict the claims, by name; claims that are not there yet are passed over."""
    modes = dict(_modes(pod, claims))
    wrong: FieldErrors = []
    for list_name in _LISTS:
        for index, container in enumerate(pod["spec"].get(list_name) or ()):
            path = f"spec.{list_name}[{index}]"
            for place, mount in enumerate(container.get("volumeMounts") or ()):
                name = mount.get("name", "")
                if modes.get(name) == "Block":
                    why = "the claim has volumeMode Block: it is a device, so put it under volumeDevices"
                    wrong.append(fields.invalid(f"{path}.volumeMounts[{place}].name", name, why))
            for place, device in enumerate(container.get("volumeDevices") or ()):
                name = device.get("name", "")
                if modes.get(name, "Block") != "Block":
                    why = "the claim has volumeMode Filesystem: it is a directory, so put it under volumeMounts"
                    wrong.append(fields.invalid(f"{path}.volumeDevices[{place}].name", name, why))
    return wrong


def _modes(pod: Object, claims: Mapping[str, Object]) -> list[tuple[str, str]]:
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "ephemeral" in volume:
            spec = (volume["ephemeral"].get("volumeClaimTemplate") or {}).get("spec") or {}
        else:
            claim = claims.get((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))
            if claim is None:
                continue
            spec = claim.get("spec") or {}
        found.append((volume.get("name", ""), spec.get("volumeMode") or "Filesystem"))
    return found
