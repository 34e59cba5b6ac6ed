"""Volumes of a pool on a real cluster: our image installed by its manifests, mounted by a real kubelet over CSI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from tests.contract import wire
from tests.e2e import pods
from tests.kubernetes import cluster
from tests.kubernetes.test_documents import kubectl, localpv

FOLDER = "/mnt/pool-of-files"
SYSTEM = ("-n", "localpv-system")
NODES = "/apis/storage.k8s.io/v1/csinodes"
STAY = ("CustomResourceDefinition", "Namespace")
"""Others of the run may have them too."""


@pytest.fixture
def installed(running: cluster.Cluster, localpv_image: str) -> Iterator[None]:
    config = {"storageClassMap": {"pooled": {"pool": {"kind": "file", "directory": FOLDER, "size": "1Gi"}}}}
    text = localpv("manifests", "-f", "-", "--image", localpv_image, text=yaml.safe_dump(config))
    text = text.replace("imagePullPolicy: Always", "imagePullPolicy: Never")
    kubectl(running, "apply", "--server-side", "--force-conflicts", "-f", "-", text=text)
    for what in ("daemonset/localpv-agent", "deployment/localpv-manager"):
        kubectl(running, *SYSTEM, "rollout", "status", what, "--timeout=110s")
    yield
    own = [one for one in yaml.safe_load_all(text) if one and one["kind"] not in STAY]
    kubectl(running, "delete", "--ignore-not-found", "-f", "-", text=yaml.safe_dump_all(own))
    kubectl(running, "delete", "localpools.localpv.dev", "--all")
    for node in running.nodes:
        node.run("rm", "-rf", "--one-file-system", "/var/lib/localpv", FOLDER)


def claim(here: pods.Here, name: str, *, mode: str = "Filesystem", access: str = "ReadWriteOnce") -> dict[str, Any]:
    here.api.post(
        here.space.core("persistentvolumeclaims"),
        {
            "metadata": {"name": name},
            "spec": {
                "storageClassName": "pooled",
                "volumeMode": mode,
                "accessModes": [access],
                "resources": {"requests": {"storage": "64Mi"}},
            },
        },
    )
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def test_pods_use_volumes_of_a_pool_and_nothing_is_left_of_them(
    running: cluster.Cluster, api: wire.Api, here: pods.Here, installed: None
) -> None:
    registered = {
        node["metadata"]["name"]: [driver["name"] for driver in node["spec"].get("drivers") or ()]
        for node in api.get(NODES)["items"]
    }
    assert registered == {node.name: ["localpv.dev"] for node in running.nodes}

    volumes = [
        claim(here, "data"),
        claim(here, "once", access="ReadWriteOncePod"),
        claim(here, "raw", mode="Block"),
    ]
    script = "id -G; echo kept >/data/file; echo secret | dd of=/dev/raw bs=512 conv=sync; sync; echo done; sleep 3600"
    main = here.container(
        "main",
        *("sh", "-c", script),
        volumeMounts=[{"name": "data", "mountPath": "/data"}, {"name": "once", "mountPath": "/once", "subPath": "a"}],
        volumeDevices=[{"name": "raw", "devicePath": "/dev/raw"}],
    )
    name = here.create({"containers": [main], "volumes": volumes, "securityContext": {"fsGroup": 4242}})
    here.until_says(name, "done")
    assert "4242" in here.log(name)
    node = next(one for one in running.nodes if one.name == here.get(name)["spec"]["nodeName"])
    bound = [here.claim(one)["spec"]["volumeName"] for one in ("data", "once", "raw")]
    assert sorted(node.run("ls", FOLDER).split()) == sorted(bound)

    # A new agent takes over what the old one has mounted.
    kubectl(running, *SYSTEM, "rollout", "restart", "daemonset/localpv-agent")
    kubectl(running, *SYSTEM, "rollout", "status", "daemonset/localpv-agent", "--timeout=110s")
    here.delete(name)
    again = here.create(
        {
            "containers": [
                here.container("main", "cat", "/data/file", volumeMounts=[{"name": "data", "mountPath": "/data"}])
            ],
            "volumes": volumes[:1],
        }
    )
    here.wait(again, "Succeeded")
    assert here.log(again) == "kept\n"
    assert here.get(again)["spec"]["nodeName"] == node.name
    here.delete(again)

    kubectl(running, "-n", here.space.name, "delete", "persistentvolumeclaims", "--all")
    kubectl(running, "wait", *(f"pv/{one}" for one in bound), "--for=delete", "--timeout=110s")
    assert node.run("ls", FOLDER) == ""
    assert FOLDER not in node.run("losetup", "--list", "--output", "BACK-FILE")
