from __future__ import annotations

import base64
import hmac
import json
from pathlib import Path

import pytest
from tests.unit.engine.apiserver.auth.fakes import NOW, Store, an_object

from localpv import errors
from localpv.api.objects import Object
from localpv.engine.apiserver.auth import identity
from localpv.engine.apiserver.auth.tokens import ADMIN, ISSUER, Malformed, Tokens, read_claims, signed

ACCOUNT = an_object("ServiceAccount", "agent", "kube-system")
NODE = an_object("Node", "node1")
POD = an_object("Pod", "p", "kube-system", spec={"serviceAccountName": "agent", "nodeName": "node1"})
SECRET = an_object("Secret", "s", "kube-system")


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens.load(tmp_path / "auth")


@pytest.fixture
def store() -> Store:
    return Store(ACCOUNT, NODE, POD, SECRET)


def payload(token: str) -> Object:
    text = token.split(".")[1]
    claims: Object = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return claims


def test_the_secrets_are_made_once_and_only_the_owner_may_read_them(tmp_path: Path) -> None:
    first = Tokens.load(tmp_path / "auth")
    token = first.issue(ACCOUNT, now=NOW, seconds=3600)
    second = Tokens.load(tmp_path / "auth")
    assert second.admin_token == first.admin_token
    assert len(first.admin_token) == 43, "32 random bytes"
    assert second.verify(token, Store(ACCOUNT), NOW).name == "system:serviceaccount:kube-system:agent"
    files = sorted((tmp_path / "auth").iterdir())
    assert [file.name for file in files] == ["admin-token", "signing-key"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert (tmp_path / "auth").stat().st_mode & 0o777 == 0o700


def test_secrets_that_others_could_read_are_closed_again(tmp_path: Path) -> None:
    Tokens.load(tmp_path)
    (tmp_path / "signing-key").chmod(0o644)
    Tokens.load(tmp_path)
    assert (tmp_path / "signing-key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("signing-key", b"c2hvcnQ="),
        ("signing-key", b"\xff"),
        ("signing-key", base64.b64encode(bytes(31))),
        ("admin-token", b""),
        ("admin-token", b"fifteen letters"),
        ("admin-token", b"sixteen letters\x00 and more"),
        ("admin-token", b"sixteen letters\xff and more"),
    ],
)
def test_a_damaged_secret_stops_the_start_with_a_hint(tmp_path: Path, name: str, data: bytes) -> None:
    Tokens.load(tmp_path)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(errors.StartError) as refused:
        Tokens.load(tmp_path)
    assert name in refused.value.message
    assert "remove the file" in refused.value.hint


def test_the_bearer_of_the_admin_token_is_a_master(tokens: Tokens) -> None:
    assert tokens.verify(tokens.admin_token, Store(), NOW) == ADMIN
    assert ADMIN.is_master
    with pytest.raises(errors.Unauthorized):
        tokens.verify(tokens.admin_token + "x", Store(), NOW)


def test_a_token_has_the_claims_that_clients_of_kubernetes_read(tokens: Tokens) -> None:
    claims = payload(tokens.issue(ACCOUNT, now=NOW, seconds=600, audiences=["x"], pod=POD, node=NODE))
    assert claims.pop("jti")
    assert claims == {
        "iss": ISSUER,
        "sub": "system:serviceaccount:kube-system:agent",
        "aud": ["x"],
        "iat": int(NOW),
        "nbf": int(NOW),
        "exp": int(NOW) + 600,
        "kubernetes.io": {
            "namespace": "kube-system",
            "serviceaccount": {"name": "agent", "uid": "uid-of-agent"},
            "pod": {"name": "p", "uid": "uid-of-p"},
            "node": {"name": "node1", "uid": "uid-of-node1"},
        },
    }


def test_the_user_of_a_token_tells_its_groups_its_pod_and_its_node(tokens: Tokens, store: Store) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600, pod=POD, node=NODE)
    who = tokens.verify(token, store, NOW)
    assert who.uid == "uid-of-agent"
    assert who.groups == ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    assert who.node_name == "node1"
    assert who.extra == {
        "authentication.kubernetes.io/credential-id": (f"JTI={payload(token)['jti']}",),
        "authentication.kubernetes.io/pod-name": ("p",),
        "authentication.kubernetes.io/pod-uid": ("uid-of-p",),
        "authentication.kubernetes.io/node-name": ("node1",),
        "authentication.kubernetes.io/node-uid": ("uid-of-node1",),
    }


def test_a_token_ends(tokens: Tokens, store: Store) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600)
    assert tokens.verify(token, store, NOW + 599)
    with pytest.raises(errors.Unauthorized, match="expired"):
        tokens.verify(token, store, NOW + 661)
    with pytest.raises(errors.Unauthorized, match="not valid yet"):
        tokens.verify(token, store, NOW - 61)


@pytest.mark.parametrize("now", [NOW - 60, NOW + 660])
def test_clocks_may_differ_by_a_minute(tokens: Tokens, store: Store, now: float) -> None:
    assert tokens.verify(tokens.issue(ACCOUNT, now=NOW, seconds=600), store, now)


def test_a_token_for_somebody_else_is_not_for_this_server(tokens: Tokens, store: Store) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600, audiences=["vault"])
    with pytest.raises(errors.Unauthorized, match="audiences"):
        tokens.verify(token, store, NOW)
    assert tokens.review(token, store, NOW, ["vault", "other"]).audiences == ("vault",)


@pytest.mark.parametrize(
    ("bound", "to"), [({}, ACCOUNT), ({"pod": POD}, POD), ({"node": NODE}, NODE), ({"secret": SECRET}, SECRET)]
)
def test_a_token_dies_with_what_it_is_bound_to(
    tokens: Tokens, store: Store, bound: dict[str, Object], to: Object
) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600, **bound)
    key = (to["kind"].lower() + "s", to["metadata"].get("namespace", ""), to["metadata"]["name"])

    assert tokens.verify(token, store, NOW)
    store.remove(to)
    tokens.changed(*key)
    with pytest.raises(errors.Unauthorized, match="does not exist"):
        tokens.verify(token, store, NOW)

    store.put({**to, "metadata": {**to["metadata"], "uid": "another"}})
    with pytest.raises(errors.Unauthorized, match="another one of the same name"):
        tokens.verify(token, store, NOW)

    store.put({**to, "metadata": {**to["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}})
    with pytest.raises(errors.Unauthorized, match="being deleted"):
        tokens.verify(token, store, NOW)


def test_a_known_token_is_not_looked_up_again_until_something_changes(tokens: Tokens, store: Store) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600)
    for _ in range(100):
        tokens.verify(token, store, NOW)
    assert store.asked == 1
    tokens.changed("serviceaccounts", "kube-system", "other")
    tokens.verify(token, store, NOW)
    assert store.asked == 1
    tokens.changed("serviceaccounts", "kube-system", "agent")
    tokens.verify(token, store, NOW)
    assert store.asked == 2


def test_a_change_that_nobody_told_of_is_seen_after_ten_seconds(tokens: Tokens, store: Store) -> None:
    token = tokens.issue(ACCOUNT, now=NOW, seconds=600)
    tokens.verify(token, store, NOW)
    store.remove(ACCOUNT)
    with pytest.raises(errors.Unauthorized):
        tokens.verify(token, store, NOW + 10)


def test_the_memory_for_known_tokens_is_bounded(tokens: Tokens, store: Store) -> None:
    issued = [tokens.issue(ACCOUNT, now=NOW, seconds=600) for _ in range(1100)]
    for token in issued:
        tokens.verify(token, store, NOW)
    assert len(tokens._cache) == 1024
    assert sum(len(users) for users in tokens._used_by.values()) == 1024
    tokens.changed("serviceaccounts", "kube-system", "agent")
    assert not tokens._cache
    assert not tokens._used_by


@pytest.mark.parametrize(
    "wrong",
    [
        lambda token: token[:-2] + ("AA" if token[-2:] != "AA" else "BB"),
        lambda token: token + "x",
        lambda token: token + "xx",
        lambda token: token[:-1] + "!",
        lambda token: token + "!!!!",
        lambda token: ".".join(token.split(".")[:2]) + ".",
        lambda token: ".".join(token.split(".")[:2]),
        lambda token: _with_header(token, {"alg": "none", "typ": "JWT"}),
        lambda token: _with_header(token, {"alg": "HS512", "typ": "JWT"}),
        lambda token: token.replace(".", ".AA", 1),
        lambda token: "é" + token,
        lambda token: "a.b.c",
        lambda token: "x" * 100_000,
        lambda token: "\ud800",
        lambda token: "",
    ],
)
def test_a_token_that_was_tampered_with_is_refused(tokens: Tokens, store: Store, wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(errors.Unauthorized, match="invalid bearer token"):
        tokens.verify(wrong(tokens.issue(ACCOUNT, now=NOW, seconds=600)), store, NOW)


def _with_header(token: str, header: Object) -> str:
    encoded = base64.urlsafe_b64encode(json.dumps(header, separators=(",", ":")).encode()).rstrip(b"=").decode()
    return ".".join([encoded, *token.split(".")[1:]])


def test_a_token_of_another_server_is_refused(tmp_path: Path, tokens: Tokens, store: Store) -> None:
    other = Tokens.load(tmp_path / "other")
    with pytest.raises(errors.Unauthorized):
        tokens.verify(other.issue(ACCOUNT, now=NOW, seconds=600), store, NOW)


def test_signed_claims_come_back_as_they_were() -> None:
    key = b"k" * 32
    assert read_claims(signed({"a": [1, "ü"]}, key), key) == {"a": [1, "ü"]}
    with pytest.raises(Malformed):
        read_claims(signed({"a": 1}, key), b"j" * 32)


def _signed(body: str, key: bytes) -> str:
    signature = base64.urlsafe_b64encode(hmac.digest(key, body.encode(), "sha256")).rstrip(b"=").decode()
    return f"{body}.{signature}"


@pytest.mark.parametrize("payload", ["x", "!!!!", "", "_w", "bm90IEpTT04", "WzFd", "MQ", "bnVsbA"])
def test_signed_claims_that_are_no_object_are_malformed(payload: str) -> None:
    key = b"k" * 32
    header = signed({}, key).partition(".")[0]
    assert read_claims(_signed(f"{header}.e30", key), key) == {}
    with pytest.raises(Malformed):
        read_claims(_signed(f"{header}.{payload}", key), key)


@pytest.mark.parametrize("header", [{"typ": "JWT", "alg": "HS256"}, {"alg": "none", "typ": "JWT"}, {"alg": "HS256"}])
def test_another_header_is_refused_whoever_signed_it(header: Object) -> None:
    key = b"k" * 32
    body = _with_header(signed({}, key), header).rpartition(".")[0]
    with pytest.raises(Malformed):
        read_claims(_signed(body, key), key)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("system:serviceaccount:a:b", ("a", "b")),
        ("system:serviceaccount:a:b.c", ("a", "b.c")),
        ("system:serviceaccount:a:b:c", None),
        ("system:serviceaccount:a:", None),
        ("system:serviceaccount:A:b", None),
        ("System:serviceaccount:a:b", None),
        ("a-user-of-22-lettersXXa:b", None),
        ("alice", None),
    ],
)
def test_the_names_of_service_accounts_are_told_apart(name: str, split: tuple[str, str] | None) -> None:
    assert identity.split_account(name) == split
