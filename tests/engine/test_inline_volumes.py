"""`localVolume` in a pod, as the document that it comes from writes it: taken by the engine and made into a claim."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.contract import wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

Object = dict[str, Any]

DISKS: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "ld-test"},
    "spec": {
        "containers": [
            {
                "image": "busybox",
                "command": ["sleep", "3600"],
                "imagePullPolicy": "IfNotPresent",
                "name": "ld-test",
                "volumeMounts": [
                    {"mountPath": "/mnt/disk1", "name": "test-vol1"},
                    {"mountPath": "/mnt/disk2", "name": "test-vol2"},
                ],
            }
        ],
        "volumes": [
            {"localVolume": {"type": "disk"}, "name": "test-vol1"},
            {"localVolume": {"type": "disk"}, "name": "test-vol2"},
        ],
        "restartPolicy": "Always",
    },
}


def pod(**source: Any) -> Object:
    spec = {
        "containers": [{"name": "main", "image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}],
        "volumes": [{"name": "v", "localVolume": source}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mylvm01"}, "spec": spec}


def claim_of(volume: Object) -> Object:
    found: Object = volume["ephemeral"]["volumeClaimTemplate"]
    return found


@pytest.mark.seed("LVD-7")
def test_disk_is_taken_as_written_and_reads_back_as_an_ephemeral_volume(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), DISKS, fieldValidation="Strict")
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["test-vol1", "test-vol2"]
    for volume in made["spec"]["volumes"]:
        assert set(volume) == {"name", "ephemeral"}
        claim = claim_of(volume)
        assert claim["spec"] == {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local-ssd",
            "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": "1Mi"}},
        }
        assert json.loads(claim["metadata"]["annotations"]["localpv.dev/local-volume"]) == {"type": "disk"}


def test_logical_volume_asks_for_its_size_and_its_node(api: Api, space: Space) -> None:
    body = pod(type="lvm", volumesize="500Gi", fsType="ext4", nodename="node-7")
    spec = api.post(space.core("pods"), body)["spec"]
    claim = claim_of(spec["volumes"][0])
    assert claim["spec"]["storageClassName"] == "local-volume"
    assert claim["spec"]["resources"]["requests"] == {"storage": "500Gi"}
    assert claim["metadata"]["annotations"]["localpv.dev/fs-type"] == "ext4"
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "node-7"}


def test_template_of_a_workload_is_taken_too(api: Api, space: Space) -> None:
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod(type="disk")["spec"]},
        },
    }
    spec = api.post(space.of("apps/v1", "deployments"), body)["spec"]["template"]["spec"]
    assert claim_of(spec["volumes"][0])["spec"]["storageClassName"] == "local-ssd"


@pytest.mark.parametrize(
    ("source", "field"),
    [
        ({"type": "tape"}, "type"),
        ({"type": ""}, "type"),
        ({"type": "lvm"}, "volumesize"),
        ({"type": "disk", "path": "/var/vol-pool/disks/x"}, "path"),
        ({"type": "disk", "volumesize": "0"}, "volumesize"),
        ({"type": "disk", "nodename": "not a name"}, "nodename"),
    ],
)
def test_what_a_claim_cannot_ask_for_is_refused_by_name(api: Api, space: Space, source: Object, field: str) -> None:
    status = api.post(space.core("pods"), pod(**source), expect=422)
    assert wire.causes(status)[0][1] == f"spec.volumes[0].localVolume.{field}"


def test_node_that_contradicts_the_pod_is_refused(api: Api, space: Space) -> None:
    body = pod(type="disk", nodename="node-7")
    body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "node-8"}
    status = api.post(space.core("pods"), body, expect=422)
    assert wire.causes(status)[0][1] == "spec.volumes[0].localVolume.nodename"


def test_volume_with_two_sources_is_refused(api: Api, space: Space) -> None:
    body = pod(type="disk")
    body["spec"]["volumes"][0]["emptyDir"] = {}
    api.post(space.core("pods"), body, expect=422)


def test_applying_the_same_file_again_changes_nothing(api: Api, space: Space) -> None:
    path = space.core("pods", "ld-test")
    first = api.apply(path, DISKS)
    again = api.apply(path, DISKS)
    assert again["spec"] == first["spec"]
    patch = {"spec": {"volumes": DISKS["spec"]["volumes"]}}
    patched = api.strategic(path, patch)
    assert patched["spec"]["volumes"] == first["spec"]["volumes"]


def test_changed_volume_in_a_template_takes_the_place_of_the_one_before(api: Api, space: Space) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod(type="disk")["spec"]}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    api.post(space.of("apps/v1", "deployments"), body)
    volumes = [{"name": "v", "localVolume": {"type": "lvm", "volumesize": "5Gi"}}]
    patch = {"spec": {"template": {"spec": {"volumes": volumes}}}}
    changed = api.strategic(space.of("apps/v1", "deployments", "web"), patch)
    claim = claim_of(changed["spec"]["template"]["spec"]["volumes"][0])
    assert claim["spec"]["storageClassName"] == "local-volume"
    assert claim["spec"]["resources"]["requests"] == {"storage": "5Gi"}


def test_field_is_explained(api: Api) -> None:
    document = api.get("/openapi/v3/api/v1")["components"]["schemas"]
    volume = document["io.k8s.api.core.v1.Volume"]["properties"]["localVolume"]
    assert "ephemeral" in volume["description"]
    fields = document["dev.localpv.core.v1.LocalVolumeSource"]["properties"]
    assert set(fields) == {"type", "volumesize", "fsType", "nodename", "path"}
