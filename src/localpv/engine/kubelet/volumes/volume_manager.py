"""The volumes of the pods of one node: set up before their containers start, torn down after they have ended.

They are torn down in order, from what is on the disk: first the parts of volumes, which lie on top of them, then the
volumes, then what was mounted or held for the last of their users, then the empty folders. One volume that cannot go
now keeps none of the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localpv import errors
from localpv.api.kinds.pods import Pod, Volume
from localpv.engine.kubelet.paths import (
    CONFIG_MAP,
    CSI,
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
from localpv.engine.kubelet.volumes import claims, csi_expander, csi_request, ephemeral_volumes, projected, volume_spec
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.claims import Lookup
from localpv.engine.kubelet.volumes.csi_driver import Drivers, NoDrivers
from localpv.engine.kubelet.volumes.csi_expander import CsiExpander, OnEvent
from localpv.engine.kubelet.volumes.csi_mapper import CsiMapper
from localpv.engine.kubelet.volumes.csi_mounter import CsiMounter
from localpv.engine.kubelet.volumes.ephemeral_volumes import EphemeralVolumes
from localpv.engine.kubelet.volumes.host_parts import HostParts, Observer, Operation, Operations, Turns
from localpv.engine.kubelet.volumes.mapper import Mapper
from localpv.engine.kubelet.volumes.mounter import Group, VolumeMounter
from localpv.engine.kubelet.volumes.projected import Contents, Tokens
from localpv.engine.kubelet.volumes.volume_spec import BLOCK, NotReady, Prepared, Spec, translated
from localpv.runtime.clock import Clock, SystemClock


class Teardown:
    """Takes pods' volumes away."""

    def __init__(
        self,
        *,
        layout: Layout,
        host: HostParts,
        mounter: VolumeMounter,
        mapper: Mapper,
        csi_mounter: CsiMounter,
        csi_mapper: CsiMapper,
        ephemeral: EphemeralVolumes,
        operations: Operations,
    ) -> None:
        self._layout, self._host, self._ephemeral = layout, host, ephemeral
        self._mounter, self._mapper = mounter, mapper
        self._csi_mounter, self._csi_mapper = csi_mounter, csi_mapper
        self._measured = operations.measured

    @classmethod
    def below(cls, layout: Layout, *, host: HostParts) -> Teardown:
        """By itself, where no volume is set up any more and no driver runs."""
        turns, operations, drivers = Turns(), Operations(None, clock=SystemClock()), NoDrivers()
        return cls(
            layout=layout,
            host=host,
            mounter=VolumeMounter(layout=layout, host=host, turns=turns, operations=operations),
            mapper=Mapper(layout=layout, host=host, turns=turns, operations=operations),
            csi_mounter=CsiMounter(
                layout=layout, host=host, drivers=drivers, turns=turns, operations=operations, offline=True
            ),
            csi_mapper=CsiMapper(
                layout=layout, host=host, drivers=drivers, turns=turns, operations=operations, offline=True
            ),
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
        return frozenset(pods | mapped) | self._csi_mapper.users()

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
        for volume in folders.names(layout.volumes(pod_uid, CSI)):
            with failed.kept(), self._measured(CSI, Operation.UNMOUNT):
                await self._csi_mounter.tear_down(volume, pod_uid=pod_uid)
        for volume in sorted(self._csi_mapper.mapped(pod_uid)):
            with failed.kept(), self._measured(CSI, Operation.UNMAP):
                await self._csi_mapper.unmap(volume, pod_uid=pod_uid)
        own = [folder / VOLUMES for folder in layout.folders(pod_uid)]
        for kind in {kind for folder in own for kind in folders.names(folder)} - {escaped(LOCAL), escaped(CSI)}:
            for name in {name for folder in own for name in folders.names(folder / kind)}:
                with failed.kept(), self._measured(unescaped(kind), Operation.UNMOUNT):
                    await self._ephemeral.remove(pod_uid, kind, name)
        if failed.first:
            raise failed.first
        with failed.kept():
            for plugin in (LOCAL, CSI):
                folders.remove(layout.devices(pod_uid, plugin), of_links=True)
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
        on_event: OnEvent | None = None,
        observer: Observer | None = None,
        drivers: Drivers | None = None,
        node: str = "",
    ) -> None:
        self.layout = Layout(root, disk=disk)
        self._host, self._lookup = host, lookup
        self._on_event = on_event or (lambda pod, reason, message, warning: None)
        clock = clock or SystemClock()
        self._operations = Operations(observer, clock=clock)
        self._served: dict[str, set[str]] = {}
        """Volumes that were set up for a pod, by its uid: to find them there again is no operation."""

        of_volumes = Turns()
        self._mounter = VolumeMounter(layout=self.layout, host=host, turns=of_volumes, operations=self._operations)
        self._mapper = Mapper(layout=self.layout, host=host, turns=of_volumes, operations=self._operations)
        self._ephemeral = EphemeralVolumes(layout=self.layout, host=host)
        drivers = drivers or NoDrivers()
        self._csi_mounter = CsiMounter(
            layout=self.layout, host=host, drivers=drivers, turns=of_volumes, operations=self._operations, node=node
        )
        self._csi_mapper = CsiMapper(
            layout=self.layout, host=host, drivers=drivers, turns=of_volumes, operations=self._operations, node=node
        )
        self._csi_expander = CsiExpander(drivers=drivers, lookup=lookup, clock=clock, on_event=self._on_event)
        self._teardown = Teardown(
            layout=self.layout,
            host=host,
            mounter=self._mounter,
            mapper=self._mapper,
            csi_mounter=self._csi_mounter,
            csi_mapper=self._csi_mapper,
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
        """Let files that come from the API be as the API has them now, and volumes as large, of a pod that has them.

        NotReady when one of the sources is not there any more: its files stay as they were, the others follow.
        """
        use, uid, failed = claims.Use.of(pod), pod.metadata.uid, []
        async with self._pods.of(uid):
            from_drivers = self._csi_mounter.mounted(uid) | self._csi_mapper.mapped(uid)
            for volume in pod.spec.volumes:
                if volume.name in use.mounted and projected.plugin_of(volume):
                    try:
                        with translated(f"volume {volume.name}"):
                            await self._from_api(pod, volume)
                    except NotReady as error:
                        failed.append(error)
                elif from_drivers and _claims(volume) and volume.name in use.mounted | use.mapped:
                    try:
                        with translated(f"volume {volume.name}"):
                            await self._grow_if_due(pod, volume, use)
                    except NotReady as error:
                        failed.append(error)
        if failed:
            raise failed[0]

    async def leftovers(self) -> frozenset[str]:
        """Uids of pods of which any volume, or a trace of one, is on the disk."""
        return await self._teardown.leftovers()

    async def sweep(self, driver: str) -> None:
        """Have a driver give up what it holds for no pod any more. HostError when it does not."""
        await self._csi_mounter.sweep(driver)
        await self._csi_mapper.sweep(driver)

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
            if _claims(volume):
                return await self._claimed(pod, volume, use)
            if volume.csi is not None:
                with self._measured(pod, volume.name, f"{CSI}:{volume.csi.driver}", Operation.MOUNT):
                    spec = csi_request.inline_spec(pod, volume)
                    path = await self._csi_mounter.set_up(
                        spec, pod=pod, group=_group(pod), lookup=self._lookup, lifecycle=csi_request.EPHEMERAL
                    )
                return Prepared(path=path, name=volume.name, read_only=spec.read_only)
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
        has = await self._has(uid)
        bound = await claims.find(pod, volume, lookup=self._lookup, use=use, has=has)
        spec = bound.spec
        if spec.unsupported_access_modes:
            self._on_event(
                pod,
                "AccessModesNotSupported",
                f"volume {spec.name} promises {', '.join(spec.unsupported_access_modes)}, which a local volume cannot"
                " keep: it is on this node, and pods of other nodes do not reach it",
                True,
            )
        operation = Operation.MAP if spec.mode == BLOCK else Operation.MOUNT
        plugin = LOCAL if spec.csi is None else f"{CSI}:{spec.csi.driver}"
        with (
            translated(f"volume {volume.name}", event=spec.event),
            self._measured(pod, volume.name, plugin, operation),
        ):
            try:
                prepared = await self._serve(pod, volume, bound)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotReady(
                    "PathMissing",
                    f"{spec.path or error.filename} of volume {spec.name} does not exist on this node",
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

    async def _has(self, uid: str) -> frozenset[str]:
        """Volumes that a pod was given before."""
        local = self._mapper.mapped(uid) | await self._mounter.mounted(uid)
        return local | self._csi_mapper.mapped(uid) | self._csi_mounter.mounted(uid)

    async def _serve(self, pod: Pod, volume: Volume, bound: claims.Bound) -> Prepared:
        spec, recorded, uid = bound.spec, records.identity_of(bound.volume), pod.metadata.uid
        if spec.mode == BLOCK:
            if spec.csi is not None:
                link, number = await self._csi_mapper.map(spec, pod=pod, lookup=self._lookup)
                await self._grow(pod, bound)
            else:
                link, number = await self._mapper.map(spec, pod_uid=uid, recorded=recorded)
            return Prepared(
                path=link,
                name=volume.name,
                device=True,
                read_only=spec.access == "r",
                access=spec.access,
                number=number,
            )
        if spec.csi is not None:
            path = await self._csi_mounter.set_up(spec, pod=pod, group=_group(pod), lookup=self._lookup)
            await self._grow(pod, bound)
        else:
            path = await self._mounter.set_up(
                spec,
                pod_uid=uid,
                recorded=recorded,
                group=_group(pod),
                warn=lambda reason, message: self._on_event(pod, reason, message, True),
            )
        return Prepared(path=path, name=volume.name, read_only=spec.read_only)

    async def _grow_if_due(self, pod: Pod, volume: Volume, use: claims.Use) -> None:
        claim = await self._lookup.claim(pod.metadata.namespace, claims.name_of(pod, volume))
        if claim is not None and csi_expander.is_due(claim):
            has = await self._has(pod.metadata.uid)
            await self._grow(pod, await claims.find(pod, volume, lookup=self._lookup, use=use, has=has))

    async def _grow(self, pod: Pod, bound: claims.Bound) -> None:
        uid, spec = pod.metadata.uid, bound.spec
        if spec.mode == BLOCK:
            place, staging = self._csi_mapper.place(uid, spec.name), self._csi_mapper.staging(spec.name)
        else:
            place, staging = self._csi_mounter.place(uid, spec.name), self._csi_mounter.staging(spec)
        await self._csi_expander.expand(pod, bound, place=place, staging=staging)

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
        if spec.csi is not None and spec.mode == BLOCK:
            await self._csi_mapper.unmap(spec.name, pod_uid=pod_uid)
        elif spec.csi is not None:
            await self._csi_mounter.tear_down(spec.name, pod_uid=pod_uid)
        elif spec.mode == BLOCK:
            await self._mapper.unmap(spec.name, pod_uid=pod_uid)
        else:
            await self._mounter.tear_down(spec.name, pod_uid=pod_uid)


def _claims(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def _group(pod: Pod) -> Group | None:
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return None
    return Group(id=context.fs_group, unless_root_has_it=context.fs_group_change_policy == "OnRootMismatch")
