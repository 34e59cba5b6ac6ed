"""A cache that also knows what was written here."""

from __future__ import annotations

from typing import cast

from tests.unit.volume.samples import volume

from localpv.api.kinds import PersistentVolume
from localpv.client.cache import Cache, Handler
from localpv.client.mutation_cache import Newest


class Watched:
    """What the watch has brought so far."""

    def __init__(self) -> None:
        self.resource_version = ""
        self._items: dict[str, PersistentVolume] = {}
        self._handlers: list[Handler[PersistentVolume]] = []

    def on_change(self, handler: Handler[PersistentVolume]) -> None:
        self._handlers.append(handler)

    def by_key(self, key: str) -> PersistentVolume | None:
        return self._items.get(key)

    def list(self) -> list[PersistentVolume]:
        return [*self._items.values()]

    def brings(self, new: PersistentVolume) -> None:
        old = self._items.get(new.key)
        self._items[new.key] = new
        for handler in self._handlers:
            handler(old, new)
        self.resource_version = new.metadata.resource_version

    def takes(self, key: str, version: str) -> None:
        old = self._items.pop(key)
        for handler in self._handlers:
            handler(old, None)
        self.resource_version = version


def both() -> tuple[Watched, Newest[PersistentVolume], list[tuple[str, str]]]:
    watched = Watched()
    newest = Newest(cast(Cache[PersistentVolume], watched))
    told: list[tuple[str, str]] = []
    newest.on_change(lambda old, new: told.append((_version(old), _version(new))))
    return watched, newest, told


def _version(volume: PersistentVolume | None) -> str:
    return volume.metadata.resource_version if volume is not None else ""


def test_what_was_written_is_seen_at_once_and_told_once() -> None:
    watched, newest, told = both()
    watched.brings(volume(version="1"))
    newest.wrote(volume(version="3"))
    assert _version(newest.get("pv")) == "3"
    watched.brings(volume(version="2"))
    assert _version(newest.get("pv")) == "3"
    watched.brings(volume(version="3"))
    watched.brings(volume(version="4"))
    assert _version(newest.get("pv")) == "4"
    assert told == [("", "1"), ("1", "3"), ("3", "4")]
    assert [_version(one) for one in newest] == ["4"]


def test_an_answer_that_comes_after_the_object_has_gone_does_not_bring_it_back() -> None:
    watched, newest, told = both()
    watched.brings(volume(version="1"))
    watched.takes("pv", "5")
    newest.wrote(volume(version="4"))
    assert newest.get("pv") is None
    assert told == [("", "1"), ("1", "")]


def test_what_was_written_goes_with_the_object() -> None:
    watched, newest, told = both()
    watched.brings(volume(version="1"))
    newest.wrote(volume(version="3"))
    watched.takes("pv", "5")
    assert newest.get("pv") is None
    assert told[-1] == ("3", "")
