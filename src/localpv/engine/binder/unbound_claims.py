"""Claims that no volume suits, and which of them a volume that becomes free is for.

With each volume one claim is woken, the one that has waited longest of those it suits, not all: else a thousand claims
that wait for a thousand volumes would be looked at a million times. A volume that the woken claim did not take after
all is offered to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from localpv.api.kinds.volumes import PersistentVolume, PersistentVolumeClaim
from localpv.volume import fit


class Waiting:
    """Claims in the order in which they began to wait, by class."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[str, PersistentVolumeClaim]] = {}
        self._classes: dict[str, str] = {}
        self._offered: dict[str, list[str]] = {}
        """By claim that was woken, the volumes that it was woken for."""

    def add(self, claim: PersistentVolumeClaim) -> None:
        """The claim was looked at, and nothing suits it."""
        self.remove(claim.key)
        name = self._classes[claim.key] = fit.class_of(claim)
        self._claims.setdefault(name, {})[claim.key] = claim

    def remove(self, key: str) -> None:
        name = self._classes.pop(key, None)
        if name is not None:
            del self._claims[name][key]
            if not self._claims[name]:
                del self._claims[name]

    def of_class(self, name: str) -> list[str]:
        return [*self._claims.get(name, ())]

    def everywhere(self) -> Iterator[str]:
        yield from [*self._classes]

    def wake(self, volume: PersistentVolume) -> str | None:
        """The claim to look at because this volume is free; it waits no more until it is added again."""
        for key, claim in self._claims.get(fit.class_of_volume(volume), {}).items():
            if _suits(volume, claim):
                self.remove(key)
                self._offered.setdefault(key, []).append(volume.key)
                return key
        return None

    def looked(self, key: str) -> list[str]:
        """The claim was looked at: the volumes that it was woken for."""
        return self._offered.pop(key, [])


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    if fit.mismatch(volume, claim) is not None:
        return False
    selector = fit.selector_of(claim)
    return selector is None or selector.matches(volume.metadata.labels)
