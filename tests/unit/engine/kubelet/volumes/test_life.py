"""Pods that come and go, and a process that dies, in any order: what must never happen does not."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.engine.kubelet.volumes.world import Died, Machine, a_pod, claim_volume, dying_hands

from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.volumes import NotReady

DISK, RAW, FOLDER = "disk", "raw", "dir"
STEPS = st.none() | st.integers(1, 25)


class Life(RuleBasedStateMachine):
    """A node with a disk, a raw device and a directory, each wanted by several pods at once."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="localpv-life-"))
        self.machine = Machine(self.folder / "node")
        self.machine.machine.make_folder("/mnt/disks/vol1")
        for path in ("/dev/sdb", "/dev/sdc"):
            self.machine.machine.add_disk(path)
        self.machine.lookup.offer("/dev/sdb", name=DISK)
        self.machine.lookup.offer("/dev/sdc", name=RAW, mode="Block")
        self.machine.lookup.offer("/mnt/disks/vol1", name=FOLDER)
        self.pods: dict[str, Pod] = {}
        self.ready: dict[str, set[str]] = {}
        """What each pod was given, until it begins to be torn down."""

        self.loop = asyncio.new_event_loop()

    def teardown(self) -> None:
        self.all_pods_go()
        assert self.machine.left() == []
        self.loop.close()
        shutil.rmtree(self.folder)

    def run_it(self, work: Coroutine[Any, Any, Any], steps: int | None) -> bool:
        """Whether it came to its end; a process that dies is followed by another one."""
        try:
            self.loop.run_until_complete(work)
            return True
        except Died:
            assert steps is not None
            return False
        finally:
            self.machine.restarted()

    @rule(names=st.sets(st.sampled_from([DISK, RAW, FOLDER]), min_size=1), steps=STEPS, read_only=st.booleans())
    def a_pod_comes(self, names: set[str], steps: int | None, read_only: bool) -> None:
        volumes = [claim_volume(name, name=name, read_only=read_only) for name in sorted(names)]
        pod = a_pod(*volumes, devices=[RAW] if RAW in names else [], group=7)
        self.pods[pod.metadata.uid] = pod
        self.set_up(pod, steps)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), steps=STEPS)
    def a_pod_is_set_up_again(self, data: st.DataObject, steps: int | None) -> None:
        self.set_up(self.pods[data.draw(st.sampled_from(sorted(self.pods)))], steps)

    def set_up(self, pod: Pod, steps: int | None) -> None:
        if steps is not None:
            self.machine.restarted(dying_hands(self.machine.host, steps))
        with contextlib.suppress(NotReady):
            if self.run_it(self.machine.volumes.set_up(pod), steps):
                self.ready[pod.metadata.uid] = {volume.name for volume in pod.spec.volumes}

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), steps=STEPS)
    def a_pod_goes(self, data: st.DataObject, steps: int | None) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.ready.pop(uid, None)
        if steps is not None:
            self.machine.restarted(dying_hands(self.machine.host, steps))
        if self.run_it(self.machine.volumes.tear_down(uid), steps):
            del self.pods[uid]

    @rule()
    def the_machine_starts_anew(self) -> None:
        """Mounts and holds are gone, folders and links are not."""
        self.machine.machine.mounted.clear()
        for name in list(self.machine.holding.held_now):
            self.loop.run_until_complete(self.machine.holding.release(name))
        self.ready.clear()

    @rule()
    def all_pods_go(self) -> None:
        for uid in self.loop.run_until_complete(self.machine.volumes.leftovers()):
            self.loop.run_until_complete(self.machine.volumes.tear_down(uid))
        self.pods.clear()
        self.ready.clear()

    @invariant()
    def every_pod_has_what_it_was_given(self) -> None:
        layout = self.machine.volumes.layout
        places = {mount.mount_point: mount for mount in self.machine.machine.mounted}
        for uid, names in self.ready.items():
            if RAW in names:
                assert layout.lock_name(RAW) in self.machine.holding.held_now
                assert (layout.devices(uid) / RAW).is_symlink() and (layout.global_map(RAW) / uid).is_symlink()
            for name in names - {RAW}:
                assert layout.volume(uid, "kubernetes.io/local-volume", name) in places
            if DISK in names:
                assert layout.global_mount(DISK) in places

    @invariant()
    def a_volume_is_one_thing_and_its_data_is_never_made_anew(self) -> None:
        seen: dict[str, set[tuple[object, str]]] = {}
        for mount in self.machine.machine.mounted:
            seen.setdefault(mount.mount_point.name, set()).add((mount.device, mount.root))
        assert all(len(sources) == 1 for sources in seen.values())
        # Once a pod had it, only that first file system may be on it.
        if any(DISK in names for names in self.ready.values()):
            now = self.machine.machine.disks[Path("/dev/sdb")].device.fs_uuid
            self.made = getattr(self, "made", now)
        if hasattr(self, "made"):
            assert self.machine.machine.disks[Path("/dev/sdb")].device.fs_uuid == self.made

    @invariant()
    def whatever_is_left_is_known(self) -> None:
        if self.machine.left():
            known = self.loop.run_until_complete(self.machine.volumes.leftovers())
            assert known or all("volumeDevices" in path for path in self.machine.left())


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=25)
TestLife.pytestmark = [pytest.mark.timeout(600)]  # some seconds of processor time
