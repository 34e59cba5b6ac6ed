"""The volumes of the pods of one node: set up before their containers start, torn down after they have ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from localpv.api import kinds
from localpv.engine.kubelet.volumes import claims, host_paths, projected, unsupported
from localpv.engine.kubelet.volumes import identity_check as records
from localpv.engine.kubelet.volumes.empty_dir import Scratch
from localpv.engine.kubelet.volumes.host_parts import Hands, Turns
from localpv.engine.kubelet.volumes.lookup import Lookup
from localpv.engine.kubelet.volumes.mapper import Mapper
from localpv.engine.kubelet.volumes.mounter import Group, Mounter
from localpv.engine.kubelet.volumes.operations import Observer, Operation, Operations
from localpv.engine.kubelet.volumes.paths import CONFIG_MAP, EMPTY_DIR, HOST_PATH, LOCAL, Layout
from localpv.engine.kubelet.volumes.projected import Contents
from localpv.engine.kubelet.volumes.results import NotReady, Prepared, translated
from localpv.engine.kubelet.volumes.teardown import Tearing
from localpv.engine.kubelet.volumes.tokens import Tokens
from localpv.engine.kubelet.volumes.volume_spec import BLOCK, Spec
from localpv.runtime.clock import Clock, SystemClock

OnWarning = Callable[[kinds.Pod, str, str], None]
"""Told a pod, a reason and a sentence that people should see, though the pod goes on."""


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
        hands: Hands,
        lookup: Lookup,
        clock: Clock | None = None,
        on_warning: OnWarning | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.layout = Layout(root, disk=disk)
        self._hands, self._lookup = hands, lookup
        self._on_warning = on_warning or (lambda pod, reason, message: None)
        clock = clock or SystemClock()
        self._operations = Operations(observer, clock=clock)
        self._served: dict[str, set[str]] = {}
        """Volumes that were set up for a pod, by its uid: to find them there again is no operation."""

        of_volumes = Turns()
        self._mounter = Mounter(layout=self.layout, hands=hands, turns=of_volumes, operations=self._operations)
        self._mapper = Mapper(layout=self.layout, hands=hands, turns=of_volumes, operations=self._operations)
        self._scratch = Scratch(layout=self.layout, hands=hands)
        self._tearing = Tearing(
            layout=self.layout,
            hands=hands,
            mounter=self._mounter,
            mapper=self._mapper,
            scratch=self._scratch,
            operations=self._operations,
        )
        self._tokens = Tokens(lookup=lookup, clock=clock)
        self._contents = Contents(lookup=lookup, tokens=self._tokens)
        self._pods = Turns()

    async def set_up(self, pod: kinds.Pod) -> Mapping[str, Prepared]:
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
            await self._tearing.tear_down(pod_uid)
        self._tokens.forget(pod_uid)
        self._served.pop(pod_uid, None)

    async def refresh(self, pod: kinds.Pod) -> None:
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
        return await self._tearing.leftovers()

    async def sub_path(
        self, pod_uid: str, container: str, index: int, prepared: Prepared, sub_path: str, *, read_only: bool
    ) -> Path:
        """A part of a volume for one container: its `index`-th volumeMount. What is missing of it is made."""
        at = self.layout.sub_path(pod_uid, prepared.name or prepared.path.name, container, index)
        with translated(f"subPath {sub_path} of volume {prepared.name}"):
            await self._hands.sub_paths.bind(prepared.path, sub_path, at, read_only=read_only or prepared.read_only)
        return at

    async def _set_up_one(self, pod: kinds.Pod, volume: kinds.Volume, use: claims.Use) -> Prepared:
        with translated(f"volume {volume.name}"):
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
                return await self._claimed(pod, volume, use)
            if volume.empty_dir is not None:
                with self._measured(pod, volume.name, EMPTY_DIR, Operation.MOUNT):
                    path = await self._scratch.empty_dir(volume.empty_dir, volume.name, pod=pod, group=_group(pod))
                return Prepared(path=path, name=volume.name)
            if volume.host_path is not None:
                with self._measured(pod, volume.name, HOST_PATH, Operation.MOUNT):
                    path = await host_paths.find(volume.host_path, node_paths=self._hands.node_paths)
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
            + unsupported.instead(volume.other_source),
        )

    async def _from_api(self, pod: kinds.Pod, volume: kinds.Volume) -> Path:
        files = await self._contents.of(pod, volume)
        plugin, group = projected.plugin_of(volume), _group(pod)
        # All but plain configuration stays in memory: a secret on a disk is there long after the pod.
        place = await self._scratch.folder(pod.metadata.uid, plugin, volume.name, memory=plugin != CONFIG_MAP)
        await self._hands.file_sets.replace(place, files, group=group.id if group else None)
        return place

    async def _claimed(self, pod: kinds.Pod, volume: kinds.Volume, use: claims.Use) -> Prepared:
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

    async def _serve(self, pod: kinds.Pod, volume: kinds.Volume, bound: claims.Bound) -> Prepared:
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
    def _measured(self, pod: kinds.Pod, name: str, plugin: str, operation: Operation) -> Iterator[None]:
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


def _group(pod: kinds.Pod) -> Group | None:
    context = pod.spec.security_context
    if context is None or context.fs_group is None:
        return None
    return Group(id=context.fs_group, unless_root_has_it=context.fs_group_change_policy == "OnRootMismatch")
