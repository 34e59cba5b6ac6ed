"""Workloads whose pods come back to their data."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.e2e import pods
from tests.e2e.place import Place

NAME = "e2e-set"
REPLICAS = 2
SCRIPT = 'echo "$HOSTNAME $(date +%s%N)" >>/data/log; exec sleep 3600'


@pytest.mark.seed("LIF-5", "PLG-13", "LVD-3")
def test_stateful_set_finds_its_data_after_its_pods_were_deleted(place: Place, here: pods.Here) -> None:
    host = place.hosts[-1]
    folders = [f"{place.folder}/{NAME}/{builders.unique('disk')}" for _ in range(REPLICAS)]
    host.run("mkdir", *folders)
    made = here.api.post(here.space.of("apps/v1", "statefulsets"), _set(here))
    name = made["metadata"]["name"]
    before = wire.eventually(lambda: _ready(here, name), "all pods are ready", within=pods.POD_SECONDS)

    def logs(lines: int) -> list[list[str]] | None:
        """What the pods have written, once each has so many lines: one that runs may not have written yet."""
        found = [host.run("cat", f"{folder}/log", check=False).splitlines() for folder in folders]
        return found if all(len(log) >= lines for log in found) else None

    wire.eventually(lambda: logs(1), "all have written", within=pods.POD_SECONDS)

    for pod in before:
        here.api.delete(here.space.core("pods", pod["metadata"]["name"]), gracePeriodSeconds=1)
    uids = {pod["metadata"]["uid"] for pod in before}
    after = wire.eventually(lambda: _ready(here, name, without=uids), "they are back", within=pods.POD_SECONDS)

    assert [pod["metadata"]["name"] for pod in after] == [f"{name}-{number}" for number in range(REPLICAS)]
    written = wire.eventually(lambda: logs(2), "all have written again", within=pods.POD_SECONDS)
    writers = sorted([line.split()[0] for line in lines] for lines in written)
    assert writers == [[f"{name}-{number}"] * 2 for number in range(REPLICAS)]
    here.api.delete(here.space.of("apps/v1", "statefulsets", name))
    wire.eventually(lambda: not _pods(here, name), "the pods go with their set", within=pods.POD_SECONDS)
    claims = here.api.get(here.space.core("persistentvolumeclaims"))["items"]
    assert [claim["status"]["phase"] for claim in claims] == ["Bound"] * REPLICAS


@pytest.mark.seed("LIF-5")
def test_pod_of_a_deployment_returns_to_the_volume_of_its_claim(place: Place, here: pods.Here) -> None:
    path = f"{place.folder}/{builders.unique('deployed')}"
    host = place.hosts[-1]
    host.run("mkdir", path)
    claim = here.volume_on(host.name, path)
    wanted = builders.deployment()
    container = here.container("main", "sh", "-c", SCRIPT, volumeMounts=[{"name": "disk", "mountPath": "/data"}])
    wanted["spec"]["template"]["spec"] = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        **pods.claimed(claim),
    }
    made = here.api.post(here.space.of("apps/v1", "deployments"), wanted)
    path_of_set = here.space.of("apps/v1", "deployments", made["metadata"]["name"])

    def lines(count: int) -> Any:
        said = host.run("cat", f"{path}/log", check=False).splitlines()
        return said if len(said) >= count else None

    (first,) = wire.eventually(lambda: lines(1), "the pod has written", within=pods.POD_SECONDS)
    (pod,) = _pods(here, first.split()[0])
    here.delete(pod["metadata"]["name"])
    both = wire.eventually(lambda: lines(2), "the next pod has written", within=pods.POD_SECONDS)

    assert both[0] == first
    assert both[1].split()[0] != first.split()[0]
    here.api.delete(path_of_set)
    wire.eventually(lambda: not here.api.get(here.space.core("pods"))["items"], "no pod stays", within=pods.POD_SECONDS)
    host.run("rm", "-rf", "--one-file-system", path)


def _set(here: pods.Here) -> Any:
    wanted = builders.stateful_set(replicas=REPLICAS)
    container = here.container("main", "sh", "-c", SCRIPT, volumeMounts=[{"name": "data", "mountPath": "/data"}])
    wanted["spec"]["template"]["spec"] = {"containers": [container], "terminationGracePeriodSeconds": 0}
    template = builders.claim("data", storageClassName=NAME, resources={"requests": {"storage": "1Mi"}})
    wanted["spec"]["volumeClaimTemplates"] = [template]
    return wanted


def _pods(here: pods.Here, prefix: str) -> list[Any]:
    found = here.api.get(here.space.core("pods"))["items"]
    return [pod for pod in found if pod["metadata"]["name"].startswith(prefix)]


def _ready(here: pods.Here, name: str, *, without: set[str] | frozenset[str] = frozenset()) -> list[Any] | None:
    """All pods of the set once each of them runs, none of them one of those named."""
    found = sorted(_pods(here, name), key=lambda pod: str(pod["metadata"]["name"]))
    running = [
        pod for pod in found if pod["status"].get("phase") == "Running" and pod["metadata"]["uid"] not in without
    ]
    return running if len(running) == REPLICAS == len(found) else None
