"""Kinds that are only stored: what their writers are told, and what the contract cannot see."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.contract.examples import EXAMPLES
from tests.unit.apiserver.kinds.writes import Writes

from localpv.api.schema import catalogue
from localpv.api.stored_resources import STORED
from localpv.apiserver.kinds import cron, stored, stored_rules

RESOURCES = {resource.kind: resource for resource in STORED}


def writes(kind: str) -> Writes:
    resource = RESOURCES[kind]
    strategy = stored.Stored(resource, lambda: catalogue.built_in().node(resource.schema))
    return Writes(strategy, kind, resource.group)


@pytest.mark.parametrize("kind", ["LimitRange", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota"])
def test_who_relies_on_what_is_not_enforced_is_told(kind: str) -> None:
    made = writes(kind).stored(EXAMPLES[kind])

    (told,) = writes(kind).strategy.warnings(made)
    assert "only stored" in told


def test_tables_are_about_definitions_that_exist() -> None:
    assert [name for name in stored_rules.TABLES if name not in catalogue.built_in()] == []


def test_tables_are_about_fields_that_exist() -> None:
    for name, rules in stored_rules.TABLES.items():
        known = catalogue.built_in().node(name).fields
        named = {*rules.required, *rules.enum, *rules.least, *rules.most, *rules.form, *rules.unique, *rules.one_of}
        named |= {*rules.unique_elements, *rules.most_items, *rules.default, *rules.instead_of_zero}
        assert named <= known.keys(), name


def test_lists_of_kinds_name_kinds_that_are_stored() -> None:
    lists = (stored.CREATED_BY_PUT, stored.FORBIDDEN_TO_CHANGE, stored.IMMUTABLE, stored.NOT_ENFORCED)
    more = (stored.RETURNED_WHEN_DELETED, stored.VERSION_DEMANDED, stored.WITHOUT_GENERATION)
    also = (stored_rules.ALSO, stored_rules.CHANGES, stored_rules.NAMES)
    assert {kind for names in (*lists, *more, *also) for kind in names} <= RESOURCES.keys()


def test_a_server_loads_no_tables_before_it_sees_an_object() -> None:
    script = """
import sys
from localpv.apiserver import assembly, tables
from localpv.apiserver.kinds.base import Gates
assembly.kinds(gates=Gates(), objects=None)
print([name for name in sys.modules if "stored_rules" in name or name.endswith("tables.stored")])
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("schedule", ["* * * * *", "0,30 */2 1-7 JAN sun-fri", "@daily", "@every 1h30m", "? * * * ?"])
def test_schedules_that_can_be_read(schedule: str) -> None:
    assert cron.wrong(schedule) == ""
