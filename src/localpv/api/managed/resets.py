"""Which fields a write cannot own, because the server puts them back: a status through the main resource, a spec
through `/status`.
"""

from __future__ import annotations

from typing import Final

from localpv.api.managed.compare import Ignored
from localpv.api.schema.node import Node

_NOTHING: Final = Ignored()
_STATUS: Final = Ignored(("status",))
_SPEC: Final = Ignored(("spec",))
_ALL_BUT_STATUS: Final = Ignored(("spec", "metadata"))

_THROUGH_STATUS: Final = {
    "io.k8s.api.core.v1.Pod": Ignored(("spec",), ("deletionTimestamp", "ownerReferences")),
    "io.k8s.api.apps.v1.Deployment": Ignored(("spec",), ("labels",)),
    "io.k8s.api.storage.v1.VolumeAttachment": _ALL_BUT_STATUS,
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy": _ALL_BUT_STATUS,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": _ALL_BUT_STATUS,
}


def of(node: Node, subresource: str, *, status_subresource: bool = True) -> Ignored:
    """What a write through this subresource (empty: the main resource) leaves to others."""
    if subresource == "status":
        return _THROUGH_STATUS.get(node.name, _SPEC)
    if subresource in ("", "finalize") and status_subresource:
        return _STATUS
    return _NOTHING
