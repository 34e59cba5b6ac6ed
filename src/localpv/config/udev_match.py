"""Match keys of udev as a LocalStorage may have them: `KERNEL!="sda", ATTR{queue/rotational}=="0"`.

Rules of udev run as root on every node, so this reads a small language of its own and nothing else: keys that only
look at a device, `==` and `!=`, and plain quoted values. Whatever udev understands beyond that (assignments, programs,
substitutions, escapes, line breaks) is refused here, by name, and never reaches a node. Each character is looked at
once.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Final

LONGEST_RULE: Final = 1024
"""Characters of one rule; udev reads lines of 16 KiB, and ours carry more than the match."""

LONGEST_NAME: Final = 64
"""Characters of one wildcard on a kernel name, a vendor or a model."""

PLAIN = frozenset(
    {"KERNEL", "KERNELS", "SUBSYSTEM", "SUBSYSTEMS", "DRIVERS", "DEVPATH", "NAME", "SYMLINK", "TAG", "TAGS"}
)
"""Keys without anything in braces."""

WITH_ATTRIBUTE = frozenset({"ATTR", "ATTRS", "ENV"})
"""Keys that have the name of an attribute or a property in braces."""

KEYS = PLAIN | WITH_ATTRIBUTE

_ASSIGN = "assigns something; a LocalStorage only matches devices"
REFUSED: Final = {
    "RUN": "runs a program",
    "PROGRAM": "runs a program",
    "RESULT": "is the output of a program, and none is run",
    "IMPORT": "runs programs and reads files",
    "TEST": "looks at any file of the node",
    "SYSCTL": "looks at settings of the kernel, which are not about a device",
    "GOTO": "jumps within the rules",
    "LABEL": "is where a jump within the rules leads",
    "OPTIONS": _ASSIGN,
    "OWNER": _ASSIGN,
    "GROUP": _ASSIGN,
    "MODE": _ASSIGN,
    "SECLABEL": _ASSIGN,
    "WAIT_FOR": "waits for a file",
    "ACTION": "would make the links depend on what happened last to the device",
    "DRIVER": "is empty for block devices; use DRIVERS",
}
"""Keys that people may look for here, each with what it does."""

OWN_PREFIX: Final = "KUBERNETES_"
"""Properties that our rules set: they belong to the rules, not to the device."""

_BLANKS = frozenset(" \t")
_KEY_CHARS = frozenset(string.ascii_uppercase + "_")
_ATTRIBUTE_CHARS = frozenset(string.ascii_letters + string.digits + "_-./:+@,")
_VALUE_CHARS = frozenset(chr(code) for code in range(0x20, 0x7F)) - frozenset('"\\$%')
_NAME_CHARS = frozenset(string.ascii_letters + string.digits + "_-.:+@!^*?[]")


class WrongMatch(ValueError):
    """The text is no match that we take; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class MatchKey:
    """One condition on a device. As text it is exactly what udev reads."""

    key: str
    attribute: str
    """What is in braces; empty for keys without."""

    equal: bool
    value: str

    def __str__(self) -> str:
        braces = f"{{{self.attribute}}}" if self.attribute else ""
        return f'{self.key}{braces}{"==" if self.equal else "!="}"{self.value}"'


def kernel(wildcard: str) -> MatchKey:
    """The match of a wildcard of deviceNames."""
    return MatchKey("KERNEL", "", True, check_name(wildcard))


def text(keys: tuple[MatchKey, ...]) -> str:
    """Match keys as they stand in a rule."""
    return ", ".join(map(str, keys))


def parse(rule: str) -> tuple[MatchKey, ...]:
    """The match keys of a rule; WrongMatch when anything else is in it."""
    if len(rule) > LONGEST_RULE:
        raise WrongMatch(f"is longer than {LONGEST_RULE} characters")
    for char in rule:
        if char in "\n\r":
            raise WrongMatch("has a line break; write one rule as one line, and several rules as several entries")
        if not (char.isprintable() or char in _BLANKS) or not char.isascii():
            raise WrongMatch(f"has the character {char!a}; only printable ASCII is allowed")
    found: list[MatchKey] = []
    at = _skip(rule, 0)
    while at < len(rule):
        key, at = _key(rule, at)
        found.append(key)
        blanks = _skip(rule, at)
        if blanks < len(rule) and rule[blanks] == ",":
            at = _skip(rule, blanks + 1)
            if at == len(rule):
                raise WrongMatch("ends with a comma")
        elif blanks < len(rule) and blanks == at:
            raise WrongMatch(f"needs a comma after {key}")
        else:
            at = blanks
    if not found:
        raise WrongMatch('is empty; write match keys such as KERNEL=="sd?"')
    return tuple(found)


def check_name(wildcard: str) -> str:
    """A wildcard on kernel names as it was given; WrongMatch when it is none."""
    if not wildcard:
        raise WrongMatch("is empty; write a kernel name or a wildcard such as sd[b-z]")
    if "/" in wildcard:
        raise WrongMatch(
            "has a / in it: deviceNames are kernel names such as sdb or nvme0n1, without /dev/. For a stable name"
            ' below /dev/disk/by-id use udevRules, such as ENV{ID_SERIAL}=="..." or SYMLINK=="disk/by-id/..."'
        )
    if "|" in wildcard:
        raise WrongMatch("has a | in it; write one wildcard for each name")
    if len(wildcard) > LONGEST_NAME:
        raise WrongMatch(f"is longer than {LONGEST_NAME} characters")
    _check_chars(wildcard, _NAME_CHARS, "a kernel name")
    _check_sets(wildcard)
    return wildcard


def check_property(wildcard: str) -> str:
    """A wildcard on a vendor or a model as it was given; WrongMatch when it is none."""
    if not wildcard:
        raise WrongMatch("is empty; write a word or a wildcard such as Samsung*")
    if "|" in wildcard:
        raise WrongMatch("has a | in it; write one wildcard for each")
    if len(wildcard) > LONGEST_NAME:
        raise WrongMatch(f"is longer than {LONGEST_NAME} characters")
    _check_chars(wildcard, _VALUE_CHARS, "a wildcard")
    _check_sets(wildcard)
    return wildcard


def _skip(rule: str, at: int) -> int:
    while at < len(rule) and rule[at] in _BLANKS:
        at += 1
    return at


def _key(rule: str, at: int) -> tuple[MatchKey, int]:
    begin = at
    while at < len(rule) and rule[at] in _KEY_CHARS:
        at += 1
    name = rule[begin:at]
    if not name:
        raise WrongMatch(f"has {rule[begin]!a} where a key such as KERNEL is expected")
    if name not in KEYS:
        raise WrongMatch(_not_taken(name))
    attribute = ""
    if at < len(rule) and rule[at] == "{":
        attribute, at = _attribute(name, rule, at + 1)
    elif name in WITH_ATTRIBUTE:
        raise WrongMatch(f"has {name} without a name in braces, such as {name}{{...}}")
    at = _skip(rule, at)
    operator = rule[at : at + 2]
    if operator not in ("==", "!="):
        raise WrongMatch(_no_match(name, operator))
    value, at = _value(name, rule, _skip(rule, at + 2))
    return MatchKey(name, attribute, operator == "==", value), at


def _attribute(name: str, rule: str, begin: int) -> tuple[str, int]:
    if name not in WITH_ATTRIBUTE:
        raise WrongMatch(f"has {name} with braces, which it does not take")
    end = rule.find("}", begin)
    if end < 0:
        raise WrongMatch(f"has {name}{{ without its }}")
    attribute = rule[begin:end]
    if not attribute:
        raise WrongMatch(f"has {name} with nothing in its braces")
    _check_chars(attribute, _ATTRIBUTE_CHARS, f"the name in {name}{{}}")
    if attribute.startswith("/") or ".." in attribute:
        raise WrongMatch(f"has {name}{{{attribute}}}, which leads out of the folder of the device")
    if name == "ENV" and attribute.upper().startswith(OWN_PREFIX):
        raise WrongMatch(f"has ENV{{{attribute}}}, a property that localpv sets itself")
    return attribute, end + 1


def _value(name: str, rule: str, at: int) -> tuple[str, int]:
    if rule[at : at + 2] in ('i"', 'e"', 'c"'):
        raise WrongMatch(f'has {name} with a value that begins with {rule[at]}"; only plain "..." is taken')
    if rule[at : at + 1] != '"':
        raise WrongMatch(f'has {name} without a value in double quotes, such as {name}=="..."')
    end = rule.find('"', at + 1)
    if end < 0:
        raise WrongMatch(f"has {name} with a value whose quotes do not end")
    value = rule[at + 1 : end]
    _check_chars(value, _VALUE_CHARS, f"the value of {name}")
    return value, end + 1


def _check_chars(value: str, allowed: frozenset[str], what: str) -> None:
    for char in value:
        if char not in allowed:
            why = {"$": " (substitutions of udev)", "%": " (substitutions of udev)", "\\": " (escapes)"}.get(char, "")
            raise WrongMatch(f"has {char!a}{why} in it, which {what} cannot have")


def _check_sets(wildcard: str) -> None:
    """Each [ has its ], and something between: fnmatch would take another for a plain bracket."""
    at = 0
    while at < len(wildcard):
        if wildcard[at] == "]":
            raise WrongMatch("has a ] without its [")
        if wildcard[at] == "[":
            inner = at + 2 if wildcard[at + 1 : at + 2] in ("!", "^") else at + 1
            end = wildcard.find("]", inner + 1)
            if end < 0 or wildcard[inner] == "]" or "[" in wildcard[inner:end]:
                raise WrongMatch("has a [ without its ], or nothing in between; write a set such as [b-z]")
            at = end
        at += 1


def _not_taken(name: str) -> str:
    if why := REFUSED.get(name):
        return f"has {name}, which {why}. Only match keys are allowed: {', '.join(sorted(KEYS))}"
    return f"has {name}, which is no match key that is allowed: there are {', '.join(sorted(KEYS))}"


def _no_match(name: str, operator: str) -> str:
    if operator[:1] == "=" or operator in ("+=", ":=", "-="):
        sign = operator if operator in ("+=", ":=", "-=") else "="
        return f"has {name}{sign}, which assigns; only == and != are allowed"
    return f"has {name} without == or !="
