"""What happens to those who are left behind: owners and dependents, and namespaces that empty before they go."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, custom, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

pytestmark = pytest.mark.controllers

FINALIZER = "contract.localpv.dev/wait"


def _owned(api: Api, space: Space, owner: Any, name: str, **reference: Any) -> Any:
    entry = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **reference,
    }
    return api.post(space.core("configmaps"), builders.config_map(name, ownerReferences=[entry]))


def test_dependents_follow_their_owner(api: Api, space: Space) -> None:
    owner = api.post(space.core("configmaps"), builders.config_map("owner"))
    middle = _owned(api, space, owner, "middle")
    _owned(api, space, middle, "leaf")
    api.delete(space.core("configmaps", "owner"), propagationPolicy="Background")
    assert api.gone(space.core("configmaps", "owner"))
    wire.eventually(lambda: api.gone(space.core("configmaps", "middle")), "the dependent is gone")
    wire.eventually(lambda: api.gone(space.core("configmaps", "leaf")), "the dependent's dependent is gone")


def test_foreground_deletion_waits_for_those_that_block(api: Api, space: Space) -> None:
    owner = api.post(space.core("configmaps"), builders.config_map("owner"))
    _owned(api, space, owner, "held", blockOwnerDeletion=True)
    api.merge(space.core("configmaps", "held"), {"metadata": {"finalizers": [FINALIZER]}})
    marked = api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    wire.eventually(
        lambda: "deletionTimestamp" in api.get(space.core("configmaps", "held"))["metadata"],
        "the dependent is being deleted",
    )
    assert not api.gone(space.core("configmaps", "owner"))
    api.merge(space.core("configmaps", "held"), {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(space.core("configmaps", "owner")), "the owner goes after its dependent")


def test_orphans_stay_without_their_owner(api: Api, space: Space) -> None:
    owner = api.post(space.core("configmaps"), builders.config_map("owner"))
    _owned(api, space, owner, "orphan")
    # The collector must have seen the dependent before it can set it free.
    api.delete(space.core("configmaps", "owner"), {"propagationPolicy": "Orphan"})
    wire.eventually(lambda: api.gone(space.core("configmaps", "owner")), "the owner is gone")
    left = api.get(space.core("configmaps", "orphan"))
    assert "ownerReferences" not in left["metadata"]
    assert "deletionTimestamp" not in left["metadata"]


def test_dependent_of_nobody_is_collected(api: Api, space: Space) -> None:
    ghost = builders.config_map("ghost")
    ghost["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    _owned(api, space, ghost, "lost")
    wire.eventually(lambda: api.gone(space.core("configmaps", "lost")), "the dependent of nobody is gone")


def test_dependent_with_another_owner_stays(api: Api, space: Space) -> None:
    owners = [api.post(space.core("configmaps"), builders.config_map(name)) for name in ("first", "second")]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]}
        for o in owners
    ]
    api.post(space.core("configmaps"), builders.config_map("shared", ownerReferences=references))
    api.delete(space.core("configmaps", "first"))
    path = space.core("configmaps", "shared")
    wire.eventually(
        lambda: [entry["name"] for entry in api.get(path)["metadata"]["ownerReferences"]] == ["second"],
        "the reference to the deleted owner is dropped",
    )


def _reference(owner: Any, **more: Any) -> dict[str, Any]:
    metadata = owner["metadata"]
    named = {"name": metadata["name"], "uid": metadata["uid"]}
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], **named, **more}


def _circle(api: Api, space: Space, kind: str, made: list[Any]) -> list[str]:
    """Let each own the next and the last own the first; the paths of all."""
    paths = [space.core(kind, entry["metadata"]["name"]) for entry in made]
    for owner, path in zip([made[-1], *made], paths, strict=False):
        reference = _reference(owner, controller=True, blockOwnerDeletion=True)
        api.merge(path, {"metadata": {"ownerReferences": [reference]}})
    return paths


def test_three_pods_that_own_each_other_all_go(api: Api, space: Space) -> None:
    made = [api.post(space.core("pods"), builders.pod(f"pod{number}")) for number in range(1, 4)]
    paths = _circle(api, space, "pods", made)
    api.delete(paths[0], {"propagationPolicy": "Foreground", "gracePeriodSeconds": 0})
    wire.eventually(lambda: all(api.gone(path) for path in paths), "the circle of pods is gone")


@pytest.mark.parametrize("length", [2, 3, 7])
@pytest.mark.parametrize("policy", ["Foreground", "Background"])
def test_circles_of_owners_go_as_a_whole(api: Api, space: Space, length: int, policy: str) -> None:
    names = [f"link{number}" for number in range(length)]
    made = [api.post(space.core("configmaps"), builders.config_map(name)) for name in names]
    paths = _circle(api, space, "configmaps", made)
    api.delete(paths[0], {"propagationPolicy": policy})
    wire.eventually(lambda: all(api.gone(path) for path in paths), "the circle is gone")


def test_foreground_deletion_does_not_wait_for_dependents_of_others(api: Api, space: Space) -> None:
    owners = [api.post(space.core("configmaps"), builders.config_map(name)) for name in ("leaves", "stays")]
    references = [_reference(owner, blockOwnerDeletion=True) for owner in owners]
    api.post(space.core("configmaps"), builders.config_map("shared", ownerReferences=references))
    api.delete(space.core("configmaps", "leaves"), {"propagationPolicy": "Foreground"})
    wire.eventually(lambda: api.gone(space.core("configmaps", "leaves")), "the owner that was deleted is gone")
    left = api.get(space.core("configmaps", "shared"))["metadata"]["ownerReferences"]
    assert [entry["name"] for entry in left] == ["stays"]


def test_cluster_wide_objects_are_not_collected_for_an_owner_in_a_namespace(api: Api, space: Space) -> None:
    owner = api.post(space.core("configmaps"), builders.config_map("owner"))
    volume = builders.local_volume()
    volume["metadata"]["ownerReferences"] = [_reference(owner)]
    made = api.post("/api/v1/persistentvolumes", volume)
    path = f"/api/v1/persistentvolumes/{made['metadata']['name']}"
    api.delete(space.core("configmaps", "owner"))
    # The collector hears of one kind in order: when it has got to a later volume it has seen this one.
    ghost = builders.node("ghost")
    ghost["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    later = builders.local_volume()
    later["metadata"]["ownerReferences"] = [_reference(ghost)]
    collected = f"/api/v1/persistentvolumes/{api.post('/api/v1/persistentvolumes', later)['metadata']['name']}"
    wire.eventually(lambda: api.gone(collected), "the volume of a node that is not there is gone")
    assert "deletionTimestamp" not in api.get(path)["metadata"]


def test_custom_owner(api: Api, space: Space) -> None:
    kind = custom.Kind()
    custom.define(api, kind.definition())
    owner = api.post(kind.path(space), kind.object("owner"))
    _owned(api, space, owner, "owned")
    api.delete(kind.path(space, "owner"))
    # A collector that reads discovery now and then needs a while to know a new kind.
    wire.eventually(lambda: api.gone(space.core("configmaps", "owned")), "the dependent is gone")


def test_namespace_empties_before_it_goes(api: Api, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    api.post(space.core("configmaps"), builders.config_map("plain"))
    api.post(space.core("configmaps"), builders.config_map("held", finalizers=[FINALIZER]))
    marked = api.delete(path)
    assert (marked["kind"], marked["status"]["phase"]) == ("Namespace", "Terminating")
    assert marked["metadata"]["deletionTimestamp"]
    status = api.post(space.core("configmaps"), builders.config_map("late"), expect=403)
    assert "because it is being terminated" in status["message"]
    assert status["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    wire.eventually(lambda: api.gone(space.core("configmaps", "plain")), "what is not held is gone")
    assert not api.gone(path)
    api.merge(space.core("configmaps", "held"), {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(path), "the empty namespace is gone")


def test_namespace_tells_what_it_waits_for(api: Api, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    for name in ("one", "two"):
        api.post(space.core("configmaps"), builders.config_map(name, finalizers=[FINALIZER]))
    api.post(space.of("apps/v1", "deployments"), _held(builders.deployment("three")))
    api.delete(path)
    told = {
        "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered", "All resources successfully discovered"),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": (
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 2 resource instances, "
            "deployments.apps has 1 resource instances",
        ),
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {FINALIZER} in 3 resource instances",
        ),
    }
    # What it says first may be that kinds which tests have defined went while it looked.
    wire.eventually(lambda: _conditions(api, path, "NamespaceFinalizersRemaining") == told, "it tells what remains")
    for what in (
        space.core("configmaps", "one"),
        space.core("configmaps", "two"),
        space.of("apps/v1", "deployments", "three"),
    ):
        api.merge(what, {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(path), "the empty namespace is gone")


def test_odd_conditions_do_not_keep_a_namespace(api: Api, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    api.merge(f"{path}/status", {"status": {"conditions": [{"status": "True"}, {"type": "NamespaceContentRemaining"}]}})
    api.delete(path)
    wire.eventually(lambda: api.gone(path), "the namespace is gone")


def test_a_finalizer_of_somebody_else_keeps_an_empty_namespace(api: Api, space: Space) -> None:
    path = f"/api/v1/namespaces/{space.name}"
    api.merge(path, {"metadata": {"finalizers": [FINALIZER]}})
    api.delete(path)

    def told_empty() -> bool:
        told = _conditions(api, path, "NamespaceContentRemaining", "False")
        return {status for status, *_ in told.values()} == {"False"}

    wire.eventually(told_empty, "it is told empty, and nothing else")
    wire.eventually(lambda: not api.get(path)["spec"].get("finalizers"), "Kubernetes' own finalizer is gone")
    api.merge(path, {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(path), "the namespace is gone")


def test_pods_leave_a_namespace_before_all_else(api: Api, space: Space) -> None:
    path, pod, plain = f"/api/v1/namespaces/{space.name}", space.core("pods", "held"), space.core("configmaps", "plain")
    api.post(space.core("configmaps"), builders.config_map("plain"))
    api.post(space.core("pods"), _held(builders.pod("held")))
    api.post(space.core("pods"), builders.pod("free"))
    api.delete(path)
    wire.eventually(lambda: api.gone(space.core("pods", "free")), "the pod that nobody holds is gone")
    wire.eventually(lambda: api.get(pod)["metadata"].get("deletionTimestamp"), "the pod that is held is to go, too")
    # The namespace has been looked at, with the pods: the rest waits.
    told = wire.eventually(lambda: _conditions(api, path, "NamespaceDeletionContentFailure", ""), "it was looked at")
    assert len(told) == 5
    assert api.get(plain)["metadata"].get("deletionTimestamp") is None
    api.merge(pod, {"metadata": {"finalizers": None}})
    wire.eventually(lambda: api.gone(plain), "what is left goes after the pods")
    wire.eventually(lambda: api.gone(path), "the empty namespace is gone")


def _held(obj: builders.Object) -> builders.Object:
    obj["metadata"]["finalizers"] = [FINALIZER]
    return obj


def _conditions(api: Api, path: str, kind: str, status: str = "True") -> dict[str, tuple[str, str, str]]:
    """All conditions as status, reason and message, once this one has a status."""
    found = api.get(path).get("status", {}).get("conditions") or []
    if not any(entry["type"] == kind and status in ("", entry["status"]) for entry in found):
        return {}
    return {entry["type"]: (entry["status"], entry["reason"], entry["message"]) for entry in found}


def test_new_namespace_gets_its_default_account(api: Api, space: Space) -> None:
    wire.eventually(lambda: not api.gone(space.core("serviceaccounts", "default")), "the default account exists")


def test_claim_in_use_by_nobody_is_released_for_deletion(api: Api, space: Space) -> None:
    api.post(space.core("persistentvolumeclaims"), builders.claim("one"))
    api.delete(space.core("persistentvolumeclaims", "one"))
    wire.eventually(lambda: api.gone(space.core("persistentvolumeclaims", "one")), "the unused claim is gone")


def test_certificate_of_the_server_comes_back_into_a_namespace(api: Api, space: Space) -> None:
    """Pods trust the server by it: whoever deletes or changes it, it is there again."""
    path = space.core("configmaps", "kube-root-ca.crt")

    def data() -> Any:
        answer = api.send("GET", path)
        return answer.body.get("data") if answer.code == 200 else None

    given = wire.eventually(data, "the namespace has the certificate")
    uid = api.get(path)["metadata"]["uid"]
    api.delete(path)
    wire.eventually(lambda: data() == given and api.get(path)["metadata"]["uid"] != uid, "it was made again")
    api.merge(path, {"data": {"ca.crt": "", "other": "x"}})
    wire.eventually(lambda: data() == given, "it has its content again")
