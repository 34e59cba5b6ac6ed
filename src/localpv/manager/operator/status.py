"""What the status of a LocalStorage says. Computes, never waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from localpv.api.kinds.localstorage import LocalStorage, LocalStorageStatus, StorageCondition
from localpv.api.kinds.meta import write_time
from localpv.api.kinds.workloads import DaemonSet
from localpv.manager.operator.deletion import Waiting
from localpv.manager.operator.tally import Tally
from localpv.manager.operator.verdict import Verdict

ACCEPTED = "Accepted"
AVAILABLE = "Available"
PROGRESSING = "Progressing"
DELETING = "Deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that a status is made of."""

    verdict: Verdict
    in_force: int
    """Generation that nodes were told last; 0 for none."""

    tally: Tally
    daemon_sets: Sequence[DaemonSet]
    trouble: str
    """Why the last step failed, if it did."""

    deleting: Waiting | None


def compute(storage: LocalStorage, facts: Facts, *, now: datetime) -> LocalStorageStatus:
    """The status as it should be; equal to the one that is there when there is nothing to write."""
    tally = facts.tally
    wanted = [_accepted(facts)]
    if facts.in_force or facts.trouble:
        wanted += [_available(facts), _progressing(facts)]
    if facts.deleting is not None:
        wanted.append(_condition(DELETING, True, facts.deleting.reason, facts.deleting.message))
    return LocalStorageStatus(
        observed_generation=storage.metadata.generation,
        conditions=tuple(_since(storage, each, now) for each in wanted),
        node_count=tally.nodes,
        current_nodes=tally.current,
        matched_devices=tally.matched,
        published_devices=tally.published,
        nodes=tuple(tally.summaries()),
    )


def body(status: LocalStorageStatus) -> dict[str, object]:
    """The status for a merge patch: what became empty is named too, or it would stay."""
    empty = {"observedGeneration": None, "nodeCount": 0, "currentNodes": 0, "matchedDevices": 0, "publishedDevices": 0}
    return {**empty, "conditions": [], "nodes": [], **msgspec.to_builtins(status)}


def _accepted(facts: Facts) -> StorageCondition:
    verdict = facts.verdict
    message = verdict.message
    if not verdict.accepted:
        message += (
            f" The rules of generation {facts.in_force} stay in force."
            if facts.in_force
            else " Nothing of it has reached a node."
        )
    return _condition(ACCEPTED, verdict.accepted, verdict.reason, message)


def _available(facts: Facts) -> StorageCondition:
    tally = facts.tally
    if facts.trouble:
        return _condition(AVAILABLE, False, "Failed", facts.trouble)
    if tally.problems:
        return _condition(
            AVAILABLE, False, "NodesNotReady", f"{tally.current} of {tally.nodes} nodes have the rules; see nodes."
        )
    if not tally.nodes:
        return _condition(AVAILABLE, False, "NoNodes", "No node is selected, or taints keep the pods away.")
    return _condition(AVAILABLE, True, "AllNodes", f"All {tally.nodes} nodes have the rules.")


def _progressing(facts: Facts) -> StorageCondition:
    wanted, updated = _rollout(facts.daemon_sets)
    if updated < wanted:
        return _condition(PROGRESSING, True, "RollingOut", f"{updated} of {wanted} pods are up to date.")
    tally = facts.tally
    if tally.current < tally.nodes:
        return _condition(PROGRESSING, True, "Spreading", f"{tally.current} of {tally.nodes} nodes have the rules.")
    return _condition(PROGRESSING, False, "Complete", f"{updated} of {wanted} pods are up to date.")


def _rollout(daemon_sets: Iterable[DaemonSet]) -> tuple[int, int]:
    """How many pods there should be, and how many of them are as they should be."""
    wanted = updated = 0
    for each in daemon_sets:
        status = each.status
        desired = int(status.get("desiredNumberScheduled", 0))
        wanted += desired
        if int(status.get("observedGeneration", 0)) >= each.metadata.generation:
            updated += min(desired, int(status.get("updatedNumberScheduled", 0)), int(status.get("numberReady", 0)))
    return wanted, updated


def _condition(kind: str, holds: bool, reason: str, message: str) -> StorageCondition:
    return StorageCondition(type=kind, status="True" if holds else "False", reason=reason, message=message)


def _since(storage: LocalStorage, wanted: StorageCondition, now: datetime) -> StorageCondition:
    """The condition, with the moment at which its status became what it is."""
    present = next((each for each in storage.status.conditions if each.type == wanted.type), None)
    same = present is not None and present.status == wanted.status
    moment = present.last_transition_time if present is not None and same else write_time(now)[:19] + "Z"
    return msgspec.structs.replace(wanted, observed_generation=storage.metadata.generation, last_transition_time=moment)
