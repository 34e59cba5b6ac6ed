"""Tells how large the code is, and fails when a word of the API is spelled in two modules.

    python tools/size.py [--check]

A label, annotation or finalizer that two modules spell each for itself can come to differ, and then one no longer finds
what the other wrote.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "localpv"
SHARED_WORD = re.compile(r"(?!.*/v\d+(alpha\d+|beta\d+)?$)[a-z0-9.-]*(localpv\.dev|kubernetes\.io|k8s\.io)/[\w.-]+")
"""Labels, annotations, taints and finalizers, not the versions of an API."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module by its path inside the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def spelled_in_several() -> dict[str, list[str]]:
    """Each word of the API that several modules spell, and which."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, module in modules():
        prose = {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
        for node in ast.walk(module):
            match node:
                case ast.Constant(value=str(text)) if id(node) not in prose and SHARED_WORD.fullmatch(text):
                    found[text].add(name)
    return {text: sorted(where) for text, where in sorted(found.items()) if len(where) > 1}


def check() -> int:
    found = spelled_in_several()
    for text, where in found.items():
        print(f"{text} is spelled in {', '.join(where)}", file=sys.stderr)
    if found:
        print("give it a name in model/disk_labels.py or api/well_known.py, and use that", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(check())
