"""From a struct to the structural schema that a CustomResourceDefinition carries.

Types, required fields and checks come from the annotations; the descriptions are the strings below the fields and
classes. Needs their source, so only tools and tests use it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import Any

from msgspec import Struct
from msgspec import inspect as types

from localpv.api.kinds.meta import ObjectMeta
from localpv.api.objects import Object


class CannotDescribe(Exception):
    """A struct has something that this module does not know how to write in a schema."""


def of(struct: type[Struct]) -> Object:
    """The schema of a struct, with everything in it."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    said = _sentences(struct)
    properties: Object = {}
    required: list[str] = []
    for field in info.fields:
        described: Object = {}
        if sentence := said.get(field.name):
            described["description"] = sentence
        elif not isinstance(field.type, types.StructType):
            raise CannotDescribe(f"{struct.__name__}.{field.name} has no description below it")
        properties[field.encode_name] = _of_type(field.type) | described
        if field.required:
            required.append(field.encode_name)
    made: Object = {"type": "object", "description": _first_paragraph(struct), "properties": properties}
    if required:
        made["required"] = required
    return made


def _of_type(info: types.Type) -> Object:
    match info:
        case types.Metadata(type=inner, extra_json_schema=rules):
            return _of_type(inner) | (rules or {})
        case types.UnionType(types=(*members,)):
            # Absent and null are the same to a reader, and a structural schema prunes null where it is not allowed.
            [inner] = [member for member in members if not isinstance(member, types.NoneType)]
            return _of_type(inner)
        case types.StrType():
            return {"type": "string"}
        case types.BoolType():
            return {"type": "boolean"}
        case types.IntType():
            return {"type": "integer", "format": "int64"}
        case types.DictType(key_type=types.StrType(), value_type=types.AnyType()):
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case types.VarTupleType(item_type=item):
            return {"type": "array", "items": _of_type(item)} | _merging(item)
        case types.StructType(cls=struct) if struct is ObjectMeta:
            # The server knows what metadata is and takes no schema for it.
            return {"type": "object"}
        case types.StructType(cls=struct):
            return of(struct)
    raise CannotDescribe(f"no schema is known for {info}")


def _merging(item: types.Type) -> Object:
    """How lists merge: conditions and the like by their type, all others as a whole."""
    item = item.type if isinstance(item, types.Metadata) else item
    if isinstance(item, types.StructType) and any(field.name == "type" for field in item.fields):
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return {"x-kubernetes-list-type": "atomic"}


def _first_paragraph(struct: type[Struct]) -> str:
    return _one_line((inspect.getdoc(struct) or "").partition("\n\n")[0])


def _sentences(struct: type[Struct]) -> dict[str, str]:
    """The string below each field."""
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(struct))).body
    assert isinstance(tree, ast.ClassDef)
    found: dict[str, str] = {}
    for above, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and _is_string(below):
            found[above.target.id] = _one_line(_string(below))
    return found


def _is_string(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _string(node: Any) -> str:
    return str(node.value.value)


def _one_line(sentence: str) -> str:
    return " ".join(sentence.split())
