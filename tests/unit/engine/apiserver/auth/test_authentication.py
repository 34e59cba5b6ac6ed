from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.engine.apiserver.auth.fakes import NOW, Store

from localpv import errors
from localpv.api import status
from localpv.engine.apiserver.auth.authentication import authenticate
from localpv.engine.apiserver.auth.identity import ANONYMOUS, User
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
