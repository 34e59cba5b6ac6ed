"""kubectl, unchanged, as people write with it: create, apply, diff, patch, edit, label, scale, roll out."""

from __future__ import annotations

import json

import yaml
from tests.clients.conftest import CONFIG, Kubectl
from tests.contract import builders
from tests.contract.wire import Api


def test_create_of_common_things(kubectl: Kubectl) -> None:
    assert kubectl("create", "configmap", "c", "--from-literal=a=1").strip() == "configmap/c created"
    assert kubectl("create", "secret", "generic", "s", "--from-literal=a=1").strip() == "secret/s created"
    assert kubectl("create", "serviceaccount", "robot").strip() == "serviceaccount/robot created"
    assert kubectl("create", "deployment", "d", "--image=x:1").strip() == "deployment.apps/d created"
    assert kubectl("create", "job", "j", "--image=x:1").strip() == "job.batch/j created"
    assert kubectl("create", "role", "r", "--verb=get", "--resource=pods").endswith(
        "role.rbac.authorization.k8s.io/r created\n"
    )
    assert "created" in kubectl(
        "create", "rolebinding", "b", "--role=r", f"--serviceaccount={kubectl.space.name}:robot"
    )
    assert kubectl("create", "token", "robot").count(".") == 2
    assert kubectl("run", "p", "--image=x:1").strip() == "pod/p created"


def test_create_twice(kubectl: Kubectl) -> None:
    kubectl("create", "--filename=-", stdin=CONFIG)
    said = kubectl("create", "--filename=-", stdin=CONFIG, expect=1)
    assert (
        'Error from server (AlreadyExists): error when creating "STDIN": configmaps "settings" already exists' in said
    )


def test_create_with_a_generated_name(kubectl: Kubectl) -> None:
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: many-}}"
    assert kubectl("create", "--filename=-", stdin=text).startswith("configmap/many-")


def test_unknown_field_is_refused_or_warned_about(kubectl: Kubectl) -> None:
    text = CONFIG + "colour: red\n"
    said = kubectl("create", "--filename=-", stdin=text, expect=1)
    assert 'strict decoding error: unknown field "colour"' in said
    said = kubectl("create", "--filename=-", "--validate=warn", stdin=text)
    assert 'Warning: unknown field "colour"' in said


def test_invalid_object_prints_the_field(kubectl: Kubectl, api: Api) -> None:
    volume = builders.local_volume(nodeAffinity=None)
    said = kubectl("create", "--filename=-", stdin=json.dumps(volume), expect=1)
    assert f'The PersistentVolume "{volume["metadata"]["name"]}" is invalid: spec.nodeAffinity: Required value' in said


def test_dry_run_on_the_server(kubectl: Kubectl) -> None:
    said = kubectl("create", "--filename=-", "--dry-run=server", stdin=CONFIG)
    assert said.strip() == "configmap/settings created (server dry run)"
    kubectl("get", "cm", "settings", expect=1)


def test_apply_creates_configures_prunes_and_rests(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--filename=-", stdin=CONFIG).strip() == "configmap/settings created"
    assert kubectl("apply", "--filename=-", stdin=CONFIG).strip() == "configmap/settings unchanged"
    kubectl("patch", "cm", "settings", "--type=merge", "--patch", '{"data":{"other":"kept"}}')
    changed = CONFIG.replace("color: red", "size: big")
    assert kubectl("apply", "--filename=-", stdin=changed).strip() == "configmap/settings configured"
    assert kubectl.json("get", "cm", "settings")["data"] == {"size": "big", "other": "kept"}


def test_apply_of_workloads_and_a_folder(kubectl: Kubectl) -> None:
    kubectl.file("a.yaml", yaml.safe_dump(builders.stateful_set("db")))
    both = [builders.service("db"), builders.deployment("web")]
    kubectl.file("b.yaml", yaml.safe_dump_all(both))
    said = kubectl("apply", "--filename", str(kubectl.folder))
    assert {"statefulset.apps/db created", "service/db created", "deployment.apps/web created"} == set(
        said.splitlines()
    )
    said = kubectl("apply", "--filename", str(kubectl.folder))
    assert {line.split()[-1] for line in said.splitlines()} == {"unchanged"}
    kubectl.file("b.yaml", yaml.safe_dump_all([both[0], builders.deployment("web", replicas=3)]))
    assert "deployment.apps/web configured" in kubectl("apply", "--filename", str(kubectl.folder))


def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "--filename=-")
    assert kubectl(*apply, stdin=CONFIG).strip() == "configmap/settings serverside-applied"
    blue = CONFIG.replace("red", "blue")
    said = kubectl(*apply, "--field-manager=other", stdin=blue, expect=1)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.color' in said
    kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=blue)
    made = kubectl.json("get", "cm", "settings", "--show-managed-fields")
    assert made["data"] == {"color": "blue"}
    owners = {entry["manager"]: entry["fieldsV1"] for entry in made["metadata"]["managedFields"]}
    assert owners["other"]["f:data"] == {"f:color": {}}


def test_move_from_client_side_to_server_side_apply(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    said = kubectl("apply", "--server-side", "--filename=-", stdin=CONFIG.replace("red", "blue"))
    assert "serverside-applied" in said
    assert kubectl.json("get", "cm", "settings")["data"] == {"color": "blue"}


def test_diff(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    kubectl("diff", "--filename=-", stdin=CONFIG)
    said = kubectl("diff", "--filename=-", stdin=CONFIG.replace("red", "blue"), expect=1)
    assert "-  color: red" in said
    assert "+  color: blue" in said
    assert "+  color: green" in kubectl(
        "diff", "--server-side", "--force-conflicts", "--filename=-", stdin=CONFIG.replace("red", "green"), expect=1
    )


def test_patch_of_three_types(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=a:1")
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"b:1"}]}}}}'
    assert kubectl("patch", "deployment", "web", "--patch", strategic).strip() == "deployment.apps/web patched"
    kubectl("patch", "deployment", "web", "--type=merge", "--patch", '{"spec":{"replicas":3}}')
    operation = '[{"op":"add","path":"/metadata/labels/x","value":"y"}]'
    kubectl("patch", "deployment", "web", "--type=json", "--patch", operation)
    made = kubectl.json("get", "deployment", "web")
    assert {entry["name"] for entry in made["spec"]["template"]["spec"]["containers"]} == {"a", "side"}
    assert (made["spec"]["replicas"], made["metadata"]["labels"]["x"]) == (3, "y")
    said = kubectl("patch", "deployment", "web", "--type=merge", "--patch", '{"spec":{"replicas":3}}')
    assert said.strip() == "deployment.apps/web patched (no change)"


def test_patch_of_the_status(kubectl: Kubectl) -> None:
    kubectl("run", "p", "--image=x:1")
    kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "--patch", '{"status":{"phase":"Running"}}')
    assert kubectl("get", "pod", "p", "--output=jsonpath={.status.phase}") == "Running"


def test_edit(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    said = kubectl("edit", "cm", "settings", EDITOR="sed -i s/red/blue/")
    assert said.strip() == "configmap/settings edited"
    assert kubectl("get", "cm", "settings", "--output=jsonpath={.data.color}") == "blue"
    assert "no changes made" in kubectl("edit", "cm", "settings", EDITOR="true")


def test_label_and_annotate(kubectl: Kubectl) -> None:
    kubectl("apply", "--filename=-", stdin=CONFIG)
    assert kubectl("label", "cm", "settings", "tier=back").strip() == "configmap/settings labeled"
    assert "already has a value" in kubectl("label", "cm", "settings", "tier=front", expect=1)
    kubectl("label", "cm", "settings", "tier=front", "--overwrite")
    kubectl("label", "cm", "settings", "app-")
    assert kubectl.json("get", "cm", "settings")["metadata"]["labels"] == {"tier": "front"}
    assert kubectl("annotate", "cm", "settings", "note=one").strip() == "configmap/settings annotated"
    kubectl("annotate", "cm", "--all", "note=two", "--overwrite")
    assert kubectl.json("get", "cm", "settings")["metadata"]["annotations"]["note"] == "two"


def test_replace(kubectl: Kubectl) -> None:
    kubectl("create", "--filename=-", stdin=CONFIG)
    assert (
        kubectl("replace", "--filename=-", stdin=CONFIG.replace("red", "blue")).strip() == "configmap/settings replaced"
    )
    before = kubectl("get", "cm", "settings", "--output=jsonpath={.metadata.uid}")
    kubectl("replace", "--force", "--filename=-", stdin=CONFIG)
    assert kubectl("get", "cm", "settings", "--output=jsonpath={.metadata.uid}") != before


def test_set_image_and_env(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=a:1")
    assert "image updated" in kubectl("set", "image", "deployment/web", "a=a:2")
    assert "env updated" in kubectl("set", "env", "deployment/web", "COLOR=red")
    container = kubectl.json("get", "deployment", "web")["spec"]["template"]["spec"]["containers"][0]
    assert (container["image"], container["env"]) == ("a:2", [{"name": "COLOR", "value": "red"}])


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=a:1")
    assert kubectl("scale", "deployment", "web", "--replicas=4").strip() == "deployment.apps/web scaled"
    assert kubectl("get", "deployment", "web", "--output=jsonpath={.spec.replicas}") == "4"
    assert "Expected replicas to be 2, was 4" in kubectl(
        "scale", "deployment", "web", "--replicas=1", "--current-replicas=2", expect=1
    )


def test_rollout_status_waits_for_the_controller(kubectl: Kubectl, api: Api) -> None:
    # Without replicas the controller of a real cluster comes to the same end as the status written here.
    kubectl("create", "deployment", "web", "--image=a:1", "--replicas=0")
    with kubectl.started("rollout", "status", "deployment/web", "--timeout=100s") as rollout:
        told = {"status": {"observedGeneration": 99}}
        api.merge(kubectl.space.of("apps/v1", "deployments", "web", "status"), told)
        assert 'deployment "web" successfully rolled out' in rollout.end()


def test_rollout_restart(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=a:1")
    assert kubectl("rollout", "restart", "deployment/web").strip() == "deployment.apps/web restarted"
    template = kubectl.json("get", "deployment", "web")["spec"]["template"]
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]


def test_cordon_and_taint(kubectl: Kubectl, api: Api) -> None:
    name = api.post("/api/v1/nodes", builders.node())["metadata"]["name"]
    assert kubectl("cordon", name).strip() == f"node/{name} cordoned"
    assert "SchedulingDisabled" in kubectl("get", "node", name)
    assert kubectl("uncordon", name).strip() == f"node/{name} uncordoned"
    assert kubectl("taint", "node", name, "disk=slow:NoSchedule").strip() == f"node/{name} tainted"
