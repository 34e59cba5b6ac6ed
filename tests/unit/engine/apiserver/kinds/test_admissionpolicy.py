"""Admission policies and their bindings are stored when their form is right."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.apiserver.kinds.writes import Writes

from localpv.engine.apiserver.kinds import admissionpolicy

GROUP = "admissionregistration.k8s.io"
POLICIES = Writes(admissionpolicy.ValidatingAdmissionPolicy(), "ValidatingAdmissionPolicy", GROUP)
BINDINGS = Writes(admissionpolicy.ValidatingAdmissionPolicyBinding(), "ValidatingAdmissionPolicyBinding", GROUP)
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def policy(**change: Any) -> dict[str, Any]:
    spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "true"}], **change}
    return {"spec": {key: value for key, value in spec.items() if value is not None}}


def matching(**change: Any) -> dict[str, Any]:
    return policy(matchConstraints={"resourceRules": [{**RULE, **change}]})


def test_policy_is_completed() -> None:
    obj = POLICIES.stored(policy())

    assert obj["spec"]["failurePolicy"] == "Fail"
    assert obj["spec"]["matchConstraints"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [{**RULE, "scope": "*"}],
    }
    assert obj["status"] == {}


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        (policy(failurePolicy="X"), {("spec.failurePolicy", "NotSupported")}),
        (policy(matchConstraints=None), {("spec.matchConstraints", "Required")}),
        (policy(matchConstraints={}), {("spec.matchConstraints.resourceRules", "Required")}),
        (policy(validations=None), {("spec.validations", "Required"), ("spec.auditAnnotations", "Required")}),
        (policy(validations=[{}]), {("spec.validations[0].expression", "Required")}),
        (policy(validations=[{"expression": "true", "message": "a\nb"}]), {("spec.validations[0].message", "Invalid")}),
        (policy(validations=[{"expression": "true", "reason": "X"}]), {("spec.validations[0].reason", "NotSupported")}),
        (policy(variables=[{"name": "if", "expression": "1"}]), {("spec.variables[0].name", "Invalid")}),
        (policy(paramKind={}), {("spec.paramKind.apiVersion", "Required"), ("spec.paramKind.kind", "Required")}),
        (policy(matchConditions=[{"name": "a", "expression": "1"}] * 2),
         {("spec.matchConditions[1].name", "Duplicate")}),
        (policy(auditAnnotations=[{"key": "a b", "valueExpression": "1"}]),
         {("spec.auditAnnotations[0].key", "Invalid")}),
        (matching(operations=["*", "CREATE"]), {("spec.matchConstraints.resourceRules[0].operations", "Invalid")}),
        (matching(operations=["PAT"]), {("spec.matchConstraints.resourceRules[0].operations[0]", "NotSupported")}),
        (matching(resources=["pods/*", "pods/status"]),
         {("spec.matchConstraints.resourceRules[0].resources[1]", "Invalid")}),
        (matching(resources=["*", "pods"]), {("spec.matchConstraints.resourceRules[0].resources", "Invalid")}),
        (matching(scope="X"), {("spec.matchConstraints.resourceRules[0].scope", "NotSupported")}),
    ],
)  # fmt: skip
def test_policy_of_the_wrong_form_is_refused(obj: Any, wrong: set[tuple[str, str]]) -> None:
    assert POLICIES.create(obj).causes == wrong


def test_status_of_a_policy_leaves_its_labels_alone() -> None:
    old = POLICIES.stored(policy())
    outcome = POLICIES.update_status(old, metadata__labels={"a": "b"}, status={"observedGeneration": 1})

    assert "labels" not in outcome.obj["metadata"]
    assert outcome.obj["status"] == {"observedGeneration": 1}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"policyName": "p", "validationActions": ["Audit", "Warn"]}, set()),
        ({}, {("spec.policyName", "Required"), ("spec.validationActions", "Required")}),
        ({"policyName": "p", "validationActions": ["Deny", "Warn"]}, {("spec.validationActions", "Invalid")}),
        ({"policyName": "p", "validationActions": ["Deny", "Deny"]}, {("spec.validationActions[1]", "Duplicate")}),
        ({"policyName": "p", "validationActions": ["Deny"], "paramRef": {"parameterNotFoundAction": "Deny"}},
         {("spec.paramRef", "Required")}),
        ({"policyName": "p", "validationActions": ["Deny"],
          "paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Allow"}},
         {("spec.paramRef.name", "Forbidden"), ("spec.paramRef.selector", "Forbidden")}),
    ],
)  # fmt: skip
def test_binding_says_what_to_do_with_which_policy(spec: Any, wrong: set[tuple[str, str]]) -> None:
    assert BINDINGS.create({"spec": spec}).causes == wrong
