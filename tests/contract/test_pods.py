"""Pods: defaults, the volumes they name, and what may change."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}
MOUNT = {"name": "data", "mountPath": "/data"}
DEVICE = {"name": "data", "devicePath": "/dev/xvda"}


def _pod(*, volumes: list[Any], **container: Any) -> builders.Object:
    return builders.pod("one", spec={"volumes": volumes, "containers": [{"name": "main", "image": "x:1", **container}]})


def _refused(api: Api, space: Space, body: builders.Object) -> list[tuple[str, str]]:
    return wire.causes(api.post(space.core("pods"), body, expect=422))


def test_pod_defaults(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), builders.pod())
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["securityContext"] == {}
    assert spec["enableServiceLinks"] is True
    assert spec["priority"] == 0
    container = spec["containers"][0]
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == (
        "IfNotPresent",
        "/dev/termination-log",
    )
    assert made["status"]["phase"] == "Pending"
    keys = {entry["key"] for entry in spec["tolerations"]}
    assert keys == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


def test_latest_image_is_always_pulled(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), builders.pod(spec={"containers": [{"name": "a", "image": "x"}]}))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == "Always"


@pytest.mark.seed("API-7", "PLG-2")
def test_local_volume_inside_a_pod_is_refused(api: Api, space: Space) -> None:
    body = _pod(volumes=[{"name": "data", "local": {"path": "/mnt/disks/ssd1"}}], volumeMounts=[MOUNT])
    answer = api.send("POST", space.core("pods"), body, fieldValidation="Strict")
    # To Kubernetes the field is unknown (400); a server that knows what was meant may say so (422).
    assert answer.code in (400, 422)
    assert "spec.volumes[0].local" in answer.body["message"]
    assert api.gone(space.core("pods", "one"))


@pytest.mark.seed("API-9")
def test_claim_as_device_and_as_mount_are_taken(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), _pod(volumes=[CLAIM], volumeDevices=[DEVICE]))
    assert made["spec"]["containers"][0]["volumeDevices"] == [DEVICE]
    body = _pod(volumes=[CLAIM], volumeMounts=[MOUNT])
    body["metadata"]["name"] = "two"
    assert MOUNT in api.post(space.core("pods"), body)["spec"]["containers"][0]["volumeMounts"]


@pytest.mark.seed("API-9")
@pytest.mark.parametrize(
    ("container", "cause"),
    [
        (
            {"volumeDevices": [{"name": "data", "devicePath": ""}]},
            ("FieldValueRequired", "volumeDevices[0].devicePath"),
        ),
        (
            {"volumeDevices": [{"name": "other", "devicePath": "/dev/x"}]},
            ("FieldValueNotFound", "volumeDevices[0].name"),
        ),
        (
            {"volumeDevices": [{"name": "data", "devicePath": "/dev/../x"}]},
            ("FieldValueInvalid", "volumeDevices[0].devicePath"),
        ),
        (
            {"volumeDevices": [DEVICE, {"name": "data", "devicePath": "/dev/y"}]},
            ("FieldValueInvalid", "volumeDevices[1].name"),
        ),
        (
            {"volumeDevices": [DEVICE], "volumeMounts": [MOUNT]},
            ("FieldValueInvalid", "volumeDevices[0].name"),
        ),
        (
            {"volumeDevices": [{"name": "data", "devicePath": "/data"}], "volumeMounts": [MOUNT]},
            ("FieldValueInvalid", "volumeDevices[0].devicePath"),
        ),
    ],
)
def test_devices_are_checked(api: Api, space: Space, container: Any, cause: tuple[str, str]) -> None:
    reason, field = cause
    causes = _refused(api, space, _pod(volumes=[CLAIM], **container))
    assert (reason, f"spec.containers[0].{field}") in causes


@pytest.mark.seed("API-9")
def test_only_a_claim_can_be_a_device(api: Api, space: Space) -> None:
    body = _pod(volumes=[{"name": "data", "emptyDir": {}}], volumeDevices=[DEVICE])
    status = api.post(space.core("pods"), body, expect=422)
    assert ("FieldValueInvalid", "spec.containers[0].volumeDevices[0].name") in wire.causes(status)


@pytest.mark.parametrize(
    ("volumes", "mounts", "cause"),
    [
        ([], [MOUNT], ("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name")),
        ([CLAIM, CLAIM], [], ("FieldValueDuplicate", "spec.volumes[1].name")),
        ([{"name": "Bad Name", "emptyDir": {}}], [], ("FieldValueInvalid", "spec.volumes[0].name")),
        (
            [CLAIM],
            [{"name": "data", "mountPath": ""}],
            ("FieldValueRequired", "spec.containers[0].volumeMounts[0].mountPath"),
        ),
        ([CLAIM], [MOUNT, MOUNT], ("FieldValueInvalid", "spec.containers[0].volumeMounts[1].mountPath")),
        (
            [{"name": "data", "persistentVolumeClaim": {"claimName": ""}}],
            [],
            ("FieldValueRequired", "spec.volumes[0].persistentVolumeClaim.claimName"),
        ),
        (
            [{"name": "data", "emptyDir": {}, "hostPath": {"path": "/x"}}],
            [],
            ("FieldValueForbidden", "spec.volumes[0].hostPath"),
        ),
    ],
)
def test_volumes_and_mounts_are_checked(
    api: Api, space: Space, volumes: Any, mounts: Any, cause: tuple[str, str]
) -> None:
    assert cause in _refused(api, space, _pod(volumes=volumes, volumeMounts=mounts))


def test_volume_without_a_source_is_an_empty_dir(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), _pod(volumes=[{"name": "data"}], volumeMounts=[MOUNT]))
    assert {"name": "data", "emptyDir": {}} in made["spec"]["volumes"]


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"containers": []}, ("FieldValueRequired", "spec.containers")),
        ({"containers": [{"name": "a"}]}, ("FieldValueRequired", "spec.containers[0].image")),
        ({"containers": [{"name": "A B", "image": "x"}]}, ("FieldValueInvalid", "spec.containers[0].name")),
        ({"containers": [{"name": "a", "image": "x"}] * 2}, ("FieldValueDuplicate", "spec.containers[1].name")),
        ({"restartPolicy": "Perhaps"}, ("FieldValueNotSupported", "spec.restartPolicy")),
        ({"dnsPolicy": "Guess"}, ("FieldValueNotSupported", "spec.dnsPolicy")),
        ({"nodeSelector": {"a b": "c"}}, ("FieldValueInvalid", "spec.nodeSelector")),
    ],
)
def test_pod_is_validated(api: Api, space: Space, spec: Any, cause: tuple[str, str]) -> None:
    assert cause in _refused(api, space, builders.pod(spec=spec))


def test_negative_grace_becomes_the_shortest(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), builders.pod(spec={"terminationGracePeriodSeconds": -1}))
    assert made["spec"]["terminationGracePeriodSeconds"] == 1


def test_only_the_image_and_little_else_of_a_pod_may_change(api: Api, space: Space) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    path = space.core("pods", "one")
    patch = {"spec": {"containers": [{"name": "main", "image": "other:2"}]}}
    changed = api.strategic(path, patch)
    assert changed["spec"]["containers"][0]["image"] == "other:2"
    assert changed["metadata"]["generation"] == 2
    status = api.merge(path, {"spec": {"nodeName": "node-1"}}, expect=422)
    assert ("FieldValueForbidden", "spec") in wire.causes(status)


def test_scheduling_gates_hold_a_pod_back(api: Api, space: Space) -> None:
    made = api.post(space.core("pods"), builders.pod("one", spec={"schedulingGates": [{"name": "localpv.dev/wait"}]}))
    condition = next(entry for entry in made["status"]["conditions"] if entry["type"] == "PodScheduled")
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")


def test_quality_of_service_follows_the_resources(api: Api, space: Space) -> None:
    amount = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "a", "image": "x", "resources": {"limits": amount}}
    made = api.post(space.core("pods"), builders.pod(spec={"containers": [container]}))
    assert made["status"]["qosClass"] == "Guaranteed"
    assert made["spec"]["containers"][0]["resources"]["requests"] == amount
    container["resources"] = {"requests": {"cpu": "1"}}
    made = api.post(space.core("pods"), builders.pod(spec={"containers": [container]}))
    assert made["status"]["qosClass"] == "Burstable"
