"""The order of steps in the life of a pod, with a runtime in memory and our own API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.engine.kubelet import town as towns
from tests.unit.engine.kubelet.town import Town

MOUNTING = {"name": "main", "image": "busybox", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    async with towns.town(tmp_path) as made:
        yield made


def status(pod: dict[str, Any], name: str = "main") -> dict[str, Any]:
    every = (*pod["status"].get("containerStatuses", ()), *pod["status"].get("initContainerStatuses", ()))
    return next((one for one in every if one["name"] == name), {})


async def test_start_and_end_go_in_order(town: Town) -> None:
    inits = [{"name": "init", "image": "busybox"}]
    async with town.running():
        uid = await town.create(containers=[MOUNTING], initContainers=inits, volumes=[{"name": "data", "emptyDir": {}}])
        await town.until(lambda pod: "running" in status(pod, "init").get("state", {}))
        town.containers.end(f"{uid}.init.0", 0)
        await town.until_phase("Running")
        await town.pods.delete("pod", "default")
        await town.until_gone()
    assert town.journal == [
        *("volumes", "sandbox"),
        *("create init.0", "start init.0", "delete init.0"),
        *("create main.0", "start main.0"),
        *("SIGTERM main.0", "delete main.0"),
        *("no volumes", "no sandbox"),
    ]


async def test_pod_object_goes_last(town: Town) -> None:
    """With the object goes the protection of its claims, and with that perhaps the data."""
    async with town.running():
        await town.create()
        await town.until_phase("Running")
        await town.pods.patch("pod", {"metadata": {"finalizers": ["a.b/c"]}}, "default")
        await town.pods.delete("pod", "default")
        await town.until_done("no volumes")
        pod = await town.until_phase("Failed")
        assert status(pod)["state"]["terminated"]["exitCode"] == 143
        await town.pods.patch("pod", {"metadata": {"finalizers": None}}, "default")
        await town.until_gone()


async def test_volume_that_is_not_ready_keeps_containers_from_starting(town: Town) -> None:
    town.machine.lookup.offer("/mnt/disk")
    async with town.running():
        claim = {"name": "data", "persistentVolumeClaim": {"claimName": "pv"}}
        await town.create(containers=[MOUNTING], volumes=[claim])
        pod = await town.until(lambda pod: status(pod))
        assert status(pod)["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert town.journal == []
        town.machine.machine.make_folder("/mnt/disk")
        await town.until_phase("Running")
    assert town.journal[0] == "volumes"


async def test_pod_that_has_finished_gives_everything_back_but_its_record(town: Town) -> None:
    async with town.running():
        uid = await town.create(restartPolicy="Never")
        await town.until_phase("Running")
        town.containers.end(f"{uid}.main.0", 5)
        pod = await town.until_phase("Failed")
        await town.until_done("no volumes", "no sandbox")
    assert status(pod)["state"]["terminated"]["exitCode"] == 5
    assert town.containers.containers == {}
    assert town.runner.records.latest(uid)["main"].end is not None


async def test_pod_that_has_finished_gets_its_volumes_no_more_though_the_cache_has_not_heard_of_its_end(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with town.running():
        uid = await town.create(
            containers=[MOUNTING], restartPolicy="Never", volumes=[{"name": "data", "emptyDir": {}}]
        )
        await town.until_phase("Running")
        assert town.machine.left()
        worker = town.runner._worker
        monkeypatch.setattr(town.runner.pods, "_changed", lambda _: None)  # the watch brings nothing any more
        town.containers.end(f"{uid}.main.0", 0)
        await town.until_phase("Succeeded")
        await town.until_done("no sandbox")
        await worker.reconcile(uid)
        assert town.machine.left() == [] and town.journal.count("volumes") == 1


async def test_container_that_does_not_heed_is_killed(town: Town) -> None:
    town.containers.heeds = False
    async with town.running():
        await town.create(terminationGracePeriodSeconds=1)
        await town.until_phase("Running")
        await town.pods.delete("pod", "default")
        await town.until_gone()
    assert town.journal[-5:] == ["SIGTERM main.0", "SIGKILL main.0", "delete main.0", "no volumes", "no sandbox"]


async def test_hook_before_the_end_comes_before_the_word_to_end(town: Town) -> None:
    hook = {"preStop": {"exec": {"command": ["bye"]}}}
    async with town.running():
        await town.create(containers=[{"name": "main", "image": "busybox", "lifecycle": hook}])
        await town.until_phase("Running")
        await town.pods.delete("pod", "default")
        await town.until_gone()
    assert town.journal.index("exec main.0 bye") + 1 == town.journal.index("SIGTERM main.0")


async def test_sidecars_end_after_the_others_last_one_first(town: Town) -> None:
    sidecars = [{"name": name, "image": "busybox", "restartPolicy": "Always"} for name in ("one", "two")]
    async with town.running():
        await town.create(initContainers=sidecars)
        await town.until_phase("Running")
        await town.pods.delete("pod", "default")
        await town.until_gone()
    ends = [step for step in town.journal if step.startswith("SIGTERM")]
    assert ends == ["SIGTERM main.0", "SIGTERM two.0", "SIGTERM one.0"]


async def test_runner_that_was_killed_finds_its_containers_again(town: Town) -> None:
    async with town.running():
        uid = await town.create()
        await town.until_phase("Running")
    before = [*town.journal]
    async with town.running():
        other = await town.create("other")
        await town.until_phase("Running", "other")
        town.containers.end(f"{other}.main.0", 1)
        await town.until(lambda pod: status(pod).get("restartCount") == 1, "other")
        assert status(await town.pod())["restartCount"] == 0
    assert f"{uid}.main.0" in town.containers.containers
    assert not [step for step in town.journal[len(before) :] if "SIG" in step]


async def test_container_that_was_created_and_not_started_is_made_again(town: Town) -> None:
    """As after a kill between the two steps."""
    town.containers.stuck = True
    async with town.running():
        uid = await town.create()
        await town.until_done("create main.0")
    town.containers.stuck = False
    async with town.running():
        pod = await town.until(lambda pod: "running" in status(pod).get("state", {}))
    assert status(pod)["restartCount"] == 0
    assert town.journal.count("create main.0") == 2 and town.journal.count("start main.0") == 1
    assert f"{uid}.main.0" in town.containers.containers


async def test_container_whose_start_goes_on_without_us_is_taken_over(town: Town) -> None:
    """As after a kill while the runtime was starting it: it has run, and must not run a second time."""
    town.containers.stuck = True
    hook = {"postStart": {"exec": {"command": ["begun"]}}}
    async with town.running():
        uid = await town.create(containers=[{"name": "main", "image": "busybox", "lifecycle": hook}])
        await town.until_done("create main.0")
    town.containers.stuck = False
    town.containers.being_started.add(f"{uid}.main.0")
    async with town.running():
        pod = await town.until(lambda pod: "running" in status(pod).get("state", {}))
        await town.until_done("exec main.0 begun")
    assert status(pod)["restartCount"] == 0
    steps = ("create main.0", "start main.0", "exec main.0 begun", "delete main.0")
    assert [town.journal.count(step) for step in steps] == [1, 1, 1, 0]


async def test_start_that_still_goes_on_long_after_a_restart_is_not_made_again(town: Town) -> None:
    town.containers.stuck = True
    async with town.running():
        uid = await town.create()
        await town.until_done("create main.0")
    town.containers.stuck = False
    town.containers.at_work.add(f"{uid}.main.0")
    async with town.running():
        await town.until_done("wait for main.0")
        town.containers.being_started.add(f"{uid}.main.0")
        town.containers.at_work.clear()
        pod = await town.until(lambda pod: "running" in status(pod).get("state", {}))
    assert status(pod)["restartCount"] == 0
    assert [town.journal.count(step) for step in ("create main.0", "start main.0", "delete main.0")] == [1, 1, 0]


async def test_attempt_that_was_being_taken_back_is_taken_back_to_the_end(town: Town) -> None:
    """As after a kill in the middle of that: the end that it left behind means nothing."""
    town.containers.stuck = True
    async with town.running():
        uid = await town.create()
        await town.until_done("create main.0")
    town.containers.stuck = False
    record = town.runner.records.latest(uid)["main"]
    town.runner.records.save(msgspec.structs.replace(record, undone=True))
    town.containers.containers[record.id].started = True
    town.containers.end(record.id, 137)
    async with town.running():
        pod = await town.until(lambda pod: "running" in status(pod).get("state", {}))
    assert status(pod)["restartCount"] == 0 and status(pod)["lastState"] == {}


async def test_pod_that_is_gone_is_cleared_away_at_the_next_start(town: Town) -> None:
    async with town.running():
        await town.create()
        await town.until_phase("Running")
    await town.pods.delete("pod", "default", grace_seconds=0)
    async with town.running():
        await town.until_done("SIGTERM main.0", "delete main.0", "no volumes", "no sandbox")
    assert town.containers.containers == {}


async def test_container_of_which_nothing_is_known_is_removed_at_the_start(town: Town) -> None:
    from localpv.host.containers import Bundle

    stranger = Bundle(id="nobody.main.0", folder=town.paths.container("nobody.main.0"), log=Path("/dev/null"))
    await town.containers.create(stranger)
    async with town.running():
        await town.until_done("delete main.0")
    assert town.containers.containers == {}


async def test_node_refuses_a_pod_that_does_not_fit(town: Town) -> None:
    town.refusal = ("OutOfcpu", "Node didn't have enough resource: cpu")
    async with town.running():
        await town.create()
        pod = await town.until_phase("Failed")
    assert pod["status"]["reason"] == "OutOfcpu"
    assert pod["status"]["message"] == "Pod was rejected: Node didn't have enough resource: cpu"
    assert town.journal == []


async def test_after_a_restart_of_the_machine_init_containers_run_again(town: Town) -> None:
    async with town.running():
        uid = await town.create(initContainers=[{"name": "init", "image": "busybox"}])
        await town.until(lambda pod: "running" in status(pod, "init").get("state", {}))
    # Nothing of it survives.
    town.containers.containers.clear()
    town.sandboxes.made.clear()
    town.boot = "boot-2"
    async with town.running():
        pod = await town.until(lambda pod: status(pod, "init").get("restartCount") == 1)
    assert status(pod, "init")["lastState"]["terminated"]["reason"] == "Unknown"
    assert f"{uid}.init.1" in town.containers.containers


async def test_status_is_written_only_when_it_changes(town: Town) -> None:
    async with town.running():
        await town.create()
        await town.until_phase("Running")
        before = (await town.pod())["metadata"]["resourceVersion"]
    async with town.running():
        await town.create("other")
        await town.until_phase("Running", "other")
        after = (await town.pod())["metadata"]["resourceVersion"]
    assert after == before


async def test_image_that_comes_later_lets_the_container_start(town: Town) -> None:
    from localpv.engine.kubelet.images import store
    from localpv.engine.kubelet.images.store import Image

    async with town.running():
        await town.create(containers=[{"name": "main", "image": "localhost/app:1", "command": ["run"]}])
        await town.until(
            lambda pod: status(pod).get("state", {}).get("waiting", {}).get("reason") == "ErrImageNeverPull"
        )
        town.images.add(Image(id="sha256:app"), [store.parse_reference("localhost/app:1")], lambda root: None)
        await town.until_phase("Running")


async def test_container_of_a_pod_that_an_earlier_version_admitted_is_not_started_without_what_protects(
    town: Town,
) -> None:
    """Nobody asks again whether a pod may run here that has been admitted; this town never asks."""
    async with town.running():
        await town.create(hostUsers=False)
        pod = await town.until(lambda pod: "hostUsers" in str(status(pod)))
        assert status(pod)["state"]["waiting"]["reason"] == "CreateContainerConfigError"
        assert "spec.hostUsers: false" in status(pod)["state"]["waiting"]["message"]
    assert not any(step.startswith("create") for step in town.journal)


async def test_wish_that_changes_nothing_now_is_told_as_seen(town: Town) -> None:
    async with town.running():
        await town.create(activeDeadlineSeconds=5000)
        pod = await town.until_phase("Running")
        assert (pod["metadata"]["generation"], pod["status"]["observedGeneration"]) == (1, 1)
        await town.pods.patch("pod", {"spec": {"activeDeadlineSeconds": 4999}}, "default")
        pod = await town.until(lambda pod: pod["status"]["observedGeneration"] == 2)
        assert pod["metadata"]["generation"] == 2
