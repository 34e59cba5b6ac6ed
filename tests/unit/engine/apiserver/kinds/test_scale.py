"""The scale subresource of built-in and custom kinds."""

from __future__ import annotations

from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds.workload_common import ScalePaths

METADATA = {"name": "db", "namespace": "shop", "uid": "1", "resourceVersion": "7", "labels": {"a": "b"}}


def test_scale_of_a_workload_shows_counts_and_the_selector_as_text() -> None:
    selector = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["e", "d"]}]}
    obj = {"metadata": METADATA, "spec": {"replicas": 3, "selector": selector}, "status": {"replicas": 2}}

    assert common.to_scale(obj) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "db", "namespace": "shop", "uid": "1", "resourceVersion": "7"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b,c in (d,e)"},
    }


def test_custom_kind_says_where_its_counts_are() -> None:
    paths = ScalePaths(spec=".spec.size", status=".status.now.size", selector=".status.labels")
    obj = {"metadata": METADATA, "spec": {"size": 4}, "status": {"now": {"size": 1}, "labels": "a=b"}}

    scale = common.to_scale(obj, paths)
    assert (scale["spec"], scale["status"]) == ({"replicas": 4}, {"replicas": 1, "selector": "a=b"})

    common.apply_scale(obj, {"spec": {"replicas": 9}}, paths)
    assert obj["spec"] == {"size": 9}


def test_custom_object_without_any_counts_scales_from_nothing() -> None:
    paths = ScalePaths(spec=".spec.deep.size", status=".status.size")
    obj: dict[str, object] = {"metadata": METADATA}

    scale = common.to_scale(obj, paths)
    assert (scale["spec"], scale["status"]) == ({}, {"replicas": 0})
    common.apply_scale(obj, {"spec": {"replicas": 2}}, paths)
    assert obj["spec"] == {"deep": {"size": 2}}


def test_scale_without_replicas_means_none() -> None:
    obj = {"metadata": METADATA, "spec": {"replicas": 3}}
    common.apply_scale(obj, {"spec": {}})

    assert obj["spec"] == {"replicas": 0}
