"""Labels of nodes that have been renamed, and the warnings for those who still select by the old names."""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api import well_known
from localpv.api.objects import Object

GENERAL = {
    "beta.kubernetes.io/arch": well_known.ARCHITECTURE,
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os": well_known.OS,
    well_known.BETA_REGION: well_known.REGION,
    well_known.BETA_ZONE: well_known.ZONE,
}
"""Beta labels and what they are called now."""

_INSTEAD = GENERAL | {
    "app.kubernetes.io/created-by": "",
    "node-role.kubernetes.io/master": well_known.CONTROL_PLANE,
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "taints and tolerations",
}


def warning(label: str, path: str) -> Iterator[str]:
    """A warning if the label is one of those."""
    instead = _INSTEAD.get(label)
    if instead is not None:
        yield f"{path}: {label} is deprecated" + (f"; use {instead} instead" if instead else "")


def term_warnings(term: Object, path: str) -> Iterator[str]:
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        yield from warning(requirement.get("key", ""), f"{path}.matchExpressions[{index}].key")


def selector_warnings(selector: Object | None, path: str) -> Iterator[str]:
    """For a node selector, which is a list of terms."""
    for index, term in enumerate((selector or {}).get("nodeSelectorTerms", ())):
        yield from term_warnings(term, f"{path}.nodeSelectorTerms[{index}]")
