from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.apiserver.auth.fakes import NOW, Store, a_cluster_binding, a_cluster_role, a_rule, user

from localpv import errors
from localpv.api import status
from localpv.engine.apiserver.auth import authentication
from localpv.engine.apiserver.auth.authentication import authenticate
from localpv.engine.apiserver.auth.identity import ANONYMOUS, User
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import ADMIN, Tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens.load(tmp_path)


def who(tokens: Tokens, header: str | None, path: str = "/api", method: str = "GET") -> User:
    return authenticate(header, method=method, path=path, tokens=tokens, objects=Store(), now=NOW)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/version"])
def test_anybody_may_ask_whether_the_server_is_up(tokens: Tokens, path: str) -> None:
    assert who(tokens, None, path) == ANONYMOUS
    with pytest.raises(errors.Unauthorized):
        who(tokens, None, path, "POST")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer xyz", "xyz"])
def test_strangers_learn_nothing(tokens: Tokens, header: str | None) -> None:
    with pytest.raises(errors.Unauthorized) as refused:
        who(tokens, header)
    assert status.to_status(refused.value) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Unauthorized",
        "reason": "Unauthorized",
        "code": 401,
    }


def test_a_wrong_token_is_refused_even_where_none_is_needed(tokens: Tokens) -> None:
    with pytest.raises(errors.Unauthorized):
        who(tokens, "Bearer xyz", "/livez")


@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "Bearer  {} "])
def test_the_scheme_is_read_generously(tokens: Tokens, form: str) -> None:
    assert who(tokens, form.format(tokens.admin_token)) == ADMIN


@pytest.mark.parametrize("form", ["Basic {}", "Token {}", "{}", " {}"])
def test_a_valid_token_under_another_scheme_is_refused(tokens: Tokens, form: str) -> None:
    with pytest.raises(errors.Unauthorized):
        who(tokens, form.format(tokens.admin_token))


ALICE = User("alice", ("system:authenticated",))
ANYONE = Authorizer(Store())


def acting(*headers: tuple[str, str]) -> User:
    return authentication.impersonate(ADMIN, headers, ANYONE)


def test_without_headers_everybody_is_who_they_are() -> None:
    assert authentication.impersonate(ALICE, [("Accept", "*/*"), ("Imp", "x")], ANYONE) is ALICE


def test_a_master_may_act_as_anybody_and_is_then_no_master() -> None:
    assert acting(("Impersonate-User", "bob")) == User("bob", ("system:authenticated",))


def test_all_parts_of_an_identity_can_be_given() -> None:
    who = acting(
        ("impersonate-user", "bob"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-Acme.com%2Fproject", "p"),
        ("Impersonate-Extra-scopes", "x"),
        ("Impersonate-Extra-Scopes", "y"),
    )
    extra = {"acme.com/project": ("p",), "scopes": ("x", "y")}
    assert who == User("bob", ("g1", "g2", "system:authenticated"), "7", extra)


def test_a_service_account_comes_with_its_groups_unless_others_are_given() -> None:
    name = "system:serviceaccount:x:y"
    groups = ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated")
    assert acting(("Impersonate-User", name)).groups == groups
    given = acting(("Impersonate-User", name), ("Impersonate-Group", "g"))
    assert given.groups == ("g", "system:authenticated")


def test_anonymous_is_not_authenticated() -> None:
    assert acting(("Impersonate-User", "system:anonymous")).groups == ("system:unauthenticated",)


def test_a_group_without_a_user_makes_no_sense() -> None:
    for header in ("Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-a"):
        with pytest.raises(errors.BadRequest):
            acting((header, "x"))


def test_who_may_not_impersonate_is_told_whom() -> None:
    with pytest.raises(errors.Forbidden) as refused:
        authentication.impersonate(ALICE, [("Impersonate-User", "bob")], ANYONE)
    assert refused.value.message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group "" '
        "at the cluster scope"
    )
    with pytest.raises(errors.Forbidden, match=r'cannot impersonate resource "serviceaccounts" .* namespace "x"'):
        authentication.impersonate(ALICE, [("Impersonate-User", "system:serviceaccount:x:y")], ANYONE)


def test_each_part_needs_its_own_permission() -> None:
    store = Store(a_cluster_binding("r", user("alice")))
    needed = [
        (("Impersonate-User", "bob"), a_rule("impersonate", "core", "users", "bob")),
        (("Impersonate-Group", "g"), a_rule("impersonate", "core", "groups", "g")),
        (("Impersonate-Uid", "7"), a_rule("impersonate", "authentication.k8s.io", "uids")),
        (("Impersonate-Extra-Scopes", "x"), a_rule("impersonate", "authentication.k8s.io", "userextras/scopes")),
    ]
    headers = [header for header, _ in needed]
    for count in range(len(needed)):
        store.put(a_cluster_role("r", *(rule for _, rule in needed[:count])))
        with pytest.raises(errors.Forbidden):
            authentication.impersonate(ALICE, headers, Authorizer(store))
    store.put(a_cluster_role("r", *(rule for _, rule in needed)))
    assert authentication.impersonate(ALICE, headers, Authorizer(store)).name == "bob"
