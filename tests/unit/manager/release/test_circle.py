"""The manager among an agent, users, stale caches and its own deaths, in any order: what must never happen does not."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.manager.worlds import Killed, World, replace

from localpv import errors
from localpv.api.kinds.localdisk import CleaningState
from localpv.config.settings import Reclaim
from localpv.manager import volumes as offers


class Circle(RuleBasedStateMachine):
    """The checks themselves are in the world: it raises Broken at the moment something wrong happens."""

    @initialize(
        reclaim=st.sampled_from([Reclaim.DELETE, Reclaim.RECYCLE]),
        holds=st.sampled_from([True, True, False]),
        by_cluster=st.booleans(),
    )
    def begin(self, reclaim: Reclaim, holds: bool, by_cluster: bool) -> None:
        self.world = World(reclaim=reclaim)
        self.world.volumes.holds, self.world.by_cluster = holds, by_cluster
        self.world.find_disk()

    # The manager.

    @rule(calls=st.none() | st.integers(0, 5), takes_effect=st.booleans(), see=st.booleans())
    def manager_works(self, calls: int | None, takes_effect: bool, see: bool) -> None:
        world = self.world
        if see:
            world.see()
        world.weather.calls_left, world.weather.takes_effect = calls, takes_effect
        try:
            with contextlib.suppress(errors.Conflict, errors.NotFound):
                world.step()
        except Killed:
            world.restart()
        world.weather.calls_left = None

    @rule()
    def manager_comes_to_rest(self) -> None:
        self.world.settle()

    # The agent.

    @rule()
    def agent_looks(self) -> None:
        self.world.look()

    @precondition(lambda self: self.world.disk.spec.clean is not None)
    @rule(state=st.sampled_from([CleaningState.RUNNING, CleaningState.FAILED, CleaningState.VERIFIED]))
    def agent_cleans(self, state: CleaningState) -> None:
        order, cleaning = self.world.disk.spec.clean, self.world.disk.status.cleaning
        assert order is not None
        done = cleaning is not None and cleaning.state == CleaningState.VERIFIED
        if not (done and cleaning is not None and cleaning.volume_uid == order.volume_uid):
            self.world.clean(state)

    @rule()
    def everybody_works_until_nothing_is_left(self) -> None:
        """Without it few walks get as far as the second tenant."""
        world = self.world
        world.fits, world.missing = True, False
        self.others_hold_volumes(False)
        for _ in range(3):
            world.settle()
            if self._phase() == "Released" and world.volume.spec.claim_ref is None:
                self.cluster_offers_a_freed_volume()
            cleaning = world.disk.status.cleaning
            if world.disk.spec.clean is None or (cleaning is not None and cleaning.state == CleaningState.VERIFIED):
                world.look()
            else:
                self.agent_cleans(CleaningState.VERIFIED)

    @precondition(lambda self: self._phase() == "Available" and self.world.volume.spec.claim_ref is None)
    @rule()
    def tenant_comes_and_goes_unseen(self) -> None:
        self.user_claims()
        if self._phase() == "Bound":
            self.world.release()

    @rule(fits=st.booleans(), missing=st.booleans())
    def disk_changes(self, fits: bool, missing: bool) -> None:
        self.world.fits, self.world.missing = fits, missing

    # Users and the cluster.

    @precondition(lambda self: self._phase() == "Available" and self.world.volume.spec.claim_ref is None)
    @rule()
    def user_claims(self) -> None:
        if not self.world.volume.metadata.deleting:
            self.world.bind()

    @precondition(lambda self: self._phase() == "Bound")
    @rule()
    def user_releases(self) -> None:
        self.world.release()

    @precondition(lambda self: self._phase() == "Released" and self.world.volume.spec.claim_ref is None)
    @rule()
    def cluster_offers_a_freed_volume(self) -> None:
        self.world.volumes.phase(self.world.volume.key, "Available")

    @precondition(lambda self: self._phase() and self._may_be_deleted())
    @rule()
    def user_deletes_the_volume(self) -> None:
        self.world.volumes.remove(self.world.volume.key)

    @precondition(lambda self: self._phase() and offers.is_held(self.world.volume))
    @rule()
    def user_deletes_the_record(self) -> None:
        # The volume is there, and keeps what the record knew.
        del self.world.records.disks[self.world.name]
        self.world.find_disk()

    @precondition(lambda self: self._phase() in ("Available", "Bound", "Released"))
    @rule(policy=st.sampled_from(["Delete", "Retain"]))
    def user_changes_the_policy(self, policy: str) -> None:
        self.world.policy(policy)

    @precondition(lambda self: self._phase() == "Released" and self.world.volume.spec.claim_ref is not None)
    @rule()
    def user_offers_the_volume_as_it_is(self) -> None:
        # Who does that says that what is on the disk is for anybody.
        world = self.world
        world.volumes.change(world.volume.key, spec=replace(world.volume.spec, claim_ref=None))
        world.dirty = ""

    @rule(held=st.booleans())
    def others_hold_volumes(self, held: bool) -> None:
        self.world.volumes.set_others(*(("others/hold",) if held else ()))

    @invariant()
    def disk_has_at_most_one_volume(self) -> None:
        if hasattr(self, "world"):
            assert len(self.world.volumes.now) <= 1

    def _phase(self) -> str:
        return self.world.volume.status.phase if self.world.volume is not None else ""

    def _may_be_deleted(self) -> bool:
        """What is not held can be used and deleted unseen between its creation and its record: that is a known limit.

        Volumes in use are held by the cluster.
        """
        volume, offered = self.world.volume, self.world.disk.spec.volume
        if volume.metadata.finalizers:
            return True
        known = offered is not None and offered.uid == volume.metadata.uid
        return self._phase() != "Bound" and (known or not self.world.dirty)


TestCircle = Circle.TestCase
TestCircle.settings = settings(max_examples=150, stateful_step_count=40)
TestCircle.pytestmark = [pytest.mark.timeout(600)]  # some seconds of processor time
