"""The nodes of a cluster: each its own machine as far as Kubernetes can see."""

from __future__ import annotations

import base64
import json

from tests.contract import builders, wire
from tests.e2e import pods
from tests.kubernetes import cluster


def test_every_node_is_ready_under_its_own_name_and_address(running: cluster.Cluster, api: wire.Api) -> None:
    found = {node["metadata"]["name"]: node for node in api.get("/api/v1/nodes")["items"]}

    assert sorted(found) == [node.name for node in running.nodes]
    for node in running.nodes:
        seen = found[node.name]
        assert seen["metadata"]["labels"]["kubernetes.io/hostname"] == node.name
        addresses = {one["type"]: one["address"] for one in seen["status"]["addresses"]}
        assert addresses == {"InternalIP": node.address, "Hostname": node.name}
        assert {one["type"]: one["status"] for one in seen["status"]["conditions"]}["Ready"] == "True"


def test_pods_run_on_the_node_that_they_ask_for(running: cluster.Cluster, here: pods.Here) -> None:
    for node in running.nodes:
        chosen = {"nodeSelector": {"kubernetes.io/hostname": node.name}, "hostNetwork": True}
        pod, said = here.run("hostname", spec=chosen)

        assert pod["spec"]["nodeName"] == node.name
        assert said.strip() == node.name


def test_what_a_node_writes_below_etc_and_mnt_stays_in_the_node(running: cluster.Cluster) -> None:
    first, second = running.nodes[:2]
    first.run("sh", "-c", "echo mine >/etc/localpv-test; mkdir -p /mnt/own; echo mine >/mnt/own/file")

    assert first.run("cat", "/etc/localpv-test", "/mnt/own/file") == "mine\nmine\n"
    assert "No such file" not in first.run("ls", "/mnt/own")
    assert second.run("sh", "-c", "ls /etc/localpv-test /mnt/own 2>/dev/null || echo nothing").strip() == "nothing"
    assert first.outside("/mnt/own/file").read_text() == "mine\n"


def test_pods_of_different_nodes_reach_each_other(running: cluster.Cluster, here: pods.Here) -> None:
    first, second = ({"nodeSelector": {"kubernetes.io/hostname": node.name}} for node in running.nodes[:2])
    server = here.start("sh", "-c", "while true; do echo hello | nc -l -p 8080; done", spec=second)
    address = here.wait(server, "Running")["status"]["podIP"]

    # The server may not listen yet when it runs, or have nothing to say yet.
    client = f"until nc -w 10 {address} 8080 </dev/null | grep hello; do sleep 0.2; done"
    _, said = here.run("sh", "-c", client, spec=first)

    assert said.splitlines()[-1] == "hello"


def test_pod_outlives_the_kubelet_and_containerd_of_its_node(running: cluster.Cluster, here: pods.Here) -> None:
    node = running.nodes[0]
    pod = here.start("sh", "-c", "trap exit TERM; while true; do sleep 1; done", spec={"nodeName": node.name})
    before = here.wait(pod, "Running")["status"]["containerStatuses"]

    node.restart("containerd")
    node.restart("kubelet")
    # The node works again once a new pod has run on it.
    here.run("true", spec={"nodeName": node.name})

    # A kubelet that has just begun may not have looked at all of it yet; another container would have another id.
    here.until(pod, lambda pod: pod["status"]["containerStatuses"] == before, "has the container that it had")


def test_node_tells_how_full_its_volumes_are(running: cluster.Cluster, here: pods.Here) -> None:
    node = running.nodes[0]
    node.run("mkdir", "-p", "/mnt/measured")
    claim = here.volume_on(node.name, "/mnt/measured")
    mounts = [{"name": "disk", "mountPath": "/data"}]
    name = here.start("sleep", "3600", spec=pods.claimed(claim), volumeMounts=mounts)
    here.wait(name, "Running")

    def measured() -> list[int]:
        told = here.api.send("GET", f"/api/v1/nodes/{node.name}/proxy/stats/summary")
        assert told.code == 200, told.raw
        of_pod = [one for one in told.body["pods"] if one["podRef"]["name"] == name]
        volumes = [volume for one in of_pod for volume in one.get("volume", ()) if "pvcRef" in volume]
        return [volume["capacityBytes"] for volume in volumes]

    assert wire.eventually(measured, "the kubelet has measured the volume", within=pods.POD_SECONDS)[0] > 0
    here.delete(name)


def test_token_of_a_pod_names_its_node_and_reaches_the_api(running: cluster.Cluster, here: pods.Here) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    # busybox cannot check certificates, so the test itself shows the token to the server.
    reach = "nc -w 60 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo reached"
    pod, said = here.run("sh", "-c", f"cat {folder}/token; echo; {reach}")
    token, reached = said.split()

    payload = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["kubernetes.io"]
    assert claims["node"]["name"] == pod["spec"]["nodeName"]
    assert reached == "reached"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = here.api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    extra = status["user"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == [pod["spec"]["nodeName"]]


def test_admission_policy_holds_a_pod_to_the_node_in_its_token(api: wire.Api, here: pods.Here) -> None:
    """What localpv's agents will be held to: an object must name the node that its writer's token names."""
    name = builders.unique("own-node")
    here.api.post(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": here.space.name}},
                    "resourceRules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["configmaps"],
                        }
                    ],
                },
                "validations": [
                    {
                        "expression": "request.userInfo.extra[?'authentication.kubernetes.io/node-name'][0]"
                        ".orValue('') == object.data.node",
                        "message": "not your node",
                    }
                ],
            },
        },
    )
    here.api.post(
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    )
    group = "/apis/rbac.authorization.k8s.io/v1"
    roles = f"{group}/namespaces/{here.space.name}"
    here.api.post(f"{roles}/roles", builders.role("writer", builders.rule("create", "configmaps")))
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": here.space.name}
    here.api.post(f"{roles}/rolebindings", builders.role_binding("writer", subject))
    pod = here.start("sleep", "3600")
    node = here.wait(pod, "Running")["spec"]["nodeName"]
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}},
    }
    token = here.api.post(here.space.core("serviceaccounts", "default", "token"), request)["status"]["token"]
    agent = api.as_bearer(token)
    maps = here.space.core("configmaps")

    def refused() -> bool:
        # A new policy holds a moment after it was made.
        answer = agent.send("POST", maps, builders.config_map(data={"node": "elsewhere"}))
        return answer.code == 422 and "not your node" in answer.body["message"]

    wire.eventually(refused, "an object for another node is refused")
    assert agent.send("POST", maps, builders.config_map(data={"node": node})).code == 201
