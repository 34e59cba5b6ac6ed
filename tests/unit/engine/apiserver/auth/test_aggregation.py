from __future__ import annotations

from tests.unit.engine.apiserver.auth.fakes import a_cluster_role, a_rule

from localpv.api.objects import Object
from localpv.engine.apiserver.auth.rules import outdated, rules_of


def labelled(name: str, labels: dict[str, str], *rules: Object, **more: Object) -> Object:
    role = a_cluster_role(name, *rules, **more)
    role["metadata"]["labels"] = labels
    return role


def choosing(*selectors: Object) -> Object:
    return {"clusterRoleSelectors": list(selectors)}


def total(role: Object, *others: Object) -> list[Object]:
    return rules_of(role, {each["metadata"]["name"]: each for each in (role, *others)})


GET, LIST, WATCH = (a_rule(verb, "core", "pods") for verb in ("get", "list", "watch"))


def test_a_plain_role_gives_its_own_rules() -> None:
    assert total(a_cluster_role("a", GET)) == [GET]


def test_a_sum_has_each_rule_once_and_forgets_its_own() -> None:
    whole = a_cluster_role("whole", WATCH, aggregationRule=choosing({"matchLabels": {"x": "1"}}))
    parts = [labelled("b", {"x": "1"}, LIST, GET), labelled("a", {"x": "1"}, GET), labelled("c", {"x": "2"}, WATCH)]
    assert total(whole, *parts) == [GET, LIST]


def test_sums_of_sums_are_followed() -> None:
    view = labelled("view", {"to": "edit"}, aggregationRule=choosing({"matchLabels": {"to": "view"}}))
    edit = a_cluster_role("edit", aggregationRule=choosing({"matchLabels": {"to": "edit"}}))
    parts = [labelled("a", {"to": "edit"}, LIST), labelled("b", {"to": "view"}, GET)]
    assert total(edit, view, *parts) == [LIST, GET]


def test_sums_that_choose_each_other_come_to_an_end() -> None:
    one = labelled("one", {"x": "1"}, aggregationRule=choosing({"matchLabels": {"x": "1"}}))
    two = labelled("two", {"x": "1"}, aggregationRule=choosing({"matchLabels": {"x": "1"}}))
    part = labelled("part", {"x": "1"}, GET)
    assert total(one, two, part) == total(two, one, part) == [GET]


def test_selectors_may_use_expressions() -> None:
    selectors = choosing(
        {"matchExpressions": [{"key": "x", "operator": "In", "values": ["1"]}]},
        {"matchExpressions": [{"key": "y", "operator": "Exists"}, {"key": "z", "operator": "DoesNotExist"}]},
        {"matchExpressions": [{"key": "w", "operator": "Odd"}]},
    )
    whole = labelled("whole", {"z": ""}, aggregationRule=selectors)
    parts = [labelled("a", {"x": "1"}, GET), labelled("b", {"y": ""}, LIST), labelled("c", {"y": "", "z": ""}, WATCH)]
    assert total(whole, *parts) == [GET, LIST]
    apart = choosing({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]})
    assert total(labelled("whole", {}, aggregationRule=apart), *parts) == [LIST, WATCH]


def test_only_sums_whose_written_rules_are_behind_are_to_be_written() -> None:
    whole = a_cluster_role("whole", aggregationRule=choosing({"matchLabels": {"x": "1"}}))
    part = labelled("part", {"x": "1"}, GET)
    (written,) = outdated([whole, part])
    assert (written["metadata"]["name"], written["rules"]) == ("whole", [GET])
    assert whole["rules"] == []
    assert outdated([written, part]) == []
