"""Label and field selectors: read once, then asked about many objects.

A selector in a request that cannot be read is a BadRequest; one inside an object is a matter of validation.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from localpv import errors
from localpv.api import fields, names
from localpv.api.fields import FieldErrors


class Operator(Enum):
    EQUALS = "="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


_IN_OBJECTS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_BETWEEN = {
    "=": Operator.EQUALS,
    "==": Operator.EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_token = re.compile(r"==|!=|[=!(),<>]|[^=!(),<> \t\r\n]+")
_whole_number = re.compile(r"[+-]?[0-9]{1,25}").fullmatch


def whole_number(text: str) -> int | None:
    """The number that Gt and Lt compare, or None: decimal digits that fit in 64 bits."""
    if _whole_number(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.EQUALS | Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_EQUALS | Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GREATER | Operator.LESS:
                there = None if value is None else whole_number(value)
                (limit,) = (whole_number(each) for each in self.values)
                if there is None or limit is None:
                    return False
                return there > limit if self.operator is Operator.GREATER else there < limit

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case _:
                return f"{self.key}{self.operator.value}{''.join(self.values)}"


class LabelSelector:
    """Conditions that must all hold."""

    __slots__ = ("_equal", "_others", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        # Equality is what nearly every list and watch asks for: a plain lookup answers it.
        equal: list[Requirement] = []
        others: list[Requirement] = []
        for each in self.requirements:
            (equal if each.operator in _EXACT and len(each.values) == 1 else others).append(each)
        self._equal = tuple((each.key, next(iter(each.values))) for each in equal)
        self._others = tuple(others)

    @property
    def empty(self) -> bool:
        """Whether it lets every object through."""
        return not self.requirements

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        labels = labels or {}
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        return all(requirement.matches(labels) for requirement in self._others)

    def equalities(self) -> tuple[tuple[str, str], ...]:
        """Labels that must have one certain value, with that value."""
        return tuple(self._equal)

    def requires(self, key: str) -> str | None:
        """The one value that the label must have, so that an index can find the objects."""
        return next((value for name, value in self._equal if name == key), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class _Nothing(LabelSelector):
    __slots__ = ()

    @property
    def empty(self) -> bool:
        return False

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        return False


_EXACT = (Operator.EQUALS, Operator.IN)
EVERYTHING = LabelSelector()
NOTHING: LabelSelector = _Nothing()


def parse(text: str | None) -> LabelSelector:
    """A selector as it stands in `labelSelector=` and after `kubectl -l`: `a=b,c!=d,e in (x,y),f notin (z),g,!h`."""
    if not text:
        return EVERYTHING
    return LabelSelector(_Reader(text).requirements())


class _Reader:
    """Walks over the words and signs of a label selector."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _token.findall(text)
        self.at = 0

    def peek(self) -> str:
        """The next token; the empty string is the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def refuse(self, expected: str) -> errors.BadRequest:
        found = f"'{self.peek()}'" if self.peek() else "the end"
        return errors.BadRequest(
            f"unable to parse label selector '{self.text}': expected {expected}, found {found}",
            hint="write it like a=b,c!=d,e in (x,y),f notin (z),g,!h",
        )

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        if not self.tokens:
            return found
        while True:
            found.append(self.requirement())
            if not self.peek():
                return found
            if self.peek() != ",":
                raise self.refuse("',' or the end")
            self.take()

    def requirement(self) -> Requirement:
        absent = self.peek() == "!"
        if absent:
            self.take()
        key = self.word("a label key" if absent else "a label key or '!'")
        self.check(key, names.qualified_name(key))
        if absent:
            return Requirement(key, Operator.DOES_NOT_EXIST)
        if self.peek() in ("", ","):
            return Requirement(key, Operator.EXISTS)
        operator = _BETWEEN.get(self.peek())
        if operator is None:
            raise self.refuse("one of =, ==, !=, in, notin, <, >")
        self.take()
        if operator in (Operator.IN, Operator.NOT_IN):
            values = self.values()
        else:
            values = frozenset({"" if self.peek() in ("", ",") else self.word("a value")})
        for value in sorted(values):
            self.check(value, names.label_value(value))
            if operator in (Operator.GREATER, Operator.LESS) and whole_number(value) is None:
                self.check(value, ["must be a whole number for < and >"])
        return Requirement(key, operator, values)

    def word(self, expected: str) -> str:
        # `in` and `notin` are fine names for labels and values: only between the two are they operators.
        token = self.peek()
        if token == "" or token[0] in "=!(),<>":
            raise self.refuse(expected)
        return self.take()

    def values(self) -> frozenset[str]:
        """A list in parentheses. Nothing between two commas, or between the parentheses, is the empty value."""
        if self.peek() != "(":
            raise self.refuse("'('")
        self.take()
        values: set[str] = set()
        while True:
            values.add("" if self.peek() in (",", ")") else self.word("a value, ',' or ')'"))
            if self.peek() not in (",", ")"):
                raise self.refuse("',' or ')'")
            if self.take() == ")":
                return frozenset(values)

    def check(self, value: str, wrong: list[str]) -> None:
        if wrong:
            raise errors.BadRequest(f"unable to parse label selector '{self.text}': '{value}' {'; '.join(wrong)}")


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A LabelSelector inside an object. None selects nothing, an empty one everything; it must be valid."""
    if selector is None:
        return NOTHING
    requirements = [
        Requirement(key, Operator.EQUALS, frozenset((value,)))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    requirements.extend(
        Requirement(each["key"], _IN_OBJECTS[each["operator"]], frozenset(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )
    return LabelSelector(requirements) if requirements else EVERYTHING


def from_labels(labels: Mapping[str, str] | None) -> LabelSelector:
    """A plain set of labels that must all be there, as services and replication use them."""
    return from_object({"matchLabels": labels})


def validate(selector: Mapping[str, Any] | None, path: str) -> FieldErrors:
    """What is wrong with a LabelSelector inside an object."""
    wrong: FieldErrors = []
    if not selector:
        return wrong
    wrong.extend(names.validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels"))
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        key, operator = expression.get("key", ""), expression.get("operator", "")
        values = expression.get("values") or []
        if operator in ("In", "NotIn"):
            if not values:
                wrong.append(fields.required(f"{here}.values", "In and NotIn need at least one value"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                wrong.append(fields.forbidden(f"{here}.values", "Exists and DoesNotExist take no values"))
        else:
            wrong.append(fields.invalid(f"{here}.operator", operator, f"must be one of {', '.join(_IN_OBJECTS)}"))
        wrong.extend(fields.invalid(f"{here}.key", key, sentence) for sentence in names.qualified_name(key))
        for number, value in enumerate(values):
            wrong.extend(fields.invalid(f"{here}.values[{number}]", value, each) for each in names.label_value(value))
    return wrong


@dataclass(frozen=True, slots=True)
class FieldTerm:
    field: str
    value: str
    equal: bool = True

    def __str__(self) -> str:
        escaped = _field_special.sub(r"\\\g<0>", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


_field_special = re.compile(r"[\\,=]")
_field_terms = re.compile(r"(?:[^\\,]|\\.)+|\\$", re.DOTALL)
_field_operator = re.compile(r"!=|==|=")
_field_value = re.compile(r"(?:[^\\,=]|\\[\\,=])*").fullmatch
_field_escape = re.compile(r"\\([\\,=])")


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions on a few fields that the server knows as strings. A field that is not there counts as empty."""

    terms: tuple[FieldTerm, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.terms

    def matches(self, values: Mapping[str, str]) -> bool:
        return all((values.get(term.field, "") == term.value) is term.equal for term in self.terms)

    def requires(self, field: str) -> str | None:
        """The one value that the field must have."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def check(self, supported: Collection[str], *, named: bool = True) -> None:
        """BadRequest when it asks for a field that this kind cannot select by.

        Kinds with selectors of their own answer more curtly than the rest, which name those that there are.
        """
        for term in self.terms:
            if term.field not in supported:
                if not named:
                    raise errors.BadRequest(f"field label not supported: {term.field}")
                known = ", ".join(f'"{name}"' for name in supported)
                raise errors.BadRequest(f'"{term.field}" is not a known field selector: only {known}')

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERY_FIELD = FieldSelector()


def parse_fields(text: str | None) -> FieldSelector:
    """A selector as it stands in `fieldSelector=`: `metadata.name=x,status.phase!=Y`; backslash escapes `,` and `=`."""
    if not text:
        return EVERY_FIELD
    terms = []
    for part in sorted(_field_terms.findall(text)):
        operator = _field_operator.search(part)
        if operator is None:
            raise errors.BadRequest(f"invalid field selector '{text}': '{part}' has no =, == or !=")
        field, value = part[: operator.start()], part[operator.end() :]
        if not _field_value(value):
            raise errors.BadRequest(
                f"invalid field selector '{text}': in a value, a backslash must stand before each \\ , and =, "
                f"and before nothing else: '{value}'"
            )
        if field or value:
            terms.append(FieldTerm(field, _field_escape.sub(r"\1", value), operator[0] != "!="))
    return FieldSelector(tuple(terms)) if terms else EVERY_FIELD
