"""Pods that want to be near other pods, apart from them, or evenly spread."""

from __future__ import annotations

from typing import Any

from tests.contract import builders
from tests.placing.cluster import HOSTNAME, Cluster

ZONE = "placing.test/zone"
NEAR = "node(s) didn't match pod affinity rules"
APART = "node(s) didn't match pod anti-affinity rules"
APART_FROM_US = "node(s) didn't satisfy existing pods anti-affinity rules"
SPREAD = "node(s) didn't match pod topology spread constraints"


def term(app: str, key: str = HOSTNAME, **more: Any) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def apart(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}


def spread(app: str, key: str = ZONE, **more: Any) -> list[dict[str, Any]]:
    selector = {"matchLabels": {"app": app}}
    whole = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [whole | more]


def test_pods_that_want_to_be_apart_get_a_node_each(cluster: Cluster) -> None:
    nodes = {cluster.node(), cluster.node()}
    pod = {"labels": {"app": "db"}, "affinity": apart(term("db"))}
    first = cluster.pod(**pod)
    assert {cluster.until_node(first), cluster.placed(**pod)} == nodes
    third = cluster.pod(**pod)
    cluster.until_refused(third, why={APART: 2})
    freed = cluster.until_node(first)
    cluster.delete_pod(first)
    assert cluster.until_node(third) == freed


def test_a_pod_that_wants_to_be_apart_keeps_others_away(cluster: Cluster) -> None:
    cluster.node()
    cluster.placed(labels={"app": "db"}, affinity=apart(term("web")))
    cluster.refused(labels={"app": "web"}, why={APART_FROM_US: 1})
    assert cluster.placed(labels={"app": "other"})


def test_apart_can_mean_another_zone(cluster: Cluster) -> None:
    cluster.node(labels={ZONE: "a"})
    cluster.node(labels={ZONE: "a"})
    pod = {"labels": {"app": "db"}, "affinity": apart(term("db", ZONE))}
    cluster.placed(**pod)
    second = cluster.pod(**pod)
    cluster.until_refused(second, why={APART: 2})
    elsewhere = cluster.node(labels={ZONE: "b"})
    assert cluster.until_node(second) == elsewhere


def test_a_node_without_the_label_is_apart_from_everything(cluster: Cluster) -> None:
    zoned = cluster.node(labels={ZONE: "a"})
    pod = {"labels": {"app": "db"}, "affinity": apart(term("db", ZONE))}
    assert cluster.placed(**pod) == zoned
    without = cluster.node()
    assert cluster.placed(**pod) == without
    assert cluster.placed(**pod) == without


def test_a_pod_goes_to_the_one_it_wants_to_be_near(cluster: Cluster) -> None:
    nodes = [cluster.node() for _ in range(3)]
    waits = cluster.pod(affinity=near(term("db")))
    cluster.until_refused(waits, why={NEAR: 3})
    home = cluster.placed(labels={"app": "db"})
    assert home in nodes
    assert cluster.until_node(waits) == home


def test_the_first_of_its_kind_may_go_anywhere_that_has_the_label(cluster: Cluster) -> None:
    cluster.node()
    zoned = cluster.node(labels={ZONE: "a"})
    also = cluster.node(labels={ZONE: "a"}, cpu="1")
    pod = {"labels": {"app": "db"}, "affinity": near(term("db", ZONE))}
    assert cluster.placed(**pod, requests={"cpu": "3"}) == zoned
    assert cluster.placed(**pod) in (zoned, also)


def test_near_all_terms_means_near_pods_that_are_all_of_them(cluster: Cluster) -> None:
    cluster.node()
    cluster.placed(labels={"app": "db"})
    cluster.placed(labels={"app": "web"})
    cluster.refused(affinity=near(term("db"), term("web")), why={NEAR: 1})


def test_other_namespaces_count_only_when_they_are_named_or_selected(cluster: Cluster) -> None:
    other = builders.namespace()
    other["metadata"]["labels"] = {"team": cluster.name}
    space = cluster.place.api.post("/api/v1/namespaces", other)["metadata"]["name"]
    home, _ = cluster.node(), cluster.node()
    made = builders.pod(labels={"app": "db"}, spec={"nodeSelector": {HOSTNAME: home}})
    pods = f"/api/v1/namespaces/{space}/pods"
    accounts = f"/api/v1/namespaces/{space}/serviceaccounts/default"
    cluster._until(lambda: "" if cluster.place.api.gone(accounts) else "there", lambda: accounts)
    cluster.place.api.post(pods, made)
    name = f"{pods}/{made['metadata']['name']}"
    cluster._until(lambda: cluster.place.api.get(name)["spec"].get("nodeName", ""), lambda: name)
    cluster.refused(affinity=near(term("db")), why={NEAR: 2})
    assert cluster.placed(affinity=near(term("db", namespaces=[space]))) == home
    selected = {"matchLabels": {"team": cluster.name}}
    assert cluster.placed(affinity=near(term("db", namespaceSelector=selected))) == home
    assert cluster.placed(affinity=apart(term("db", namespaceSelector={}))) != home


def test_pods_of_a_kind_are_spread_over_zones(cluster: Cluster) -> None:
    zones = {cluster.node(labels={ZONE: zone}): zone for zone in ("a", "b", "c")}
    pod = {"labels": {"app": "web"}, "topologySpreadConstraints": spread("web")}
    placed = [zones[cluster.placed(**pod)] for _ in range(6)]
    assert sorted(placed[:3]) == sorted(placed[3:]) == ["a", "b", "c"]


def test_a_zone_that_is_full_holds_up_the_others(cluster: Cluster) -> None:
    cluster.node(labels={ZONE: "a"})
    cluster.node(labels={ZONE: "b"}, pods="1")
    cluster.node()
    pod = {"labels": {"app": "web"}, "topologySpreadConstraints": spread("web")}
    for _ in range(3):
        cluster.placed(**pod)
    missing = f"{SPREAD} (missing required label)"
    cluster.refused(**pod, why={"Too many pods": 1, SPREAD: 1, missing: 1})


def test_too_few_zones_count_as_an_empty_one(cluster: Cluster) -> None:
    cluster.node(labels={ZONE: "a"})
    pod = {"labels": {"app": "web"}, "topologySpreadConstraints": spread("web", minDomains=2)}
    cluster.placed(**pod)
    cluster.refused(**pod, why={SPREAD: 1})


def test_which_nodes_count_in_a_spread_can_be_chosen(cluster: Cluster) -> None:
    open_node = cluster.node(labels={ZONE: "a"})
    taint = [{"key": "disks", "effect": "NoSchedule"}]
    cluster.node(labels={ZONE: "b"}, spec={"taints": taint})
    strict = {"labels": {"app": "web"}, "topologySpreadConstraints": spread("web")}
    assert cluster.placed(**strict) == open_node
    cluster.refused(**strict, why={"node(s) had untolerated taint(s)": 1, SPREAD: 1})
    honest = {"labels": {"app": "web"}, "topologySpreadConstraints": spread("web", nodeTaintsPolicy="Honor")}
    assert cluster.placed(**honest) == open_node


def test_a_spread_can_be_over_one_revision_of_the_pods(cluster: Cluster) -> None:
    node, _ = cluster.node(labels={ZONE: "a"}), cluster.node(labels={ZONE: "b"}, pods="1")
    cluster.placed(labels={"app": "web"}, node_selector={HOSTNAME: node})
    rolled = spread("web", matchLabelKeys=["revision"])
    one, two = ({"app": "web", "revision": number} for number in "12")
    for labels in (one, two):
        cluster.placed(labels=labels, topologySpreadConstraints=rolled, node_selector={HOSTNAME: node})


def likes(*terms: dict[str, Any], kind: str = "podAffinity") -> dict[str, Any]:
    weighted = [{"weight": 100, "podAffinityTerm": each} for each in terms]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}


def test_a_pod_that_likes_to_be_near_another_goes_there_while_there_is_room(cluster: Cluster) -> None:
    nodes = [cluster.node(cpu="2") for _ in range(3)]
    home = cluster.placed(labels={"app": "db"}, requests={"cpu": "1"})
    assert cluster.placed(affinity=likes(term("db"))) == home
    elsewhere = cluster.placed(affinity=likes(term("db")), requests={"cpu": "1500m"})
    assert elsewhere in nodes and elsewhere != home


def test_pods_that_like_to_be_apart_share_a_node_only_when_they_must(cluster: Cluster) -> None:
    nodes = {cluster.node(), cluster.node(), cluster.node()}
    pod = {"labels": {"app": "web"}, "affinity": likes(term("web"), kind="podAntiAffinity")}
    assert {cluster.placed(**pod) for _ in range(3)} == nodes
    assert cluster.placed(**pod) in nodes


def test_who_is_there_may_like_the_newcomer(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.node()
    home = cluster.placed(labels={"app": "db"}, affinity=likes(term("web")))
    assert cluster.placed(labels={"app": "web"}) == home


def test_a_soft_spread_fills_the_emptier_zone_first_and_refuses_nobody(cluster: Cluster) -> None:
    zones = {cluster.node(labels={ZONE: zone}): zone for zone in ("a", "b")}
    soft = spread("web", whenUnsatisfiable="ScheduleAnyway")
    pod = {"labels": {"app": "web"}, "topologySpreadConstraints": soft}
    placed = [zones[cluster.placed(**pod)] for _ in range(4)]
    assert sorted(placed) == ["a", "a", "b", "b"]
    (full,) = [node for node, zone in zones.items() if zone == "a"]
    cluster.change_node(full, {"spec": {"unschedulable": True}})
    cluster.fence()
    for _ in range(3):
        assert zones[cluster.placed(**pod)] == "b"
