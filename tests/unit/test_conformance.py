"""What a run of Kubernetes' own tests is judged by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conformance import specs
from tests.conformance.specs import Plan, Result

PLAN = Plan(
    asked=(r".",),
    fixed=(r"\[sig-storage\] PersistentVolumes-local ",),
    left_out={"There are no webhooks.": (r"AdmissionWebhook", r"conversion webhook"), "One node.": (r"\[2 nodes\]",)},
)


def spec(name: str, state: str = "passed", *, suite: str = "storage", message: str = "") -> Result:
    return Result(name, suite, state, 1.0, message)


EVERY_PATTERN = (
    spec("[sig-storage] PersistentVolumes-local mounts"),
    spec("AdmissionWebhook denies", "skipped", suite="apimachinery"),
    spec("conversion webhook converts", "skipped", suite="apimachinery"),
    spec("moves [2 nodes]", "skipped"),
)


def test_the_plan_of_the_project_is_one() -> None:
    plan = specs.read()
    assert plan.fixed and plan.left_out
    assert all(reason.endswith(".") for reason in plan.left_out)


def test_two_reasons_for_one_pattern_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "specs.toml"
    path.write_text("asked = ['.']\nfixed = ['a']\n[left_out]\n'One.' = ['b']\n'Two.' = ['b']\n")
    with pytest.raises(ValueError, match="more than one reason for b"):
        specs.read(path)


def test_the_first_reason_that_matches_is_the_reason() -> None:
    assert PLAN.reason("AdmissionWebhook [2 nodes]") == "There are no webhooks."
    assert PLAN.reason("moves [2 nodes]") == "One node."
    assert PLAN.reason("anything else") is None


def test_fixed_stands_for_its_patterns() -> None:
    assert PLAN.focus(["fixed", "Secrets"]) == [r"\[sig-storage\] PersistentVolumes-local ", "Secrets"]


def test_without_a_word_all_is_asked_that_the_plan_asks() -> None:
    assert PLAN.focus([]) == ["."]


def test_all_that_was_asked_passed() -> None:
    summary = specs.judge(EVERY_PATTERN, PLAN, focus=PLAN.asked)
    assert summary.good
    assert [result.name for result in summary.left_out] == [
        "AdmissionWebhook denies",
        "conversion webhook converts",
        "moves [2 nodes]",
    ]


@pytest.mark.parametrize("state", specs.FAILED)
def test_a_spec_that_fails_and_is_not_on_the_list_fails_the_run(state: str) -> None:
    summary = specs.judge([*EVERY_PATTERN, spec("Secrets are kept", state, message="not kept")], PLAN, focus=PLAN.asked)
    assert [result.name for result in summary.failures] == ["Secrets are kept"]
    assert not summary.good


def test_a_run_in_which_nothing_passed_is_not_good() -> None:
    summary = specs.judge(EVERY_PATTERN[1:], Plan(PLAN.asked, (), PLAN.left_out), focus=PLAN.asked)
    assert not summary.failures and not summary.stale
    assert not summary.good


def test_a_pattern_that_finds_no_spec_is_stale() -> None:
    summary = specs.judge(EVERY_PATTERN[:3], PLAN, focus=PLAN.asked)
    assert summary.stale == (r"\[2 nodes\]",)
    assert not summary.good


def test_specs_beside_the_focus_do_not_count() -> None:
    summary = specs.judge([*EVERY_PATTERN, spec("Secrets are kept", "skipped")], PLAN, focus=["Webhook"])
    assert [result.name for result in summary.left_out] == ["AdmissionWebhook denies"]
    assert len(summary.results) == 1


def test_the_table_counts_by_suite() -> None:
    results = [
        *EVERY_PATTERN,
        spec("fails", "timedout", message="after 5 m"),
        spec("needs a cloud", "skipped", message="Only supported for providers [gce]"),
        spec("Secrets are kept", suite="common"),
    ]
    assert specs.table(specs.judge(results, PLAN, focus=PLAN.asked)) == [
        ["suite", "passed", "failed", "skipped", "left out"],
        ["apimachinery", "0", "0", "0", "2"],
        ["common", "1", "0", "0", "0"],
        ["storage", "1", "1", "1", "1"],
        ["all", "2", "1", "1", "3"],
    ]


def test_a_report_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "specs.jsonl"
    told = {
        "name": "[sig-node] Pods run",
        "file": "/go/k8s.io/kubernetes@v1.35.8/test/e2e/common/node/pods.go",
        "state": "passed",
        "seconds": 2.5,
        "message": "",
    }
    path.write_text(json.dumps(told) + "\n" + json.dumps(told)[:40])
    assert specs.read_report(path) == [Result("[sig-node] Pods run", "common", "passed", 2.5)]


def test_a_run_that_wrote_no_report_has_no_results(tmp_path: Path) -> None:
    assert specs.read_report(tmp_path / "absent") == []
