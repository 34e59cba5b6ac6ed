"""Workloads, services, leases, secrets and events: defaults and the rules that their users rely on."""

from __future__ import annotations

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api


def test_deployment_defaults(api: Api, space: Space) -> None:
    body = builders.deployment("one")
    del body["spec"]["replicas"]
    spec = api.post(space.of("apps/v1", "deployments"), body)["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"


def test_stateful_set_defaults(api: Api, space: Space) -> None:
    template = {"metadata": {"name": "data"}, "spec": builders.claim()["spec"]}
    body = builders.stateful_set("one", volumeClaimTemplates=[template])
    spec = api.post(space.of("apps/v1", "statefulsets"), body)["spec"]
    assert (spec["podManagementPolicy"], spec["revisionHistoryLimit"]) == ("OrderedReady", 10)
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}
    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    claim = spec["volumeClaimTemplates"][0]
    assert (claim["kind"], claim["spec"]["volumeMode"], claim["status"]) == (
        "PersistentVolumeClaim",
        "Filesystem",
        {"phase": "Pending"},
    )


def test_daemon_set_and_replica_set_and_job_are_taken(api: Api, space: Space) -> None:
    daemon = builders.deployment("one") | {"kind": "DaemonSet"}
    del daemon["spec"]["replicas"]
    spec = api.post(space.of("apps/v1", "daemonsets"), daemon)["spec"]
    assert spec["updateStrategy"]["type"] == "RollingUpdate"
    replicas = builders.deployment("one") | {"kind": "ReplicaSet"}
    assert api.post(space.of("apps/v1", "replicasets"), replicas)["spec"]["replicas"] == 1
    job = api.post(space.of("batch/v1", "jobs"), builders.job("one"))
    assert (job["spec"]["backoffLimit"], job["spec"]["completions"], job["spec"]["parallelism"]) == (6, 1, 1)
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "one"


@pytest.mark.parametrize("plural", ["deployments", "statefulsets"])
def test_selector_must_match_the_template(api: Api, space: Space, plural: str) -> None:
    body = builders.deployment() if plural == "deployments" else builders.stateful_set()
    body["spec"]["selector"]["matchLabels"] = {"app": "other"}
    status = api.post(space.of("apps/v1", plural), body, expect=422)
    assert ("FieldValueInvalid", "spec.template.metadata.labels") in wire.causes(status)


def test_stateful_set_keeps_its_claim_templates(api: Api, space: Space) -> None:
    api.post(space.of("apps/v1", "statefulsets"), builders.stateful_set("one"))
    path = space.of("apps/v1", "statefulsets", "one")
    status = api.merge(path, {"spec": {"serviceName": "other"}}, expect=422)
    assert ("FieldValueForbidden", "spec") in wire.causes(status)


def test_service_gets_an_address(api: Api, space: Space) -> None:
    spec = api.post(space.core("services"), builders.service("one"))["spec"]
    assert spec["type"] == "ClusterIP"
    assert spec["clusterIP"].count(".") == 3
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert spec["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert spec["sessionAffinity"] == "None"
    headless = builders.service("two")
    headless["spec"]["clusterIP"] = "None"
    assert api.post(space.core("services"), headless)["spec"]["clusterIP"] == "None"


def test_lease_keeps_microseconds(api: Api, space: Space) -> None:
    body = builders.lease("one")
    body["spec"]["renewTime"] = "2024-01-02T03:04:05.678901Z"
    made = api.post(space.of("coordination.k8s.io/v1", "leases"), body)
    assert made["spec"]["renewTime"] == "2024-01-02T03:04:05.678901Z"


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"data": {"a b": "MQ=="}}, ("FieldValueInvalid", "data[a b]")),
        ({"type": "kubernetes.io/tls", "data": {}}, ("FieldValueRequired", "data[tls.crt]")),
        ({"type": "kubernetes.io/dockerconfigjson"}, ("FieldValueRequired", "data[.dockerconfigjson]")),
    ],
)
def test_secret_is_validated(api: Api, space: Space, body: builders.Object, cause: tuple[str, str]) -> None:
    assert cause in wire.causes(api.post(space.core("secrets"), builders.secret(**body), expect=422))


def test_secret_data_must_be_base64(api: Api, space: Space) -> None:
    status = api.post(space.core("secrets"), builders.secret(data={"a": "not base64!"}), expect=400)
    assert status["reason"] == "BadRequest"
    assert "base64" in status["message"]


def test_config_map_keys_are_checked(api: Api, space: Space) -> None:
    status = api.post(space.core("configmaps"), builders.config_map(data={"a b": "1"}), expect=422)
    assert wire.causes(status) == [("FieldValueInvalid", "data[a b]")]
    both = builders.config_map(data={"a": "1"}) | {"binaryData": {"a": "MQ=="}}
    status = api.post(space.core("configmaps"), both, expect=422)
    assert wire.causes(status)[0][0] == "FieldValueInvalid"


def test_event_of_one_group_is_seen_in_the_other(api: Api, space: Space) -> None:
    old = api.post(space.core("events"), builders.core_event(space.name, "one"))
    new = api.get(space.of("events.k8s.io/v1", "events", "one"))
    assert (new["apiVersion"], new["metadata"]["uid"]) == ("events.k8s.io/v1", old["metadata"]["uid"])
    assert (new["reason"], new["note"], new["type"]) == ("Tested", "a test was here", "Normal")
    assert new["regarding"]["name"] == "some"
    assert new["deprecatedSource"] == {"component": "contract"}
    assert "message" not in new


def test_event_of_the_new_group_is_seen_in_the_old(api: Api, space: Space) -> None:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "two", "namespace": space.name},
        "eventTime": "2024-01-02T03:04:05.000006Z",
        "reportingController": "localpv.dev/contract",
        "reportingInstance": "here",
        "action": "Testing",
        "reason": "Tested",
        "type": "Warning",
        "regarding": {"kind": "ConfigMap", "namespace": space.name, "name": "some"},
        "note": "a test was here",
    }
    api.post(space.of("events.k8s.io/v1", "events"), body)
    old = api.get(space.core("events", "two"))
    assert (old["message"], old["involvedObject"]["name"]) == ("a test was here", "some")
    assert (old["reportingComponent"], old["eventTime"]) == ("localpv.dev/contract", "2024-01-02T03:04:05.000006Z")


def test_events_of_both_groups_are_one_stream(api: Api, space: Space) -> None:
    version = api.get(space.core("events"))["metadata"]["resourceVersion"]
    with api.watch(space.of("events.k8s.io/v1", "events"), resourceVersion=version) as watch:
        api.post(space.core("events"), builders.core_event(space.name, "one"))
        event = watch.next()
    assert (event.type, event.name, event.object["apiVersion"]) == ("ADDED", "one", "events.k8s.io/v1")


def test_event_belongs_to_the_namespace_of_its_object(api: Api, space: Space) -> None:
    body = builders.core_event(space.name)
    body["involvedObject"]["namespace"] = "default"
    status = api.post(space.core("events"), body, expect=422)
    assert ("FieldValueInvalid", "involvedObject.namespace") in wire.causes(status)


def test_new_event_needs_its_reporter(api: Api, space: Space) -> None:
    body = {"metadata": {"name": "x"}, "eventTime": "2024-01-02T03:04:05.000006Z"}
    status = api.post(space.of("events.k8s.io/v1", "events"), body, expect=422)
    fields = {field for _, field in wire.causes(status)}
    assert {"reportingController", "reportingInstance", "action", "reason", "type"} <= fields


def test_admission_policy_is_stored(api: Api) -> None:
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": builders.metadata(),
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["g.localpv.dev"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["x"],
                    }
                ]
            },
            "validations": [{"expression": "object.metadata.name != 'x'"}],
        },
    }
    made = api.post("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", body)
    assert made["spec"]["failurePolicy"] == "Fail"
    assert made["metadata"]["generation"] == 1
