"""As whom containers run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.engine.kubelet.builders import container, pod

from localpv.api.kinds.containers import SecurityContext
from localpv.engine.kubelet import security_context
from localpv.engine.kubelet.events import BadConfig
from localpv.engine.kubelet.security_context import User


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:\napp:x:1000:1001::/:\nbroken\n")
    (tmp_path / "etc/group").write_text("root:x:0:\nteam:x:500:app,other\nstaff:x:501:app\n")
    return tmp_path


def user(root: Path, image: str = "", own: object = None, whole: object = None) -> User:
    of = pod(containers=[container(securityContext=own or {})], securityContext=whole or {})
    return security_context.user_of(of, of.spec.containers[0], image_user=image, root=root)


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ("", User(uid=0, gid=0)),
        ("app", User(uid=1000, gid=1001, groups=(500, 501))),
        ("1000", User(uid=1000, gid=1001, groups=(500, 501))),
        ("app:staff", User(uid=1000, gid=501, groups=(500,))),
        ("7:8", User(uid=7, gid=8)),
        ("7", User(uid=7, gid=0)),
    ],
)
def test_user_of_the_image_is_looked_up_in_it(root: Path, image: str, found: User) -> None:
    assert user(root, image) == found


def test_container_wins_over_pod_and_pod_over_image(root: Path) -> None:
    assert user(root, "app", whole={"runAsUser": 5, "runAsGroup": 6}) == User(uid=5, gid=6)
    assert user(root, "app", own={"runAsUser": 9}, whole={"runAsUser": 5, "runAsGroup": 6}) == User(uid=9, gid=6)
    assert user(root, whole={"fsGroup": 70, "supplementalGroups": [80, 70]}) == User(uid=0, gid=0, groups=(80, 70))


def test_user_that_the_image_does_not_have_is_told(root: Path, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="nobody"):
        user(root, "nobody")
    with pytest.raises(BadConfig, match="crew"):
        user(root, "app:crew")


@pytest.mark.parametrize(
    ("image", "own", "words"),
    [
        ("", {"runAsNonRoot": True}, "will run as root"),
        ("", {"runAsNonRoot": True, "runAsUser": 0}, "breaks non-root policy"),
        ("app", {"runAsNonRoot": True}, "non-numeric user"),
    ],
)
def test_who_must_not_be_root_is_refused_if_he_is_or_may_be(root: Path, image: str, own: object, words: str) -> None:
    with pytest.raises(BadConfig, match=words):
        user(root, image, own)


def test_who_is_not_root_for_sure_is_let_in(root: Path) -> None:
    assert user(root, "1000", {"runAsNonRoot": True}).uid == 1000
    assert user(root, "", {"runAsNonRoot": True, "runAsUser": 3}).uid == 3
    assert user(root, "", {"runAsNonRoot": False}, {"runAsNonRoot": True}).uid == 0


def test_accounts_are_not_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").symlink_to("/etc/passwd")
    with pytest.raises(BadConfig):
        user(tmp_path, "daemon")


def capabilities(**fields: object) -> set[str]:
    context = msgspec.convert(fields, SecurityContext)
    return {name.removeprefix("CAP_") for name in security_context.capabilities(context)}


def test_capabilities_are_added_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_context, "_held", lambda: frozenset(security_context.ALL_CAPABILITIES))
    assert capabilities() == {*security_context.DEFAULT_CAPABILITIES}
    assert capabilities(capabilities={"drop": ["ALL"]}) == set()
    assert capabilities(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}) == {"NET_ADMIN"}
    assert capabilities(capabilities={"add": ["CAP_SYS_TIME"]}) == {*security_context.DEFAULT_CAPABILITIES, "SYS_TIME"}
    assert capabilities(capabilities={"add": ["ALL"], "drop": ["KILL"]}) == {*security_context.ALL_CAPABILITIES} - {
        "KILL"
    }
    assert capabilities(privileged=True) == {*security_context.ALL_CAPABILITIES}
    with pytest.raises(BadConfig, match="FLY"):
        capabilities(capabilities={"add": ["FLY"]})


def test_nothing_is_passed_on_that_we_do_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_context, "_held", lambda: frozenset({"CHOWN"}))
    assert capabilities(privileged=True) == {"CHOWN"}


def test_strict_groups_are_only_those_that_the_pod_names(root: Path) -> None:
    given = {"supplementalGroups": [7], "runAsUser": 1000}
    assert user(root, whole=given).groups == (7, 500, 501)
    assert user(root, whole={**given, "supplementalGroupsPolicy": "Strict"}).groups == (7,)
