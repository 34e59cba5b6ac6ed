"""Names of field managers."""

from __future__ import annotations

import pytest

from localpv.api.managed import entries


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        ("kubectl/v1.35.8 (linux/amd64) kubernetes/0000000", "kubectl"),
        ("OpenAPI-Generator/33.1.0/python", "OpenAPI-Generator"),
        ("curl", "curl"),
        ("", ""),
        ("a\x00b\x7fc/1", "abc"),
        ("x" * 200, "x" * 128),
        ("é" * 100, "é" * 64),
    ],
)
def test_manager_is_the_program_that_the_user_agent_names(user_agent: str, manager: str) -> None:
    assert entries.manager_from_user_agent(user_agent) == manager


def test_named_manager_comes_before_the_user_agent() -> None:
    assert entries.name_of("me", "kubectl/v1") == "me"
    assert entries.name_of("", "kubectl/v1") == "kubectl"
    assert entries.name_of("", "/v1") == "unknown"


def test_apply_needs_a_manager() -> None:
    (problem,) = entries.validate_patch("", force=None, is_apply=True)

    assert str(problem) == "fieldManager: Required value: is required for apply patch"
    assert entries.validate_patch("me", force=True, is_apply=True) == []
    assert entries.validate_patch("", force=None, is_apply=False) == []


@pytest.mark.parametrize("force", [True, False])
def test_only_apply_can_be_forced(force: bool) -> None:
    (problem,) = entries.validate_patch("me", force=force, is_apply=False)

    assert str(problem) == "force: Forbidden: may not be specified for non-apply patch"


def test_name_is_short_and_printable() -> None:
    assert entries.validate_name("x" * 128) == []
    (long,) = entries.validate_name("x" * 129)
    (odd,) = entries.validate_name("é\x01b")

    assert str(long) == "fieldManager: Too long: may not be more than 128 bytes"
    assert odd.reason == "FieldValueInvalid"
    assert odd.message.endswith("invalid character U+0001 (at position 2)")
