"""From an HTTP request to the verb that answers it, and back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from localpv.api import selectors, status
from localpv.api.managed import entries
from localpv.api.resources import BINDINGS
from localpv.api.selectors import FieldSelector, FieldTerm
from localpv.engine.apiserver import body, request_info, responses
from localpv.engine.apiserver.access import Access
from localpv.engine.apiserver.auth import reviews
from localpv.engine.apiserver.auth.identity import User
from localpv.engine.apiserver.bounds import LOGIN_DELAY, Bounds, FailedLogins, InFlight, Seat
from localpv.engine.apiserver.call import Call, Reply, check_write_options
from localpv.engine.apiserver.connections import of_request
from localpv.engine.apiserver.nonresource_paths import UNKNOWN, PlainPaths
from localpv.engine.apiserver.observing import Observer
from localpv.engine.apiserver.openapi.documents import Documents
from localpv.engine.apiserver.pod_subresources import Insides
from localpv.engine.apiserver.registry import Kind, Kinds
from localpv.engine.apiserver.request_info import Address
from localpv.engine.apiserver.responses import Form
from localpv.engine.apiserver.selection import Revisions
from localpv.engine.apiserver.storage import Storage, decode, encode
from localpv.engine.apiserver.verbs import create as creating
from localpv.engine.apiserver.verbs import delete as deleting
from localpv.engine.apiserver.verbs import get as getting
from localpv.engine.apiserver.verbs import list as listing
from localpv.engine.apiserver.verbs import patch as patching
from localpv.engine.apiserver.verbs import subresources
from localpv.engine.apiserver.verbs import update as updating
from localpv.engine.apiserver.verbs import watch as watching
from localpv.engine.apiserver.verbs.subresources import Shapes
from localpv.engine.store.store import Store
from localpv.errors import (
    ApiError,
    BadRequest,
    InternalError,
    LocalpvError,
    NotFound,
    StoreError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

log = logging.getLogger(__name__)

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
"""Resources take these and no others. An answer to HEAD has no body, and neither watches nor long lists are any use
without: they would put one on the connection, where it is read as the next answer."""

_OPTIONS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}


class _Asked:
    """What a request was about, as far as it is known; words of strangers are not taken for it."""

    verb = "other"
    resource = ""


class Handler:
    """Answers every request; whatever happens, the answer is an object or a Status."""

    def __init__(
        self,
        *,
        store: Store,
        kinds: Kinds,
        storage: Storage,
        access: Access,
        documents: Documents,
        is_ready: Callable[[], bool],
        observer: Observer,
        shapes: Shapes,
        bounds: Bounds,
    ) -> None:
        self._inflight = InFlight(bounds)
        self._failed_logins = FailedLogins(bounds)
        self._store = store
        self._observer = observer
        self._shapes = shapes
        self._kinds = kinds
        self._storage = storage
        self._access = access
        self._plain = PlainPaths(
            kinds=kinds, access=access, documents=documents, is_ready=is_ready, metrics=observer.text
        )
        self._revisions = Revisions(store)
        self._closing = asyncio.Event()
        self._large_yaml = asyncio.Lock()
        self.insides = Insides(store=store, revisions=self._revisions, access=access, closing=self._closing)

    def close(self) -> None:
        """The server stops: watches end now, everything else may finish."""
        self._closing.set()
        self._store.wake_watchers()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        began, asked = time.perf_counter(), _Asked()
        response = await self._answer_anyhow(request, asked)
        seconds = time.perf_counter() - began
        self._observer.answered(asked.verb, asked.resource, code=response.status, seconds=seconds)
        return response

    async def _answer_anyhow(self, request: web.BaseRequest, asked: _Asked) -> web.StreamResponse:
        try:
            return await self._answer(request, asked)
        except ApiError as error:
            return responses.failure(error)
        except StoreError as error:
            log.error("a write failed error=%s", error)
            return responses.failure(Unavailable(f"{error.message}; {error.hint}" if error.hint else error.message))
        except LocalpvError as error:
            return responses.failure(InternalError(error.message))
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception:
            log.exception("request failed method=%s path=%s", request.method, request.raw_path)
            return responses.failure(InternalError("the server met an error of its own; its log has more"))

    async def _answer(self, request: web.BaseRequest, asked: _Asked) -> web.StreamResponse:
        path, _, text = request.raw_path.partition("?")
        user = await self._user(request, path)
        seat = self._inflight.enter(user)
        try:
            return await self._dispatch(request, path, text, user, seat, asked)
        finally:
            if seat is not None:
                seat.leave()

    async def _user(self, request: web.BaseRequest, path: str) -> User:
        """Who asks. Whoever fails again and again waits for their answer; those who do not are never delayed."""
        connection = of_request(request)
        try:
            user = self._access.user(request, path)
        except Unauthorized:
            if connection is not None and self._failed_logins.failed(request.remote or ""):
                await asyncio.sleep(LOGIN_DELAY)
                why = "Too many requests, please try again later: too many failed logins from this address"
                raise TooManyRequests(why, details={"retryAfterSeconds": 1}) from None
            raise
        if connection is not None:
            connection.book.authenticated(connection, user)
        return user

    async def _dispatch(
        self, request: web.BaseRequest, path: str, text: str, user: User, seat: Seat | None, asked: _Asked
    ) -> web.StreamResponse:
        address = request_info.parse_path(path)
        if address is None:
            return await self._plain.answer(request, path, user)
        kind = self._kinds.find(address.group, address.version, address.plural)
        try:
            query = request_info.parse_query(text)
        except ValueError:
            raise BadRequest("the query of the request has too many options") from None
        attributes = request_info.attributes(request.method, path, address, query)
        if kind is not None:
            asked.verb, asked.resource = attributes.verb, kind.resource.plural
        self._access.require(user, attributes)
        if kind is None or address.rest or (address.namespace and not kind.resource.namespaced):
            raise NotFound(UNKNOWN)
        if address.watch and request.method not in ("GET", "HEAD"):
            raise status.method_not_allowed(kind.resource.plural, kind.resource.group)
        if attributes.verb == "watch" or address.subresource in ("log", "exec"):
            if seat is not None:
                seat.lasts()
            if (connection := of_request(request)) is not None:
                connection.lasting = asyncio.current_task()
        return await self._resource(request, kind, address, attributes.verb, user, query)

    # -- resources -------------------------------------------------------------------------------------------------

    async def _resource(
        self,
        request: web.BaseRequest,
        kind: Kind,
        address: Address,
        verb: str,
        user: User,
        query: Mapping[str, str],
    ) -> web.StreamResponse:
        resource = kind.resource
        if address.subresource and (address.subresource not in resource.subresources or address.watch):
            raise NotFound(UNKNOWN)
        if not address.subresource and verb not in resource.verbs:
            raise status.method_not_allowed(resource.plural, resource.group)
        if request.method not in _METHODS or (verb in ("update", "patch") and not address.name):
            raise status.method_not_allowed(resource.plural, resource.group)
        if resource.namespaced and not address.namespace and (address.name or verb not in ("list", "watch")):
            raise status.method_not_allowed(resource.plural, resource.group)
        call = Call(
            kind=kind,
            user=user,
            namespace=address.namespace,
            name=address.name,
            subresource=address.subresource,
            query=query,
        )
        if kind.deprecation:
            call.warnings.append(kind.deprecation)
        tables = resource not in self._access.reviews and address.subresource in ("", "status", "scale", "exec")
        form = responses.asked_form(request.headers.get("Accept", ""), tables=tables)
        if address.subresource in ("log", "exec"):
            return await self.insides.answer(request, call, verb)
        if verb == "get":
            return self._respond(call, await self._get(call), form)
        if verb == "list":
            page = await listing.select(call, store=self._store, revisions=self._revisions)
            pretty = "pretty" in query and call.flag("pretty")
            return await self._stream(request, call, listing.body(page, call, form), form, pretty=pretty)
        if verb == "watch":
            return await self._watch(request, call, form)
        raw = await body.read(request)
        content_type = request.headers.get("Content-Type", "")
        raw = await body.json_of_yaml(
            raw, content_type, self._large_yaml, most=body.most_values(call), repeated=call.repeated_keys
        )
        call.manager = entries.name_of(query.get("fieldManager", ""), request.headers.get("User-Agent", ""))
        try:
            if verb in ("delete", "deletecollection"):
                reply = await self._delete(call, verb, raw, request.content_type)
            else:
                call.dry_run, call.field_validation = check_write_options(query, _OPTIONS[verb])
                media_type = body.media_type(content_type)
                reply = await self._write(call, verb, raw, media_type)
        except ApiError as refusal:
            # It may rest on a write that is not on disk yet. Whoever reads after the refusal must find the reason for
            # it, or he sends the same again and again.
            if not isinstance(refusal, TooManyRequests | Unavailable):
                await self._store.settled()
            return responses.warned(call, responses.failure(refusal))
        return self._respond(call, reply, form)

    async def _get(self, call: Call) -> Reply:
        reply = await getting.get(call, store=self._store, revisions=self._revisions)
        self._access.require_read(call, reply)
        if call.subresource == "scale":
            return subresources.read_scale(call, reply)
        if call.subresource not in ("", "status"):
            raise status.method_not_allowed(call.kind.resource.plural, call.kind.resource.group)
        return reply

    async def _write(self, call: Call, verb: str, raw: bytes, media_type: str) -> Reply:
        storage, shapes = self._storage, self._shapes
        match verb, call.subresource:
            case "create", "":
                if call.name:
                    raise status.method_not_allowed(call.kind.resource.plural, call.kind.resource.group)
                value = body.decode(raw, media_type, most=body.most_values(call))
                if call.kind.resource == BINDINGS:
                    return await self._bind(call, value, raw)
                if call.kind.resource in self._access.reviews:
                    return self._review(call, value, raw)
                return await creating.create(call, value, raw, storage=storage)
            case "create", "binding":
                return await self._bind(call, body.decode(raw, media_type), raw)
            case "create", "eviction":
                return await subresources.evict(call, body.decode(raw, media_type), raw, storage=storage, shapes=shapes)
            case "create", "token":
                return self._token(call, body.decode(raw, media_type), raw)
            case "update", "" | "status" | "finalize":
                value = body.decode(raw, media_type, most=body.most_values(call))
                return await updating.update(call, value, raw, storage=storage)
            case "update", "scale":
                value = body.decode(raw, media_type)
                return await subresources.update_scale(call, value, raw, storage=storage, shapes=shapes)
            case "patch", "" | "status":
                return await patching.patch(call, raw, media_type, storage=storage)
            case "patch", "scale":
                return await subresources.patch_scale(call, raw, media_type, storage=storage, shapes=shapes)
        raise status.method_not_allowed(call.kind.resource.plural, call.kind.resource.group)

    async def _bind(self, call: Call, value: Any, raw: bytes) -> Reply:
        """POST of a Binding, to a pod or to the collection of bindings; there the name of the pod is the Binding's."""
        pods, bindings = self._kinds.find("", "v1", "pods"), self._kinds.find("", "v1", "bindings")
        assert pods is not None and bindings is not None
        call.kind = bindings
        binding = body.take_in(body.as_object(value, call), call, raw)
        name = (binding.get("metadata") or {}).get("name") or ""
        if call.name and name != call.name:
            raise BadRequest("name in URL does not match name in Binding object")
        call.kind, call.name, call.subresource = pods, name, "binding"
        return await subresources.bind(call, binding, storage=self._storage)

    async def _delete(self, call: Call, verb: str, raw: bytes, media_type: str) -> Reply:
        if call.subresource:
            raise status.method_not_allowed(call.kind.resource.plural, call.kind.resource.group)
        value = body.decode(raw, "" if media_type == "application/octet-stream" else media_type) if raw else None
        if value is not None:
            value = self._shapes.options(value)
        wish, call.dry_run = deleting.options(value, call.query)
        if verb == "delete":
            return await deleting.delete(call, wish, storage=self._storage)
        return await deleting.delete_collection(call, wish, storage=self._storage, revisions=self._revisions)

    def _review(self, call: Call, value: Any, raw: bytes) -> Reply:
        obj = body.take_in(body.as_object(value, call), call, raw)
        access = self._access
        answer = reviews.answer(
            call.kind.resource,
            obj,
            call.user,
            access.authorizer,
            access.tokens,
            store=access.objects,
            now=time.time(),
            namespace=call.namespace,
        )
        return Reply(encode(answer), 201, answer)

    def _token(self, call: Call, value: Any, raw: bytes) -> Reply:
        access = self._access
        answer = reviews.token_request(
            self._shapes.take_in(value, "TokenRequest", call, raw),
            access.objects.get("serviceaccounts", call.namespace, call.name),
            namespace=call.namespace,
            name=call.name,
            tokens=access.tokens,
            objects=access.objects,
            now=time.time(),
        )
        return Reply(encode(answer), 201, answer)

    # -- answers ---------------------------------------------------------------------------------------------------

    def _respond(self, call: Call, reply: Reply, form: Form) -> web.Response:
        value = reply.value
        if form.as_kind and call.subresource in ("", "status"):
            obj = reply.obj or decode(value)
            if obj.get("kind") == call.kind.resource.kind:
                include = call.query.get("includeObject", "")
                value = encode(responses.one(call.kind, obj, form, include=include))
        if "pretty" in call.query and call.flag("pretty"):
            value = msgspec.json.format(value, indent=2)
        response = web.Response(
            body=responses.yaml(value) if form.yaml else value,
            status=reply.status,
            content_type=form.content_type,
            headers=responses.headers(),
        )
        return responses.warned(call, response)

    async def _stream(
        self, request: web.BaseRequest, call: Call, pieces: AsyncIterator[bytes], form: Form, *, pretty: bool
    ) -> web.StreamResponse:
        """Send what comes in one answer if it is one piece, else piece by piece as the client takes them."""
        first = await anext(pieces)
        second = await anext(pieces, None)
        if second is None or form.yaml or pretty:
            rest = b"" if second is None else second + b"".join([piece async for piece in pieces])
            whole = msgspec.json.format(first + rest, indent=2) if pretty else first + rest
            text = responses.yaml(whole) if form.yaml else whole
            return responses.warned(
                call, web.Response(body=text, content_type=form.content_type, headers=responses.headers())
            )
        response = responses.warned(
            call, web.StreamResponse(headers={"Content-Type": form.content_type, **responses.headers()})
        )
        await response.prepare(request)
        await body.send(response, first, second)
        async for piece in pieces:
            await body.send(response, piece)
        await body.send(response)
        return response

    async def _watch(self, request: web.BaseRequest, call: Call, form: Form) -> web.StreamResponse:
        if call.name:
            call.query = {**call.query, "fieldSelector": _selector_of_one(call)}
        watch = watching.Watch(call, form, store=self._store, revisions=self._revisions)
        await watch.wait_for_start()
        response = responses.warned(
            call, web.StreamResponse(headers={"Content-Type": form.content_type, **responses.headers()})
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        try:
            async for piece in watch.pieces(self._closing):
                await response.write(piece)
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone: that is how watches usually end
        return response


def _selector_of_one(call: Call) -> str:
    """The selector of a watch with a name in its path. What the request was allowed with stays part of it."""
    selector = call.query.get("fieldSelector", "")
    if not selector:
        return str(FieldSelector((FieldTerm("metadata.name", call.name),)))
    if selectors.parse_fields(selector).requires("metadata.name") != call.name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return selector
