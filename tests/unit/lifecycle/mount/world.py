"""Pods, claims and volumes for tests of mounting, and an API in which they are looked up."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from localpv.api import kinds
from localpv.lifecycle import identity as identities
from localpv.lifecycle.mount import recorded
from localpv.model.identity import Identity

_numbers = itertools.count(1)


@dataclass
class FakeLookup:
    """The API as a handful of dictionaries."""

    claims: dict[str, kinds.PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, kinds.PersistentVolume] = field(default_factory=dict)
    config_maps: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    this_node: kinds.Node | None = None
    tokens: list[tuple[str, str, int]] = field(default_factory=list)
    token_ends: str = "2030-01-01T01:00:00Z"

    async def claim(self, namespace: str, name: str) -> kinds.PersistentVolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    async def volume(self, name: str) -> kinds.PersistentVolume | None:
        return self.volumes.get(name)

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.config_maps.get(f"{namespace}/{name}")

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.secrets.get(f"{namespace}/{name}")

    async def node(self) -> kinds.Node | None:
        return self.this_node

    async def token(self, pod: kinds.Pod, *, audience: str, seconds: int) -> tuple[str, str]:
        self.tokens.append((pod.metadata.name, audience, seconds))
        return f"token-{len(self.tokens)}", self.token_ends

    def offer(
        self,
        path: Path | str,
        *,
        name: str = "pv",
        mode: str | None = None,
        identity: Identity | None = None,
        access_modes: Sequence[str] = ("ReadWriteOnce",),
        fs_type: str | None = None,
        mount_options: Sequence[str] = (),
        **spec: Any,
    ) -> kinds.PersistentVolume:
        """A local volume that is bound to the claim of the same name."""
        number = next(_numbers)
        annotations = {}
        if identity is not None:
            annotations[recorded.IDENTITY] = msgspec.json.encode(identities.written(identity)).decode()
        volume = kinds.PersistentVolume(
            metadata=kinds.ObjectMeta(name=name, uid=f"pv-{number}", annotations=annotations),
            spec=kinds.PersistentVolumeSpec(
                local=kinds.LocalVolumeSource(path=str(path), fs_type=fs_type),
                volume_mode=mode,
                access_modes=tuple(access_modes),
                mount_options=tuple(mount_options),
                claim_ref=kinds.ClaimReference(namespace="default", name=name, uid=f"claim-{number}"),
                **spec,
            ),
            status=kinds.PersistentVolumeStatus(phase="Bound"),
        )
        self.volumes[name] = volume
        self.claims[f"default/{name}"] = kinds.PersistentVolumeClaim(
            metadata=kinds.ObjectMeta(name=name, namespace="default", uid=f"claim-{number}"),
            spec=kinds.PersistentVolumeClaimSpec(volume_name=name, volume_mode=mode, access_modes=tuple(access_modes)),
            status=kinds.PersistentVolumeClaimStatus(phase="Bound"),
        )
        return volume


def claim_volume(claim: str = "pv", *, name: str = "data", read_only: bool = False) -> kinds.Volume:
    """A pod's volume that is a claim."""
    source = kinds.PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=read_only)
    return kinds.Volume(name=name, persistent_volume_claim=source)


def a_pod(
    *volumes: kinds.Volume,
    uid: str = "",
    devices: Sequence[str] = (),
    group: int | None = None,
    policy: str | None = None,
    **metadata: Any,
) -> kinds.Pod:
    """A pod with one container that mounts all volumes, or maps those that are named in `devices`."""
    number = next(_numbers)
    mounts = [volume.name for volume in volumes if volume.name not in devices]
    container = kinds.Container(
        name="main",
        volume_mounts=tuple(kinds.VolumeMount(name=name, mount_path=f"/{name}") for name in mounts),
        volume_devices=tuple(kinds.VolumeDevice(name=name, device_path=f"/dev/{name}") for name in devices),
    )
    return kinds.Pod(
        metadata=kinds.ObjectMeta(
            **{"name": f"pod-{number}", "namespace": "default", "uid": uid or f"uid-{number}", **metadata}
        ),
        spec=kinds.PodSpec(
            containers=(container,),
            volumes=volumes,
            security_context=kinds.PodSecurityContext(fs_group=group, fs_group_change_policy=policy),
        ),
    )
