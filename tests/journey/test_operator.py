"""The operator at a server: what becomes of a LocalStorage when it is written, changed and deleted.

Nodes, discoverers, agents and the manager are played by the tests; on Kubernetes no controller may run beside them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest
from tests.journey.conftest import DEFINITIONS
from tests.journey.local_storages import Storages, define
from tests.mortal import Mortal

from localpv.api.kinds.localstorage import LocalStorage
from localpv.api.kinds.meta import resource_of
from localpv.api.kinds.volumes import StorageClass
from localpv.client.client import Client
from localpv.disk import labels
from localpv.manager.operator import classes as storage_classes
from localpv.manager.operator import operator


@pytest.fixture
async def storages(client: Client) -> AsyncIterator[Storages]:
    await define(client, client.untyped(DEFINITIONS))
    made = Storages(client)
    await made.set_up()
    yield made
    await made.clear()


def condition(storage: LocalStorage, kind: str) -> Any:
    return next((each for each in storage.status.conditions if each.type == kind), None)


def accepted(storage: LocalStorage) -> bool:
    found = condition(storage, "Accepted")
    return found is not None and found.observed_generation == storage.metadata.generation


# -- what is made ------------------------------------------------------------------------------------------------------


@pytest.mark.seed("OPR-1", "OPR-4", "OPR-14")
async def test_a_localstorage_becomes_classes_and_pods_for_each_group(storages: Storages) -> None:
    other = storages.storage_class("other")
    async with storages.operated():
        two = storages.group(storages.devices("slow"), zone="b")
        await storages.apply(storages.group(), two, storageClasses=[other])

        async def is_made() -> bool:
            return len(await storages.daemon_sets()) == 2

        await storages.until(is_made)
        storage = await storages.until_storage(accepted)
    assert condition(storage, "Accepted").status == "True"
    assert labels.LOCAL_STORAGE in storage.metadata.finalizers
    sets, maps = await storages.daemon_sets(), await storages.config_maps()
    assert set(sets) == set(maps)
    for each in (*sets.values(), *maps.values()):
        (owner,) = each.metadata.owner_references
        assert (owner.uid, owner.controller) == (storage.metadata.uid, True)
    for name in (storages.storage_class(), storages.storage_class("slow"), other):
        made = await storages.client.objects(StorageClass).get(name)
        assert made.provisioner == "kubernetes.io/no-provisioner"
        assert made.volume_binding_mode == "WaitForFirstConsumer"


@pytest.mark.seed("OPR-4")
async def test_reordered_groups_keep_their_pods_and_a_removed_group_goes(storages: Storages) -> None:
    one, two = storages.group(zone="a"), storages.group(storages.devices("slow"), zone="b")
    async with storages.operated():
        await storages.apply(one, two)

        async def generations() -> set[int]:
            return {each.generation for each in await storages.told()}

        async def both() -> bool:
            return len(await storages.daemon_sets()) == 2 and await generations() == {1}

        await storages.until(both)
        before = {name: each.metadata.uid for name, each in (await storages.daemon_sets()).items()}
        reordered = await storages.apply(two, one)

        async def spread() -> bool:
            return await generations() == {reordered.metadata.generation}

        await storages.until(spread)
        assert {name: each.metadata.uid for name, each in (await storages.daemon_sets()).items()} == before
        assert {each.metadata.generation for each in (await storages.daemon_sets()).values()} == {1}
        await storages.apply(two)

        async def one_left() -> bool:
            return len(await storages.daemon_sets()) == len(await storages.config_maps()) == 1

        await storages.until(one_left)
    assert set(await storages.daemon_sets()) < set(before)


@pytest.mark.seed("OPR-17")
async def test_a_removed_group_stays_while_a_volume_needs_it_and_links_no_more(storages: Storages) -> None:
    await storages.add_node(3, zone="a")
    one, two = storages.group(zone="a"), storages.group(storages.devices("slow"), zone="b")
    async with storages.operated():
        await storages.apply(one, two)
        await storages.until_made()
        disk = await storages.finds("sdb", 3)
        await storages.publishes(disk, claimed=True)
        await storages.apply(two)

        async def is_retired() -> bool:
            return sorted(each.retired for each in await storages.told()) == [False, True]

        await storages.until(is_retired)
        assert len(await storages.daemon_sets()) == 2
        await storages.withdraws(disk)

        async def one_left() -> bool:
            return len(await storages.daemon_sets()) == len(await storages.config_maps()) == 1

        await storages.until(one_left)


@pytest.mark.seed("OPR-11", "OPR-17")
async def test_another_image_rolls_out_and_keeps_what_others_wrote(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
    ((name, before),) = (await storages.daemon_sets()).items()
    sets = storages.client.untyped(type(before).resource)
    await sets.patch(name, {"metadata": {"annotations": {"team": "storage"}}}, storages.namespace)
    await sets.patch(
        name,
        {"spec": {"template": {"metadata": {"annotations": {"theirs": "stays"}}}}},
        storages.namespace,
    )
    storages.image = "localpv:2"
    async with storages.operated():

        async def is_new() -> bool:
            template = (await storages.daemon_sets())[name].spec.template
            return {each["image"] for each in template["spec"]["containers"]} == {"localpv:2"}

        await storages.until(is_new)
        found = (await storages.daemon_sets())[name]
        assert found.metadata.uid == before.metadata.uid
        assert found.metadata.annotations["team"] == "storage"
        assert found.spec.template["metadata"]["annotations"]["theirs"] == "stays"
        assert found.spec.update_strategy.rolling_update is not None
        assert found.spec.update_strategy.rolling_update.max_unavailable == "10%"
        (told,) = await storages.told()
        assert not told.retired
        rolling = {"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0}
        ready = {"numberReady": 2, "updatedNumberScheduled": 1, "observedGeneration": found.metadata.generation}
        await sets.patch(name, {"status": {**rolling, **ready}}, storages.namespace, subresource="status")
        storage = await storages.until_storage(lambda each: condition(each, "Progressing").reason == "RollingOut")
        assert condition(storage, "Progressing").message == "1 of 2 pods are up to date."
        await sets.patch(
            name, {"status": {**ready, "updatedNumberScheduled": 2}}, storages.namespace, subresource="status"
        )
        await storages.until_storage(lambda each: condition(each, "Progressing").reason != "RollingOut")


@pytest.mark.seed("OPR-14")
async def test_a_class_of_somebody_else_is_used_and_left_as_it_is(storages: Storages) -> None:
    name = storages.storage_class()
    classes = storages.client.untyped(StorageClass.resource)
    made = await classes.create({"metadata": {"name": name}, "provisioner": "example.com/other"})
    async with storages.operated():
        await storages.apply()
        event = await storages.until_told("UnsuitableClass")
        assert name in event.message
        await storages.delete()
        await storages.until_gone()
    found = await classes.get(name)
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.seed("OPR-14")
async def test_our_classes_go_when_no_localstorage_and_no_volume_has_them(storages: Storages) -> None:
    classes = storages.client.objects(StorageClass)
    slow = storages.storage_class("slow")
    async with storages.operated():
        await storages.apply(storages.group(storages.devices(), storages.devices("slow")))
        await storages.apply(storages.group(storages.devices("slow")), name="second")
        await storages.until_made()
        await storages.until_made("second")
        await storages.delete()
        await storages.until_gone()

        async def is_gone() -> bool:
            return await classes.find(storages.storage_class()) is None

        await storages.until(is_gone)
        assert await classes.find(slow) is not None


@pytest.mark.seed("OPR-14")
async def test_a_class_that_nobody_names_stays_for_its_volumes_and_goes_with_the_last_one(
    storages: Storages, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Told by its disks and not found by looking again and again; and at once, so that the fence comes after it.
    monkeypatch.setattr(storage_classes, "LOOK_AGAIN_SECONDS", 3600.0)
    monkeypatch.setattr(operator, "STATUS_SECONDS", 0.0)
    fast, slow = storages.storage_class(), storages.storage_class("slow")
    async with storages.operated():
        # Rounds of removing and adding: whatever comes first, the class is there while somebody needs it.
        for number in range(3):
            await storages.apply()
            await storages.until_made()
            disks = [await storages.finds(f"sd{letter}") for letter in "bc"]
            for disk in disks:
                await storages.publishes(disk, claimed=True)
            made = await storages.found_class(fast)

            await storages.apply(storages.group(storages.devices("slow")))
            await storages.until_looked_at_classes()
            assert await storages.found_class(fast) == made
            await storages.withdraws(disks[0])
            await storages.until_looked_at_classes()
            assert await storages.found_class(fast) == made

            if number == 1:
                # Named again just now, it is not taken away though no volume has it.
                await storages.apply(storages.group(storages.devices(), storages.devices("slow")))
                await storages.withdraws(disks[1])
                await storages.until_looked_at_classes()
                assert await storages.found_class(fast) == made
                await storages.apply(storages.group(storages.devices("slow")))
            else:
                await storages.withdraws(disks[1])
            await storages.until_no_class(fast)
            assert await storages.found_class(slow)
        await storages.delete()
        await storages.until_no_class(slow)


@pytest.mark.seed("OPR-14")
async def test_a_localstorage_that_comes_while_its_class_goes_has_a_class(storages: Storages) -> None:
    fast = storages.storage_class()
    async with storages.operated():
        for _ in range(10):
            await storages.apply()
            await storages.until_made()
            await storages.delete()
            await storages.until_gone()
            # Its class goes about now.
        await storages.apply()
        await storages.until_made()
        await storages.until_looked_at_classes()
        await storages.until(lambda: storages.found_class(fast))
        await storages.until_looked_at_classes()
        assert await storages.found_class(fast)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("OPR-12", "OPR-15")
async def test_a_wrong_rule_reaches_no_node_and_the_last_good_one_stays(storages: Storages) -> None:
    hostile = storages.devices() | {"udevRules": ['KERNEL=="sdb", RUN+="/bin/sh"', 'KERNEL=="sdc", GOTO="x"']}
    async with storages.operated():
        await storages.apply(storages.group(hostile), name="hostile")
        refused = await storages.until_storage(accepted, "hostile")
        assert await storages.config_maps() == await storages.daemon_sets() == {}
        found = condition(refused, "Accepted")
        assert (found.status, found.reason) == ("False", "Invalid")
        for place in ("udevRules[0]", "udevRules[1]", "Nothing of it has reached a node."):
            assert place in found.message
        event = await storages.until_told("Invalid", "hostile")
        assert "udevRules[0]" in event.message
        good = await storages.apply()
        await storages.until_made()
        before = {name: each.data for name, each in (await storages.config_maps()).items()}
        await storages.apply(storages.group(hostile))
        wrong = await storages.until_storage(lambda each: accepted(each) and each.metadata.generation > 1)
        stays = f"The rules of generation {good.metadata.generation} stay in force."
        assert stays in condition(wrong, "Accepted").message
        assert wrong.status.node_count == 2
    assert {name: each.data for name, each in (await storages.config_maps()).items()} == before


@pytest.mark.seed("OPR-12")
async def test_one_in_another_namespace_is_told_where_to_go(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply(name=f"away-{storages.suffix}", namespace="default")

        async def is_told() -> bool:
            found = await storages.storages.get(f"away-{storages.suffix}", "default")
            return accepted(found) and condition(found, "Accepted").reason == "WrongNamespace"

        try:
            await storages.until(is_told)
            found = await storages.storages.get(f"away-{storages.suffix}", "default")
            assert storages.namespace in condition(found, "Accepted").message
            assert not found.metadata.finalizers
        finally:
            await storages.storages.delete(f"away-{storages.suffix}", "default")


async def test_somebody_elses_daemonset_of_the_name_is_not_taken_over(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
        (name,) = await storages.daemon_sets()
        await storages.delete()
        await storages.until_gone()
        theirs = {"metadata": {"name": name, "namespace": storages.namespace}, "data": {"a": "b"}}
        maps = storages.client.untyped(resource_of("ConfigMap"))

        async def no_map() -> bool:
            return not await storages.config_maps()

        await storages.until(no_map)
        await maps.create(theirs)
        await storages.apply()
        found = await storages.until_storage(lambda each: condition(each, "Available") is not None)
        assert name in condition(found, "Available").message
        assert (await maps.get(name, storages.namespace))["data"] == {"a": "b"}


# -- what came of it ---------------------------------------------------------------------------------------------------


@pytest.mark.seed("OPR-12")
async def test_the_status_says_what_each_node_matched_and_why_not(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        waiting = await storages.until_storage(lambda each: each.status.node_count == 2)
        assert "No discoverer has reported" in waiting.status.nodes[0].message
        await storages.reports(1, matched=2)
        disk = await storages.finds("sdb")
        await storages.publishes(disk)
        await storages.finds("sdc", eligible=False, reason="HasPartitions", phase="Unavailable")
        await storages.reports(2, error="udev did not answer")
        found = await storages.until_storage(
            lambda each: (
                (each.status.published_devices, each.status.matched_devices) == (1, 2)
                and each.status.nodes[0].message == "udev did not answer"
                and each.status.current_nodes == 1
            )
        )
        one = found.status.nodes[1]
        assert (one.name, one.matched, one.published) == (storages.node(1), 2, 1)
        assert "1 HasPartitions" in one.message
        assert condition(found, "Available").reason == "NodesNotReady"
        await storages.reports(2, error=None)
        done = await storages.until_storage(lambda each: condition(each, "Available").status == "True")
        assert done.status.current_nodes == done.status.node_count == 2


# -- deletion ----------------------------------------------------------------------------------------------------------


@pytest.mark.seed("OPR-18")
async def test_deletion_waits_for_a_bound_volume_names_it_and_goes_on_by_itself(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
        disk = await storages.finds("sdb")
        volume = await storages.publishes(disk, claimed=True)
        await storages.delete()
        event = await storages.until_told("WaitingForVolumes")
        assert volume in event.message
        waiting = await storages.until_storage(lambda each: condition(each, "Deleting") is not None)
        assert labels.LOCAL_STORAGE in waiting.metadata.finalizers
        (told,) = await storages.told()
        assert told.retired
        assert len(await storages.daemon_sets()) == 1
        await storages.withdraws(disk)
        await storages.until_gone()
        assert await storages.daemon_sets() == await storages.config_maps() == {}


@pytest.mark.seed("OPR-18")
async def test_deletion_leaves_agents_at_work_until_they_have_taken_their_records_away(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
        cleaned = await storages.finds("sdb", eligible=False, phase="Unavailable", reason="BeingCleaned")
        await storages.delete()
        # Neither offered nor anybody's for a moment, as one is whose volume was deleted after its cleaning just now.
        await storages.until_storage(
            lambda each: getattr(condition(each, "Deleting"), "reason", "") == "WithdrawingDevices"
        )
        assert len(await storages.daemon_sets()) == 1
        await storages.finds("sdc", eligible=False, phase="Unavailable", reason="Gone")
        await storages.withdraws(cleaned)
        await storages.until_gone()  # though something is remembered of the other one


@pytest.mark.seed("OPR-18")
async def test_deletion_waits_for_pods_that_take_their_rules_away(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
        (name,) = await storages.daemon_sets()
        pod = await storages.runs(name)
        await storages.reports(1)
        await storages.delete()
        await storages.until_storage(lambda each: getattr(condition(each, "Deleting"), "reason", "") == "StoppingPods")
        await storages.leaves(1)
        await storages.ends(pod)
        await storages.until_gone()


@pytest.mark.seed("OPR-18")
async def test_deletion_does_not_wait_for_a_node_that_is_gone_or_silent(storages: Storages) -> None:
    async with storages.operated():
        await storages.apply()
        await storages.until_made()
        (name,) = await storages.daemon_sets()
        for number in (1, 2):
            await storages.runs(name, number)
            await storages.reports(number)
            await storages.publishes(await storages.finds("sdb", number), claimed=True)
        nodes: Any = storages.client.untyped(resource_of("Node"))
        silent = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        await nodes.patch(storages.node(2), {"status": {"conditions": [silent]}}, subresource="status")
        await nodes.delete(storages.node(1))
        await storages.delete()
        event = await storages.until_told("RulesMayBeLeft")
        assert storages.node(1) in event.message
        await storages.until_gone()


# -- killed ------------------------------------------------------------------------------------------------------------


@pytest.mark.seed("OPR-17", "OPR-18")
@pytest.mark.parametrize("first", [0, 1, 2])
async def test_killed_between_each_two_writes_it_leaves_nothing_behind(
    storages: Storages, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made, changed, deleted with a bound volume, each time killed some writes later, until no write is left.

    Nobody else acts meanwhile, so it is all the same whether it dies right after a write or right before the next one.
    """
    monkeypatch.setattr(operator, "STATUS_SECONDS", 0.05)
    one, two = storages.group(zone="a"), storages.group(storages.devices("slow"))
    deaths = 0
    for dies_at in range(first, 64, 3):
        mortal = Mortal(storages.client._transport, dies_at, takes_effect=False)
        client = Client(mortal, field_manager="localpv-operator")
        name = f"s{dies_at}"
        act = Act(storages, name)

        # Who is dead does nothing, so it need not be there; who lives needs nobody else.
        async with act.operated(mortal, client):
            await storages.apply(one, two, name=name)
            await act.until(mortal, act.is_made)
        async with act.operated_after(mortal):
            await act.until(None, act.is_made)
            disk = await storages.finds("sdb", storage=name)
            await storages.publishes(disk, claimed=True)
        async with act.operated(mortal, client):
            await storages.apply(one, name=name)
            await act.until(mortal, act.is_changed)
        async with act.operated_after(mortal):
            await act.until(None, act.is_changed)
        async with act.operated(mortal, client):
            await storages.delete(name)
            await act.until(mortal, act.is_waiting)
        assert len(await act.own_sets()) >= 1, "pods were stopped under a bound volume"
        async with act.operated(mortal, client):
            await storages.withdraws(disk)
            await act.until(mortal, act.is_gone)
        async with storages.operated():
            await act.until(None, act.is_gone)
            await act.until(None, act.is_clean)
        if not mortal.dead.is_set():
            break
        deaths += 1
    else:
        pytest.fail("there was no end of writes")
    assert deaths > 3


class Act:
    """One LocalStorage through its life."""

    def __init__(self, storages: Storages, name: str) -> None:
        self._storages, self._name = storages, name

    def operated(self, mortal: Mortal, client: Client) -> AbstractAsyncContextManager[object]:
        """The one that is to die, for as long as it lives."""
        return nullcontext() if mortal.dead.is_set() else self._storages.operated(client)

    def operated_after(self, mortal: Mortal) -> AbstractAsyncContextManager[object]:
        """The one that comes after it."""
        return self._storages.operated() if mortal.dead.is_set() else nullcontext()

    async def until(self, mortal: Mortal | None, is_so: Any) -> None:
        """Wait until something is so, or the operator has died."""

        async def is_over() -> bool:
            return (mortal is not None and mortal.dead.is_set()) or bool(await is_so())

        await self._storages.until(is_over)

    async def own_sets(self) -> list[str]:
        return [each for each in await self._storages.daemon_sets() if each.startswith(f"{self._name}-")]

    async def _own_maps(self) -> list[str]:
        return [each for each in await self._storages.config_maps() if each.startswith(f"{self._name}-")]

    async def is_made(self) -> bool:
        found = await self._storages.storages.get(self._name, self._storages.namespace)
        return accepted(found) and found.status.node_count > 0 and len(await self.own_sets()) == 2

    async def is_changed(self) -> bool:
        found = await self._storages.storages.get(self._name, self._storages.namespace)
        return accepted(found) and len(await self.own_sets()) in (1, 2)

    async def is_waiting(self) -> bool:
        found = await self._storages.storages.get(self._name, self._storages.namespace)
        waiting = condition(found, "Deleting")
        return waiting is not None and waiting.reason == "WaitingForVolumes"

    async def is_gone(self) -> bool:
        return await self._storages.storages.find(self._name, self._storages.namespace) is None

    async def is_clean(self) -> bool:
        classes = await self._storages.client.objects(StorageClass).list()
        left = [each for each in classes.items if each.metadata.name.endswith(self._storages.suffix)]
        return not (left or await self.own_sets() or await self._own_maps())
