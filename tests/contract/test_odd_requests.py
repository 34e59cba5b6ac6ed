"""Requests that no client means: methods, options and bodies of the wrong shape are refused, and by the right name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.contract import builders, wire
from tests.contract.spaces import Space
from tests.contract.wire import Api

HUGE = "9" * 400


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("rest", ["", "/one", "/one/status", "/one/log", "/one/eviction", "?watch=1&timeoutSeconds=1"])
def test_resources_take_no_other_methods(api: Api, space: Space, method: str, rest: str) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    answer = api.send(method, space.core("pods") + rest)
    assert answer.code == 405
    # On the same connection: what was sent for the odd request must not be taken for the answer to the next.
    assert api.get(space.core("pods", "one"))["metadata"]["name"] == "one"


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api", "/version", "/api/v1", "/apis/apps/v1"])
def test_discovery_is_read_only(api: Api, path: str, method: str) -> None:
    assert api.send(method, path).code == 405
    assert api.get("/version")["major"]


@pytest.mark.parametrize("number", [HUGE, "1_0", " 1", "1.5", "x", "\u0661"])
@pytest.mark.parametrize(("option", "watch"), [("limit", 0), ("timeoutSeconds", 0), ("timeoutSeconds", 1)])
def test_options_that_are_no_whole_number_of_64_bits(
    api: Api, space: Space, option: str, watch: int, number: str
) -> None:
    answer = api.send("GET", space.core("configmaps"), **{option: number, "watch": watch})
    assert (answer.code, answer.body["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("option", ["sinceSeconds", "tailLines", "limitBytes"])
def test_options_of_logs_that_are_no_whole_number_of_64_bits(api: Api, space: Space, option: str) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    assert api.send("GET", space.core("pods", "one", "log"), **{option: HUGE}).code == 400


def test_a_limit_below_zero_says_nothing(api: Api, space: Space) -> None:
    api.post(space.core("configmaps"), builders.config_map("one"))
    assert "one" in [item["metadata"]["name"] for item in api.get(space.core("configmaps"), limit=-1)["items"]]


@pytest.mark.parametrize("digits", [30, 5000])
def test_resource_versions_without_end(api: Api, space: Space, digits: int) -> None:
    assert api.send("GET", space.core("configmaps"), resourceVersion="9" * digits).code == 400


def test_grace_without_end(api: Api, space: Space) -> None:
    pod = builders.pod("one")
    pod["spec"]["terminationGracePeriodSeconds"] = 2**63 - 1
    pod["spec"]["nodeName"] = "none-such"
    api.post(space.core("pods"), pod)
    assert api.send("DELETE", space.core("pods", "one"), {"gracePeriodSeconds": 1.5}).code == 400
    assert api.send("DELETE", space.core("pods", "one"), gracePeriodSeconds=HUGE).code == 400
    assert api.send("DELETE", space.core("pods", "one"), {"preconditions": [1]}).code == 400
    assert api.send("DELETE", space.core("pods", "one")).code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": [1]},
        {"metadata": {"name": 5}},
        {"metadata": {"name": "other"}},
        {"deleteOptions": [1]},
        {"deleteOptions": {"gracePeriodSeconds": "x"}},
        {"kind": "Other"},
    ],
)
def test_evictions_of_the_wrong_shape(api: Api, space: Space, body: Any) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    sent = {"apiVersion": "policy/v1", "kind": "Eviction", **body}
    assert api.send("POST", space.core("pods", "one", "eviction"), sent).code == 400
    assert api.get(space.core("pods", "one"))


@pytest.mark.parametrize("body", [{"metadata": [1]}, {"target": []}, {"metadata": {"annotations": {"a": 1}}}])
def test_bindings_of_the_wrong_shape(api: Api, space: Space, body: Any) -> None:
    api.post(space.core("pods"), builders.pod("one"))
    sent = {"apiVersion": "v1", "kind": "Binding", "target": {"name": "x"}, **body}
    assert api.send("POST", space.core("pods", "one", "binding"), sent).code == 400


@pytest.mark.parametrize(
    "body",
    [
        {"spec": [[]]},
        {"spec": {"replicas": "x"}},
        {"spec": {"replicas": 2**70}},
        {"metadata": []},
        {"kind": "Other"},
        {"apiVersion": "v9"},
    ],
)
def test_scales_of_the_wrong_shape(api: Api, space: Space, body: Any) -> None:
    api.post(space.of("apps/v1", "deployments"), builders.deployment("one"))
    path = space.of("apps/v1", "deployments", "one", "scale")
    whole = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, **body}
    assert api.send("PUT", path, whole).code == 400
    assert api.send("PATCH", path, body, content_type=wire.MERGE_PATCH).code == 422
    assert api.send("PUT", path, {"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 1}}).code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {"user": "jo", "resourceAttributes": {"verb": "get", "resource": "pods"}},
            },
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectRulesReview",
                "spec": {"namespace": "default"},
            },
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}},
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
        ),
    ],
)
def test_reviews_are_no_tables(api: Api, path: str, body: Any) -> None:
    refused = api.send("POST", path, body, accept=wire.TABLE)
    assert (refused.code, refused.body["reason"]) == (406, "NotAcceptable")
    assert api.send("POST", path, body, accept=f"{wire.TABLE},application/json").body["kind"] == body["kind"]
