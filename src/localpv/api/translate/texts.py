"""Files with several documents, YAML or JSON: documents that do not change stay as they are, to the letter."""

from __future__ import annotations

import json
from dataclasses import dataclass

from localpv.api import yamls
from localpv.api.translate import manifests
from localpv.api.translate.drafts import Note
from localpv.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedText:
    text: str
    notes: tuple[tuple[str, Note], ...]


def translate(text: str, *, source: str = "input") -> TranslatedText:
    """Translate every document of a text."""
    if text.lstrip()[:1] == "{":
        return _json(text, source)
    return _yaml(text, source)


def _json(text: str, source: str) -> TranslatedText:
    """JSON objects, one after the other."""
    parts: list[str] = []
    notes: list[tuple[str, Note]] = []
    decoder = json.JSONDecoder()
    begin = 0
    while begin < len(text):
        if text[begin].isspace():
            parts.append(text[begin])
            begin += 1
            continue
        try:
            value, end = decoder.raw_decode(text, begin)
        except ValueError as error:
            if begin == 0 or not parts:
                return _yaml(text, source)  # YAML may begin with a brace too
            raise _unreadable(source, error) from error
        done = manifests.translate(value) if isinstance(value, dict) else None
        if done is not None:
            notes += done.notes
        parts.append(json.dumps(done.obj, indent=2, ensure_ascii=False) if done and done.changed else text[begin:end])
        begin = end
    return TranslatedText(text="".join(parts), notes=tuple(notes))


def _yaml(text: str, source: str) -> TranslatedText:
    import yaml

    parts: list[str] = []
    notes: list[tuple[str, Note]] = []
    before = 0
    for head, body in _documents(text):
        try:
            value = yamls.load(body)
        except (yaml.YAMLError, ValueError) as error:
            raise _unreadable(source, error, lines_before=before + head.count("\n")) from error
        before += f"{head}{body}".count("\n")
        done = manifests.translate(value) if isinstance(value, dict) else None
        if done is None or not done.changed:
            parts += (head, body)
        else:
            fresh = yaml.safe_dump(done.obj, sort_keys=False, default_flow_style=False, width=120, allow_unicode=True)
            parts += (head if head.endswith("\n") or not head else "---\n", _comments_before(body), fresh)
        if done is not None:
            notes += done.notes
    return TranslatedText(text="".join(parts), notes=tuple(notes))


def _documents(text: str) -> list[tuple[str, str]]:
    """The documents of a YAML text, each with the separator before it; a separator stands at the start of a line."""
    found: list[tuple[str, str]] = []
    head, body = "", ""
    for line in text.splitlines(keepends=True):
        if line.startswith("---") and (len(line) == 3 or line[3].isspace()):
            if head or body:
                found.append((head, body))
            rest = line[3:].strip()
            # A document may begin on the very line of its separator.
            head, body = (line, "") if not rest or rest.startswith("#") else ("--- ", line[4:])
        else:
            body += line
    found.append((head, body))
    return found


def _comments_before(body: str) -> str:
    """The comments at the head of a document: they say what it is for, and dumping it would lose them."""
    kept = []
    for line in body.splitlines(keepends=True):
        if line.strip() and not line.lstrip().startswith("#"):
            break
        kept.append(line)
    return "".join(kept)


def _unreadable(source: str, error: Exception, *, lines_before: int = 0) -> ConfigurationError:
    detail = yamls.trouble(error, lines_before=lines_before)
    return ConfigurationError(f"{source} cannot be read: {detail}", hint="it must be YAML or JSON, as kubectl takes it")
