"""The numbers of protobuf and the names of the schema come from two sources; here they meet."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localpv.api import resources, stored_resources
from localpv.api.protobuf import messages
from localpv.api.resources import Resource
from localpv.api.schema.catalogue import Catalogue
from localpv.api.translate import inline

CATALOGUE = Catalogue()


def json_names(name: str) -> Iterator[str]:
    for field in messages.message(name).values():
        if field.inline:
            yield from json_names(field.type)
        else:
            yield field.name


def reached(name: str, seen: set[str]) -> set[str]:
    if name not in seen:
        seen.add(name)
        for field in messages.message(name).values():
            if field.is_message:
                reached(field.type, seen)
    return seen


@pytest.mark.parametrize("resource", (*stored_resources.EVERY, *resources.REVIEWS), ids=lambda item: item.qualified)
def test_kind_has_every_field_of_its_schema(resource: Resource) -> None:
    root = messages.name_of(resource.api_version, resource.kind)
    assert root == resource.schema
    for name in reached(root, set()):
        if name in CATALOGUE:
            # Our own field is translated before anything is stored, so it is never written.
            schema = set(CATALOGUE.openapi(name).get("properties", {})) - {inline.FIELD}
            # apiVersion and kind of an object travel in the envelope.
            assert set(json_names(name)) | {"apiVersion", "kind"} == schema | {"apiVersion", "kind"}, name


def test_options_are_the_same_message_in_every_group() -> None:
    assert messages.name_of("apps/v1", "DeleteOptions") == messages.name_of("v1", "DeleteOptions")
