"""GET of one object."""

from __future__ import annotations

from localpv.api import status
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.storage import encode
from localpv.engine.store.store import Store


async def get(call: Call, *, store: Store, revisions: Revisions) -> Reply:
    """The object as it is on disk; with a resourceVersion, not before the server has seen that version."""
    kind = call.kind
    await revisions.reach(revisions.parse(call.query.get("resourceVersion", "")))
    row = store.table(kind.resource.storage_prefix).rows.get(kind.key(call.namespace, call.name))
    if row is None:
        raise status.not_found(kind.resource.plural, kind.resource.group, call.name)
    if kind.is_served_as_stored(row):
        return Reply(row.value)
    obj = kind.read(row)
    return Reply(encode(obj), obj=obj)
