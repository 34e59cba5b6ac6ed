"""How an object gets into the store: create, change, delete, each decided in one go against the newest state.

Nothing here waits between reading the newest state and handing the new one to the store, so no lock is needed:
the event loop is the lock. What waits is only the acknowledgement, for the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from localpv.api import names, status
from localpv.api.fields import FieldErrors, invalid
from localpv.api.managed import track
from localpv.api.objects import Object, new_uid, now
from localpv.engine.apiserver.admission import Admission
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.quota import Quota
from localpv.engine.apiserver.registry import Kind
from localpv.engine.store.store import Store
from localpv.engine.store.table import Row
from localpv.errors import AlreadyExists, BadRequest, InternalError

encode = msgspec.json.Encoder().encode
decode: Callable[[bytes], Object] = msgspec.json.Decoder().decode

GENERATED_NAME_TRIES = 8

Transform = Callable[[Object], Object]
"""From a private copy of the object as it is to the object as it should be."""


@dataclass(slots=True, kw_only=True)
class Deletion:
    """What a DELETE asks for."""

    grace_seconds: int | None = None
    propagation: str = ""
    """Background, Foreground, Orphan, or empty for the kind's default."""
    uid: str = ""
    resource_version: str = ""


def check_preconditions(call: Call, obj: Object, wish: Deletion) -> None:
    """Whether this is the object that the client means; Conflict when it is another, or another version."""
    resource, metadata = call.kind.resource, obj["metadata"]
    for wanted, field, title in (
        (wish.uid, "uid", "UID"),
        (wish.resource_version, "resourceVersion", "ResourceVersion"),
    ):
        if wanted and wanted != metadata[field]:
            why = f"the {title} in the precondition ({wanted}) does not match the {title} in record ({metadata[field]})"
            raise status.conflict(resource.plural, resource.group, call.name, why)


class Writer:
    """All writes go through here, those of clients and those of the engine's own controllers."""

    def __init__(self, *, store: Store, admission: Admission, quota: Quota) -> None:
        self._store = store
        self._admission = admission
        self._quota = quota

    # -- create ----------------------------------------------------------------------------------------------------

    async def create(self, call: Call, obj: Object, *, applying: bool = False) -> Reply:
        """Store a new object; `obj` has been taken in by the schema and is ours to change."""
        kind = call.kind
        metadata = _metadata(obj)
        self._admission.namespace(call)
        _check_place(call, metadata)
        generate = metadata.get("generateName") if not metadata.get("name") else None
        if metadata.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"):
            metadata.pop(key, None)
        if kind.strategy.generation:
            metadata["generation"] = 1
        metadata["uid"] = new_uid()
        metadata["creationTimestamp"] = now()
        for attempt in range(GENERATED_NAME_TRIES):
            if generate:
                metadata["name"] = names.generate(generate)
            try:
                return await self._create_named(call, obj, prepared=attempt > 0, applying=applying)
            except AlreadyExists:
                if not generate or attempt == GENERATED_NAME_TRIES - 1:
                    raise
        raise AssertionError("unreachable")

    async def _create_named(self, call: Call, obj: Object, *, prepared: bool, applying: bool) -> Reply:
        kind, metadata = call.kind, obj["metadata"]
        if not prepared:
            self._admission.mutate_create(call, obj)
            kind.strategy.default(obj)
            if not applying:
                self._track(call, obj, None)
            kind.strategy.prepare_for_create(obj)
            self._refuse_if_wrong(
                kind,
                obj,
                self._wrong_metadata(kind, metadata, kind.strategy.validate_name)
                + kind.strategy.validate(obj)
                + kind.strategy.validate_create(obj),
            )
            call.warnings.extend(kind.strategy.warnings(obj))
        self._admission.validate(call, obj, None)
        key = kind.key(metadata.get("namespace", ""), metadata["name"])
        if self._store.head(kind.resource.storage_prefix, key) is not None:
            raise status.already_exists(kind.resource.plural, kind.resource.group, metadata["name"])
        return await self._put(call, key, obj, 201)

    # -- update ----------------------------------------------------------------------------------------------------

    async def update(
        self,
        call: Call,
        transform: Transform,
        *,
        missing: Callable[[], Any] | None = None,
        applying: bool = False,
        patching: bool = False,
        ending: bool = False,
    ) -> Reply:
        """Change an object. `missing` makes a coroutine that creates it when it is not there.

        `applying` says that the transform has seen to managedFields itself, as server-side apply does. With
        `patching` another uid is an attempt to change it; otherwise it says which object was meant. `ending` says that
        the object is about to be deleted: there is always room for that.
        """
        kind = call.kind
        prefix, key = kind.resource.storage_prefix, kind.key(call.namespace, call.name)
        row = self._store.head(prefix, key)
        if row is None:
            if missing is not None:
                self._admission.creation(call)
                reply: Reply = await missing()
                return reply
            raise status.not_found(kind.resource.plural, kind.resource.group, call.name)
        old = kind.read(row)
        obj = transform(kind.read(row))
        self._check_preconditions(call, obj, old, uid=not patching)
        self._carry_over_metadata(call, obj, old)
        strategy = kind.strategy
        strategy.default(obj)
        if not applying:
            # Before the kind puts anything in: only what the client wrote is the client's.
            self._track(call, obj, old)
        match call.subresource:
            case "status":
                strategy.prepare_for_status_update(obj, old)
            case "finalize":
                strategy.prepare_for_finalize(obj, old)
            case "" | "scale":
                strategy.prepare_for_update(obj, old)
        self._count_generation(call, obj, old)
        problems = names.validate_object_meta_update(obj["metadata"], old["metadata"])
        problems += self._wrong_metadata(kind, obj["metadata"], _any_name)
        match call.subresource:
            case "status":
                problems += strategy.validate_status_update(obj, old)
            case "finalize":
                problems += strategy.validate_finalize(obj, old)
            case "" | "scale":
                problems += strategy.validate(obj)
                problems += strategy.validate_update(obj, old)
        self._refuse_if_wrong(kind, obj, problems)
        call.warnings.extend(strategy.warnings(obj))
        self._admission.validate(call, obj, old)
        track.keep_times(obj, old)
        if obj == old and self._is_stored_so(kind, obj, row):
            return Reply(row.value if kind.is_served_as_stored(row) else encode(old), obj=old)
        if _ready_to_go(obj):
            return await self._remove(call, key, obj)
        return await self._put(call, key, obj, 200, ending=ending)

    def _check_preconditions(self, call: Call, obj: Object, old: Object, *, uid: bool) -> None:
        resource, metadata, before = call.kind.resource, _metadata(obj), old["metadata"]
        name = metadata.get("name")
        if name and name != call.name:
            raise BadRequest(
                f"the name of the object ({name}) does not match the name on the URL ({call.name})",
            )
        _check_place(call, metadata)
        metadata["name"] = call.name
        version = metadata.get("resourceVersion") or ""
        if version in ("", "0"):
            if not call.kind.strategy.unconditional_update:
                problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise status.invalid(resource.kind, resource.group, call.name, [problem])
        elif version != before["resourceVersion"]:
            if not version.isdigit():
                problem = invalid("metadata.resourceVersion", version, "must be a version that the server gave out")
                raise status.invalid(resource.kind, resource.group, call.name, [problem])
            raise status.modified(resource.plural, resource.group, call.name)
        meant = metadata.get("uid")
        if uid and meant and meant != before["uid"]:
            why = f"Precondition failed: UID in precondition: {meant}, UID in object meta: {before['uid']}"
            raise status.conflict(resource.plural, resource.group, call.name, why)

    def _carry_over_metadata(self, call: Call, obj: Object, old: Object) -> None:
        """What the server alone writes stays as it was, whatever the client sent."""
        metadata, before = obj["metadata"], old["metadata"]
        metadata["resourceVersion"] = before["resourceVersion"]
        for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"):
            if key in before:
                # A different deletionTimestamp is an error (checked with the metadata); a missing one is not.
                if not metadata.get(key):
                    metadata[key] = before[key]
            else:
                metadata.pop(key, None)
        metadata.pop("selfLink", None)
        if "generation" in before:
            metadata["generation"] = before["generation"]
        else:
            metadata.pop("generation", None)

    def _count_generation(self, call: Call, obj: Object, old: Object) -> None:
        strategy = call.kind.strategy
        # Where a pod runs is the scheduler's word, not a change of what was wished for.
        if not strategy.generation or call.subresource in ("status", "binding"):
            return
        aside = (
            ("metadata", "apiVersion") if strategy.generation_counts_status else ("metadata", "apiVersion", "status")
        )
        changed = any(obj.get(key) != old.get(key) for key in {**obj, **old} if key not in aside)
        metadata, before = obj["metadata"], old["metadata"]
        if not changed and strategy.generation_counts_annotations:
            changed = metadata.get("annotations") != before.get("annotations")
        metadata["generation"] = before.get("generation", 0) + 1 if changed else before.get("generation", 1)

    # -- delete ----------------------------------------------------------------------------------------------------

    async def delete(self, call: Call, wish: Deletion) -> tuple[Reply, bool]:
        """Start or finish the deletion of an object; (the object, whether it is gone)."""
        kind = call.kind
        resource = kind.resource
        key = kind.key(call.namespace, call.name)
        row = self._store.head(resource.storage_prefix, key)
        if row is None:
            raise status.not_found(resource.plural, resource.group, call.name)
        obj = kind.read(row)
        metadata = obj["metadata"]
        check_preconditions(call, obj, wish)
        self._admission.validate(call, None, obj)
        grace = kind.strategy.grace_seconds(obj, wish.grace_seconds)
        changed = self._set_deletion_finalizers(metadata, wish.propagation or kind.strategy.propagation)
        if not metadata.get("deletionTimestamp"):
            metadata["deletionTimestamp"] = now(after=grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if metadata.get("generation"):
                metadata["generation"] += 1
            changed = True
            kind.strategy.begin_deletion(obj)
        elif grace < metadata.get("deletionGracePeriodSeconds", 0):
            # Only ever sooner: a second DELETE with a shorter grace brings the end forward.
            metadata["deletionTimestamp"] = now(after=grace)
            metadata["deletionGracePeriodSeconds"] = grace
            changed = True
        if _ready_to_go(obj):
            if call.dry_run:
                return Reply(encode(obj), obj=obj), True
            return await self._remove(call, key, obj), True
        if not changed:
            return Reply(encode(obj), obj=obj), False
        return await self._put(call, key, obj, 200, ending=True), False

    def _set_deletion_finalizers(self, metadata: Object, propagation: str) -> bool:
        """The garbage collector's finalizers say what is to become of the dependents."""
        if not propagation:
            return False
        finalizers = list(metadata.get("finalizers", ()))
        wanted = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(propagation)
        after = [name for name in finalizers if name not in ("orphan", "foregroundDeletion") or name == wanted]
        if wanted and wanted not in after:
            after.append(wanted)
        if after == finalizers:
            return False
        if after:
            metadata["finalizers"] = after
        else:
            metadata.pop("finalizers", None)
        return True

    # -- the store -------------------------------------------------------------------------------------------------

    async def _put(self, call: Call, key: str, obj: Object, code: int, *, ending: bool = False) -> Reply:
        """Store an object. One that is `ending` is marked for deletion, or about to be, for which there is always
        room."""
        kind, store = call.kind, self._store
        if call.dry_run:
            if code == 201:
                obj["metadata"].pop("resourceVersion", None)
            return Reply(encode(obj), code, obj)
        revision, prefix = store.next_revision(), kind.resource.storage_prefix
        obj["metadata"]["resourceVersion"] = str(revision)
        value = self._stored_form(kind, obj)
        if not ending:
            self._quota.check(call, key, Row(revision, value), store.head(prefix, key))
        await store.put(prefix, key, value)
        return Reply(value if kind.to_stored is None else encode(obj), code, obj)

    async def _remove(self, call: Call, key: str, obj: Object) -> Reply:
        kind = call.kind
        if call.dry_run:
            return Reply(encode(obj), obj=obj)
        obj["metadata"]["resourceVersion"] = str(self._store.next_revision())
        await self._store.delete(kind.resource.storage_prefix, key, self._stored_form(kind, obj))
        return Reply(encode(obj), obj=obj)

    def _is_stored_so(self, kind: Kind, obj: Object, row: Row) -> bool:
        """What is stored in an older form is written anew, even if nothing else changes: so objects are migrated."""
        return kind.is_served_as_stored(row) or decode(self._stored_form(kind, obj)) == decode(row.value)

    def _stored_form(self, kind: Kind, obj: Object) -> bytes:
        """As JSON text that begins with apiVersion and kind, so that lists can cut them off (see verbs/list.py)."""
        stored = obj if kind.to_stored is None else kind.to_stored(dict(obj))
        return encode({"apiVersion": stored["apiVersion"], "kind": stored["kind"], **stored})

    def _track(self, call: Call, obj: Object, old: Object | None) -> None:
        """Note in managedFields who wrote what."""
        track.on_update(
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

    def _wrong_metadata(self, kind: Kind, metadata: Object, check_name: Callable[[str], list[str]]) -> FieldErrors:
        resource = kind.resource
        # What comes from extensions may have finalizers without a domain; built-in kinds may not.
        custom = resource.custom or resource.group == "apiextensions.k8s.io"
        return names.validate_object_meta(
            metadata, namespaced=resource.namespaced, check_name=check_name, custom=custom
        )

    def _refuse_if_wrong(self, kind: Kind, obj: Object, problems: FieldErrors) -> None:
        if problems:
            name = obj["metadata"].get("name", "")
            raise status.invalid(kind.resource.kind, kind.resource.group, name, problems)


def _any_name(_: str) -> list[str]:
    """An object that exists keeps the name it was given, even if the rules have become stricter since."""
    return []


def _metadata(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise InternalError("metadata passed the schema and is no object")
    return metadata


def _check_place(call: Call, metadata: Object) -> None:
    """The namespace in the object and the one in the address agree, or the object leaves it out."""
    namespace = metadata.get("namespace")
    if call.kind.resource.namespaced:
        if namespace and namespace != call.namespace:
            raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = call.namespace
    else:
        metadata.pop("namespace", None)


def _ready_to_go(obj: Object) -> bool:
    """Marked for deletion, with no finalizer left and no time to wait."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (obj["kind"] == "Namespace" and obj.get("spec", {}).get("finalizers"))
    )
