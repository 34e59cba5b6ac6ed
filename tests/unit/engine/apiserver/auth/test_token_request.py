from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.apiserver.auth.fakes import NOW, Store, an_object

from localpv import errors
from localpv.api.objects import Object
from localpv.engine.apiserver.auth.reviews import token_request
from localpv.engine.apiserver.auth.tokens import ISSUER, Tokens

ACCOUNT = an_object("ServiceAccount", "a", "ns")
NODE = an_object("Node", "node1")
POD = an_object("Pod", "p", "ns", spec={"serviceAccountName": "a", "nodeName": "node1"})
STORE = Store(
    ACCOUNT,
    NODE,
    POD,
    an_object("Pod", "foreign", "ns", spec={"serviceAccountName": "b"}),
    an_object("Pod", "stray", "ns", spec={"serviceAccountName": "a", "nodeName": "gone"}),
    an_object("Secret", "s", "ns"),
)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(Path(tmp_path_factory.mktemp("auth")))


def ask(tokens: Tokens, body: Object, account: Object | None = ACCOUNT) -> Object:
    return token_request(body, account, namespace="ns", name="a", tokens=tokens, objects=STORE, now=NOW)


def bound_to(kind: str, name: str, **more: str) -> Object:
    return {"spec": {"boundObjectRef": {"kind": kind, "apiVersion": "v1", "name": name, **more}}}


def test_an_empty_request_gives_a_token_for_an_hour(tokens: Tokens) -> None:
    answer = ask(tokens, {})
    told = answer.pop("status")
    assert told["expirationTimestamp"] == "2027-01-15T09:00:00Z"
    assert tokens.verify(told["token"], STORE, NOW).name == "system:serviceaccount:ns:a"
    assert answer == {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": "a", "namespace": "ns", "uid": "uid-of-a", "creationTimestamp": "2027-01-15T08:00:00Z"},
        "spec": {"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": None},
    }


def test_a_token_bound_to_a_node_carries_its_name(tokens: Tokens) -> None:
    who = tokens.verify(ask(tokens, bound_to("Node", "node1"))["status"]["token"], STORE, NOW)
    assert who.node_name == "node1"
    assert "authentication.kubernetes.io/pod-name" not in who.extra


def test_a_token_bound_to_a_pod_carries_the_node_of_the_pod_also_when_that_is_gone(tokens: Tokens) -> None:
    for pod, node in (("p", "node1"), ("stray", "gone")):
        who = tokens.verify(ask(tokens, bound_to("Pod", pod))["status"]["token"], STORE, NOW)
        assert who.extra["authentication.kubernetes.io/pod-name"] == (pod,)
        assert who.node_name == node


def test_a_token_can_be_bound_to_a_secret(tokens: Tokens) -> None:
    assert tokens.verify(ask(tokens, bound_to("Secret", "s"))["status"]["token"], STORE, NOW)


@pytest.mark.parametrize("seconds", [10, 599, 0, -1, 2**32 + 1])
def test_a_life_that_is_too_short_or_too_long_is_refused(tokens: Tokens, seconds: int) -> None:
    with pytest.raises(errors.Invalid) as refused:
        ask(tokens, {"spec": {"expirationSeconds": seconds}})
    start = f'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: {seconds}: '
    assert refused.value.message.startswith(start)


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (bound_to("Pod", "x"), errors.NotFound, 'pods "x" not found'),
        (bound_to("Node", "x"), errors.NotFound, 'nodes "x" not found'),
        (bound_to("Secret", "x"), errors.NotFound, 'secrets "x" not found'),
        (bound_to("ConfigMap", "x"), errors.BadRequest, "cannot be bound to ConfigMap"),
        (bound_to("Pod", "foreign"), errors.BadRequest, 'does not run with the service account "a"'),
        (bound_to("Pod", "p", uid="old"), errors.Conflict, 'Operation cannot be fulfilled on Pod "p"'),
        ({"metadata": {"name": "b"}}, errors.Invalid, 'metadata.name: Invalid value: "b"'),
        ({"metadata": {"namespace": "b"}}, errors.BadRequest, "namespace"),
        ({"metadata": {"uid": "b"}}, errors.Conflict, 'on TokenRequest.authentication.k8s.io "a"'),
        ({"spec": []}, errors.BadRequest, "spec must be an object"),
        ({"spec": {"audiences": "x"}}, errors.BadRequest, "audiences must be a list of strings"),
        ({"spec": {"expirationSeconds": "x"}}, errors.BadRequest, "expirationSeconds must be an integer"),
    ],
)
def test_what_cannot_be_is_refused(tokens: Tokens, body: Object, error: type[errors.ApiError], message: str) -> None:
    with pytest.raises(error) as refused:
        ask(tokens, body)
    assert message in refused.value.message


def test_there_is_no_token_for_an_account_that_does_not_exist(tokens: Tokens) -> None:
    with pytest.raises(errors.NotFound, match='serviceaccounts "a" not found'):
        ask(tokens, {}, account=None)
