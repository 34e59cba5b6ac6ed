"""One call of the API, free of HTTP: who, what, on which object, with which options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localpv.api import fields, selectors, status
from localpv.api.objects import Object
from localpv.engine.apiserver.auth.identity import MASTERS, User
from localpv.engine.apiserver.registry import Kind
from localpv.errors import BadRequest

ENGINE = User("system:localpv", (MASTERS, "system:authenticated"))
"""The engine's own controllers."""

_NO_QUERY: Mapping[str, str] = {}


@dataclass(slots=True, kw_only=True)
class Call:
    """What is asked. Controllers of the engine make calls too, without going through HTTP."""

    kind: Kind
    user: User = ENGINE
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=lambda: _NO_QUERY)
    manager: str = "localpv"
    field_validation: str = "Ignore"
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    repeated_keys: list[str] = field(default_factory=list)
    """What a body in YAML has twice; of JSON it is seen when the object is taken in."""

    def flag(self, name: str) -> bool:
        """A true-or-false option."""
        value = self.query.get(name)
        if value is None:
            return False
        if value in ("", "true", "1", "True", "TRUE", "t", "T"):
            # An option without a value reads as true in Kubernetes as well.
            return True
        if value in ("false", "0", "False", "FALSE", "f", "F"):
            return False
        raise BadRequest(f'the option {name} takes true or false, not "{value}"')

    def number(self, name: str) -> int | None:
        value = self.query.get(name)
        if value is None or value == "":
            return None
        number = selectors.whole_number(value)
        if number is None:
            raise BadRequest(f'the option {name} takes a whole number of 64 bits, not "{value[:100]}"')
        return number


FIELD_VALIDATION = ("Ignore", "Warn", "Strict")


def check_write_options(query: Mapping[str, str], kind: str) -> tuple[bool, str]:
    """(dry run, field validation) of a writing call; `kind` is that of its options, such as CreateOptions."""
    dry_run = query.get("dryRun", "")
    if dry_run not in ("", "All"):
        raise status.invalid_options(kind, fields.not_supported("dryRun", dry_run, ["All"]))
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in FIELD_VALIDATION:
        raise status.invalid_options(kind, fields.not_supported("fieldValidation", validation, FIELD_VALIDATION))
    return dry_run == "All", validation


@dataclass(slots=True)
class Reply:
    """An object that is the answer, with the HTTP status that goes with it."""

    value: bytes
    status: int = 200
    obj: Object | None = None
    """The same object decoded, where the handler had it at hand."""
