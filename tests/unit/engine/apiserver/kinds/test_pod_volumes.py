"""Volumes of pods, and how containers use them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes, with_name

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_spec
from localpv.engine.apiserver.kinds.pod import Pod

A_CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "claim-1"}}
OTHER = {"name": "more", "persistentVolumeClaim": {"claimName": "claim-2"}}
SCRATCH = {"name": "scratch", "emptyDir": {}}


def created(*volumes: Object, **container: Any) -> tuple[Object, FieldErrors]:
    spec = {"containers": [{"name": "main", "image": "app:1", **container}], "volumes": list(volumes)}
    return steps.created(Pod(), "core.v1.Pod", with_name(spec))


@pytest.mark.seed("API-7")
def test_pod_that_names_a_local_volume_itself_is_refused() -> None:
    _, errors = created({"name": "v", "local": {"path": "/mnt/disks/a"}})

    assert causes(errors) == [("spec.volumes[0].local", "Forbidden")]
    assert "persistentVolumeClaim" in errors[0].message


@pytest.mark.seed("API-7")
def test_template_that_names_a_local_volume_is_refused() -> None:
    template = {"spec": {"volumes": [SCRATCH, {"name": "v", "local": {"path": "/a"}}]}}

    errors = pod_spec.raw_template_errors(template, "spec.template")

    assert causes(errors) == [("spec.template.spec.volumes[1].local", "Forbidden")]


@pytest.mark.seed("API-7")
@pytest.mark.parametrize(
    "body", [{}, {"spec": 5}, {"spec": {"volumes": {}}}, {"spec": {"volumes": [None, 1, "local"]}}]
)
def test_looking_for_local_volumes_takes_any_body(body: Object) -> None:
    assert Pod().raw_errors(body) == []
    assert pod_spec.raw_template_errors(body, "spec.template") == []


def test_volume_without_a_source_is_an_empty_directory() -> None:
    pod, errors = created({"name": "v"})

    assert errors == []
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {}}]


def test_sources_are_filled_in() -> None:
    pod, errors = created(
        {"name": "a", "secret": {"secretName": "s"}},
        {"name": "b", "configMap": {"name": "c"}},
        {"name": "c", "hostPath": {"path": "/a"}},
        {"name": "d", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"name": "e", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "f", "ephemeral": {"volumeClaimTemplate": {"spec": A_CLAIM_SPEC}}},
        {"name": "g", "image": {"reference": "data"}},
    )

    assert errors == []
    a, b, c, d, e, f, g = pod["spec"]["volumes"]
    assert a["secret"]["defaultMode"] == b["configMap"]["defaultMode"] == 0o644
    assert c["hostPath"]["type"] == ""
    assert d["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"
    assert e["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    assert f["ephemeral"]["volumeClaimTemplate"]["spec"]["volumeMode"] == "Filesystem"
    assert g["image"]["pullPolicy"] == "Always"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"emptyDir": {}}, [("name", "Required")]),
        ({"name": "A_", "emptyDir": {}}, [("name", "Invalid")]),
        ({"name": "v", "emptyDir": {}, "hostPath": {"path": "/a"}}, [("hostPath", "Forbidden")]),
        ({"name": "v", "persistentVolumeClaim": {}}, [("persistentVolumeClaim.claimName", "Required")]),
        ({"name": "v", "hostPath": {"path": "/a/../b"}}, [("hostPath.path", "Invalid")]),
        ({"name": "v", "secret": {}}, [("secret.secretName", "Required")]),
        ({"name": "v", "secret": {"secretName": "s", "items": [{"key": "a", "path": "../b"}]}},
         [("secret.items[0].path", "Invalid")]),
        ({"name": "v", "configMap": {"name": "c", "defaultMode": 0o1000}}, [("configMap.defaultMode", "Invalid")]),
        ({"name": "v", "ephemeral": {}}, [("ephemeral.volumeClaimTemplate", "Required")]),
        ({"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": A_CLAIM_SPEC}}},
         [("ephemeral.volumeClaimTemplate.metadata.name", "Forbidden")]),
        ({"name": "v", "projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}},
         [("projected.sources[0]", "Forbidden")]),
        ({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]}},
         [("projected.sources[0].serviceAccountToken.expirationSeconds", "Invalid")]),
        ({"name": "v", "downwardAPI": {"items": [{"path": "a"}]}}, [("downwardAPI", "Required")]),
    ],
)  # fmt: skip
def test_wrong_volume_is_refused(volume: Object, expected: list[tuple[str, str]]) -> None:
    assert causes(created(volume)[1]) == [(f"spec.volumes[0].{field}", reason) for field, reason in expected]


def test_names_of_volumes_are_unique() -> None:
    assert causes(created(SCRATCH, SCRATCH)[1]) == [("spec.volumes[1].name", "Duplicate")]


def test_claim_made_for_an_ephemeral_volume_is_not_named_by_another() -> None:
    made = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": A_CLAIM_SPEC}}}
    _, errors = created(made, {"name": "w", "persistentVolumeClaim": {"claimName": "name-1-v"}})

    assert causes(errors) == [("spec.volumes[1].persistentVolumeClaim.claimName", "Invalid")]


def test_files_of_a_projected_volume_do_not_collide() -> None:
    def keys(name: str) -> Object:
        return {"name": name, "items": [{"key": "k", "path": "same"}]}

    _, errors = created({"name": "v", "projected": {"sources": [{"secret": keys("a")}, {"configMap": keys("b")}]}})

    assert causes(errors) == [("spec.volumes[0].projected", "Invalid")]


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        ([{"name": "data", "mountPath": "/a"}], []),
        ([{"name": "gone", "mountPath": "/a"}], [("[0].name", "NotFound")]),
        ([{"name": "data"}], [("[0].mountPath", "Required")]),
        ([{"name": "data", "mountPath": "/a"}, {"name": "scratch", "mountPath": "/a"}], [("[1].mountPath", "Invalid")]),
        ([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/b"}], []),
        ([{"name": "data", "mountPath": "/a", "subPath": "../b"}], [(".subPath", "Invalid")]),
        ([{"name": "data", "mountPath": "/a", "subPath": "/b"}], [(".subPath", "Invalid")]),
        (
            [{"name": "data", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
            [(".mountPropagation", "Forbidden")],
        ),
        ([{"name": "data", "mountPath": "/a", "recursiveReadOnly": "Enabled"}], [(".recursiveReadOnly", "Forbidden")]),
    ],
)
def test_mounts_name_volumes_of_the_pod(mounts: list[Object], expected: list[tuple[str, str]]) -> None:
    wrong = causes(created(CLAIM, SCRATCH, volumeMounts=mounts)[1])

    assert wrong == [(f"spec.containers[0].volumeMounts{field}", reason) for field, reason in expected]


@pytest.mark.seed("API-9")
@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([{"name": "data", "devicePath": "/dev/xvda"}], []),
        ([{"name": "gone", "devicePath": "/dev/xvda"}], [("[0].name", "NotFound")]),
        ([{"name": "scratch", "devicePath": "/dev/xvda"}], [("[0].name", "Invalid")]),
        ([{"name": "data"}], [("[0].devicePath", "Required")]),
        ([{"name": "data", "devicePath": "/dev/../a"}], [("[0].devicePath", "Invalid")]),
        ([{"name": "data", "devicePath": "/d"}, {"name": "data", "devicePath": "/e"}], [("[1].name", "Invalid")]),
        ([{"name": "data", "devicePath": "/d"}, {"name": "more", "devicePath": "/d"}], [("[1].devicePath", "Invalid")]),
    ],
)
def test_devices_name_claims_of_the_pod(devices: list[Object], expected: list[tuple[str, str]]) -> None:
    wrong = causes(created(CLAIM, OTHER, SCRATCH, volumeDevices=devices)[1])

    assert wrong == [(f"spec.containers[0].volumeDevices{field}", reason) for field, reason in expected]


@pytest.mark.seed("API-9")
def test_volume_is_a_device_or_a_directory_but_not_both() -> None:
    _, errors = created(
        CLAIM,
        volumeMounts=[{"name": "data", "mountPath": "/a"}],
        volumeDevices=[{"name": "data", "devicePath": "/dev/a"}],
    )
    assert causes(errors) == [
        ("spec.containers[0].volumeMounts[0].name", "Invalid"),
        ("spec.containers[0].volumeDevices[0].name", "Invalid"),
    ]


@pytest.mark.seed("API-9")
def test_device_and_directory_are_not_at_one_path() -> None:
    _, errors = created(
        CLAIM,
        OTHER,
        volumeMounts=[{"name": "data", "mountPath": "/a"}],
        volumeDevices=[{"name": "more", "devicePath": "/a"}],
    )
    assert causes(errors) == [
        ("spec.containers[0].volumeMounts[0].mountPath", "Invalid"),
        ("spec.containers[0].volumeDevices[0].devicePath", "Invalid"),
    ]
