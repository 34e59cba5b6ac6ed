"""So many cleanings at once on a node; the others are in line and are called when their turn comes."""

from __future__ import annotations

from collections.abc import Callable


class Slots:
    """Places for cleanings, given in the order in which they were asked for."""

    def __init__(self, count: int, *, call: Callable[[str], None]) -> None:
        self.count = self._free = count
        self._call = call
        self._line: dict[str, None] = {}

    def take(self, name: str) -> bool:
        """Whether there is a place for this one now; when not, it is in line and will be called."""
        self._line.setdefault(name)
        ahead = list(self._line).index(name)
        if ahead >= self._free:
            return False
        del self._line[name]
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        self._call_next()

    def resize(self, count: int) -> None:
        """From now on there are so many. Cleanings under way go on, also when they are more than that."""
        self._free += count - self.count
        self.count = count
        self._call_next()

    def lend(self) -> None:
        """Somebody who has a place does not move: meanwhile it counts as free."""
        self.give_back()

    def take_back(self) -> None:
        """It moves again. For a while there may be one more at work than there are places."""
        self._free -= 1

    def leave(self, name: str) -> None:
        """This one does not want a place any more: whoever is behind it moves up."""
        if name in self._line:
            del self._line[name]
            self._call_next()

    def _call_next(self) -> None:
        for name in list(self._line)[: max(0, self._free)]:
            self._call(name)
