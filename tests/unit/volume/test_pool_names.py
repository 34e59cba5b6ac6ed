"""Names of pools and volumes: always the same, never the same for two, and safe where they become paths."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpv.api import names
from localpv.volume import pool_names

labels = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)


def test_a_pool_is_called_by_its_node_and_its_own_name() -> None:
    assert pool_names.local_pool_name("node-1", "fast") == "node-1-fast"


def test_hyphens_do_not_make_two_pools_one() -> None:
    assert pool_names.local_pool_name("a", "b-c") != pool_names.local_pool_name("a-b", "c")


@given(first=st.tuples(labels, labels), second=st.tuples(labels, labels))
def test_two_pools_never_have_one_name(first: tuple[str, str], second: tuple[str, str]) -> None:
    assert (first == second) == (pool_names.local_pool_name(*first) == pool_names.local_pool_name(*second))


@given(node=st.text(string.ascii_lowercase + "-", min_size=1, max_size=253).map(lambda text: "a" + text[1:]))
def test_long_names_are_cut_to_names_of_objects(node: str) -> None:
    name = pool_names.local_pool_name(node, "f" * 63)

    assert len(name) <= pool_names.LONGEST
    assert not names.dns_subdomain(name)


@pytest.mark.parametrize("name", ["pvc-0b1d", "a", "9", "a" * 80])
def test_names_of_volumes_become_handles_and_come_back(name: str) -> None:
    assert pool_names.read_handle(pool_names.handle("fast", name)) == ("fast", name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fast",
        "fast/",
        "/pvc-1",
        "fast/../etc",
        "fast/a/b",
        "../fast/a",
        "fast/a\n",
        "Fast/a",
        "fast/-a",
        "fast/a.b",
    ],
)
def test_what_would_leave_the_pool_is_no_handle(text: str) -> None:
    assert pool_names.read_handle(text) is None


def test_what_is_too_long_is_no_handle() -> None:
    assert pool_names.read_handle(f"fast/{'a' * 81}") is None
    assert pool_names.read_handle(f"{'a' * 64}/a") is None


def test_volumes_are_called_as_external_provisioner_calls_them() -> None:
    assert pool_names.volume_name("0b1d") == "pvc-0b1d"
