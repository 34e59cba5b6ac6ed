"""Pods, claims and volumes for tests of mounting, and an API in which they are looked up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from localpv import errors
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.containers import Container, VolumeDevice, VolumeMount
from localpv.api.kinds.csi import CSIDriver
from localpv.api.kinds.meta import ObjectMeta
from localpv.api.kinds.pods import PersistentVolumeClaimVolumeSource, Pod, PodSecurityContext, PodSpec, Volume
from localpv.api.kinds.volumes import (
    ClaimReference,
    CSIVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)
from localpv.api.patch import merge_patch
from localpv.disk import identity as identities
from localpv.disk import labels
from localpv.engine.kubelet.volumes import HostParts, PodVolumes
from localpv.engine.kubelet.volumes.csi_driver import Drivers
from localpv.host.model.identity import Identity
from localpv.host.own_folders import DiskFolders
from localpv.testing import fake_host, fake_volume_host
from localpv.testing.clock import FakeClock

_numbers = itertools.count(1)


@dataclass
class FakeLookup:
    """The API as a handful of dictionaries."""

    claims: dict[str, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: dict[str, PersistentVolume] = field(default_factory=dict)
    config_maps: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    secrets: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    this_node: Node | None = None
    csi_drivers: dict[str, CSIDriver] = field(default_factory=dict)
    tokens: list[tuple[str, str, int]] = field(default_factory=list)
    token_ends: str = "2030-01-01T01:00:00Z"

    async def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.claims.get(f"{namespace}/{name}")

    async def volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.get(name)

    async def volume_source(self, name: str) -> str:
        return "local" if name in self.volumes else ""

    async def config_map(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.config_maps.get(f"{namespace}/{name}")

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self.secrets.get(f"{namespace}/{name}")

    async def node(self) -> Node | None:
        return self.this_node

    async def csi_driver(self, name: str) -> CSIDriver | None:
        return self.csi_drivers.get(name)

    async def set_claim_status(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> None:
        key = claim.metadata.key
        if self.claims[key] is not claim:
            raise errors.Conflict(f"{key} was changed")
        now = merge_patch.apply(msgspec.to_builtins(claim), {"status": status})
        self.claims[key] = msgspec.convert(now, PersistentVolumeClaim)

    def serve(self, handle: str, *, driver: str, name: str = "pv", fs_type: str = "ext4", **more: Any) -> None:
        """A volume of a CSI driver that is bound to the claim of the same name."""
        offered = self.offer("/", name=name, **more)
        source = CSIVolumeSource(
            driver=driver, volume_handle=handle, fs_type=fs_type, volume_attributes={"from": "class"}
        )
        spec = msgspec.structs.replace(offered.spec, local=None, csi=source)
        self.volumes[name] = msgspec.structs.replace(offered, spec=spec)

    async def token(self, pod: Pod, *, audience: str, seconds: int) -> tuple[str, str]:
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
    ) -> PersistentVolume:
        """A local volume that is bound to the claim of the same name."""
        number = next(_numbers)
        annotations = {}
        if identity is not None:
            annotations[labels.IDENTITY] = msgspec.json.encode(identities.written(identity)).decode()
        volume = PersistentVolume(
            metadata=ObjectMeta(name=name, uid=f"pv-{number}", annotations=annotations),
            spec=PersistentVolumeSpec(
                local=LocalVolumeSource(path=str(path), fs_type=fs_type),
                volume_mode=mode,
                access_modes=tuple(access_modes),
                mount_options=tuple(mount_options),
                claim_ref=ClaimReference(namespace="default", name=name, uid=f"claim-{number}"),
                **spec,
            ),
            status=PersistentVolumeStatus(phase="Bound"),
        )
        self.volumes[name] = volume
        self.claims[f"default/{name}"] = PersistentVolumeClaim(
            metadata=ObjectMeta(name=name, namespace="default", uid=f"claim-{number}"),
            spec=PersistentVolumeClaimSpec(volume_name=name, volume_mode=mode, access_modes=tuple(access_modes)),
            status=PersistentVolumeClaimStatus(phase="Bound"),
        )
        return volume


def claim_volume(claim: str = "pv", *, name: str = "data", read_only: bool = False) -> Volume:
    """A pod's volume that is a claim."""
    source = PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=read_only)
    return Volume(name=name, persistent_volume_claim=source)


def a_pod(
    *volumes: Volume,
    uid: str = "",
    devices: Sequence[str] = (),
    group: int | None = None,
    policy: str | None = None,
    **metadata: Any,
) -> Pod:
    """A pod with one container that mounts all volumes, or maps those that are named in `devices`."""
    number = next(_numbers)
    mounts = [volume.name for volume in volumes if volume.name not in devices]
    container = Container(
        name="main",
        volume_mounts=tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in mounts),
        volume_devices=tuple(VolumeDevice(name=name, device_path=f"/dev/{name}") for name in devices),
    )
    return Pod(
        metadata=ObjectMeta(
            **{"name": f"pod-{number}", "namespace": "default", "uid": uid or f"uid-{number}", **metadata}
        ),
        spec=PodSpec(
            containers=(container,),
            volumes=volumes,
            security_context=PodSecurityContext(fs_group=group, fs_group_change_policy=policy),
        ),
    )


class Machine:
    """A machine in memory whose own folders are real; all parts write into one log."""

    def __init__(self, root: Path) -> None:
        self.machine = fake_host.FakeMachine()
        self.log: list[str] = []
        self.mounting = fake_volume_host.FakeMounter(self.machine, log=self.log)
        self.file_systems = fake_volume_host.FakeFileSystems(self.machine, log=self.log)
        self.holding = fake_volume_host.FakeHolders(self.machine, log=self.log)
        self.ownership = fake_volume_host.FakeOwnership(log=self.log)
        self.file_sets = fake_volume_host.FakeFileSets()
        self.marks = fake_volume_host.FakeMarks()
        self.trees = RealTrees(self.machine)
        self.host = HostParts(
            mounts=fake_host.FakeMounts(self.machine),
            mounter=self.mounting,
            devices=fake_host.FakeDevices(self.machine),
            file_systems=self.file_systems,
            holders=self.holding,
            ownership=self.ownership,
            sub_paths=fake_volume_host.FakeSubPaths(self.mounting),
            trees=self.trees,
            folders=DiskFolders(),
            file_sets=self.file_sets,
            node_paths=fake_volume_host.FakeNodePaths(self.machine),
            marks=self.marks,
        )
        self.lookup, self.clock = FakeLookup(), FakeClock()
        self.drivers: Drivers | None = None
        self.warnings: list[tuple[str, str]] = []
        self.root = root
        self.volumes = self.restarted()

    def restarted(self, host: HostParts | None = None) -> PodVolumes:
        """As after a new start: what was in memory is gone, what is on the disk is there."""
        self.volumes = PodVolumes(
            root=self.root,
            host=host or self.host,
            lookup=self.lookup,
            clock=self.clock,
            drivers=self.drivers,
            node="n1",
            on_event=lambda pod, reason, message, warning: self.warnings.append((reason, message)),
        )
        return self.volumes

    def left(self) -> list[str]:
        """Mounts, holds, folders and links of volumes that are still there.

        A note about an unfinished file system may stay: whoever has the volume next finishes it.
        """
        own = self.volumes.layout.root
        files = [str(path.relative_to(own)) for path in own.rglob("*")] if own.exists() else []
        keep = {"pods", "plugins", "plugins/kubernetes.io", "plugins/kubernetes.io/local-volume"}
        base = "plugins/kubernetes.io/local-volume"
        keep |= {
            "plugins/kubernetes.io/csi",
            *(f"plugins/kubernetes.io/csi/{name}" for name in ("tiny.example.com", "volumeDevices")),
            *(f"plugins/kubernetes.io/csi/volumeDevices/{name}" for name in ("staging", "publish")),
        }
        keep |= {f"{base}/mounts", f"{base}/volumeDevices", f"{base}/making"}
        return [
            *(path for path in files if path not in keep and not path.startswith(f"{base}/making/")),
            *(str(mount.mount_point) for mount in self.machine.mounted if own in mount.mount_point.parents),
            *self.holding.held_now,
        ]


class RealTrees(fake_volume_host.FakeTrees):
    """Empties the real folders of a test, and refuses where the fake machine has something mounted."""

    async def empty(self, path: Path, *, inside: Path, expected: Any = None, on_progress: Any = None) -> int:
        self.machine.folders |= {path, *path.parents}
        await super().empty(path, inside=inside)
        for entry in sorted(path.rglob("*"), reverse=True):
            entry.rmdir() if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        return 0


class Died(BaseException):
    """The process was killed."""


class Dying:
    """A part of the machine that dies after a number of calls that change something, all parts counted together."""

    CHANGES: ClassVar = {
        *("make", "remove", "remove_place", "open_to_all", "link", "unlink", "write", "replace", "empty"),
        *("bind", "make_read_only", "mount", "mount_memory", "unmount", "hold", "release", "give"),
        *("mark_directory", "mark_device"),
    }

    def __init__(self, part: Any, tick: Callable[[], None]) -> None:
        self._part, self._tick = part, tick

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in self.CHANGES:
            return found
        if not asyncio.iscoroutinefunction(found):

            def now(*args: Any, **kwargs: Any) -> Any:
                result = found(*args, **kwargs)
                self._tick()
                return result

            return now

        async def later(*args: Any, **kwargs: Any) -> Any:
            result = await found(*args, **kwargs)
            self._tick()
            return result

        return later


def dying_hands(host: HostParts, steps: int, *, tick: Callable[[], None] | None = None) -> HostParts:
    """The same machine, on which the process dies after so many steps that change something."""
    left = [steps]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Died

    tick = tick or count
    return HostParts(**{name: Dying(getattr(host, name), tick) for name in HostParts.__dataclass_fields__})
