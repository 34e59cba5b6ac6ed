"""The driver dies before and after every act on the machine: the next one goes on, and nothing is lost or left over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.csi.driver import Driver
from tests.csi.test_node import ONCE, Kubelet, block, mount

from localpv.agent.csi.publications import Publications
from localpv.agent.pools.file_pool import FilePool
from localpv.csi.status import RpcError
from localpv.host import mounts
from localpv.host.filesystems import KernelFileSystems
from localpv.host.mounter import KernelMounter
from localpv.host.own_folders import DiskFolders

ACTS = (
    (FilePool, ("attach", "detach")),
    (KernelFileSystems, ("make", "grow")),
    (KernelMounter, ("mount", "bind", "unmount")),
    (DiskFolders, ("make", "remove_place", "write", "unlink")),
    (Publications, ("forget_making",)),
)


class Died(Exception):
    """Nothing handles it: what was being done ends here."""


class Deaths:
    """Lets one act be the last: before it is done, or just after."""

    def __init__(self) -> None:
        self.acts = 0
        self.last = 0
        self.names: list[str] = []

    def before(self, name: str) -> None:
        self.acts += 1
        self.names.append(name)
        if self.acts == self.last:
            raise Died(name)

    @contextmanager
    def ruling(self, monkeypatch: pytest.MonkeyPatch, last: int) -> Iterator[None]:
        self.acts, self.last, self.names = 0, last, []
        with monkeypatch.context() as patched:
            for owner, methods in ACTS:
                for method in methods:
                    patched.setattr(owner, method, self._mortal(owner, method))
            yield

    def _mortal(self, owner: type, method: str) -> Callable[..., Any]:
        act, name = getattr(owner, method), f"{owner.__name__}.{method}"
        if act.__code__.co_flags & 0x80:  # a coroutine

            @functools.wraps(act)
            async def later(*arguments: Any, **options: Any) -> Any:
                self.before(f"before {name}")
                done = await act(*arguments, **options)
                self.before(f"after {name}")
                return done

            return later

        @functools.wraps(act)
        def now(*arguments: Any, **options: Any) -> Any:
            self.before(f"before {name}")
            done = act(*arguments, **options)
            self.before(f"after {name}")
            return done

        return now


async def a_life(volume: Kubelet, steps: list[str]) -> None:
    """All that a kubelet asks for one pod, from where it was."""
    while steps:
        match steps[0]:
            case "stage":
                await volume.stage()
            case "publish":
                await volume.publish("a")
            case "use":
                _use(volume)
            case "unpublish":
                await volume.unpublish("a")
            case "unstage":
                await volume.unstage()
        steps.pop(0)


def _use(volume: Kubelet) -> None:
    target = volume.target("a")
    if "block" in volume.capability:
        assert target.is_block_device()
        return
    kept = target / "file"
    if not kept.exists():
        kept.write_text("kept")


STEPS = ["stage", "publish", "use", "unpublish", "unstage"]


@pytest.mark.parametrize(
    "capability",
    [
        pytest.param(mount("ext4", mode=ONCE), id="ext4"),
        pytest.param(block(ONCE), id="block"),
    ],
)
async def test_a_driver_may_die_at_every_act(
    driver: Driver, capability: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths = Deaths()
    volume = await Kubelet.volume(driver, capability)
    last, died = 0, []
    while True:
        last += 1
        steps = list(STEPS)
        with deaths.ruling(monkeypatch, last):
            try:
                await a_life(volume, steps)
            except RpcError:
                died.append(deaths.names[-1])
            else:
                break
            finally:
                await driver.stop()
        await driver.start()
        await a_life(volume, steps)
        assert volume.device() is None
        assert _mounted_below(driver.kubelet) == []
        assert not volume.target("a").exists()
        assert list((driver.folder / "state" / "csi").glob("*/*")) == []
        await volume.gone()
        volume = await Kubelet.volume(driver, capability)  # so that its file system is made at each round
    await driver.start()
    assert len(died) > 15
    assert {"before KernelMounter.bind", "after KernelMounter.bind", "before FilePool.detach"} <= set(died)
    if "mount" in capability:
        assert {"before KernelFileSystems.make", "after KernelFileSystems.make", "after KernelMounter.mount"} <= set(
            died
        )


async def test_data_outlives_every_death(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = Deaths()
    volume = await Kubelet.volume(driver, mount("ext4"))
    await a_life(volume, list(STEPS))
    last = 0
    while True:
        last += 1
        steps = list(STEPS)
        with deaths.ruling(monkeypatch, last):
            try:
                await a_life(volume, steps)
            except RpcError:
                pass
            else:
                break
            finally:
                await driver.stop()
        await driver.start()
        await a_life(volume, steps)
        await volume.stage()
        assert (volume.staging / "file").read_text() == "kept"
        await volume.unstage()
    await driver.start()
    assert last > 15


def _mounted_below(folder: Path) -> list[Path]:
    table = mounts.parse(Path("/proc/self/mountinfo").read_bytes())
    return [one.mount_point for one in table.below(folder)]
