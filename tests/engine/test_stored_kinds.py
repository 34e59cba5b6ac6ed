"""Kinds that are only stored, sent by somebody who wants to do harm: refused or kept, and cheap to show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests import engine_process
from tests.contract import wire
from tests.unit.engine.apiserver.kinds import test_custom as definitions

NETWORKING = "/apis/networking.k8s.io/v1/namespaces/default"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="module")
def api() -> Iterator[wire.Api]:
    with engine_process.running() as engine:
        target = wire.read_kubeconfig(engine.kubeconfig, controllers=True)
        client = wire.Api(target, target.token)
        yield client
        client.close()


def _ingress(host: str) -> dict[str, Any]:
    backend = {"service": {"name": "a", "port": {"number": 80}}}
    rule = {"host": host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    return {"metadata": {"name": "odd"}, "spec": {"rules": [rule]}}


@pytest.mark.parametrize("host", ["1.1.1.²", "\u0661.1.1.1", "1.1.1.1", "1..1.1", "a" * 300])
def test_no_host_is_an_internal_error(api: wire.Api, host: str) -> None:
    answer = api.send("POST", f"{NETWORKING}/ingresses", _ingress(host))
    assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, "spec.rules[0].host")


@pytest.mark.parametrize("address", ["127.0.0.1", "0127.0.0.1", "127.0.0.\u0661", "²", "::1", "fe80::1%eth0"])
def test_endpoints_are_addresses_that_others_can_reach(api: wire.Api, address: str) -> None:
    body = {"metadata": {"name": "near"}, "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 1}]}]}
    assert api.send("POST", ENDPOINTS, body).code == 422


@pytest.mark.parametrize("zeros", [2, 500, 4000])
def test_a_range_has_one_spelling_of_its_length(api: wire.Api, zeros: int) -> None:
    block = {"cidr": "::/0", "except": [f"2001:db8::/{'0' * zeros}64"]}
    body = {"metadata": {"name": "zeros"}, "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}}
    assert api.send("POST", f"{NETWORKING}/networkpolicies", body).code == 422


def test_a_changed_amount_of_a_claim_for_devices_is_refused_by_its_field(api: wire.Api) -> None:
    def body(amount: str, limit: str) -> dict[str, Any]:
        exactly = {"deviceClassName": "a", "capacity": {"requests": {"example.com/x": amount}}}
        parameters = {"limits": {"a": limit}}
        devices = {
            "requests": [{"name": "one", "exactly": exactly}],
            "config": [{"requests": ["one"], "opaque": {"driver": "example.com", "parameters": parameters}}],
        }
        return {"metadata": {"name": "one"}, "spec": {"devices": devices}}

    api.post(CLAIMS, body("1Gi", "foo"))
    for changed in (body("2Gi", "foo"), body("1Gi", "bar"), body("1Gi", "")):
        answer = api.send("PUT", f"{CLAIMS}/one", changed)
        assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, "spec")
    api.send("DELETE", f"{CLAIMS}/one")


def test_endpoints_are_shown_without_making_every_pair(api: wire.Api) -> None:
    ports, addresses = [{"name": "a", "port": 1}] * 8000, [{"ip": "1.1.1.1"}] * 12_000
    api.post(ENDPOINTS, {"metadata": {"name": "many"}, "subsets": [{"ports": ports, "addresses": addresses}]})
    # A hundred million pairs would take longer than a request may, and all of the memory.
    table = api.send("GET", ENDPOINTS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}).body
    cells = next(row["cells"] for row in table["rows"] if row["cells"][0] == "many")
    assert cells[1] == "1.1.1.1:1,1.1.1.1:1,1.1.1.1:1 + 95999997 more..."
    api.send("DELETE", f"{ENDPOINTS}/many")


def test_fifty_thousand_wrong_scopes_are_one_error(api: wire.Api) -> None:
    body = {"metadata": {"name": "scopes"}, "spec": {"scopes": [""] * 49_000}}
    answer = api.send("POST", "/api/v1/namespaces/default/resourcequotas", body)
    assert answer.code == 422
    assert [cause["field"] for cause in answer.body["details"]["causes"]] == ["spec.scopes"]


@pytest.mark.parametrize("name", ["clusterroles.rbac.authorization.k8s.io", "ingresses.networking.k8s.io"])
def test_a_definition_cannot_be_of_a_kind_that_the_server_has(api: wire.Api, name: str) -> None:
    plural, _, group = name.partition(".")
    body = definitions.definition(plural, group=group)
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a trial"}
    answer = api.send("POST", CRDS, body)
    assert (answer.code, answer.body["details"]["causes"][0]["field"]) == (422, "metadata.name")
