"""LocalStorage and LocalStorageNode on an API server: what the definitions let through, refuse, and show."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

from localpv.api import crds

EXAMPLE_1 = """
kind: LocalStorage
apiVersion: local.storage.openshift.com/v1alpha1
metadata:
  name: local
spec:
  nodes:
    # No selector implies all nodes
    - devices:
      - storageClassName: local
        volumeMode: Block
        deviceNames:
        - sd[b-z]
"""

EXAMPLE_2 = """
kind: LocalStorage
apiVersion: local.storage.openshift.com/v1alpha1
metadata:
  name: local
spec:
  storageClasses:
    - local
  nodes:
    - nodeSelector:
        localStorage: "true"
      devices:
      - storageClassName: local-ssd
        volumeMode: Block
        udevRules:
        - "KERNEL!=\\"sda\\" , ATTR{queue/rotational}==\\"0\\""
      - storageClassName: local-hdd
        volumeMode: Block
        udevRules:
        - "KERNEL!=\\"sda\\",  ATTR{queue/rotational}==\\"1\\""
"""
"""Both as the document has them, character by character."""


@pytest.fixture(scope="module", autouse=True)
def _defined(request: pytest.FixtureRequest) -> Any:
    target = request.getfixturevalue("target")
    admin = Api(target, target.token)
    made = [
        definition
        for definition in map(crds.load, ("localstorages", "localstoragenodes"))
        if admin.send("GET", f"{custom.DEFINITIONS}/{definition['metadata']['name']}").code != 200
    ]
    try:
        custom.define_all(admin, made)
        yield
    finally:
        admin.clean_up()
        admin.close()


def path(space: Space, *parts: str) -> str:
    return space.of("local.storage.openshift.com/v1alpha1", "localstorages", *parts)


def storage(nodes: Any, **spec: Any) -> builders.Object:
    return {
        "apiVersion": "local.storage.openshift.com/v1alpha1",
        "kind": "LocalStorage",
        "metadata": {"name": builders.unique("local")},
        "spec": {"nodes": nodes, **spec},
    }


def devices(**more: Any) -> list[Any]:
    return [{"storageClassName": "local", "deviceNames": ["sdb"], **more}]


@pytest.mark.seed("OPR-13")
@pytest.mark.parametrize("example", [EXAMPLE_1, EXAMPLE_2])
def test_examples_of_the_document_apply_unchanged(api: Api, space: Space, example: str) -> None:
    own, whole = path(space, "local"), yaml.safe_load(example)
    options = {"content_type": wire.APPLY_PATCH, "fieldManager": "kubectl", "fieldValidation": "Strict"}
    answer = api.send("PATCH", own, whole, **options)
    assert answer.code == 201, answer.raw
    assert answer.body["spec"] == whole["spec"]
    assert not answer.warnings
    api.delete(own)


@pytest.mark.seed("OPR-13")
def test_node_selector_may_be_one_of_terms_or_of_labels(api: Api, space: Space) -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disks", "operator": "In", "values": ["a"]}]}]}
    for selector in (terms, {"disks": "a", "example.com/x": ""}, {}):
        given = storage([{"nodeSelector": selector, "devices": devices()}])
        made = api.post(path(space), given, fieldValidation="Strict")
        assert made["spec"]["nodes"][0]["nodeSelector"] == selector


REFUSED: dict[str, Any] = {
    "a node and a selector": [{"nodeName": "one", "nodeSelector": {"a": "b"}, "devices": devices()}],
    "no nodes": [],
    "no devices": [{"devices": []}],
    "devices left out": [{"nodeName": "one"}],
    "no class": [{"devices": [{"deviceNames": ["sdb"]}]}],
    "an empty class": [{"devices": devices(storageClassName="")}],
    "a class that leads out": [{"devices": devices(storageClassName="../x")}],
    "another mode": [{"devices": devices(volumeMode="block")}],
    "a path": [{"devices": devices(deviceNames=["/dev/sdb"])}],
    "a path by id": [{"devices": devices(deviceNames=["disk/by-id/x"])}],
    "two names in one": [{"devices": devices(deviceNames=["sdb|sdc"])}],
    "an empty name": [{"devices": devices(deviceNames=[""])}],
    "a long name": [{"devices": devices(deviceNames=["x" * 65])}],
    "many names": [{"devices": devices(deviceNames=["x"] * 65)}],
    "a rule of two lines": [{"devices": devices(udevRules=['KERNEL=="a"\nRUN+="b"'])}],
    "a long rule": [{"devices": devices(udevRules=["x" * 1025])}],
    "neither names nor rules": [{"devices": [{"storageClassName": "local"}]}],
    "many groups": [{"devices": devices()}] * 65,
    "another file system": [{"devices": devices(fsType="zfs")}],
    "another medium": [{"devices": devices(mediumTypes=["tape"])}],
    "no size": [{"devices": devices(minSize="big")}],
    "a negative count": [{"devices": devices(maxDeviceCount=-1)}],
    "another operator": [{"devices": devices(), "tolerations": [{"operator": "Sometimes"}]}],
}


@pytest.mark.seed("OPR-2", "OPR-3")
@pytest.mark.parametrize("nodes", REFUSED.values(), ids=REFUSED.keys())
def test_what_the_schema_can_say_is_refused_at_once(api: Api, space: Space, nodes: Any) -> None:
    status = api.post(path(space), storage(nodes), expect=422)
    assert "spec.nodes" in status["message"], status


@pytest.mark.seed("OPR-3")
def test_everything_that_a_group_of_devices_can_say_is_kept(api: Api, space: Space) -> None:
    whole = devices(
        volumeMode="Filesystem",
        udevRules=['ENV{ID_SERIAL}=="x*"'],
        excludeDeviceNames=["sda"],
        fsType="xfs",
        blockCleanerCommand=["shred", "2"],
        minSize="10Gi",
        maxSize="1.5Ti",
        mediumTypes=["SSD", "NVMe"],
        vendors=["ATA"],
        models=["Samsung*"],
        maxDeviceCount=3,
        allowNetworkDisks=True,
    )
    group = {"nodeName": "one", "tolerations": [{"operator": "Exists"}], "devices": whole}
    made = api.post(path(space), storage([group], storageClasses=["more"]), fieldValidation="Strict")
    assert made["spec"] == {"nodes": [group], "storageClasses": ["more"]}


def test_table_says_what_came_of_it(api: Api, space: Space) -> None:
    made = api.post(path(space), storage([{"devices": devices()}]))
    conditions = [
        {"type": "Available", "status": "False", "reason": "x", "message": "y"},
        {"type": "Accepted", "status": "True", "reason": "x", "message": "y"},
    ]
    status = {
        "conditions": conditions, "nodeCount": 3, "currentNodes": 2, "matchedDevices": 5, "publishedDevices": 4
    }  # fmt: skip
    name = made["metadata"]["name"]
    api.merge(path(space, name, "status"), {"status": status})
    table = api.get(path(space), accept=wire.TABLE)
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Accepted", "Nodes", "Current", "Matched", "Published", "Age"]
    [row] = [row["cells"] for row in table["rows"] if row["cells"][0] == name]
    assert row[1:6] == ["True", 3, 2, 5, 4]


def test_nodes_are_found_by_the_node_and_by_the_local_storage(api: Api, space: Space) -> None:
    nodes = space.of("localpv.dev/v1alpha1", "localstoragenodes")
    for node in ("one", "two"):
        api.post(
            nodes,
            {
                "apiVersion": "localpv.dev/v1alpha1",
                "kind": "LocalStorageNode",
                "metadata": {"name": f"local.{node}"},
                "spec": {"nodeName": node, "localStorageName": "local", "localStorageUID": "u"},
            },
        )
    found = api.get(nodes, fieldSelector="spec.nodeName=two,spec.localStorageName=local")
    assert [each["metadata"]["name"] for each in found["items"]] == ["local.two"]
