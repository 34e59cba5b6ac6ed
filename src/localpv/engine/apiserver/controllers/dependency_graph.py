"""Who owns whom, and who waits for its dependents to go: what the garbage collector knows without reading objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from localpv.api.objects import Object

FOREGROUND = "foregroundDeletion"

Place = tuple[str, str]
"""storage prefix and key"""


class Graph:
    """Dependents by the UID of their owner. Owners that nobody has created yet may be among them."""

    def __init__(self) -> None:
        self._owners: dict[Place, tuple[str, ...]] = {}
        self._dependents: dict[str, dict[Place, bool]] = {}
        """UID of an owner -> its dependents -> whether it has to wait for that one (blockOwnerDeletion)."""
        self._blocking: dict[str, int] = {}
        """How many dependents an owner waits for: one with thousands of them is looked at each time that one goes."""
        self._waiting: dict[Place, str] = {}
        """Objects that are deleted in the foreground, with their UIDs."""
        self._waiting_places: dict[str, Place] = {}

    def __contains__(self, place: Place) -> bool:
        return place in self._owners or place in self._waiting

    def learn(self, place: Place, obj: Object) -> tuple[bool, list[Place]]:
        """(whether the object must be looked at for circles, owners that no longer have to wait for anybody)."""
        metadata = obj["metadata"]
        after: dict[str, bool] = {}
        for reference in metadata.get("ownerReferences") or ():
            uid = reference["uid"]
            after[uid] = after.get(uid, False) or bool(reference.get("blockOwnerDeletion"))
        before = self._owners.get(place, ())
        news = after.keys() != set(before) or any(self._dependents[uid][place] != after[uid] for uid in before)
        free = self._set_owners(place, after) if news else []
        began = False
        if in_foreground(obj):
            began = place not in self._waiting
            self._waiting[place] = metadata["uid"]
            self._waiting_places[metadata["uid"]] = place
        else:
            self._wait_no_more(place)
        return began or (news and place in self._waiting), free

    def forget(self, place: Place) -> list[Place]:
        """The object is gone; the owners that no longer have to wait for anybody."""
        self._wait_no_more(place)
        return self._set_owners(place, {})

    def dependents(self, uid: str) -> Sequence[Place]:
        return list(self._dependents.get(uid, ()))

    def is_blocked(self, uid: str) -> bool:
        return uid in self._blocking

    def waits(self, place: Place) -> bool:
        return place in self._waiting

    def waited_for(self, place: Place) -> Iterable[Place]:
        """The dependents that hold up an object which waits, as far as they wait for others in their turn."""
        for dependent, blocking in list(self._dependents.get(self._waiting.get(place, ""), {}).items()):
            if blocking and dependent in self._waiting:
                yield dependent

    def _set_owners(self, place: Place, after: dict[str, bool]) -> list[Place]:
        free = []
        for uid in self._owners.pop(place, ()):
            dependents = self._dependents[uid]
            if dependents.pop(place):
                self._blocking[uid] -= 1
                if not self._blocking[uid]:
                    del self._blocking[uid]
                    if uid in self._waiting_places and not after.get(uid):
                        free.append(self._waiting_places[uid])
            if not dependents:
                del self._dependents[uid]
        for uid, blocking in after.items():
            self._dependents.setdefault(uid, {})[place] = blocking
            if blocking:
                self._blocking[uid] = self._blocking.get(uid, 0) + 1
        if after:
            self._owners[place] = tuple(after)
        return free

    def _wait_no_more(self, place: Place) -> None:
        uid = self._waiting.pop(place, None)
        if uid is not None:
            del self._waiting_places[uid]


def in_foreground(obj: Object) -> bool:
    """Whether an object is being deleted and stays until its dependents are gone."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (metadata.get("finalizers") or ())
