from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.engine.apiserver.auth.fakes import (
    NOW,
    Store,
    a_binding,
    a_cluster_binding,
    a_cluster_role,
    a_rule,
    an_object,
    resource,
    user,
)

from localpv import errors
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import identity, rbac, reviews
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import ADMIN, ISSUER, Tokens
from localpv.errors import BadRequest

ALICE = User("alice", ("system:authenticated",), "7", {"scopes": ("x",)})
ACCOUNT = an_object("ServiceAccount", "a", "ns")
STORE = Store(
    ACCOUNT,
    a_cluster_role("r", a_rule("get", "core", "pods", "x"), {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
    a_cluster_binding("r", user("alice")),
    a_binding("ns", "lost", user("alice")),
)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Tokens:
    return Tokens.load(Path(tmp_path_factory.mktemp("auth")))


def ask(tokens: Tokens, kind: str, spec: object = None, who: User = ALICE, **more: object) -> Object:
    body: Object = {"spec": spec, **more} if spec is not None else {**more}
    namespace = "ns" if kind == "LocalSubjectAccessReview" else ""
    return reviews.answer(
        resource(kind), body, who, Authorizer(STORE), tokens, store=STORE, now=NOW, namespace=namespace
    )


def on_pods(verb: str = "get", **more: str) -> Object:
    return {"resourceAttributes": {"verb": verb, "resource": "pods", **more}}


def test_everybody_can_ask_what_they_may(tokens: Tokens) -> None:
    answer = ask(tokens, "SelfSubjectAccessReview", on_pods(name="x"))
    assert answer == {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "metadata": {},
        "spec": on_pods(name="x"),
        "status": {
            "allowed": True,
            "reason": 'RBAC: allowed by ClusterRoleBinding "r" of ClusterRole "r" to User "alice"',
        },
    }
    assert ask(tokens, "SelfSubjectAccessReview", on_pods(name="y"))["status"] == {"allowed": False}
    assert ask(tokens, "SelfSubjectAccessReview", on_pods("*"), ADMIN)["status"] == {"allowed": True}


def test_paths_can_be_asked_for(tokens: Tokens) -> None:
    for path, allowed in (("/metrics", True), ("/other", False)):
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        assert ask(tokens, "SelfSubjectAccessReview", spec)["status"]["allowed"] is allowed


def test_a_question_without_a_resource_is_not_one_about_a_path(tokens: Tokens) -> None:
    assert not ask(tokens, "SelfSubjectAccessReview", {"resourceAttributes": {"verb": "get"}})["status"]["allowed"]


def test_it_can_be_asked_what_others_may(tokens: Tokens) -> None:
    for who, allowed in (({"user": "alice"}, True), ({"user": "bob"}, False), ({"groups": ["system:masters"]}, True)):
        answer = ask(tokens, "SubjectAccessReview", {**on_pods(name="x"), **who}, ADMIN)
        assert answer["status"]["allowed"] is allowed


def test_a_local_review_is_about_its_namespace(tokens: Tokens) -> None:
    spec = {**on_pods(namespace="ns", name="x"), "user": "alice"}
    answer = ask(tokens, "LocalSubjectAccessReview", spec, ADMIN, metadata={"namespace": "ns"})
    assert answer["metadata"] == {"namespace": "ns"}
    assert answer["status"]["allowed"]
    with pytest.raises(errors.Invalid, match=r"spec.resourceAttributes.namespace: Invalid value: \"other\""):
        ask(tokens, "LocalSubjectAccessReview", {**on_pods(namespace="other"), "user": "alice"}, ADMIN)
    with pytest.raises(errors.BadRequest):
        ask(tokens, "LocalSubjectAccessReview", spec, ADMIN, metadata={"namespace": "other"})


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("SelfSubjectAccessReview", {}, "spec.resourceAttributes"),
        ("SelfSubjectAccessReview", {**on_pods(), "nonResourceAttributes": {}}, "spec.nonResourceAttributes"),
        ("SubjectAccessReview", on_pods(), "spec.user"),
        ("LocalSubjectAccessReview", {"user": "a", "nonResourceAttributes": {}}, "spec.nonResourceAttributes"),
    ],
)
def test_a_question_that_makes_no_sense_names_the_field(tokens: Tokens, kind: str, spec: Object, field: str) -> None:
    with pytest.raises(errors.Invalid) as refused:
        ask(tokens, kind, spec, ADMIN)
    assert refused.value.message.startswith(f'{kind}.authorization.k8s.io "" is invalid: {field}: Invalid value: ')
    assert [cause["field"] for cause in refused.value.details["causes"]] == [field]


def test_a_review_has_no_name(tokens: Tokens) -> None:
    with pytest.raises(errors.Invalid, match=r'metadata: Invalid value: {"name":"x"}: must be empty'):
        ask(tokens, "SelfSubjectAccessReview", on_pods(), metadata={"name": "x"})
    empty = {"name": None, "creationTimestamp": None, "managedFields": []}
    assert ask(tokens, "SelfSubjectAccessReview", on_pods(), metadata=empty)


def test_all_that_one_may_do_is_listed(tokens: Tokens) -> None:
    answer = ask(tokens, "SelfSubjectRulesReview", {"namespace": "ns"})
    assert answer["spec"] == {}
    assert answer["status"] == {
        "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
        "evaluationError": 'role.rbac.authorization.k8s.io "lost" not found',
    }
    with pytest.raises(errors.BadRequest, match="namespace"):
        ask(tokens, "SelfSubjectRulesReview", {})


def test_everybody_can_ask_who_they_are(tokens: Tokens) -> None:
    answer = ask(tokens, "SelfSubjectReview")
    assert answer["status"]["userInfo"] == {
        "username": "alice",
        "uid": "7",
        "groups": ["system:authenticated"],
        "extra": {"scopes": ["x"]},
    }
    assert answer["metadata"]["creationTimestamp"]
    assert "spec" not in answer


def test_a_good_token_tells_its_user(tokens: Tokens) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600)
    told = ask(tokens, "TokenReview", {"token": token, "audiences": ["x", ISSUER]}, ADMIN)["status"]
    assert told["authenticated"] is True
    assert told["audiences"] == [ISSUER]
    assert told["user"]["username"] == "system:serviceaccount:ns:a"
    assert told["user"]["extra"][identity.CREDENTIAL_ID][0].startswith("JTI=")
    admin = ask(tokens, "TokenReview", {"token": tokens.admin_token}, ADMIN)["status"]
    assert admin["user"]["groups"] == ["system:masters", "system:authenticated"]


def test_a_bad_token_tells_why(tokens: Tokens) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600)
    for spec in (
        {"token": "abc"},
        {"token": token + "x"},
        {"token": token, "audiences": ["x"]},
        {"token": tokens.admin_token, "audiences": ["x"]},
    ):
        told = ask(tokens, "TokenReview", spec, ADMIN)["status"]
        assert told["user"] == {}
        assert "authenticated" not in told
        assert told["error"].startswith("invalid bearer token")
    with pytest.raises(errors.BadRequest, match="token"):
        ask(tokens, "TokenReview", {}, ADMIN)


@pytest.mark.parametrize("spec", [[], "x", {"resourceAttributes": 1}, {"resourceAttributes": {"verb": 1}}])
def test_fields_of_the_wrong_type_are_a_bad_request(tokens: Tokens, spec: object) -> None:
    with pytest.raises(errors.BadRequest):
        ask(tokens, "SelfSubjectAccessReview", spec)


@pytest.mark.parametrize(
    ("read", "right", "missing", "wrong"),
    [
        (reviews.mapping, {"a": 1}, None, ["x", 1, [], True]),
        (reviews.text, "x", "", [1, [], {}, True]),
        (reviews.texts, ["x"], [], ["x", 1, {}, [1], ["x", None]]),
        (lambda obj, key: reviews.integer(obj, key, 7), 3, 7, ["3", 1.5, True, [], {}]),
        (reviews.extra, {"a": ["b"]}, {}, ["x", {"a": "b"}, {"a": [1]}]),
    ],
    ids=["mapping", "text", "texts", "integer", "extra"],
)
def test_part_of_a_body_has_its_type_or_is_refused(
    read: Callable[[dict[str, Any], str], Any], right: Any, missing: Any, wrong: list[Any]
) -> None:
    read_right = read({"part": right}, "part")
    assert read_right == ({"a": ("b",)} if right == {"a": ["b"]} else right)
    assert read({}, "part") == read({"part": None}, "part") == missing
    for value in wrong:
        with pytest.raises(BadRequest, match="must be"):
            read({"part": value}, "part")


def test_one_error_is_told_as_it_is_and_several_in_brackets() -> None:
    assert rbac.summed_up(["a"]) == "a"
    assert rbac.summed_up(["a", "b"]) == "[a, b]"
