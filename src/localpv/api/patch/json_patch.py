"""JSON patch (RFC 6902): a list of operations on paths. It fits as a whole or changes nothing.

Where kube-apiserver is more generous than the RFC, so is this: `replace` sets a key that is not there, a missing
`value` is null, and negative indices count from the end of a list.
"""

from __future__ import annotations

import re
from typing import Any

from localpv import errors
from localpv.api.patch.merge_patch import copied, refusing_deep_nesting, same

MAX_OPERATIONS = 10_000

MAX_COPIED = 3 * 1024 * 1024
"""How much all `copy` operations of one patch may add, in bytes, roughly; a few of them could otherwise fill memory."""

MAX_SHIFTED = 20_000_000
"""How many elements of lists all operations of one patch may move to make room or to close a gap: some 20 ms."""

_is_index = re.compile(r"-?(?:0|[1-9][0-9]{0,8})").fullmatch


class _DoesNotFit(Exception):
    """One operation cannot be done; says why."""


@refusing_deep_nesting
def apply(original: Any, operations: Any) -> Any:
    """The document after all operations."""
    if operations is None:
        operations = []
    if not isinstance(operations, list):
        raise errors.BadRequest("a JSON patch must be a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise errors.TooLarge(f"a JSON patch may have at most {MAX_OPERATIONS} operations, got {len(operations)}")
    for index, operation in enumerate(operations):
        _check_form(index, operation)
    document = _Document(copied(original))
    for index, operation in enumerate(operations):
        try:
            document.do(operation)
        except _DoesNotFit as why:
            named = f"operation {index} ({operation.get('op')} {operation.get('path')})"
            raise errors.Invalid(f"the JSON patch does not apply: {named}: {why}") from None
    return document.root


def _check_form(index: int, operation: Any) -> None:
    if not isinstance(operation, dict):
        raise errors.BadRequest(f"error decoding patch: operation {index} must be an object with op and path")
    for field in ("op", "path", "from"):
        if not isinstance(operation.get(field, ""), str):
            raise errors.BadRequest(f"error decoding patch: {field} of operation {index} must be a string")


class _Document:
    """What the operations change; owned by this patch alone."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied = 0
        self.shifted = 0

    def do(self, operation: dict[str, Any]) -> None:
        if "path" not in operation:
            raise _DoesNotFit("it has no path")
        path = _pointer(operation["path"])
        match operation.get("op"):
            case "add":
                self.add(path, copied(operation.get("value")))
            case "remove":
                self.remove(path)
            case "replace":
                self.replace(path, copied(operation.get("value")))
            case "move":
                source = self.source(operation)
                self.add(path, self.remove(source))
            case "copy":
                self.add(path, self.copy(self.value(self.source(operation))))
            case "test":
                if not same(self.value(path), operation.get("value")):
                    raise _DoesNotFit("the value there is another one")
            case _:
                raise _DoesNotFit("op must be add, remove, replace, move, copy or test")

    def source(self, operation: dict[str, Any]) -> list[str]:
        if not operation.get("from"):
            raise _DoesNotFit("it has no from, or one that means the whole object")
        return _pointer(operation["from"])

    def copy(self, value: Any) -> Any:
        self.copied += _size(value)
        if self.copied > MAX_COPIED:
            raise _DoesNotFit("the patch copies too much")
        return copied(value)

    def shift(self, elements: int) -> None:
        self.shifted += elements
        if self.shifted > MAX_SHIFTED:
            raise _DoesNotFit("the patch moves too many elements of lists: add at the end, or replace the list")

    def parent(self, path: list[str]) -> tuple[Any, str]:
        """The dictionary or list that the last step of a path is about, and that step."""
        if not path:
            raise _DoesNotFit("the whole object cannot be added, moved or removed")
        at = self.root
        for step in path[:-1]:
            if isinstance(at, dict) and at.get(step) is not None:
                at = at[step]
            elif isinstance(at, list):
                at = at[_index(step, len(at))]
            else:
                raise _DoesNotFit(f'there is no "{step}" on the way')
        if not isinstance(at, (dict, list)):
            raise _DoesNotFit("the path leads into a value that is neither an object nor a list")
        return at, path[-1]

    def value(self, path: list[str]) -> Any:
        """The value at a path; a key that is not there counts as null."""
        if not path:
            return self.root
        at, step = self.parent(path)
        return at.get(step) if isinstance(at, dict) else at[_index(step, len(at))]

    def add(self, path: list[str], value: Any) -> None:
        at, step = self.parent(path)
        if isinstance(at, dict):
            at[step] = value
        else:
            index = len(at) if step == "-" else _index(step, len(at) + 1)
            self.shift(len(at) - index)
            at.insert(index, value)

    def remove(self, path: list[str]) -> Any:
        at, step = self.parent(path)
        if isinstance(at, list):
            index = _index(step, len(at))
            self.shift(len(at) - index)
            return at.pop(index)
        if step not in at:
            raise _DoesNotFit("there is nothing to remove")
        return at.pop(step)

    def replace(self, path: list[str], value: Any) -> None:
        if not path:
            if not isinstance(value, (dict, list)):
                raise _DoesNotFit("only an object or a list can take the place of the whole")
            self.root = value
            return
        at, step = self.parent(path)
        at[step if isinstance(at, dict) else _index(step, len(at))] = value


def _pointer(text: str) -> list[str]:
    """The steps of a JSON pointer (RFC 6901)."""
    if text == "":
        return []
    if text[0] != "/":
        raise _DoesNotFit(f'"{text}" must start with /')
    return [step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/")]


def _index(step: str, length: int) -> int:
    if not _is_index(step):
        raise _DoesNotFit(f'"{step}" is no index of a list')
    index = int(step)
    if not -length <= index < length:
        raise _DoesNotFit(f"index {index} is outside the list")
    return index % length


def _size(value: Any) -> int:
    """How much room a value takes, near enough to stop a patch that doubles it again and again."""
    if isinstance(value, dict):
        return 2 + sum(len(key) + 4 + _size(each) for key, each in value.items())
    if isinstance(value, list):
        return 2 + sum(1 + _size(each) for each in value)
    return len(value) + 2 if isinstance(value, str) else 8
