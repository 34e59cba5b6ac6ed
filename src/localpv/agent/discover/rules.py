"""Whether a disk may be offered: tables of small rules, each with its word and its sentence.

The first rule that objects decides. A disk that a volume has already is only asked whether it still is the same one
(`presence`): that it is mounted and has a file system by then is what it was published for. All others are also asked
whether they may be offered (`eligibility`).
"""

from __future__ import annotations

from dataclasses import dataclass

from localpv.agent.discover import eligibility, presence
from localpv.agent.discover.candidate import Candidate
from localpv.api.kinds.localdisk import DiskKind, VolumeMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a disk may be offered; else why not and what to do."""

    eligible: bool
    reason: str
    message: str
    kind: DiskKind | None
    mode: VolumeMode
    missing: bool = False
    matched_by: str = ""


def judge(disk: Candidate) -> Verdict:
    """What the rules say about a candidate."""
    rules = presence.RULES if disk.published else (*presence.RULES, *eligibility.RULES)
    for rule in rules:
        if finding := rule(disk):
            return Verdict(
                eligible=False,
                reason=finding.reason,
                message=finding.message,
                kind=disk.sighting.kind,
                mode=disk.mode,
                missing=finding.missing,
                matched_by=disk.matched_by,
            )
    message = "It can be offered."
    if not disk.published and eligibility.not_blank(disk):
        message = (
            f"It is offered as it is, though {disk.facts.contents}: the class says adoptExisting, or leaves it out for"
            " localpv provisioner, which offers what it finds as the classic one does."
        )
    return Verdict(
        eligible=True,
        reason="Available",
        message=message,
        kind=disk.sighting.kind,
        mode=disk.mode,
        matched_by=disk.matched_by,
    )
