"""From a container in a pod's spec to a running process."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from localpv import errors
from localpv.api.kinds.containers import Container
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet import bundle, environment, etc_files, seccomp, security_context, unsupported
from localpv.engine.kubelet.bundle import Binding
from localpv.engine.kubelet.environment import Environment
from localpv.engine.kubelet.events import BadConfig, NoImage, NotStarted, RunError
from localpv.engine.kubelet.images.store import Image, Images
from localpv.engine.kubelet.paths import KubeletPaths
from localpv.engine.kubelet.records import End, Record, Records, id_of
from localpv.engine.kubelet.volumes.volume_spec import NotReady, Prepared
from localpv.host.containers import Containers, Features
from localpv.host.sandboxes import Layers, Sandboxes
from localpv.runtime.clock import Clock

LAYERS = "layers"
"""Folder of a container with its root; all else beside it is kept a little longer."""

START_ERROR = 128
"""The exit code of a container that never came to run its command."""


class SubPaths(Protocol):
    """Parts of volumes."""

    async def sub_path(
        self, pod_uid: str, container: str, index: int, prepared: Prepared, sub_path: str, *, read_only: bool
    ) -> Path: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The node that this machine is."""

    name: str
    host_ip: str
    boot: str
    """Another one after each start of the machine."""

    capacity: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuntime:
    """What containers are made of and run with on this machine."""

    paths: KubeletPaths
    images: Images
    containers: Containers
    sandboxes: Sandboxes
    layers: Layers
    features: Features = field(default_factory=Features)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """Makes containers and starts them."""

    node: NodeFacts
    runtime: ContainerRuntime
    records: Records
    environment: Environment
    volumes: SubPaths
    clock: Clock

    async def create(self, pod: Pod, container: Container, prepared: Mapping[str, Prepared], *, delay: float) -> Record:
        """Make the next attempt of a container, ready to be started; NotStarted says why it cannot be."""
        if refused := unsupported.refusal(pod, features=self.runtime.features):
            # It was admitted by a version that overlooked this, and only its containers that run may go on.
            raise BadConfig(refused[1], hint="leave it out")
        image = self.find_image(container)
        attempts = self.records.of(pod.metadata.uid).get(container.name, [])
        number = attempts[-1].attempt + 1 if attempts else _known_restarts(pod, container)
        record = Record(
            id=id_of(pod.metadata.uid, container.name, number),
            pod_uid=pod.metadata.uid,
            pod_name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            container=container.name,
            attempt=number,
            image=container.image,
            image_id=image.id,
            boot=self.node.boot,
            created_at=now(self.clock),
            delay=delay,
            stdin=container.stdin,
            terminal=container.tty,
            stop_signal=_stop_signal(container, image),
        )
        plan = await self._plan(pod, container, record, image, prepared)
        # Before anything is made: whatever of it there is after a crash belongs to this record.
        self.records.save(record)
        folder = self.runtime.paths.container(record.id)
        try:
            await self.runtime.layers.stack(self.runtime.images.root(image), folder / LAYERS)
            (folder / "config.json").write_bytes(msgspec.json.encode(bundle.config(plan)))
        except (errors.HostError, OSError) as error:
            await self.undo(record)
            raise NotStarted(str(error)) from error
        except BaseException:
            await self.undo(record)
            raise
        return record

    async def start(self, record: Record) -> Record:
        """Run what was made. What the runtime refuses counts as a start that failed at once."""
        target = self.records.bundle(record)
        try:
            await self.runtime.containers.create(target)
            # The container has it now; in this machine's tree it would only have to be cleaned up some day.
            await self.runtime.layers.hide(target.folder / LAYERS)
            await self.runtime.containers.start(target)
        except errors.HostTimeout:
            await self.undo(record)
            raise
        except errors.HostError as error:
            end = End(exit_code=START_ERROR, reason="StartError", message=error.message, finished_at=now(self.clock))
            self.records.save(msgspec.structs.replace(record, started_at=record.created_at, end=end))
            raise RunError(error.message, hint=error.hint) from error
        started = msgspec.structs.replace(record, started_at=now(self.clock))
        self.records.save(started)
        return started

    async def undo(self, record: Record) -> None:
        """As if it had never been begun; what cannot be undone now is found again by its record."""
        with contextlib.suppress(errors.HostError):
            await take_back(
                record, records=self.records, containers=self.runtime.containers, layers=self.runtime.layers
            )

    def find_image(self, container: Container) -> Image:
        image = self.runtime.images.find(container.image)
        if image is None:
            raise NoImage(
                f'Container image "{container.image}" is not on this machine, and nothing is pulled from registries;'
                " import it from an archive: localpv image import FILE"
            )
        return image

    async def _plan(
        self,
        pod: Pod,
        container: Container,
        record: Record,
        image: Image,
        prepared: Mapping[str, Prepared],
    ) -> bundle.Plan:
        root = self.runtime.images.root(image)
        user = security_context.user_of(pod, container, image_user=image.config.user, root=root)
        values = await self.environment.of(pod, container)
        args = environment.command(container, image.config, values)
        if not args:
            raise BadConfig("no command specified", hint="the image has none, so the container must say what to run")
        bindings = etc_files.write(pod, self.runtime.paths.etc(pod.metadata.uid), node=self.node.name)
        bindings = [
            one for one in bindings if all(m.mount_path.rstrip("/") != one.target for m in container.volume_mounts)
        ]
        bindings += await self._mounts(pod, container, prepared, values)
        devices = [
            (device.device_path, bundle.volume_of(prepared, device.name, device=True))
            for device in container.volume_devices
        ]
        allowed = security_context.capabilities(container.security_context)
        profile = seccomp.profile_of(pod, container, capabilities=allowed, folder=self.runtime.paths.seccomp)
        # Last: it makes the folder of the container, of which no record knows yet, and nothing may fail after it.
        bindings.append(self._termination_log(container, record))
        uid = pod.metadata.uid
        return bundle.Plan(
            pod=pod,
            container=container,
            id=record.id,
            root=self.runtime.paths.container(record.id) / LAYERS / "root",
            args=args,
            env=environment.merged(image.config, values, etc_files.host_name(pod, node=self.node.name)),
            working_dir=environment.expand(bundle.working_dir(container, image.config.working_dir), {}),
            user=user,
            bindings=bindings,
            devices=devices,
            sandbox=self.runtime.paths.sandbox(uid),
            seccomp=profile,
            sysctls=unsupported.sysctls(pod),
        )

    async def _mounts(
        self,
        pod: Pod,
        container: Container,
        prepared: Mapping[str, Prepared],
        values: Mapping[str, str],
    ) -> list[Binding]:
        found = []
        for index, mount in enumerate(container.volume_mounts):
            volume = bundle.volume_of(prepared, mount.name, device=False)
            source, read_only = volume.path, volume.read_only or mount.read_only
            part = mount.sub_path or environment.expand(mount.sub_path_expr, values)
            if part:
                try:
                    source = await self.volumes.sub_path(
                        pod.metadata.uid, container.name, index, volume, part, read_only=read_only
                    )
                except (NotReady, errors.HostError) as error:
                    raise BadConfig(
                        f'failed to prepare subPath for volumeMount "{mount.name}": {error.message}', hint=error.hint
                    ) from error
            target = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
            recursive = mount.recursive_read_only == "Enabled" or (
                mount.recursive_read_only == "IfPossible" and self.runtime.features.recursive_read_only
            )
            found.append(Binding(source=source, target=target, read_only=read_only, recursive=recursive))
        return found

    def _termination_log(self, container: Container, record: Record) -> Binding:
        folder = self.runtime.paths.container(record.id)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "termination-log"
        path.touch()
        path.chmod(0o666)  # whoever the container runs as may leave a last word
        return Binding(source=path, target=container.termination_message_path or bundle.TERMINATION_LOG)


def _stop_signal(container: Container, image: Image) -> str:
    own = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return own or image.config.stop_signal


def _known_restarts(pod: Pod, container: Container) -> int:
    """The number of the first attempt of which nothing is on disk: not 0 when there were others before."""
    told = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    known = next((one for one in told if one.name == container.name), None)
    return known.restart_count + 1 if known is not None and known.container_id else 0


async def take_back(record: Record, *, records: Records, containers: Containers, layers: Layers) -> None:
    """Undo an attempt that was never started."""
    # First: when we die after the next line, the end that it leaves behind must not pass for that of a run.
    records.save(msgspec.structs.replace(record, undone=True))
    target = records.bundle(record)
    await containers.delete(target)
    await remove_folder(layers, target.folder)
    records.drop(record)


async def remove_folder(layers: Layers, folder: Path) -> None:
    """Remove everything of a container, its root first: that is what may still be mounted."""
    await layers.remove(folder / LAYERS)
    await layers.remove(folder)


def now(clock: Clock) -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
