"""Names of field managers: where they come from and what they may look like."""

from __future__ import annotations

from localpv.api import fields
from localpv.api.fields import FieldErrors

LONGEST = 128
"""Bytes in the name of a field manager."""


def manager_from_user_agent(user_agent: str) -> str:
    """The manager of a client that names none: its program, as the User-Agent tells."""
    name, size = "", 0
    for char in user_agent.split("/", 1)[0]:
        if not char.isprintable():
            continue
        size += len(char.encode())
        if size > LONGEST:
            break
        name += char
    return name


def name_of(field_manager: str, user_agent: str) -> str:
    """Who writes: the manager that the request names, else the client's program, else `unknown`."""
    return field_manager or manager_from_user_agent(user_agent) or "unknown"


def validate(field_manager: str, field: str = "fieldManager") -> FieldErrors:
    """What is wrong with a name."""
    found: FieldErrors = []
    if len(field_manager.encode()) > LONGEST:
        found.append(fields.too_long(field, LONGEST))
    place = 0
    # Of a name that is too long the rest does not matter: each problem repeats it.
    shown = field_manager[:LONGEST]
    for char in shown:
        if not char.isprintable():
            problem = f"invalid character U+{ord(char):04X} (at position {place})"
            found.append(fields.invalid(field, shown, problem))
        place += len(char.encode())
    return found


def validate_patch(field_manager: str, *, force: bool | None, is_apply: bool) -> FieldErrors:
    """What is wrong with the options of a patch, as far as managers go. `force` is None when it was not given."""
    found: FieldErrors = []
    if is_apply and not field_manager:
        found.append(fields.required("fieldManager", "is required for apply patch"))
    if not is_apply and force is not None:
        found.append(fields.forbidden("force", "may not be specified for non-apply patch"))
    return found + validate(field_manager)
