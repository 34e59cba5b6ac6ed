"""An API server in memory for rounds of crashes: versions, preconditions, finalizers, status apart; and the binder.

It watches what must never happen to a volume and writes it down at the moment it does.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import msgspec

from localpv import errors
from localpv.api import status as statuses
from localpv.api.objects import Object
from localpv.api.patch.merge_patch import copied
from localpv.client.transport import Answer, Request
from localpv.testing.api import FakeApi

VOLUMES = "/api/v1/persistentvolumes"
DISKS = "/apis/localpv.dev/v1alpha1/localdisks"
STATUS = "/status"


class Server(FakeApi):
    """A `FakeApi` that knows enough of volumes and LocalDisks for the programs to go round with them."""

    def __init__(self, *, offers: Callable[[Object], None]) -> None:
        super().__init__()
        self._offers = offers
        """Is told each volume that anybody may claim from now on."""

    @property
    def volumes(self) -> list[Object]:
        return [obj for path, obj in self.objects.items() if path.startswith(VOLUMES)]

    def patch(self, path: str, body: Object) -> Object:
        """Change an object as anybody may."""
        return self._patched(path, body, of_status=False)

    def delete(self, path: str, options: Object | None = None) -> None:
        """Delete an object as anybody may."""
        old = self._find(path)
        wanted = (options or {}).get("preconditions") or {}
        if any(old["metadata"][key] != value for key, value in wanted.items()):
            raise statuses.modified("", "", path.rpartition("/")[2])
        if not old["metadata"].get("finalizers"):
            self.remove(path)
        elif "deletionTimestamp" not in old["metadata"]:
            marked = copied(old)
            marked["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
            self.put(path, marked)

    def _serve(self, request: Request) -> Answer:
        path, body = request.path, msgspec.json.decode(request.body or b"{}", type=dict)
        match request.method:
            case "POST":
                return _answer(201, self._made(path, body))
            case "PATCH":
                target = path.removesuffix(STATUS)
                return _answer(200, self._patched(target, body, of_status=target != path))
            case "DELETE":
                self.delete(path, body)
                left = self.objects.get(path)
                return _answer(200, left or statuses.success("", "", path.rpartition("/")[2]))
        return super()._serve(request)

    def _made(self, path: str, body: Object) -> Object:
        body["metadata"]["uid"] = str(uuid.uuid4())
        body.pop("status", None)
        if path == VOLUMES:
            # A binder would make it Available at once.
            body["status"] = {"phase": "Available"}
        made = self._create(path, body)
        if path == VOLUMES:
            self._offers(made)
        return made

    def _patched(self, path: str, body: Object, *, of_status: bool) -> Object:
        old = self._find(path)
        meta = body.get("metadata") or {}
        if meta.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise statuses.modified("", "", path.rpartition("/")[2])
        self._check_version(path, old, body)
        allowed = {key: part for key, part in body.items() if (key == "status") is of_status}
        new = _merged(old, {**allowed, "metadata": {} if of_status else meta})
        if path.startswith(VOLUMES):
            self._bind(old, new)
        stored = self.put(path, new)
        if "deletionTimestamp" in stored["metadata"] and not stored["metadata"].get("finalizers"):
            self.remove(path)
        return stored

    def _bind(self, old: Object, new: Object) -> None:
        if old["spec"].get("claimRef") and not new["spec"].get("claimRef"):
            new["status"]["phase"] = "Available"
            self._offers(new)
        if "deletionTimestamp" in old["metadata"]:
            before, after = (set(obj["metadata"].get("finalizers") or ()) for obj in (old, new))
            if after - before:
                raise errors.Forbidden("no finalizers can be added to what is being deleted")


def _merged(old: Object, patch: Object) -> Object:
    made: Any = copied(old)
    for name, value in patch.items():
        if value is None:
            made.pop(name, None)
        elif isinstance(value, dict):
            made[name] = _merged(made.get(name) or {}, value)
        else:
            made[name] = value
    return made


def _answer(code: int, body: Any) -> Answer:
    return Answer(code=code, body=msgspec.json.encode(body))
