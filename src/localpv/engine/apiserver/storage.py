"""Objects as they are stored: written, removed, and what must hold of every object before it is.

The verbs decide against the newest state, and nothing waits between reading it and handing the new one to the store, so
no lock is needed: the event loop is the lock. What waits is only the acknowledgement, for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from localpv.api import names, status
from localpv.api.fields import FieldErrors
from localpv.api.managed import track as managed_fields
from localpv.api.objects import Object, now
from localpv.engine.apiserver.admission import Admission
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.quota import Quota
from localpv.engine.apiserver.registry import Kind
from localpv.engine.store.store import Store
from localpv.engine.store.table import Row
from localpv.errors import BadRequest, InternalError

encode = msgspec.json.Encoder().encode
decode: Callable[[bytes], Object] = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """What every write needs, those of clients and those of the engine's own controllers."""

    store: Store
    admission: Admission
    quota: Quota

    def row(self, call: Call) -> Row | None:
        """The object that a call names, as it is stored now."""
        return self.store.head(call.kind.resource.storage_prefix, call.kind.key(call.namespace, call.name))

    async def put(self, call: Call, key: str, obj: Object, code: int, *, ending: bool = False) -> Reply:
        """Store an object. One that is `ending` is marked for deletion, or about to be, for which there is always
        room."""
        kind, store = call.kind, self.store
        if call.dry_run:
            if code == 201:
                obj["metadata"].pop("resourceVersion", None)
            return Reply(encode(obj), code, obj)
        revision, prefix = store.next_revision(), kind.resource.storage_prefix
        obj["metadata"]["resourceVersion"] = str(revision)
        value = _stored_form(kind, obj)
        if not ending:
            self.quota.check(call, key, Row(revision, value), store.head(prefix, key))
        await store.put(prefix, key, value)
        return Reply(value if kind.to_stored is None else encode(obj), code, obj)

    async def remove(self, call: Call, key: str, obj: Object) -> Reply:
        """Take an object out; watchers are told its last state."""
        kind = call.kind
        if call.dry_run:
            return Reply(encode(obj), obj=obj)
        obj["metadata"]["resourceVersion"] = str(self.store.next_revision())
        await self.store.delete(kind.resource.storage_prefix, key, _stored_form(kind, obj))
        return Reply(encode(obj), obj=obj)


def is_stored_so(kind: Kind, obj: Object, row: Row) -> bool:
    """What is stored in an older form is written anew, even if nothing else changes: so objects are migrated."""
    return kind.is_served_as_stored(row) or decode(_stored_form(kind, obj)) == decode(row.value)


def _stored_form(kind: Kind, obj: Object) -> bytes:
    """As JSON text that begins with apiVersion and kind, so that lists can cut them off (see verbs/list.py)."""
    stored = obj if kind.to_stored is None else kind.to_stored(dict(obj))
    return encode({"apiVersion": stored["apiVersion"], "kind": stored["kind"], **stored})


def is_ready_to_go(obj: Object) -> bool:
    """Marked for deletion, with no finalizer left and no time to wait."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj.get("spec", {}).get("finalizers"))
    )


def metadata_of(obj: Object) -> Object:
    """The metadata of an object; of one that has none, new metadata."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise InternalError("metadata passed the schema and is no object")
    return metadata


def check_namespace(call: Call, metadata: Object) -> None:
    """The namespace in the object and the one in the address agree, or the object leaves it out."""
    namespace = metadata.get("namespace")
    if call.kind.resource.namespaced:
        if namespace and namespace != call.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = call.namespace
    else:
        metadata.pop("namespace", None)


def track(call: Call, obj: Object, old: Object | None) -> None:
    """Note in managedFields who wrote what."""
    managed_fields.on_update(
        obj,
        old,
        call.kind.node,
        manager=call.manager,
        operation="Update",
        subresource=call.subresource,
        time=now(),
        api_version=call.kind.resource.api_version,
        status_subresource="status" in call.kind.resource.subresources,
    )


def wrong_metadata(kind: Kind, metadata: Object, check_name: Callable[[str], list[str]]) -> FieldErrors:
    """What is wrong with the metadata of an object."""
    resource = kind.resource
    # What comes from extensions may have finalizers without a domain; built-in kinds may not.
    custom = resource.custom or resource.group == "apiextensions.k8s.io"
    return names.validate_object_meta(metadata, namespaced=resource.namespaced, check_name=check_name, custom=custom)


def refuse_if_wrong(kind: Kind, obj: Object, problems: FieldErrors) -> None:
    """Answer 422 with all that is wrong."""
    if problems:
        raise status.invalid(kind.resource.kind, kind.resource.group, obj["metadata"].get("name", ""), problems)
