"""Bodies that are not stored and belong to no resource of their own: Scale, Eviction, TokenRequest, DeleteOptions.

What a client sends under these names fits the schema of Kubernetes, or is refused before anybody reads its fields.
"""

from __future__ import annotations

from typing import Any

from localpv.api.objects import Object
from localpv.api.schema import walk
from localpv.api.schema.catalogue import Catalogue
from localpv.api.schema.node import Node
from localpv.engine.apiserver import body
from localpv.engine.apiserver.call import Call
from localpv.errors import BadRequest

_DEFINITIONS = {
    "Scale": "io.k8s.api.autoscaling.v1.Scale",
    "Eviction": "io.k8s.api.policy.v1.Eviction",
    "TokenRequest": "io.k8s.api.authentication.v1.TokenRequest",
    "DeleteOptions": "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
}
_VERSIONS = {
    "Scale": ("autoscaling/v1",),
    "Eviction": ("policy/v1", "policy/v1beta1"),
    "TokenRequest": ("authentication.k8s.io/v1",),
}
"""DeleteOptions go with the version of any kind."""


class Shapes:
    """Knows what such bodies look like."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def options(self, value: Any) -> Object:
        """What the body of a DELETE asks for. Nobody is told of fields in it that are unknown."""
        options, taken, _ = self._taken(value, "DeleteOptions")
        if taken.type_errors:
            detail = "; ".join(str(error) for error in taken.type_errors)
            raise BadRequest(f"the body of the request cannot be handled as a DeleteOptions: {detail}")
        return options

    def take_in(self, value: Any, kind: str, call: Call, raw: bytes) -> Object:
        """The body, of the right kind and with every field of the right type; unknown fields are gone, and told as the
        call asks for it."""
        obj, taken, node = self._taken(value, kind)
        body.refuse(kind, "v1", body.problem(call, taken, node, raw))
        return obj

    def take_in_patched(self, value: Any, kind: str, call: Call, findings: list[str], *, patch: bytes) -> Object:
        """The same for what a patch has led to."""
        obj, taken, node = self._taken(value, kind)
        body.refuse_patch(body.patched_problem(call, taken, node, findings), patch)
        return obj

    def _taken(self, value: Any, kind: str) -> tuple[Object, walk.Taken, Node]:
        if not isinstance(value, dict):
            raise BadRequest(f"the body of the request must be a JSON object, of kind {kind}")
        said, version = value.get("kind") or kind, value.get("apiVersion") or ""
        if said != kind:
            raise BadRequest(f"the body of the request must be of kind {kind}, not {str(said)[:100]}")
        versions = _VERSIONS.get(kind)
        if version and versions and version not in versions:
            raise BadRequest(f"the body of the request must be {kind} of {versions[0]}, not of {str(version)[:100]}")
        node = self._catalogue.node(_DEFINITIONS[kind])
        return value, walk.take_in(value, node), node
