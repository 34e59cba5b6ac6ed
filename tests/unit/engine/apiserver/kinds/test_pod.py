"""Pods: what they default to, what is refused, and what may change in one that exists."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds import steps
from tests.unit.engine.apiserver.kinds.steps import causes, with_name

from localpv import errors as failures
from localpv.api.fields import FieldErrors
from localpv.api.objects import Object
from localpv.engine.apiserver.kinds import pod_spec
from localpv.engine.apiserver.kinds.checks import pull_policy
from localpv.engine.apiserver.kinds.pod import Pod

pods = Pod()


def created(spec: Object, **metadata: Any) -> tuple[Object, FieldErrors]:
    pod = with_name({"containers": [{"name": "main", "image": "app:1"}], **spec})
    pod["metadata"] |= metadata
    return steps.created(pods, "core.v1.Pod", pod)


def a_pod(**spec: Any) -> Object:
    pod, errors = created(spec)
    assert errors == []
    return pod


def with_container(**container: Any) -> tuple[Object, FieldErrors]:
    return created({"containers": [{"name": "main", "image": "app:1", **container}]})


def test_pod_is_filled_in_as_kubernetes_does() -> None:
    pod = a_pod()

    assert pod["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "app:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "serviceAccount": "default",
        "serviceAccountName": "default",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("registry:5000/app", "Always"),
        ("registry:5000/app:v1", "IfNotPresent"),
        ("app@sha256:0", "IfNotPresent"),
        ("app:latest@sha256:0", "Always"),
        ("", "IfNotPresent"),
    ],
)
def test_image_that_may_be_another_tomorrow_is_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_probes_ports_and_variables_are_filled_in() -> None:
    pod, errors = with_container(
        ports=[{"containerPort": 80}],
        env=[{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        livenessProbe={"httpGet": {"port": 80}},
        resources={"limits": {"cpu": "1"}},
    )

    assert errors == []
    container = pod["spec"]["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] == "v1"
    assert container["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["resources"]["requests"] == {"cpu": "1"}


def test_old_name_of_the_service_account_field_is_understood() -> None:
    spec = a_pod(serviceAccount="builder")["spec"]

    assert (spec["serviceAccount"], spec["serviceAccountName"]) == ("builder", "builder")


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1024Mi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "0"}}], "BestEffort"),
    ],
)
def test_quality_of_service_follows_from_the_resources(resources: list[Object], quality: str) -> None:
    containers = [{"name": f"c{index}", "image": "a", "resources": each} for index, each in enumerate(resources)]

    assert a_pod(containers=containers)["status"]["qosClass"] == quality


def test_own_toleration_of_sick_nodes_is_kept() -> None:
    mine = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    tolerations = a_pod(tolerations=[mine])["spec"]["tolerations"]

    assert tolerations[0] == mine
    assert [each["key"] for each in tolerations[1:]] == ["node.kubernetes.io/unreachable"]


def test_gated_pod_says_so() -> None:
    condition = a_pod(schedulingGates=[{"name": "example.com/wait"}])["status"]["conditions"][0]

    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_labels_of_the_pod_are_put_into_selectors_that_name_their_keys() -> None:
    term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["version"]}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod, errors = created({"affinity": affinity}, labels={"version": "2"})

    assert errors == []
    found = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert found["labelSelector"]["matchExpressions"] == [{"key": "version", "operator": "In", "values": ["2"]}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": []}, [("spec.containers", "Required")]),
        ({"containers": [{}]}, [("spec.containers[0].name", "Required"), ("spec.containers[0].image", "Required")]),
        (
            {"containers": [{"name": "a", "image": "a"}, {"name": "a", "image": "b"}]},
            [("spec.containers[1].name", "Duplicate")],
        ),
        ({"containers": [{"name": "a", "image": " a"}]}, [("spec.containers[0].image", "Invalid")]),
        ({"restartPolicy": "Sometimes"}, [("spec.restartPolicy", "NotSupported")]),
        ({"dnsPolicy": "None"}, [("spec.dnsConfig", "Required")]),
        ({"activeDeadlineSeconds": 0}, [("spec.activeDeadlineSeconds", "Invalid")]),
        ({"nodeSelector": {"a": "-"}}, [("spec.nodeSelector", "Invalid")]),
        ({"nodeName": "A_"}, [("spec.nodeName", "Invalid")]),
        ({"hostAliases": [{"ip": "nowhere"}]}, [("spec.hostAliases[0].ip", "Invalid")]),
        ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
         [("spec.tolerations[0].operator", "Invalid")]),
        ({"securityContext": {"runAsUser": -1}}, [("spec.securityContext.runAsUser", "Invalid")]),
        ({"hostPID": True, "shareProcessNamespace": True}, [("spec.securityContext.shareProcessNamespace", "Invalid")]),
        ({"ephemeralContainers": [{"name": "e", "image": "e"}]}, [("spec.ephemeralContainers", "Forbidden")]),
        ({"initContainers": [{"name": "main", "image": "i"}]}, [("spec.initContainers[0].name", "Duplicate")]),
        (
            {"initContainers": [{"name": "i", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}]},
            [("spec.initContainers[0].livenessProbe", "Forbidden")],
        ),
        (
            {"initContainers": [{"name": "i", "image": "i", "restartPolicy": "Always",
                                 "livenessProbe": {"exec": {"command": ["a"]}}}]},
            [],
        ),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
         [("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey", "Required"),
          ("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey", "Invalid")]),
        ({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}]},
         [("spec.topologySpreadConstraints[0].maxSkew", "Invalid")]),
    ],
)  # fmt: skip
def test_what_kubernetes_refuses_is_refused_with_the_same_fields(spec: Object, expected: list[tuple[str, str]]) -> None:
    assert causes(created(spec)[1]) == expected


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"ports": [{}]}, [("ports[0].containerPort", "Required")]),
        ({"ports": [{"containerPort": 80, "name": "No_Name"}]}, [("ports[0].name", "Invalid")]),
        ({"env": [{"name": "a=b"}]}, [("env[0].name", "Invalid")]),
        ({"env": [{"name": "1a b"}]}, []),
        ({"env": [{"name": "A", "valueFrom": {}}]}, [("env[0].valueFrom", "Invalid")]),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]},
            [("env[0].valueFrom.fieldRef.fieldPath", "NotSupported")],
        ),
        ({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}, [("resources.requests", "Invalid")]),
        ({"resources": {"requests": {"bananas": "1"}}}, [("resources.requests[bananas]", "Invalid")]),
        ({"resources": {"requests": {"example.com/gpu": "1"}}}, [("resources.limits", "Required")]),
        ({"resources": {"limits": {"example.com/gpu": "1"}}}, []),
        ({"livenessProbe": {}}, [("livenessProbe", "Required")]),
        (
            {"livenessProbe": {"tcpSocket": {"port": 80}, "successThreshold": 2}},
            [("livenessProbe.successThreshold", "Invalid")],
        ),
        ({"lifecycle": {"preStop": {"sleep": {"seconds": 100}}}}, [("lifecycle.preStop.sleep", "Invalid")]),
        ({"imagePullPolicy": "Maybe"}, [("imagePullPolicy", "NotSupported")]),
        (
            {"securityContext": {"allowPrivilegeEscalation": False, "privileged": True}},
            [("securityContext", "Invalid")],
        ),
    ],
)
def test_wrong_container_is_refused(container: Object, expected: list[tuple[str, str]]) -> None:
    wrong = causes(with_container(**container)[1])

    assert wrong == [(f"spec.containers[0].{field}", reason) for field, reason in expected]


@pytest.mark.parametrize(
    "spec",
    [{"priorityClassName": "gold"}, {"priority": 5}, {"preemptionPolicy": "Never"}, {"runtimeClassName": "kata"},
     {"overhead": {"cpu": "1"}}],
)  # fmt: skip
def test_classes_that_the_engine_does_not_have_are_forbidden(spec: Object) -> None:
    with pytest.raises(failures.Forbidden):
        created(spec)


def test_critical_pods_have_the_priority_of_their_class() -> None:
    assert a_pod(priorityClassName="system-node-critical")["spec"]["priority"] == 2_000_001_000


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"activeDeadlineSeconds": 50}, []),
        ({"activeDeadlineSeconds": 200}, [("spec.activeDeadlineSeconds", "Invalid")]),
        ({"activeDeadlineSeconds": None}, [("spec.activeDeadlineSeconds", "Invalid")]),
        ({"containers": [{"name": "main", "image": "app:2"}]}, []),
        ({"containers": [{"name": "main", "image": "app:1", "command": ["sh"]}]}, [("spec", "Forbidden")]),
        ({"containers": []}, [("spec.containers", "Required"), ("spec.containers", "Forbidden")]),
        ({"nodeName": "node-1"}, [("spec", "Forbidden")]),
        ({"restartPolicy": "Never"}, [("spec", "Forbidden")]),
        ({"securityContext": {"runAsUser": 0}}, [("spec", "Forbidden")]),
        ({"priority": None, "preemptionPolicy": None}, []),
        ({"schedulingGates": [{"name": "a"}]}, [("spec.schedulingGates[0].name", "Forbidden")]),
    ],
)
def test_little_may_change_in_a_pod_that_exists(change: Object, expected: list[tuple[str, str]]) -> None:
    old = a_pod(activeDeadlineSeconds=100)
    old["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent"

    assert causes(steps.updated(pods, old, {"spec": change})[1]) == expected


def test_tolerations_can_be_added_and_not_taken_away() -> None:
    old = a_pod(tolerations=[{"key": "a", "operator": "Exists"}])
    own, *others = old["spec"]["tolerations"]

    def to(tolerations: list[Object]) -> list[tuple[str, str]]:
        return causes(steps.updated(pods, old, {"spec": {"tolerations": tolerations}})[1])

    assert to([own, *others, {"key": "b", "operator": "Exists"}]) == []
    assert to(others) == [("spec.tolerations", "Forbidden")]
    assert to([own]) == []  # those for sick nodes are put back


def test_gated_pod_may_be_narrowed_down_until_its_last_gate_goes() -> None:
    old = a_pod(schedulingGates=[{"name": "a"}, {"name": "b"}], nodeSelector={"disk": "ssd"})

    def to(**spec: Any) -> list[tuple[str, str]]:
        return causes(steps.updated(pods, old, {"spec": spec})[1])

    assert to(schedulingGates=[{"name": "b"}]) == []
    assert to(schedulingGates=None) == []
    assert to(nodeSelector={"zone": "a"}) == []
    assert to(nodeSelector={"disk": "hdd"}) == [("spec.nodeSelector", "Invalid")]


def test_client_that_drops_empty_fields_has_changed_nothing() -> None:
    old = a_pod(hostNetwork=False, volumes=[{"name": "v", "emptyDir": {"medium": ""}}])
    change = {"spec": {"hostNetwork": None, "volumes": [{"name": "v", "emptyDir": {}}]}}

    assert steps.updated(pods, old, change)[1] == []


def test_status_belongs_to_the_node() -> None:
    old = a_pod()
    sneaky, _ = steps.updated(pods, old, {"status": {"phase": "Running"}})
    assert sneaky["status"]["phase"] == "Pending"

    new, errors = steps.reported(pods, old, {"phase": "Running", "podIP": "10.0.0.1", "qosClass": None})
    assert errors == []
    assert new["status"] == {
        "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "qosClass": "BestEffort",
    }  # fmt: skip

    assert causes(steps.reported(pods, old, {"qosClass": "Guaranteed"})[1]) == [("status.qosClass", "Invalid")]
    assert causes(steps.reported(pods, old, {"podIPs": [{"ip": "x"}]})[1]) == [("status.podIPs[0]", "Invalid")]


@pytest.mark.parametrize(("policy", "code", "returns"), [("Never", 1, False), ("OnFailure", 1, True),
                                                        ("OnFailure", 0, False), ("Always", 0, True)])  # fmt: skip
def test_container_that_is_not_restarted_stays_ended(policy: str, code: int, returns: bool) -> None:
    ended = {"containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}
    old, _ = steps.reported(pods, a_pod(restartPolicy=policy), ended)
    _, errors = steps.reported(pods, old, {"containerStatuses": [{"name": "main", "state": {"running": {}}}]})

    assert causes(errors) == ([] if returns else [("status.containerStatuses[0].state", "Forbidden")])


def test_pods_can_be_chosen_by_node_phase_and_account() -> None:
    found = pods.selectable(a_pod(nodeName="node-1", hostNetwork=True))

    assert found["spec.nodeName"] == "node-1"
    assert found["status.phase"] == "Pending"
    assert found["spec.hostNetwork"] == "true"
    assert found["spec.serviceAccountName"] == "default"


def test_pod_on_a_node_has_its_grace_and_others_go_at_once() -> None:
    assert pods.grace_seconds(a_pod(nodeName="node-1"), None) == 30
    assert pods.grace_seconds(a_pod(nodeName="node-1"), 5) == 5
    assert pods.grace_seconds(a_pod(), 5) == 0
    ended, _ = steps.reported(pods, a_pod(nodeName="node-1"), {"phase": "Succeeded"})
    assert pods.grace_seconds(ended, None) == 0


def test_name_that_is_no_host_name_and_labels_of_old_are_warned_of() -> None:
    pod, errors = created({"nodeSelector": {"beta.kubernetes.io/os": "linux"}}, name="a.b")

    assert errors == []
    assert len(pods.warnings(pod)) == 2


def test_template_is_filled_in_and_checked_like_a_pod_but_keeps_what_was_written() -> None:
    limits = {"limits": {"cpu": "1"}}
    template: Object = {"spec": {"containers": [{"name": "a", "image": "a:1", "resources": limits}]}}
    pod_spec.default_template(template)

    assert template["metadata"] == {}
    assert template["spec"]["restartPolicy"] == "Always"
    assert "tolerations" not in template["spec"]
    assert template["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert pod_spec.validate_template(template, "spec.template") == []

    template["spec"]["containers"][0]["image"] = ""
    template["metadata"] = {"labels": {"a": "-"}}
    assert causes(pod_spec.validate_template(template, "spec.template")) == [
        ("spec.template.labels", "Invalid"),
        ("spec.template.spec.containers[0].image", "Required"),
    ]
