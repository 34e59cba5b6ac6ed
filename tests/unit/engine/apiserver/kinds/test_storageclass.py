"""Storage classes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes

from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds.storageclass import StorageClass

classes = StorageClass()


def created(**fields: Any) -> tuple[Object, FieldErrors]:
    return steps.created(classes, "storage.v1.StorageClass", {"metadata": {"name": "local-fast"}, **fields})


def test_class_deletes_and_binds_at_once_unless_it_says_otherwise() -> None:
    new, errors = created(provisioner="kubernetes.io/no-provisioner")

    assert errors == []
    assert (new["reclaimPolicy"], new["volumeBindingMode"]) == ("Delete", "Immediate")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [("provisioner", "Required")]),
        ({"provisioner": "a b"}, [("provisioner", "Invalid")]),
        ({"provisioner": "Example.COM/Disk"}, []),
        ({"provisioner": "a", "reclaimPolicy": "Recycle"}, [("reclaimPolicy", "NotSupported")]),
        ({"provisioner": "a", "volumeBindingMode": "WaitForFirstConsumer"}, []),
        ({"provisioner": "a", "volumeBindingMode": "Later"}, [("volumeBindingMode", "NotSupported")]),
        ({"provisioner": "a", "parameters": {"": "x"}}, [("parameters", "Invalid")]),
        ({"provisioner": "a", "parameters": {"a": "x" * 300_000}}, [("parameters", "TooLong")]),
        ({"provisioner": "a", "parameters": {str(n): "" for n in range(513)}}, [("parameters", "TooLong")]),
        (
            {
                "provisioner": "a",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "a"]}]}],
            },
            [("allowedTopologies[0].matchLabelExpressions[0].values[1]", "Duplicate")],
        ),
    ],
)
def test_what_kubernetes_refuses_is_refused_with_the_same_fields(
    fields: Object, expected: list[tuple[str, str]]
) -> None:
    assert causes(created(**fields)[1]) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"provisioner": "b"}, [("provisioner", "Forbidden")]),
        ({"parameters": {"a": "c"}}, [("parameters", "Forbidden")]),
        ({"parameters": None}, [("parameters", "Forbidden")]),
        ({"reclaimPolicy": "Retain"}, [("reclaimPolicy", "Forbidden")]),
        ({"volumeBindingMode": "WaitForFirstConsumer"}, [("volumeBindingMode", "Invalid")]),
        ({"mountOptions": ["noatime"]}, []),
        ({"allowVolumeExpansion": True}, []),
    ],
)
def test_how_volumes_are_made_stays(change: Object, expected: list[tuple[str, str]]) -> None:
    old, _ = created(provisioner="a", parameters={"a": "b"})

    assert causes(steps.updated(classes, old, change)[1]) == expected


def test_beta_label_in_a_topology_is_warned_of() -> None:
    term = {"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]}
    new, errors = created(provisioner="a", allowedTopologies=[term])

    assert errors == []
    assert len(classes.warnings(new)) == 1
