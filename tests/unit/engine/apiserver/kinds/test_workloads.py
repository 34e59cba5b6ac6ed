from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.api import well_known
from localpv.engine.apiserver.kinds import workload_common as common
from localpv.engine.apiserver.kinds import workloads
from localpv.engine.apiserver.kinds.workload_common import ScalePaths

SETS = Writes(workloads.StatefulSet(), "StatefulSet", "apps")
DEPLOYMENTS = Writes(workloads.Deployment(), "Deployment", "apps")
REPLICAS = Writes(workloads.ReplicaSet(), "ReplicaSet", "apps")
DAEMONS = Writes(workloads.DaemonSet(), "DaemonSet", "apps")
ALL = pytest.mark.parametrize("writes", [SETS, DEPLOYMENTS, REPLICAS, DAEMONS], ids=lambda writes: writes.kind)

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "c", "image": "example.com/i:1"}]},
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def workload(**spec: Any) -> dict[str, Any]:
    full = {"selector": {"matchLabels": {"app": "db"}}, "template": deepcopy(TEMPLATE), **spec}
    return {"spec": {key: value for key, value in full.items() if value is not None}}


def test_stateful_set_is_completed() -> None:
    obj = SETS.stored(workload(volumeClaimTemplates=[CLAIM]))
    spec = obj["spec"]

    assert spec["replicas"] == 1
    assert spec["serviceName"] == ""
    assert spec["podManagementPolicy"] == "OrderedReady"
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["revisionHistoryLimit"] == 10
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    [claim] = spec["volumeClaimTemplates"]
    assert (claim["kind"], claim["apiVersion"], claim["status"]) == (
        "PersistentVolumeClaim",
        "v1",
        {"phase": "Pending"},
    )
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert obj["status"] == {"replicas": 0, "availableReplicas": 0}


def test_deployment_replica_set_and_daemon_set_are_completed() -> None:
    spec = DEPLOYMENTS.stored(workload())["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)

    assert REPLICAS.stored(workload())["status"] == {"replicas": 0}

    daemon = DAEMONS.stored(workload())
    assert daemon["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert daemon["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}
    assert set(daemon["status"]) == {
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    }


@ALL
def test_selector_must_find_the_pods_of_the_template(writes: Writes) -> None:
    other = writes.create(workload(selector={"matchLabels": {"app": "web"}}))
    assert other.causes == {("spec.template.metadata.labels", "Invalid")}
    assert ("spec.selector", "Invalid") in writes.create(workload(selector={})).causes
    broken = {"matchExpressions": [{"key": "app", "operator": "X"}]}
    assert ("spec.selector.matchExpressions[0].operator", "Invalid") in writes.create(workload(selector=broken)).causes


@ALL
def test_pods_of_workloads_run_for_ever(writes: Writes) -> None:
    template = deepcopy(TEMPLATE)
    template["spec"] |= {"restartPolicy": "Never", "activeDeadlineSeconds": 5}

    assert writes.create(workload(template=template)).causes == {
        ("spec.template.spec.restartPolicy", "NotSupported"),
        ("spec.template.spec.activeDeadlineSeconds", "Forbidden"),
    }


@ALL
def test_status_is_not_changed_by_an_ordinary_update(writes: Writes) -> None:
    old = writes.stored(workload())
    outcome = writes.update(old, status={"observedGeneration": 7}, spec__minReadySeconds=3)

    assert not outcome.errors
    assert outcome.obj["status"] == old["status"]


@pytest.mark.parametrize("writes", [DEPLOYMENTS, REPLICAS, DAEMONS], ids=lambda writes: writes.kind)
def test_selector_stays(writes: Writes) -> None:
    old = writes.stored(workload())

    assert ("spec.selector", "Invalid") in writes.update(
        old, spec__selector__matchLabels={"app": "db", "a": "b"}
    ).causes


@pytest.mark.parametrize(
    "change",
    [{"spec__serviceName": "x"}, {"spec__podManagementPolicy": "Parallel"}, {"spec__volumeClaimTemplates": None}],
)
def test_identity_of_a_stateful_set_stays(change: Any) -> None:
    assert SETS.update(SETS.stored(workload(volumeClaimTemplates=[CLAIM])), **change).causes == {("spec", "Forbidden")}


@pytest.mark.parametrize(
    "change",
    [
        {"spec__replicas": 5},
        {"spec__ordinals": {"start": 3}},
        {"spec__updateStrategy": {"type": "OnDelete"}},
        {"spec__revisionHistoryLimit": 2},
        {"spec__persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}},
    ],
)
def test_the_rest_of_a_stateful_set_may_change(change: Any) -> None:
    assert not SETS.update(SETS.stored(workload(volumeClaimTemplates=[CLAIM])), **change).errors


def test_claims_of_a_stateful_set_are_volumes_of_its_pods() -> None:
    template = deepcopy(TEMPLATE)
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]

    assert not SETS.create(workload(template=template, volumeClaimTemplates=[CLAIM])).errors
    assert ("spec.template.spec.containers[0].volumeMounts[0].name", "NotFound") in SETS.create(
        workload(template=template)
    ).causes


def test_claims_are_judged_when_the_stateful_set_is_new() -> None:
    bad = {"metadata": {"name": "data"}, "spec": {"accessModes": ["Sometimes"]}}
    causes = SETS.create(workload(volumeClaimTemplates=[bad], serviceName="No_Name")).causes

    assert ("spec.serviceName", "Invalid") in causes
    assert ("spec.volumeClaimTemplates[0].spec.accessModes", "NotSupported") in causes


@pytest.mark.parametrize(
    ("writes", "spec", "field", "why"),
    [
        (SETS, {"replicas": -1}, "spec.replicas", "Invalid"),
        (SETS, {"podManagementPolicy": "X"}, "spec.podManagementPolicy", "Invalid"),
        (SETS, {"updateStrategy": {"type": "X"}}, "spec.updateStrategy", "Invalid"),
        (SETS, {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {}}},
         "spec.updateStrategy.rollingUpdate", "Invalid"),
        (SETS, {"ordinals": {"start": -1}}, "spec.ordinals.start", "Invalid"),
        (SETS, {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "X"}},
         "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "NotSupported"),
        (DEPLOYMENTS, {"strategy": {"type": "X"}}, "spec.strategy", "NotSupported"),
        (DEPLOYMENTS, {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
         "spec.strategy.rollingUpdate", "Forbidden"),
        (DEPLOYMENTS, {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
         "spec.strategy.rollingUpdate.maxUnavailable", "Invalid"),
        (DEPLOYMENTS, {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
         "spec.strategy.rollingUpdate.maxUnavailable", "Invalid"),
        (DEPLOYMENTS, {"progressDeadlineSeconds": 5, "minReadySeconds": 5}, "spec.progressDeadlineSeconds", "Invalid"),
        (DAEMONS, {"updateStrategy": {"type": "X"}}, "spec.updateStrategy", "NotSupported"),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
         "spec.updateStrategy.rollingUpdate.maxSurge", "Invalid"),
        (DAEMONS, {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
         "spec.updateStrategy.rollingUpdate.maxUnavailable", "Required"),
    ],
)  # fmt: skip
def test_one_wrong_field_is_named(writes: Writes, spec: Any, field: str, why: str) -> None:
    assert writes.create(workload(**spec)).causes == {(field, why)}


def test_gated_field_of_a_stateful_set_is_dropped() -> None:
    obj = SETS.stored(workload(updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}))

    assert obj["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_template_generation_counts_changes_of_the_template() -> None:
    old = DAEMONS.stored(workload())
    template = deepcopy(old["spec"]["template"])
    template["spec"]["containers"][0]["image"] = "example.com/i:2"
    key = well_known.TEMPLATE_GENERATION

    assert DAEMONS.update(old, spec__template=template).obj["metadata"]["annotations"][key] == "2"
    assert DAEMONS.update(old, metadata__annotations={key: "9"}).obj["metadata"]["annotations"][key] == "1"


@pytest.mark.parametrize("writes", [SETS, DEPLOYMENTS, REPLICAS], ids=lambda writes: writes.kind)
def test_counts_in_the_status_fit_together(writes: Writes) -> None:
    old = writes.stored(workload())

    assert not writes.update_status(old, status={"replicas": 3, "readyReplicas": 2, "availableReplicas": 1}).errors
    assert writes.update_status(old, status={"replicas": 1, "readyReplicas": 2}).causes == {
        ("status.readyReplicas", "Invalid")
    }
    assert writes.update_status(old, status={"replicas": 2, "readyReplicas": 1, "availableReplicas": 2}).causes == {
        ("status.availableReplicas", "Invalid")
    }


def test_labels_of_a_deployment_do_not_change_with_its_status() -> None:
    old = DEPLOYMENTS.stored(workload())
    outcome = DEPLOYMENTS.update_status(old, metadata__labels={"a": "b"}, spec__replicas=9, status={"replicas": 1})

    assert "labels" not in outcome.obj["metadata"]
    assert outcome.obj["spec"] == old["spec"]
    assert outcome.obj["status"] == {"replicas": 1}


def test_collisions_are_never_forgotten() -> None:
    old = DEPLOYMENTS.stored(workload()) | {"status": {"collisionCount": 2}}

    assert DEPLOYMENTS.update_status(old, status={"collisionCount": 1}).causes == {("status.collisionCount", "Invalid")}


def test_replica_sets_are_found_by_their_count() -> None:
    assert workloads.ReplicaSet().selectable(REPLICAS.stored(workload())) == {"status.replicas": "0"}


def test_name_that_is_no_dns_label_is_taken_with_a_warning() -> None:
    obj = DEPLOYMENTS.stored({"metadata": {"name": "my.app"}, **workload()})

    assert len(workloads.Deployment().warnings(obj)) == 1
    assert SETS.create({"metadata": {"name": "my.app"}, **workload()}).causes == {("metadata.name", "Invalid")}


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
