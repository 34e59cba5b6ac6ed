"""Who asks and may they: authentication, RBAC and the rule for agents, as the handler uses them."""

from __future__ import annotations

import time

from aiohttp import web

from localpv.api.resources import REVIEWS
from localpv.engine.apiserver.auth import authentication, node_rule
from localpv.engine.apiserver.auth.identity import Attributes, User, forbidden
from localpv.engine.apiserver.auth.lookup import RBAC_PREFIXES, TOKEN_PREFIXES, Objects
from localpv.engine.apiserver.auth.rbac import Authorizer
from localpv.engine.apiserver.auth.tokens import Tokens
from localpv.engine.apiserver.call import Call, Reply
from localpv.engine.apiserver.storage import decode
from localpv.engine.store.table import Event


class Access:
    """Decides for each request."""

    reviews = frozenset(REVIEWS)

    def __init__(self, *, tokens: Tokens, objects: Objects, authorizer: Authorizer) -> None:
        self.tokens = tokens
        self.objects = objects
        self.authorizer = authorizer

    def user(self, request: web.BaseRequest, path: str) -> User:
        """Who asks, in whose name. Raises Unauthorized or, for a name one may not use, Forbidden."""
        headers = request.headers
        user = authentication.authenticate(
            headers.get("Authorization"),
            method=request.method,
            path=path,
            tokens=self.tokens,
            objects=self.objects,
            now=time.time(),
        )
        if any(name[:12].lower() == "impersonate-" for name in headers):
            return authentication.impersonate(user, headers.items(), self.authorizer)
        return user

    def require(self, user: User, attributes: Attributes) -> None:
        if user.is_master:
            return
        self.authorizer.require(user, attributes)
        if node_rule.applies(user, self.authorizer.cluster_roles(user)):
            reason = node_rule.check_request(user, attributes)
            if reason:
                raise forbidden(user, attributes, reason)

    def require_read(self, call: Call, reply: Reply) -> None:
        """An agent reads what belongs to its own node only."""
        resource, user = call.kind.resource, call.user
        if not node_rule.covers(resource) or user.is_master:
            return
        if node_rule.applies(user, self.authorizer.cluster_roles(user)):
            reason = node_rule.check_object(user, None, reply.obj or decode(reply.value))
            if reason:
                attributes = Attributes(verb="get", group=resource.group, resource=resource.plural, name=call.name)
                raise forbidden(user, attributes, reason)

    def require_path(self, user: User, verb: str, path: str) -> None:
        if not user.is_master and path not in authentication.PUBLIC_PATHS:
            self.authorizer.require(user, Attributes(verb=verb, path=path))

    def changed(self, prefix: str, event: Event) -> None:
        """A change in the store: what was concluded from the object before is forgotten."""
        if prefix in RBAC_PREFIXES:
            self.authorizer.invalidate()
        elif prefix in TOKEN_PREFIXES:
            namespace, _, name = event.key.rpartition("/")
            self.tokens.changed(prefix, namespace, name)
