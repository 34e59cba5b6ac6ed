"""What came of one LocalStorage on its nodes, counted as it changes.

A report of one node or a change of one disk is worked into the sums where it belongs, so that a thousand nodes that
report at once cost a thousand small steps and not a million. The nodes are kept in the order in which the status shows
them: those with problems first, then by name.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from localpv.api import taints
from localpv.api.kinds.cluster import Node
from localpv.api.kinds.localstorage import NodeGroup, NodeSummary
from localpv.config import local_storage
from localpv.manager.operator.informers import Disk, Report

MOST_NODES = 64
"""Nodes in the status of a LocalStorage: it must stay small when there are thousands."""

LONGEST_MESSAGE = 256
_PROBLEM, _NOTE, _FINE = range(3)


@dataclass(slots=True)
class _OnNode:
    selected: bool = False
    reported: bool = False
    generation: int = 0
    matched: int = 0
    error: str = ""
    published: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Disks that are not offered, by the reason."""

    rank: tuple[int, str] | None = None
    """Where it stands in the order."""

    @property
    def empty(self) -> bool:
        return not (self.selected or self.reported or self.published or self.refused)


class Tally:
    """The sums of one LocalStorage."""

    def __init__(self) -> None:
        self.nodes = 0
        self.current = 0
        self.matched = 0
        self.published = 0
        self.problems = 0
        self._generation = 0
        self._groups: tuple[NodeGroup, ...] = ()
        self._on: dict[str, _OnNode] = {}
        self._order: list[tuple[int, str]] = []

    def expect(self, groups: Iterable[NodeGroup], generation: int, nodes: Iterable[Node]) -> None:
        """These groups are in force: which nodes they mean, and the generation that those should have."""
        for name in self._on:
            self._at(name).selected = False
        self._groups, self._generation = tuple(groups), generation
        for node in nodes:
            if self._selects(node):
                self._at(node.metadata.name).selected = True
        for name in [*self._on]:
            self._count(name)

    def node(self, name: str, node: Node | None) -> None:
        """A node came, changed or went."""
        selected = node is not None and self._selects(node)
        if selected or name in self._on:
            self._at(name).selected = selected
            self._count(name)

    def report(self, old: Report | None, new: Report | None) -> None:
        """A discoverer wrote what it has done, or took it away."""
        report = new or old
        assert report is not None
        on = self._at(report.spec.node_name)
        on.reported = new is not None
        status = new.status if new is not None else None
        self.matched -= on.matched
        on.generation, on.matched, on.error = (
            (status.generation, status.matched, status.error) if status is not None else (0, 0, "")
        )
        self.matched += on.matched
        self._count(report.spec.node_name)

    def disk(self, disk: Disk, by: int) -> None:
        """A disk came (1) or went (-1)."""
        on = self._at(disk.spec.node_name)
        if disk.spec.volume is not None:
            on.published += by
            self.published += by
        elif disk.status.eligible is False:
            on.refused[disk.status.reason] += by
            if on.refused[disk.status.reason] <= 0:
                del on.refused[disk.status.reason]
        self._count(disk.spec.node_name)

    def summaries(self) -> Iterator[NodeSummary]:
        """The nodes that the status shows."""
        for _, name in islice(self._order, MOST_NODES):
            on = self._on[name]
            yield NodeSummary(
                name=name,
                generation=on.generation,
                matched=on.matched,
                published=on.published,
                message=self._message(on)[:LONGEST_MESSAGE],
            )

    def _selects(self, node: Node) -> bool:
        return any(
            local_storage.selects(group, node) and not taints.keeps_daemons_away(node.spec.taints, group.tolerations)
            for group in self._groups
        )

    def _at(self, name: str) -> _OnNode:
        """The counts of a node, which are taken out of the sums that depend on more than one of them."""
        on = self._on.setdefault(name, _OnNode())
        if on.rank is not None:
            del self._order[bisect_left(self._order, on.rank)]
            self.problems -= on.rank[0] == _PROBLEM
            self.nodes -= on.selected
            self.current -= self._is_current(on)
            on.rank = None
        return on

    def _count(self, name: str) -> None:
        on = self._at(name)
        if on.empty:
            del self._on[name]
            return
        on.rank = (self._rank(on), name)
        insort(self._order, on.rank)
        self.problems += on.rank[0] == _PROBLEM
        self.nodes += on.selected
        self.current += self._is_current(on)

    def _is_current(self, on: _OnNode) -> bool:
        return on.selected and on.reported and on.generation >= self._generation and not on.error

    def _rank(self, on: _OnNode) -> int:
        if on.error or (on.selected and not self._is_current(on)):
            return _PROBLEM
        return _NOTE if self._message(on) else _FINE

    def _message(self, on: _OnNode) -> str:
        if on.error:
            return on.error
        if not on.selected:
            return "The node is not selected any more; volumes there are still in use, or it was not cleaned up."
        if not on.reported:
            return "No discoverer has reported from this node yet."
        if on.generation < self._generation:
            return f"The node has the rules of generation {on.generation}, and those of {self._generation} not yet."
        if on.refused:
            reasons = ", ".join(f"{count} {reason or 'Unknown'}" for reason, count in sorted(on.refused.items()))
            return f"Devices that are not offered: {reasons}. Their LocalDisks say more."
        return ""
