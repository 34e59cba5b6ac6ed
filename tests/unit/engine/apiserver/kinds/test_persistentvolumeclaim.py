"""Claims: what they default to, what is refused, and how a bound one may grow."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.persistentvolumeclaim import PersistentVolumeClaim

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"

claims = PersistentVolumeClaim()


def a_claim(**spec: Any) -> Object:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}, **spec}
    return steps.with_name({key: value for key, value in whole.items() if value is not None})


def created(claim: Object) -> tuple[Object, FieldErrors]:
    return steps.created(claims, "core.v1.PersistentVolumeClaim", claim)


def a_bound_claim() -> Object:
    claim, errors = created(a_claim(volumeName="volume-1", storageClassName="fast"))
    assert errors == []
    claim["status"] = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
    return claim


@pytest.mark.seed("API-8")
def test_unset_volume_mode_means_filesystem() -> None:
    claim, errors = created(a_claim())

    assert errors == []
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["status"] == {"phase": "Pending"}


@pytest.mark.seed("API-8")
@pytest.mark.parametrize(("mode", "right"), [("Block", True), ("Filesystem", True), ("Raw", False), ("", False)])
def test_volume_mode_is_block_or_filesystem(mode: str, right: bool) -> None:
    _, errors = created(a_claim(volumeMode=mode))

    assert causes(errors) == ([] if right else [("spec.volumeMode", "NotSupported")])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"accessModes": None}, [("spec.accessModes", "Required")]),
        ({"accessModes": ["Foo"]}, [("spec.accessModes", "NotSupported")]),
        ({"accessModes": ["ReadWriteOncePod", "ReadWriteMany"]}, [("spec.accessModes", "Forbidden")]),
        ({"resources": None}, [("spec.resources[storage]", "Required")]),
        ({"resources": {"requests": {"storage": "0"}}}, [("spec.resources[storage]", "Invalid")]),
        ({"storageClassName": "A_B"}, [("spec.storageClassName", "Invalid")]),
        ({"storageClassName": ""}, []),
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
         [("spec.selector.matchExpressions[0].values", "Required")]),
        ({"dataSourceRef": {"kind": "Foo", "name": "a"}},
         [("spec.dataSource", "Invalid"), ("spec.dataSourceRef", "Invalid")]),
        ({"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
          "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"}}, [("spec", "Invalid")]),
    ],
)  # fmt: skip
def test_what_kubernetes_refuses_is_refused_with_the_same_fields(
    change: Object, expected: list[tuple[str, str]]
) -> None:
    _, errors = created(a_claim(**change))

    assert causes(errors) == expected


def test_both_data_source_fields_say_the_same() -> None:
    source = {"kind": "PersistentVolumeClaim", "name": "a"}

    assert created(a_claim(dataSource=source))[0]["spec"]["dataSourceRef"] == source
    assert created(a_claim(dataSourceRef=source))[0]["spec"]["dataSource"] == source


def test_old_data_source_field_forgets_what_it_never_knew() -> None:
    claim, errors = created(a_claim(dataSource={"kind": "Foo", "name": "a"}))

    assert errors == []
    assert "dataSource" not in claim["spec"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"volumeName": "volume-1"}, []),
        ({"storageClassName": "fast"}, []),
        ({"accessModes": ["ReadWriteMany"]}, [("spec", "Forbidden")]),
        ({"volumeMode": "Block"}, [("spec", "Forbidden"), ("volumeMode", "Invalid")]),
        ({"resources": {"requests": {"storage": "3Gi"}}}, [("spec", "Forbidden")]),
        ({"resources": {"requests": {"storage": "2048Mi"}}}, []),
    ],
)
def test_unbound_claim_gets_only_its_volume_and_class(change: Object, expected: list[tuple[str, str]]) -> None:
    old, _ = created(a_claim())

    assert causes(steps.updated(claims, old, {"spec": change})[1]) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"resources": {"requests": {"storage": "3Gi"}}}, []),
        ({"resources": {"requests": {"storage": "1Gi"}}}, [("spec.resources.requests.storage", "Forbidden")]),
        ({"volumeAttributesClassName": "gold"}, []),
        ({"volumeName": "volume-2"}, [("spec", "Forbidden")]),
        ({"storageClassName": "slow"}, [("spec", "Forbidden")]),
    ],
)
def test_bound_claim_may_grow_and_keeps_its_volume(change: Object, expected: list[tuple[str, str]]) -> None:
    assert causes(steps.updated(claims, a_bound_claim(), {"spec": change})[1]) == expected


def test_growth_that_failed_can_be_taken_back_down_to_what_the_volume_has() -> None:
    grown, _ = steps.updated(claims, a_bound_claim(), {"spec": {"resources": {"requests": {"storage": "9Gi"}}}})

    def to(size: str) -> list[tuple[str, str]]:
        change = {"spec": {"resources": {"requests": {"storage": size}}}}
        return causes(steps.updated(claims, grown, change)[1])

    assert to("3Gi") == []
    assert to("2Gi") == [("spec.resources.requests.storage", "Forbidden")]


def test_class_in_the_annotation_of_old_may_move_to_the_field_and_nowhere_else() -> None:
    claim = a_claim()
    claim["metadata"]["annotations"] = {CLASS_ANNOTATION: "fast"}
    old, _ = created(claim)

    def after(change: Object) -> list[tuple[str, str]]:
        return causes(steps.updated(claims, old, change)[1])

    gone = {"metadata": {"annotations": None}}
    assert after({"spec": {"storageClassName": "fast"}}) == []
    assert after({"spec": {"storageClassName": "fast"}} | gone) == []
    assert after({"spec": {"storageClassName": "slow"}}) == [("spec", "Forbidden")]
    assert after(gone) == [(f"metadata.annotations.{CLASS_ANNOTATION}", "Invalid")]
    assert any("storageClassName" in warning for warning in claims.warnings(old))


def test_status_is_written_through_its_own_door_only() -> None:
    old, _ = created(a_claim())

    sneaky, _ = steps.updated(claims, old, {"status": {"phase": "Bound"}})
    assert sneaky["status"] == {"phase": "Pending"}

    new, errors = steps.reported(claims, old, {"phase": "Bound", "capacity": {"storage": "2Gi"}})
    assert errors == []
    assert new["status"]["phase"] == "Bound"

    _, errors = steps.reported(
        claims, old, {"capacity": {"storage": "-1"}, "allocatedResourceStatuses": {"storage": "Foo"}}
    )
    assert causes(errors) == [
        ("status.capacity[storage]", "Invalid"),
        ("status.allocatedResourceStatuses", "NotSupported"),
    ]


def test_fraction_of_a_byte_is_warned_of() -> None:
    claim, errors = created(a_claim(resources={"requests": {"storage": "1500m"}}))

    assert errors == []
    assert len(claims.warnings(claim)) == 1
