"""In which form a client wants objects: as they are, as a table for people, or their metadata only."""

from __future__ import annotations

from dataclasses import dataclass

from localpv.api import media_types
from localpv.errors import NotAcceptable


@dataclass(frozen=True, slots=True)
class Form:
    """`as_kind` is empty for objects as they are, else Table, PartialObjectMetadata or PartialObjectMetadataList."""

    as_kind: str = ""
    version: str = "v1"
    yaml: bool = False

    @property
    def content_type(self) -> str:
        return "application/yaml" if self.yaml else media_types.JSON


PLAIN = Form()
_YAML = Form(yaml=True)
_TRANSFORMS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_PLAIN_RANGES = frozenset({media_types.JSON, "*/*", "application/*", "text/*", ""})


def form(accept: str, *, tables: bool = True) -> Form:
    """The first form of an Accept header that this server speaks; not everything can be shown as a table."""
    if accept in _PLAIN_RANGES:
        return PLAIN
    for part in accept.split(","):
        media, *parameters = (piece.strip() for piece in part.split(";"))
        media = media.lower()
        options = dict(parameter.partition("=")[::2] for parameter in parameters)
        if media in _PLAIN_RANGES:
            wanted = options.get("as", "")
            if not wanted:
                return PLAIN
            if wanted == "Table" and not tables:
                continue
            if wanted in _TRANSFORMS and options.get("g") == "meta.k8s.io" and options.get("v") in ("v1", "v1beta1"):
                return Form(wanted, options["v"])
        elif media == "application/yaml":
            return _YAML
    raise NotAcceptable(
        "only the following media types are accepted: application/json, application/yaml",
    )
