"""Pools of LVM over LVM in memory: what they make and refuse, in how many calls, and agents that die before and after
every one of them. The same against real LVM is in tests/vm/test_pools.py."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from localpv import errors
from localpv.agent.pools import lvm_pool
from localpv.agent.pools.lvm_pool import LvmPool, ThinPool
from localpv.host.model import methods
from localpv.testing.fake_lvm import EXTENT, FakeLvm

OLD = "old tenant"
ZERO = methods.ZeroOut()
Pool = LvmPool | ThinPool
Act = Callable[[Pool], Coroutine[Any, Any, object]]


def thick(lvm: FakeLvm) -> LvmPool:
    return LvmPool(name="fast", group="vg1", lvm=lvm)


def thin(lvm: FakeLvm) -> ThinPool:
    return ThinPool(name="fast", group="vg1", thin_pool="thin", lvm=lvm, size_bytes=16 * EXTENT, overprovision=2.0)


@pytest.fixture
def lvm() -> FakeLvm:
    return FakeLvm()


@pytest.fixture(params=[thick, thin])
def make(request: pytest.FixtureRequest) -> Callable[[FakeLvm], Pool]:
    made: Callable[[FakeLvm], Pool] = request.param
    return made


@pytest.fixture
def pool(make: Callable[[FakeLvm], Pool], lvm: FakeLvm) -> Pool:
    return make(lvm)


async def test_a_volume_is_made_and_removed_and_nothing_is_left_in_free_space(pool: Pool, lvm: FakeLvm) -> None:
    made = await pool.create("pvc-1", 4 * EXTENT)
    assert (made.size_bytes, made.ready) == (4 * EXTENT, True)
    assert await pool.attach("pvc-1") == Path("/dev/mapper/vg1-localpv-pvc-1")
    lvm.write("localpv-pvc-1", OLD)
    await pool.remove("pvc-1", method=ZERO)
    await pool.remove("pvc-1", method=ZERO)
    assert (await pool.state()).volumes == {}
    assert {lvm.content[extent] for extent in lvm.free()} == {""}
    await pool.create("pvc-2", 4 * EXTENT)
    assert set(lvm.read("localpv-pvc-2")) == {""}


async def test_calls_of_lvm_are_few(lvm: FakeLvm) -> None:
    """A thick volume is tagged once more, when it is known that its beginning was zeroed."""
    calls: dict[str, list[str]] = {}
    for pool in (thick(lvm), thin(lvm)):
        await pool.state()
        for act, doing in (
            ("create", lambda pool=pool: pool.create(f"pvc-{pool.kind}", EXTENT)),
            ("again", lambda pool=pool: pool.create(f"pvc-{pool.kind}", EXTENT)),
            ("attach", lambda pool=pool: pool.attach(f"pvc-{pool.kind}")),
            ("expand", lambda pool=pool: pool.expand(f"pvc-{pool.kind}", 2 * EXTENT)),
            ("snapshot", lambda pool=pool: pool.snapshot(f"snapshot-{pool.kind}", f"pvc-{pool.kind}")),
            ("remove", lambda pool=pool: pool.remove(f"snapshot-{pool.kind}", method=ZERO)),
        ):
            lvm.calls.clear()
            await doing()
            calls[f"{pool.kind} {act}"] = [*lvm.calls]
    assert calls == {
        "lvm create": ["fullreport", "lvcreate", "lvchange"],
        "lvm again": ["fullreport"],
        "lvm attach": ["fullreport"],
        "lvm expand": ["fullreport", "lvextend"],
        "lvm snapshot": ["fullreport", "lvcreate", "fullreport"],
        "lvm remove": ["fullreport", "lvchange", "lvconvert", "fullreport", "lvremove"],
        "lvm-thin create": ["fullreport", "lvcreate"],
        "lvm-thin again": ["fullreport"],
        "lvm-thin attach": ["fullreport"],
        "lvm-thin expand": ["fullreport", "lvextend"],
        "lvm-thin snapshot": ["fullreport", "lvcreate", "fullreport"],
        "lvm-thin remove": ["fullreport", "lvchange", "fullreport", "lvremove"],
    }


async def test_what_is_there_is_adopted_and_another_under_its_name_refused(pool: Pool, lvm: FakeLvm) -> None:
    await pool.create("pvc-1", 2 * EXTENT)
    assert (await pool.create("pvc-1", 2 * EXTENT)).ready
    for size, source in ((3 * EXTENT, ""), (2 * EXTENT, "pvc-1")):
        with pytest.raises((errors.AlreadyThere, errors.HostError)):
            await pool.create("pvc-1", size, source=source)
    lvm.volumes["localpv-pvc-1"].active = False
    await pool.attach("pvc-1")
    assert lvm.volumes["localpv-pvc-1"].active


async def test_what_others_made_is_counted_and_never_touched(pool: Pool, lvm: FakeLvm) -> None:
    await pool.state()
    lvm.foreign("data", 2)
    lvm.foreign("localpv-pvc-1", 1)
    lvm.write("data", "theirs")
    if pool.kind == "lvm":
        assert (await pool.state()).foreign_bytes == 3 * EXTENT
    assert (await pool.state()).volumes == {}
    with pytest.raises(errors.AlreadyThere, match="does not carry our tag"):
        await pool.create("pvc-1", EXTENT)
    await pool.remove("pvc-1", method=ZERO)
    await pool.remove("data", method=ZERO)
    with pytest.raises(errors.NotThere):
        await pool.attach("pvc-1")
    assert {"data", "localpv-pvc-1"} <= lvm.volumes.keys()
    assert lvm.read("data") == ["theirs"] * 2


async def test_a_pool_is_never_over_its_size(pool: Pool) -> None:
    capacity = (await pool.state()).capacity_bytes
    assert capacity == 32 * EXTENT
    await pool.create("pvc-1", capacity - 2 * EXTENT)
    with pytest.raises(errors.NoRoom):
        await pool.create("pvc-2", 3 * EXTENT)
    with pytest.raises(errors.NoRoom):
        await pool.expand("pvc-1", capacity + EXTENT)
    await pool.create("pvc-2", 2 * EXTENT)
    assert (await pool.state()).unpromised_bytes == 0


async def test_snapshots_clones_and_what_is_restored_have_the_bytes_of_the_moment(pool: Pool, lvm: FakeLvm) -> None:
    await pool.create("pvc-1", 2 * EXTENT)
    lvm.write("localpv-pvc-1", "then")
    taken = await pool.snapshot("snapshot-1", "pvc-1")
    assert (taken.is_snapshot, taken.size_bytes, taken.source) == (True, 2 * EXTENT, "pvc-1")
    assert taken == await pool.snapshot("snapshot-1", "pvc-1")
    lvm.volumes["localpv-pvc-1"].open = True
    lvm.write("localpv-pvc-1", "now")
    await pool.create("pvc-2", 3 * EXTENT, source="snapshot-1")
    assert lvm.read("localpv-pvc-2") == ["then", "then", ""]
    await pool.create("pvc-3", 2 * EXTENT, source="pvc-1")
    assert lvm.read("localpv-pvc-3") == ["now", "now"]
    assert {*(await pool.state()).volumes} == {"pvc-1", "pvc-2", "pvc-3", "snapshot-1"}
    with pytest.raises(errors.HostError, match="as large"):
        await pool.create("pvc-4", EXTENT, source="pvc-1")
    with pytest.raises(errors.NotThere):
        await pool.create("pvc-4", EXTENT, source="pvc-0")
    with pytest.raises(errors.DeviceBusy):
        await pool.remove("pvc-1", method=ZERO)
    lvm.volumes["localpv-pvc-1"].open = False
    if pool.kind == "lvm":
        for act in (pool.remove("pvc-1", method=ZERO), pool.expand("pvc-1", 4 * EXTENT)):
            with pytest.raises(errors.StillNeeded, match="snapshot-1"):
                await act
    for name in ("snapshot-1", "pvc-1", "pvc-2", "pvc-3"):
        await pool.remove(name, method=ZERO)
    assert {lvm.content[extent] for extent in lvm.free()} == {""}
    assert {*lvm.volumes} <= {"thin"}


async def test_a_snapshot_by_hand_keeps_its_origin(lvm: FakeLvm) -> None:
    pool = thick(lvm)
    await pool.create("pvc-1", EXTENT)
    await lvm.snapshot("vg1", "backup", origin="localpv-pvc-1", tags=(), thin=False, read_only=False)
    with pytest.raises(errors.StillNeeded, match="backup"):
        await pool.remove("pvc-1", method=ZERO)
    assert {"backup", "localpv-pvc-1"} <= lvm.volumes.keys()


async def test_a_group_without_one_of_its_disks_says_so_and_makes_nothing(lvm: FakeLvm) -> None:
    pool = thick(lvm)
    await pool.create("pvc-1", EXTENT)
    lvm.missing = 1
    state = await pool.state()
    assert "misses 1" in state.error
    assert state.volumes["pvc-1"].ready
    with pytest.raises(errors.HostError, match="misses 1"):
        await pool.create("pvc-2", EXTENT)
    assert await pool.attach("pvc-1")


async def test_a_group_is_made_of_devices_that_are_listed_and_of_no_others(tmp_path: Path) -> None:
    lvm = FakeLvm(exists=False)
    with pytest.raises(errors.HostError, match="no volume group vg1"):
        await thick(lvm).state()
    (tmp_path / "sdb").touch()
    pool = LvmPool(name="fast", group="vg1", lvm=lvm, devices=[tmp_path / "sdb", tmp_path / "gone"])
    state = await pool.state()
    assert (state.capacity_bytes, state.error) == (32 * EXTENT, "")
    assert state.warning == f"listed for the pool, but not there: {tmp_path / 'gone'}"
    assert lvm.calls.count("vgcreate") == 1


async def test_a_thin_pool_that_does_not_zero_is_none_for_us(lvm: FakeLvm) -> None:
    pool = thin(lvm)
    await pool.state()
    lvm.volumes["thin"].zeroes = False
    with pytest.raises(errors.HostError, match="does not zero"):
        await pool.create("pvc-1", EXTENT)


async def test_a_thin_pool_that_is_nearly_full_makes_no_more(lvm: FakeLvm) -> None:
    pool = thin(lvm)
    await pool.create("pvc-1", 16 * EXTENT)
    lvm.write("localpv-pvc-1", OLD)
    state = await pool.state()
    assert (state.data_percent, state.error) == (100.0, "the thin pool is 100 % full")
    with pytest.raises(errors.NoRoom, match="full"):
        await pool.create("pvc-2", EXTENT)


async def test_stripes_are_counted(lvm: FakeLvm) -> None:
    pool = LvmPool(name="fast", group="vg1", lvm=lvm, stripes=2)
    assert (await pool.state()).extent_bytes == 2 * EXTENT
    assert (await pool.create("pvc-1", EXTENT)).size_bytes == 2 * EXTENT


class Died(BaseException):
    """The process is no more."""


class Death:
    """Comes before or after the given act of LVM."""

    def __init__(self, lvm: FakeLvm, act: int, *, before: bool) -> None:
        self._left = act
        lvm.before, lvm.after = (self.hear, lambda call: None) if before else (lambda call: None, self.hear)

    def hear(self, call: str) -> None:
        if self._left == 0:
            self._left = -1
            raise Died
        self._left -= 1


async def prepared(make: Callable[[FakeLvm], Pool], *, snapshot: bool = False) -> FakeLvm:
    lvm = FakeLvm()
    pool = make(lvm)
    await pool.create("pvc-1", 2 * EXTENT)
    lvm.write("localpv-pvc-1", OLD)
    if snapshot:
        await pool.snapshot("snapshot-1", "pvc-1")
        lvm.write("localpv-pvc-1", "newer")
    return lvm


def no_old_bytes_are_free(lvm: FakeLvm) -> None:
    assert {lvm.content[extent] for extent in lvm.free()} <= {""}


CREATE: Act = lambda pool: pool.create("pvc-2", 2 * EXTENT)  # noqa: E731
CLONE: Act = lambda pool: pool.create("pvc-2", 3 * EXTENT, source="pvc-1")  # noqa: E731
RESTORE: Act = lambda pool: pool.create("pvc-2", 3 * EXTENT, source="snapshot-1")  # noqa: E731
EXPAND: Act = lambda pool: pool.expand("pvc-1", 4 * EXTENT)  # noqa: E731
SNAP: Act = lambda pool: pool.snapshot("snapshot-1", "pvc-1")  # noqa: E731
REMOVE: Act = lambda pool: pool.remove("pvc-1", method=ZERO)  # noqa: E731
UNSNAP: Act = lambda pool: pool.remove("snapshot-1", method=ZERO)  # noqa: E731


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("act", "snapshot", "left"),
    [
        (CREATE, False, {"pvc-1": [OLD] * 2, "pvc-2": [""] * 2}),
        (CLONE, False, {"pvc-1": [OLD] * 2, "pvc-2": [OLD, OLD, ""]}),
        (RESTORE, True, {"pvc-1": ["newer"] * 2, "snapshot-1": [OLD] * 2, "pvc-2": [OLD, OLD, ""]}),
        (EXPAND, False, {"pvc-1": [OLD, OLD, "", ""]}),
        (SNAP, False, {"pvc-1": [OLD] * 2, "snapshot-1": [OLD] * 2}),
        (REMOVE, False, {}),
        (UNSNAP, True, {"pvc-1": ["newer"] * 2}),
    ],
)
async def test_whoever_dies_at_any_call_is_followed_by_one_who_goes_on(
    make: Callable[[FakeLvm], Pool], act: Act, snapshot: bool, left: dict[str, list[str]], before: bool
) -> None:
    for number in range(60):
        lvm = await prepared(make, snapshot=snapshot)
        death = Death(lvm, number, before=before)
        try:
            await act(make(lvm))
            died = False
        except Died:
            died = True
        no_old_bytes_are_free(lvm)
        lvm.before = lvm.after = lambda call: None
        await act(make(lvm))
        state = await make(lvm).state()
        assert {name: lvm.read(lvm_pool.PREFIX + name) for name in state.volumes} == left
        assert all(volume.ready for volume in state.volumes.values())
        assert state.foreign_bytes == 0 or make is thin
        assert {*lvm.volumes} == {lvm_pool.PREFIX + name for name in left} | ({"thin"} if make is thin else set())
        no_old_bytes_are_free(lvm)
        if not died:
            assert number > 0
            return
        del death
    raise AssertionError("it never ends")


@pytest.mark.parametrize("before", [True, False])
async def test_a_clone_that_nobody_wants_any_more_leaves_nothing(make: Callable[[FakeLvm], Pool], before: bool) -> None:
    """It is given up after a death at any call: what was taken for it goes with it."""
    for number in range(60):
        lvm = await prepared(make)
        Death(lvm, number, before=before)
        try:
            await CLONE(make(lvm))
            return
        except Died:
            pass
        lvm.before = lvm.after = lambda call: None
        await make(lvm).remove("pvc-2", method=ZERO)
        assert {*(await make(lvm).state()).volumes} == {"pvc-1"}
        no_old_bytes_are_free(lvm)
        await make(lvm).remove("pvc-1", method=ZERO)
    raise AssertionError("it never ends")
