from __future__ import annotations

import subprocess
import sys
from copy import deepcopy

import pytest
from tests.contract.examples import EXAMPLES
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.api.schema import catalogue
from localpv.api.stored_resources import STORED
from localpv.engine.apiserver.kinds import stored, stored_checks, stored_rules, webhookconfiguration, workloads

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
from localpv.engine.apiserver import registry, tables
from localpv.engine.apiserver.kinds.base import Gates
registry.kinds(gates=Gates(), objects=None)
print([name for name in sys.modules if "stored_rules" in name or name.endswith("tables.stored")])
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


@pytest.mark.parametrize("schedule", ["* * * * *", "0,30 */2 1-7 JAN sun-fri", "@daily", "@every 1h30m", "? * * * ?"])
def test_schedules_that_can_be_read(schedule: str) -> None:
    assert stored_checks.wrong_schedule(schedule) == ""


@pytest.mark.parametrize("name", ["fe80::1%eth0", "10.1.2.3/8", "2001:DB8::1", ""])
def test_an_address_is_named_in_one_way_only(name: str) -> None:
    assert stored_rules.NAMES["IPAddress"](name)


@pytest.mark.parametrize("cidr", ["10.0.0.0/255.0.0.0", "fe80::%a/64", "10.0.0.0"])
def test_a_network_has_a_number_of_bits(cidr: str) -> None:
    outcome = writes("ServiceCIDR").create({"spec": {"cidrs": [cidr]}})
    assert ("spec.cidrs[0]", "Invalid") in outcome.causes


def test_a_local_volume_in_a_cron_job_is_not_dropped_without_a_word() -> None:
    pod = {"volumes": [{"name": "data", "local": {"path": "/mnt"}}]}
    body = {"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}}
    (error,) = writes("CronJob").strategy.raw_errors(body)
    assert error.field.startswith("spec.jobTemplate.spec.template.spec.volumes[0]")


def test_checking_a_cron_job_changes_nothing() -> None:
    made = writes("CronJob").stored(EXAMPLES["CronJob"])
    before = deepcopy(made)
    writes("CronJob").strategy.validate(made)
    assert made == before


@pytest.mark.parametrize(
    "kind", [webhookconfiguration.ValidatingWebhookConfiguration, webhookconfiguration.MutatingWebhookConfiguration]
)
def test_that_no_webhook_is_called_is_said(kind: type[webhookconfiguration.ValidatingWebhookConfiguration]) -> None:
    (told,) = kind().warnings({"metadata": {"name": "a"}, "webhooks": [{"name": "a.b.c"}]})
    assert told.startswith("no webhook is called here")
    assert kind().warnings({"metadata": {"name": "a"}}) == []


def test_that_no_pods_are_made_is_said() -> None:
    (told,) = workloads.ReplicationController().warnings({"metadata": {"name": "a"}})
    assert told.startswith("no pods are made for a ReplicationController here")
