"""A pod's volumes taken away, in order, from what is on the disk.

First the parts of volumes, which lie on top of them, then the volumes, then what was mounted or held for the last of
their users, then the empty folders. One volume that cannot go now keeps none of the others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from localpv import errors
from localpv.engine.kubelet.volumes.empty_dir import Scratch
from localpv.engine.kubelet.volumes.host_parts import Hands, Turns
from localpv.engine.kubelet.volumes.mapper import Mapper
from localpv.engine.kubelet.volumes.mounter import Mounter
from localpv.engine.kubelet.volumes.operations import Operation, Operations
from localpv.engine.kubelet.volumes.paths import DEVICES, LOCAL, SUB_PATHS, VOLUMES, Layout, escaped, unescaped
from localpv.runtime.clock import SystemClock


class Tearing:
    """Takes pods' volumes away."""

    def __init__(
        self,
        *,
        layout: Layout,
        hands: Hands,
        mounter: Mounter,
        mapper: Mapper,
        scratch: Scratch,
        operations: Operations,
    ) -> None:
        self._layout, self._hands, self._mounter, self._mapper, self._scratch = layout, hands, mounter, mapper, scratch
        self._measured = operations.measured

    @classmethod
    def below(cls, layout: Layout, *, hands: Hands) -> Tearing:
        """By itself, where no volume is set up any more."""
        turns, operations = Turns(), Operations(None, clock=SystemClock())
        return cls(
            layout=layout,
            hands=hands,
            mounter=Mounter(layout=layout, hands=hands, turns=turns, operations=operations),
            mapper=Mapper(layout=layout, hands=hands, turns=turns, operations=operations),
            scratch=Scratch(layout=layout, hands=hands),
            operations=operations,
        )

    async def leftovers(self) -> frozenset[str]:
        """Uids of pods of which any volume, or a trace of one, is on the disk."""
        layout, folders = self._layout, self._hands.folders
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
        layout, folders, failed = self._layout, self._hands.folders, _Failures()
        pod = layout.pod(pod_uid)
        with failed.kept():
            await self._hands.unmount_all(pod / SUB_PATHS)
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
                    await self._scratch.remove(pod_uid, kind, name)
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
        folders = self._hands.folders
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
