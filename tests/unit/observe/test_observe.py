"""Alert rules and dashboard: right in form, and about metrics that exist."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests import observe

import localpv
from localpv.observe.engine import Engine
from localpv.observe.recorder import Recorder
from localpv.observe.registry import Family
from localpv.programs import discoverer
from localpv.programs.configuring import Configured
from localpv.programs.observing import Observed
from localpv.runtime.clock import SystemClock
from localpv.testing.clock import FakeClock

SOURCES = "".join(path.read_text() for path in sorted(Path(localpv.__file__).parent.rglob("*.py")))
EXPRESSIONS = list(observe.expressions())


def all_families() -> dict[str, Family]:
    """Every metric that any program has."""

    async def never() -> None: ...

    observed = Observed("all")
    observed.requests("https://x")
    observed.discoveries(Recorder())
    observed.cleanings(Recorder())
    observed.publications(Recorder())
    observed.storage_operations()
    observed.configuration(Configured(never, clock=SystemClock()))  # type: ignore[arg-type]
    observed.node(SimpleNamespace(records={}, ignored={}), hung=lambda: 0, clock=FakeClock())  # type: ignore[arg-type]
    observed.manager(lambda: None)
    observed.election("localpv-manager", lambda: True)
    observed.working(lambda: True, idle_is_ready=True)
    Engine(observed.registry)
    of_discoverer = Observed("discoverer")
    discoverer.observe(of_discoverer, SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    found = (*of_discoverer.registry.families(), *observed.registry.families())
    return {family.name: family for family in found}


@pytest.mark.parametrize(
    ("expression", "metrics", "labels"),
    [
        ("a > 0", {"a"}, set()),
        ('sum by (x, y) (rate(a_total{code=~"5..|b(c)",z="1"}[5m])) / b', {"a_total", "b"}, {"x", "y", "code", "z"}),
        ("absent(a) == 1 and on () count(b) > 0", {"a", "b"}, set()),
        ("histogram_quantile(0.99, sum by (le) (rate(a_bucket[$__rate_interval])))", {"a_bucket"}, {"le"}),
    ],
)
def test_names_are_read_from_expressions(expression: str, metrics: set[str], labels: set[str]) -> None:
    assert observe.named(expression) == observe.Named(frozenset(metrics), frozenset(labels))


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS, ids=[place for place, _ in EXPRESSIONS])
def test_every_metric_and_label_that_is_named_exists(place: str, expression: str) -> None:
    known = all_families()
    types = {name: family.type for name, family in known.items()}
    named = observe.named(expression)
    assert named.metrics
    found = {metric: observe.family(metric, types) for metric in named.metrics}
    assert {metric for metric, family in found.items() if family is None} == set(), place
    labels = {label for family in found.values() if family is not None for label in known[family].labels}
    assert named.labels - labels - observe.ADDED == set(), place
    for metric in re.findall(r"(?:rate|increase)\((\w+)", expression):
        assert types[observe.family(metric, types) or ""] in ("counter", "histogram"), f"{place}: {metric} can shrink"


@pytest.mark.parametrize(("place", "expression"), EXPRESSIONS, ids=[place for place, _ in EXPRESSIONS])
def test_every_value_of_a_label_that_is_named_is_written_somewhere(place: str, expression: str) -> None:
    """A value that nobody writes selects nothing, and its alert never comes."""
    values = re.findall(r'[{,]\s*\w+="([A-Za-z]+)"', expression)
    missing = [value for value in values if not re.search(rf'["\']{value}["\']', SOURCES)]
    assert missing == [], place


def test_alerts_have_names_of_their_own_severity_and_what_to_do() -> None:
    rules = observe.rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule["alert"]
        assert rule["alert"].startswith("Localpv")
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
        assert shown <= observe.named(rule["expr"]).labels | observe.ADDED | _kept(rule["expr"]), rule["alert"]


def _kept(expression: str) -> set[str]:
    """Labels that an expression without aggregation keeps."""
    if "by (" in expression or "(" in expression:
        return set()
    known = all_families()
    return {label for name in observe.named(expression).metrics for label in known[name].labels}


def test_disk_that_is_not_the_recorded_one_and_refusals_to_wipe_raise_an_alert() -> None:
    alarming = {metric for rule in observe.rules() for metric in observe.named(rule["expr"]).metrics}
    assert {"localpv_disks_identity_mismatch", "localpv_clean_refused_total"} <= alarming


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = observe.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        box = panel["gridPos"]
        cells = {(x, y) for x in range(box["x"], box["x"] + box["w"]) for y in range(box["y"], box["y"] + box["h"])}
        assert not cells & taken, panel["title"]
        assert box["x"] + box["w"] <= 24
        taken |= cells


def test_names_follow_the_habits_of_prometheus() -> None:
    for name, family in all_families().items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert family.explanation.endswith("."), name
        assert (family.type == "counter") == name.endswith("_total"), name
        if family.type == "histogram":
            assert name.endswith("_seconds"), name


def test_page_lists_every_metric_with_type_labels_and_meaning() -> None:
    text = (observe.FOLDER.parents[2] / "docs" / "metrics.md").read_text()
    listed = [line for line in text.splitlines() if re.match(r"\| `\w+` \| (counter|gauge|histogram) \|", line)]
    expected = [
        f"| `{family.name}` | {family.type} | {', '.join(family.labels) or 'none'} | {family.explanation} |"
        for family in all_families().values()
    ]
    assert sorted(listed) == sorted(expected)
