"""The volumes of the pods of one node: set up before their containers start, torn down after they have ended.

They are torn down in order, from what is on the disk: first the parts of volumes, which lie on top of them, then the
volumes, then what was mounted or held for the last of their users, then the empty folders. One volume that cannot go
now keeps none of the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localpv import errors
from localpv.api.kinds.pods import Pod, Volume
from localpv.engine.kubelet.paths import (
    CONFIG_MAP,
    DEVICES,
    EMPTY_DIR,
    HOST_PATH,
    LOCAL,
    SUB_PATHS,
    VOLUMES,
    Layout,
    escaped,
    unescaped,
)
from localpv.engine.kubelet.volumes import claims, ephemeral_volumes, projected, volume_spec
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.ephemeral_volumes import EphemeralVolumes
from localpv.engine.kubelet.volumes.host_parts import HostParts, Observer, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.mapper import Mapper
from localpv.engine.kubelet.volumes.mounter import Group, VolumeMounter
from localpv.engine.kubelet.volumes.projected import Contents, Tokens
from localpv.engine.kubelet.volumes.volume_spec import BLOCK, NotReady, Prepared, Spec, translated
from localpv.runtime.clock import Clock, SystemClock

OnWarning = Callable[[Pod, str, str], None]
"""Told a pod, a reason and a sentence that people should see, though the pod goes on."""


class Teardown:
    """Takes pods' volumes away."""

    def __init__(
        self,
        *,
        layout: Layout,
        host: HostParts,
        mounter: VolumeMounter,
        mapper: Mapper,
        ephemeral: EphemeralVolumes,
        operations: Operations,
    ) -> None:
        self._layout, self._host, self._mounter, self._mapper, self._ephemeral = (
            layout,
            host,
            mounter,
            mapper,
            ephemeral,
        )
        self._measured = operations.measured

    @classmethod
    def below(cls, layout: Layout, *, host: HostParts) -> Teardown:
        """By itself, where no volume is set up any more."""
        turns, operations = Turns(), Operations(None, clock=SystemClock())
        return cls(
            layout=layout,
            host=host,
            mounter=VolumeMounter(layout=layout, host=host, turns=turns, operations=operations),
            mapper=Mapper(layout=layout, host=host, turns=turns, operations=operations),
            ephemeral=EphemeralVolumes(layout=layout, host=host),
            operations=operations,
        )

    async def leftovers(self) -> frozenset[str]:
        """Uids of pods of which any volume, or a trace of one, is on the disk."""
        layout, folders = self._layout, self._host.folders
        own = {VOLUMES, DEVICES, SUB_PATHS}
        uids = {uid for folder in layout.folders_of_pods() for uid in folders.names(folder)}
        inside = [(uid, set(folders.names(folder))) for uid in uids for folder in layout.folders(uid)]
        pods = {uid for uid, names in inside if names & own or not names}
        mapped = {
            uid for volume in folders.names(layout.global_maps) for uid in folders.names(layout.global_map(volume))
        }
        return frozenset(pods | mapped)

    async def tear_down(self, pod_uid: str) -> None:
        """Everything of one pod; HostError when something of it has to stay for now."""
        layout, folders, failed = self._layout, self._host.folders, _Failures()
        pod = layout.pod(pod_uid)
        with failed.kept():
            await self._host.unmount_all(pod / SUB_PATHS)
            self._remove_places(pod / SUB_PATHS)
        if failed.first:
            raise failed.first  # below a part that is still there lies its volume
        for volume in folders.names(layout.volumes(pod_uid, LOCAL)):
            with failed.kept(), self._measured(LOCAL, Operation.UNMOUNT):
                await self._mounter.tear_down(volume, pod_uid=pod_uid)
        for volume in sorted(self._mapper.mapped(pod_uid)):
            with failed.kept(), self._measured(LOCAL, Operation.UNMAP):
                await self._mapper.unmap(volume, pod_uid=pod_uid)
        with failed.kept():
            await self._mapper.tidy()
        own = [folder / VOLUMES for folder in layout.folders(pod_uid)]
        for kind in {kind for folder in own for kind in folders.names(folder)} - {escaped(LOCAL)}:
            for name in {name for folder in own for name in folders.names(folder / kind)}:
                with failed.kept(), self._measured(unescaped(kind), Operation.UNMOUNT):
                    await self._ephemeral.remove(pod_uid, kind, name)
        if failed.first:
            raise failed.first
        with failed.kept():
            folders.remove(layout.devices(pod_uid), of_links=True)
            folders.remove(pod / DEVICES)
            for volumes in own:
                for kind in folders.names(volumes):
                    folders.remove(volumes / kind)
                folders.remove(volumes)
                if not folders.names(volumes.parent):
                    folders.remove(volumes.parent)
        if failed.first:
            raise failed.first

    def _remove_places(self, folder: Path) -> None:
        """Remove the empty folders and files over which parts of volumes were bound: nothing is mounted there now."""
        folders = self._host.folders
        for volume in folders.names(folder):
            for container in folders.names(folder / volume):
                for index in folders.names(folder / volume / container):
                    folders.remove_place(folder / volume / container / index)
                folders.remove(folder / volume / container)
            folders.remove(folder / volume)
        folders.remove(folder)


class _Failures:
    def __init__(self) -> None:
        self.first: errors.HostError | None = None

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the first failure of several steps."""
        try:
            yield
        except errors.HostError as error:
            self.first = self.first or error
        except OSError as error:
            found = errors.HostError(f"{error.filename} cannot be removed: {error.strerror}")
            found.__cause__ = error
            self.first = self.first or found


class PodVolumes:
    """All volumes of all pods of this node; one of these in each process that runs pods.

    Everything that must outlive the process stands on the disk before it counts, in the names of folders and links
    (`layout`). So each call can be repeated at any time, and tearing down needs nothing but a pod's uid.
    """

    def __init__(
        self,
        *,
        root: Path,
        disk: Path | None = None,
        host: HostParts,
        lookup: Lookup,
        clock: Clock | None = None,
        on_warning: OnWarning | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.layout = Layout(root, disk=disk)
        self._host, self._lookup = host, lookup
        self._on_warning = on_warning or (lambda pod, reason, message: None)
        clock = clock or SystemClock()
        self._operations = Operations(observer, clock=clock)
        self._served: dict[str, set[str]] = {}
        """Volumes that were set up for a pod, by its uid: to find them there again is no operation."""

        of_volumes = Turns()
        self._mounter = VolumeMounter(layout=self.layout, host=host, turns=of_volumes, operations=self._operations)
        self._mapper = Mapper(layout=self.layout, host=host, turns=of_volumes, operations=self._operations)
        self._ephemeral = EphemeralVolumes(layout=self.layout, host=host)
        self._teardown = Teardown(
            layout=self.layout,
            host=host,
            mounter=self._mounter,
            mapper=self._mapper,
            ephemeral=self._ephemeral,
            operations=self._operations,
        )
        self._tokens = Tokens(lookup=lookup, clock=clock)
        self._contents = Contents(lookup=lookup, tokens=self._tokens)
        self._pods = Turns()

    async def set_up(self, pod: Pod) -> Mapping[str, Prepared]:
        """Every volume that a container of the pod uses, by its name; NotReady when one cannot be served now.

        Those that could be served stay as they are and are found again by the next call.
        """
        use = claims.Use.of(pod)
        async with self._pods.of(pod.metadata.uid):
            return {
                volume.name: await self._set_up_one(pod, volume, use)
                for volume in pod.spec.volumes
                if volume.name in use.mounted or volume.name in use.mapped
            }

    async def tear_down(self, pod_uid: str) -> None:
        """Everything of a pod, from what is on the disk; nothing there is no error. HostError: try again later."""
        async with self._pods.of(pod_uid):
            await self._teardown.tear_down(pod_uid)
        self._tokens.forget(pod_uid)
        self._served.pop(pod_uid, None)

    async def refresh(self, pod: Pod) -> None:
        """Let files that come from the API be as the API has them now, of a pod whose volumes are set up.

        NotReady when one of the sources is not there any more: its files stay as they were, the others follow.
        """
        use, failed = claims.Use.of(pod), []
        async with self._pods.of(pod.metadata.uid):
            for volume in pod.spec.volumes:
                if volume.name in use.mounted and projected.plugin_of(volume):
                    try:
                        with translated(f"volume {volume.name}"):
                            await self._from_api(pod, volume)
                    except NotReady as error:
                        failed.append(error)
        if failed:
            raise failed[0]

    async def leftovers(self) -> frozenset[str]:
        """Uids of pods of which any volume, or a trace of one, is on the disk."""
        return await self._teardown.leftovers()

    async def sub_path(
        self, pod_uid: str, container: str, index: int, prepared: Prepared, sub_path: str, *, read_only: bool
    ) -> Path:
        """A part of a volume for one container: its `index`-th volumeMount. What is missing of it is made."""
        at = self.layout.sub_path(pod_uid, prepared.name or prepared.path.name, container, index)
        with translated(f"subPath {sub_path} of volume {prepared.name}"):
            await self._host.sub_paths.bind(prepared.path, sub_path, at, read_only=read_only or prepared.read_only)
        return at

    async def _set_up_one(self, pod: Pod, volume: Volume, use: claims.Use) -> Prepared:
        with translated(f"volume {volume.name}"):
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                return await self._claimed(pod, volume, use)
            if volume.empty_dir is not None:
                with self._measured(pod, volume.name, EMPTY_DIR, Operation.MOUNT):
                    path = await self._ephemeral.empty_dir(volume.empty_dir, volume.name, pod=pod, group=_group(pod))
                return Prepared(path=path, name=volume.name)
            if volume.host_path is not None:
                with self._measured(pod, volume.name, HOST_PATH, Operation.MOUNT):
                    path = await ephemeral_volumes.host_path(volume.host_path, node_paths=self._host.node_paths)
                return Prepared(path=path, name=volume.name)
            if plugin := projected.plugin_of(volume):
                with self._measured(pod, volume.name, plugin, Operation.MOUNT):
                    path = await self._from_api(pod, volume)
                return Prepared(path=path, name=volume.name, read_only=True)
        raise NotReady(
            "NotSupported",
            f"volume {volume.name} has the source {volume.other_source or 'unknown'},"
            " which is not supported on the embedded engine",
            hint="use a claim, emptyDir, configMap, secret, downwardAPI, projected or hostPath; or "
            + volume_spec.instead(volume.other_source),
        )

    async def _from_api(self, pod: Pod, volume: Volume) -> Path:
        files = await self._contents.of(pod, volume)
        plugin, group = projected.plugin_of(volume), _group(pod)
        # All but plain configuration stays in memory: a secret on a disk is there long after the pod.
        place = await self._ephemeral.folder(pod.metadata.uid, plugin, volume.name, memory=plugin != CONFIG_MAP)
        await self._host.file_sets.replace(place, files, group=group.id if group else None)
        return place

    async def _claimed(self, pod: Pod, volume: Volume, use: claims.Use) -> Prepared:
        uid = pod.metadata.uid
        has = self._mapper.mapped(uid) | await self._mounter.mounted(uid)
        bound = await claims.find(pod, volume, lookup=self._lookup, use=use, has=has)
        spec = bound.spec
        if spec.unsupported_access_modes:
            self._on_warning(
                pod,
                "AccessModesNotSupported",
                f"volume {spec.name} promises {', '.join(spec.unsupported_access_modes)}, which a local volume cannot"
                " keep: it is on this node, and pods of other nodes do not reach it",
            )
        operation = Operation.MAP if spec.mode == BLOCK else Operation.MOUNT
        with (
            translated(f"volume {volume.name}", event=spec.event),
            self._measured(pod, volume.name, LOCAL, operation),
        ):
            try:
                prepared = await self._serve(pod, volume, bound)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotReady(
                    "PathMissing",
                    f"{spec.path} of volume {spec.name} does not exist on this node",
                    hint="put the directory or disk back; the pod goes on by itself",
                    event=spec.event,
                ) from error
            try:
                await claims.confirm(pod, volume, bound, lookup=self._lookup)
            except NotReady:
                if spec.name not in has:  # else containers may be at work in it, and stay until the pod goes
                    await self._take_back(uid, spec)
                raise
            return prepared

    async def _serve(self, pod: Pod, volume: Volume, bound: claims.Bound) -> Prepared:
        spec, recorded, uid = bound.spec, records.identity_of(bound.volume), pod.metadata.uid
        if spec.mode == BLOCK:
            link, number = await self._mapper.map(spec, pod_uid=uid, recorded=recorded)
            return Prepared(
                path=link,
                name=volume.name,
                device=True,
                read_only=spec.access == "r",
                access=spec.access,
                number=number,
            )
        path = await self._mounter.set_up(
            spec,
            pod_uid=uid,
            recorded=recorded,
            group=_group(pod),
            warn=lambda reason, message: self._on_warning(pod, reason, message),
        )
        return Prepared(path=path, name=volume.name, read_only=spec.read_only)

    @contextmanager
    def _measured(self, pod: Pod, name: str, plugin: str, operation: Operation) -> Iterator[None]:
        """Measure what sets a volume up, until it has been once; after a restart that is once more, as in a kubelet."""
        served = self._served.setdefault(pod.metadata.uid, set())
        if name in served:
            yield
            return
        with self._operations.measured(plugin, operation):
            yield
        served.add(name)

    async def _take_back(self, pod_uid: str, spec: Spec) -> None:
        if spec.mode == BLOCK:
            await self._mapper.unmap(spec.name, pod_uid=pod_uid)
        else:
            await self._mounter.tear_down(spec.name, pod_uid=pod_uid)


def _group(pod: Pod) -> Group | None:
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return None
    return Group(id=context.fs_group, unless_root_has_it=context.fs_group_change_policy == "OnRootMismatch")
