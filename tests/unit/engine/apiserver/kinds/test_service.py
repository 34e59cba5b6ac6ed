"""Services: addresses, ports, and what a change of type takes along."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.engine.apiserver.kinds import service, service_addresses

_ports = count(30100)
SERVICES = Writes(service.Service(allocate=lambda: "10.96.1.2", allocate_port=lambda: next(_ports)), "Service")
HTTP = [{"port": 80}]


def test_service_gets_an_address_and_the_usual_policies() -> None:
    obj = SERVICES.stored({"spec": {"ports": HTTP}})

    assert obj["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "clusterIP": "10.96.1.2",
        "clusterIPs": ["10.96.1.2"],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
    }
    assert obj["status"] == {"loadBalancer": {}}


def test_headless_service_has_no_address_and_without_selector_both_families() -> None:
    chosen = SERVICES.stored({"spec": {"clusterIP": "None", "selector": {"app": "db"}}})["spec"]
    free = SERVICES.stored({"spec": {"clusterIP": "None"}})["spec"]

    assert (chosen["clusterIPs"], chosen["ipFamilies"]) == (["None"], ["IPv4"])
    assert (free["ipFamilies"], free["ipFamilyPolicy"]) == (["IPv4", "IPv6"], "RequireDualStack")


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"ports": []}, {("spec.ports", "Required")}),
        ({"ports": [{"port": 0}]}, {("spec.ports[0].port", "Invalid"), ("spec.ports[0].targetPort", "Invalid")}),
        ({"ports": [{"port": 1}, {"port": 2}]},
         {("spec.ports[0].name", "Required"), ("spec.ports[1].name", "Required")}),
        ({"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]},
         {("spec.ports[1].name", "Duplicate"), ("spec.ports[1]", "Duplicate")}),
        ({"ports": [{"port": 1, "protocol": "X"}]}, {("spec.ports[0].protocol", "NotSupported")}),
        ({"ports": [{"port": 1, "nodePort": 30001}]}, {("spec.ports[0].nodePort", "Forbidden")}),
        ({"ports": HTTP, "type": "X"}, {("spec.type", "NotSupported")}),
        ({"ports": HTTP, "sessionAffinity": "X"}, {("spec.sessionAffinity", "NotSupported")}),
        ({"ports": HTTP, "clusterIP": "abc"}, {("spec.clusterIPs[0]", "Invalid")}),
        ({"ports": HTTP, "clusterIP": "fd00::1"}, {("spec.clusterIPs[0]", "Invalid")}),
        ({"ports": HTTP, "ipFamilies": ["IPv6"]}, {("spec.ipFamilies[0]", "Invalid")}),
        ({"ports": HTTP, "ipFamilyPolicy": "RequireDualStack"}, {("spec.ipFamilyPolicy", "Invalid")}),
        ({"ports": HTTP, "type": "NodePort", "clusterIP": "None"}, {("spec.clusterIPs[0]", "Invalid")}),
        ({"type": "ExternalName"}, {("spec.externalName", "Required")}),
        ({"type": "ExternalName", "externalName": "a.b", "clusterIP": "None"}, {("spec.clusterIPs", "Forbidden")}),
        ({"ports": HTTP, "externalTrafficPolicy": "Local"}, {("spec.externalTrafficPolicy", "Invalid")}),
        ({"ports": HTTP, "loadBalancerClass": "a.b/c"}, {("spec.loadBalancerClass", "Forbidden")}),
        ({"ports": HTTP, "externalIPs": ["127.0.0.1"]}, {("spec.externalIPs[0]", "Invalid")}),
    ],
)  # fmt: skip
def test_service_that_makes_no_sense_is_refused(spec: Any, wrong: set[tuple[str, str]]) -> None:
    assert SERVICES.create({"spec": spec}).causes == wrong


def test_update_without_an_address_keeps_the_one_assigned() -> None:
    old = SERVICES.stored({"spec": {"ports": HTTP}})
    new = SERVICES.update(old, spec__clusterIP=None, spec__clusterIPs=None, spec__ports=[{"port": 81}])

    assert not new.errors
    assert new.obj["spec"]["clusterIPs"] == ["10.96.1.2"]
    assert SERVICES.update(old, spec__clusterIP="10.96.9.9").causes == {("spec.clusterIPs[0]", "Invalid")}


def test_node_ports_come_with_the_type_and_go_with_it() -> None:
    old = SERVICES.stored({"spec": {"ports": HTTP, "type": "NodePort"}})
    assert old["spec"]["ports"][0]["nodePort"] in service_addresses.NODE_PORTS
    assert old["spec"]["externalTrafficPolicy"] == "Cluster"

    kept = SERVICES.update(old, spec__ports=[{"port": 81}]).obj["spec"]["ports"][0]
    assert kept["nodePort"] == old["spec"]["ports"][0]["nodePort"]

    inner = SERVICES.update(old, spec__type="ClusterIP")
    assert not inner.errors
    assert "nodePort" not in inner.obj["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in inner.obj["spec"]


def test_service_that_becomes_an_external_name_gives_its_address_back() -> None:
    old = SERVICES.stored({"spec": {"ports": HTTP}})
    outcome = SERVICES.update(old, spec__type="ExternalName", spec__externalName="a.b.")

    assert not outcome.errors
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"} & set(outcome.obj["spec"])


def test_only_a_load_balancer_reports_where_it_is_reached() -> None:
    ingress = {"ingress": [{"ip": "1.2.3.4"}]}
    plain = SERVICES.stored({"spec": {"ports": HTTP}})
    balanced = SERVICES.stored({"spec": {"ports": HTTP, "type": "LoadBalancer"}})

    assert SERVICES.update_status(plain, status__loadBalancer=ingress).causes == {
        ("status.loadBalancer.ingress", "Forbidden")
    }
    outcome = SERVICES.update_status(balanced, status__loadBalancer=ingress)
    assert not outcome.errors
    assert outcome.obj["status"]["loadBalancer"]["ingress"] == [{"ip": "1.2.3.4", "ipMode": "VIP"}]


def test_free_address_is_never_one_in_use() -> None:
    # The network has 14 usable addresses beside the 16 that are kept back, and all but one are taken.
    used = {f"10.0.0.{last}" for last in range(16, 31)} - {"10.0.0.23"}

    assert service_addresses.free_address(used, network="10.0.0.0/27") == "10.0.0.23"
    assert service_addresses.free_address(used | {"10.0.0.23"}, network="10.0.0.0/27") == ""
    assert service_addresses.free_port(set(service_addresses.NODE_PORTS) - {31234}) == 31234
