"""GET of a collection: selectors, pages, and lists as they were at a revision."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from localpv.api import fields, status
from localpv.api.fields import FieldError
from localpv.api.objects import Object
from localpv.engine.apiserver import responses
from localpv.engine.apiserver.call import Call
from localpv.engine.apiserver.registry import Kind
from localpv.engine.apiserver.responses import Form
from localpv.engine.apiserver.selection import Revisions, Selection
from localpv.engine.apiserver.storage import encode
from localpv.engine.store.store import Store
from localpv.engine.store.table import Row, Table
from localpv.errors import BadRequest, Gone, Invalid
from localpv.runtime.turns import Turn

TOKEN_VERSION = "meta.k8s.io/v1"

CHUNK = 256 << 10
"""Bytes written before other requests get their turn."""

BREATH = 2000
"""Objects that are sifted in one go, by a look at their text."""


class Continue(msgspec.Struct, kw_only=True):
    """Where the next page starts. Opaque to clients; names and meaning are those of Kubernetes.

    Anybody can write one, so it says nothing that matters to authority: `start` is a key inside the scope of the
    request that brings it, and a scan stays in that scope whatever the key.
    """

    v: str = TOKEN_VERSION
    rv: int = 0
    """The moment that all pages show; negative: whatever there is now."""
    start: str = ""


@dataclass(slots=True)
class Page:
    """Rows that were selected, and what the list's metadata says of them."""

    rows: list[Row]
    metadata: Object


async def select(call: Call, *, store: Store, revisions: Revisions) -> Page:
    """The rows of one page."""
    kind, selection = call.kind, Selection(call)
    limit = max(call.number("limit") or 0, 0)  # below zero it says as little as zero, as on Kubernetes
    call.number("timeoutSeconds")  # says nothing to a list, but must be a number all the same
    table = store.table(kind.resource.storage_prefix)
    revision, start_key, exact = await _where(call, store=store, revisions=revisions)
    if exact and revision < max(store.compacted, table.forgotten) and revision < store.revision:
        raise _expired(start_key)
    table = table.at(revision) if exact else table
    scope = kind.scope(call.namespace)
    start_key = scope + start_key

    rows: list[Row] = []
    last, more = "", False
    candidates = _candidates(kind, selection, table, scope, start_key, call.namespace)
    turn = Turn()
    for start in range(0, len(candidates), BREATH):
        await turn.over()
        for key, row in selection.sift(candidates[start : start + BREATH]):
            if not selection.everything:
                await turn.over()
                if not selection.matches(kind.read(row)):
                    continue
            if limit and len(rows) == limit:
                more = True
                break
            rows.append(row)
            last = key
        if more:
            break
    metadata: Object = {"resourceVersion": str(revision)}
    if more:
        metadata["continue"] = _token(Continue(rv=revision, start=last.removeprefix(scope) + "\0"))
        if selection.everything:
            metadata["remainingItemCount"] = sum(1 for _ in table.scan(scope, last + "\0"))
    return Page(rows, metadata)


def _candidates(
    kind: Kind, selection: Selection, table: Table, scope: str, start_key: str, namespace: str
) -> list[tuple[str, Row]]:
    """What is there now; others may write while the list lets them have their turn."""
    if selection.name and (namespace or not kind.resource.namespaced):
        key = kind.key(namespace, selection.name)
        row = table.rows.get(key)
        return [] if row is None or key < start_key else [(key, row)]
    return list(table.scan(scope, start_key))


async def _where(call: Call, *, store: Store, revisions: Revisions) -> tuple[int, str, bool]:
    """(revision, key in the scope to start at, whether the list must be as of exactly that revision)."""
    query = call.query
    wanted = revisions.parse(query.get("resourceVersion", ""))
    match = query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    if match and match not in ("Exact", "NotOlderThan"):
        raise _wrong(fields.not_supported("resourceVersionMatch", match, ["Exact", "NotOlderThan"]))
    if match and wanted is None:
        raise _wrong(fields.forbidden("resourceVersionMatch", "it says how to match resourceVersion, which is not set"))
    if match and token:
        raise _wrong(fields.forbidden("resourceVersionMatch", "a continue token already says which version to show"))
    if match == "Exact" and wanted == 0:
        raise _wrong(
            fields.forbidden("resourceVersionMatch", 'Exact does not go with resourceVersion "0", any version')
        )
    if token:
        if wanted:
            raise BadRequest("specifying resource version is not allowed when using continue")
        position = _parse(token)
        if position.rv < 0:  # continue from here on with what there is now
            return store.revision, position.start, False
        await revisions.reach(position.rv)
        return position.rv, position.start, True
    await revisions.reach(wanted)
    if match == "Exact" and wanted is not None:
        return wanted, "", True
    return store.revision, "", False


def _wrong(cause: FieldError) -> Invalid:
    return status.invalid_options("ListOptions", cause)


def _parse(token: str) -> Continue:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        position = msgspec.json.decode(raw, type=Continue)
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise _not_valid("use the token of the page before, unchanged") from None
    if position.v != TOKEN_VERSION:
        raise _not_valid("server does not recognize this encoded version")
    if not position.rv or not -(1 << 63) <= position.rv < 1 << 63:
        raise _not_valid("incorrect encoded start resourceVersion")
    if not position.start:
        raise _not_valid("encoded start key empty")
    # A key that climbs out of its folder was not made here.
    if any(part in ("", ".", "..") for part in position.start.removeprefix("/").split("/")):
        raise _not_valid("the encoded start key is no key of this list")
    position.start = position.start.removeprefix("/")
    return position


def _not_valid(why: str) -> BadRequest:
    return BadRequest(f"continue key is not valid: {why}")


def _token(position: Continue) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _expired(start_key: str) -> Gone:
    message = (
        "The provided continue parameter is too old to display a consistent list result."
        if start_key
        else ("The resourceVersion for the provided list is too old.")
    )
    error = Gone(message)
    if start_key:
        # The client may go on with this token, knowing that the pages no longer show one moment.
        error.list_metadata["continue"] = _token(Continue(rv=-1, start=start_key))
    return error


async def body(page: Page, call: Call, form: Form) -> AsyncIterator[bytes]:
    """The list as JSON text, in pieces, so that a long one neither stalls others nor exists as a whole."""
    kind, turn = call.kind, Turn()
    if form.as_kind:
        shown, include = [], call.query.get("includeObject", "")
        for row in page.rows:
            shown.append(responses.item(kind, kind.read(row), form, include=include))
            await turn.over()
        yield encode(responses.many(kind, shown, form, include=include, metadata=page.metadata))
        return
    resource = kind.resource
    head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": page.metadata}
    piece = bytearray(encode(head)[:-1] + b',"items":[')
    separator = b""
    # Items of built-in lists do not repeat what they are: the list says it. Stored objects begin with those two fields.
    opening = (
        b"" if resource.custom else encode({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","
    )
    for row in page.rows:
        value = row.value if kind.is_served_as_stored(row) else encode(kind.read(row))
        piece += separator
        if opening and value.startswith(opening):
            piece += b"{"
            piece += memoryview(value)[len(opening) :]
        else:
            piece += value
        separator = b","
        if len(piece) >= CHUNK:
            yield bytes(piece)
            piece.clear()
        await turn.over()
    piece += b"]}\n"
    yield bytes(piece)
