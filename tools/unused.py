"""Tells which code no program uses, and which tests show a requirement only through such code.

A requirement counts only when it holds for people who run the programs. So a test that carries the id of one
(`pytest.mark.seed`) must not name a function, class or method that is called by tests alone: with --check that is an
error. Without it every such definition is listed.

How it is found: by names. A definition is used when its name stands in the code of another one that is used, beginning
with what runs when modules are imported and with what a decorator registers. Two definitions of one name keep
each other alive, so some unused code is not found; what is found is unused.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import seeds

ROOT = seeds.ROOT
SOURCE = ROOT / "src" / "localpv"
TESTING = SOURCE / "testing"
TOOLS = ROOT / "tools"
CALLS_BACK = {"click", "aiohttp", "web", "logging", "argparse", "asyncio", "socketserver"}
"""Libraries whose base classes call methods of ours by their names."""

HARMLESS_DECORATORS = {
    *("property", "staticmethod", "classmethod", "cached_property", "abstractmethod", "overload", "override"),
    *("setter", "dataclass", "contextmanager", "asynccontextmanager", "cache", "lru_cache", "total_ordering"),
    *("runtime_checkable", "final", "wraps", "unique"),
}
"""Decorators that call nothing by themselves; any other one may register what it decorates."""

FOR_TESTS = {"wait_looked": "tests await the first full look instead of sleeping"}
"""What tests may use though no program does, and why."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Definition:
    """A function, class, method or constant of a module."""

    name: str
    where: str
    lines: int
    uses: set[str]
    """The names in its own code, without those of definitions inside it that are listed by themselves."""

    inside: str = ""
    """The class of a method."""

    registered: bool = False


@dataclass(slots=True)
class Code:
    definitions: list[Definition] = field(default_factory=list)
    at_import: set[str] = field(default_factory=set)
    """Names that stand outside of definitions: that code runs when its module is imported."""


def names_in(*nodes: ast.AST) -> set[str]:
    """Every name, attribute and string that could be the name of something."""
    found = set()
    for node in nodes:
        for one in ast.walk(node):
            match one:
                case ast.Name(id=name) | ast.Attribute(attr=name):
                    found.add(name)
                case ast.Constant(value=str(text)) if text.isidentifier():
                    found.add(text)
                case ast.alias(name=name, asname=str()):
                    found.add(name.rpartition(".")[2])
    return found


def read(root: Path = SOURCE, *, leaving_out: Path = TESTING) -> Code:
    code = Code()
    for path in sorted(root.rglob("*.py")):
        if leaving_out not in path.parents:
            _read_module(path, ast.parse(path.read_text()), code)
    return code


def _read_module(path: Path, module: ast.Module, code: Code) -> None:
    at = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    for node in module.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                code.definitions.append(_function(node, str(at)))
            case ast.ClassDef():
                code.definitions += _class(node, str(at))
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if name != "__all__":
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    code.definitions.append(Definition(name, f"{at}:{node.lineno}", lines, names_in(value)))
            case ast.ImportFrom() | ast.Import():
                code.at_import |= names_in(node)
            case _:
                code.at_import |= names_in(node)


def _function(node: Function, at: str, *, inside: str = "") -> Definition:
    decorators = {ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
    return Definition(
        node.name,
        f"{at}:{node.lineno}",
        (node.end_lineno or node.lineno) - node.lineno + 1,
        names_in(node.args, *node.body, *node.decorator_list, *([node.returns] if node.returns else [])),
        inside=inside,
        registered=any(one.rpartition(".")[2] not in HARMLESS_DECORATORS for one in decorators),
    )


def _class(node: ast.ClassDef, at: str) -> Iterator[Definition]:
    methods = [one for one in node.body if isinstance(one, Function) and not _is_special(one.name)]
    own = [one for one in node.body if one not in methods]
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    uses = names_in(*node.bases, *node.keywords, *node.decorator_list, *own)
    yield Definition(node.name, f"{at}:{node.lineno}", lines, uses)
    called_back = any(ast.unparse(base).partition(".")[0] in CALLS_BACK for base in node.bases)
    for method in methods:
        made = _function(method, at, inside=node.name)
        made.registered |= called_back
        yield made


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def unused_modules(root: Path = SOURCE, *, leaving_out: Path = TESTING) -> list[Definition]:
    """Modules that no program imports, not even late: each as one definition under its full name."""
    paths = {_dotted(path, root): path for path in root.rglob("*.py") if leaving_out not in path.parents}
    reached: set[str] = set()
    late = tuple(f"{root.name}.{package}." for package in ("cli", "programs"))  # imported by name when they are called
    queue = [name for name in paths if name.rpartition(".")[2] == "__main__" or name.startswith(late)]
    for tool in TOOLS.rglob("*.py"):
        queue += _imported(ast.parse(tool.read_text()))
    while queue:
        name = queue.pop()
        parents = [name.rsplit(".", count)[0] for count in range(1, name.count(".") + 1)]
        for one in (name, *parents):
            if one in paths and one not in reached:
                reached.add(one)
                queue += _imported(ast.parse(paths[one].read_text()))
    return [
        Definition(name, str(path.relative_to(root.parent.parent)), len(path.read_text().splitlines()), set())
        for name, path in sorted(paths.items())
        if name not in reached
    ]


def _dotted(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=str(package), names=names):
                yield package
                yield from (f"{package}.{one.name}" for one in names)


def unused(code: Code) -> list[Definition]:
    """What is reached neither from imports nor from anything that is."""
    by_name: dict[str, list[Definition]] = defaultdict(list)
    for one in code.definitions:
        by_name[one.name].append(one)
    used = set(code.at_import) | {one.name for one in code.definitions if one.registered}
    queue = list(used)
    while queue:
        for one in by_name.get(queue.pop(), ()):
            new = one.uses - used
            used |= new
            queue += new
    return [one for one in code.definitions if one.name not in used and not _is_special(one.name)]


def marked_tests(path: Path) -> Iterator[tuple[str, list[str], set[str]]]:
    """(test, ids, names that it and the helpers of its own file use) for each test that carries ids."""
    module = ast.parse(path.read_text())
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, Function)}
    of_file = seeds.ids_of_file(module)
    for name, node in functions.items():
        ids = sorted(of_file.union(*(seeds.ids(decorator) for decorator in node.decorator_list)))
        if ids and name.startswith("test_"):
            names: set[str] = set()
            queue = [name]
            while queue:
                helper = functions[queue.pop()]
                new = names_in(*helper.body, helper.args) - names
                names |= new | {argument.arg for argument in helper.args.args}
                queue += [one for one in new | {argument.arg for argument in helper.args.args} if one in functions]
                queue = [one for one in queue if one not in names or one in new]
            # Of what a test imports from us, a module counts under its full name, so that others of that name do not.
            yield name, ids, names | {full for full in _imported(module) if full.rpartition(".")[2] in names}


def main() -> int:
    found = [*unused_modules(), *unused(read())]
    by_name = {one.name: one for one in found if one.name not in FOR_TESTS}
    if "--check" not in sys.argv[1:]:
        for one in found:
            print(f"{one.where}: {f'{one.inside}.' if one.inside else ''}{one.name} ({one.lines} lines)")
        print(f"{len(found)} definitions that no program uses")
        return 0
    wrong = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, ids, names in marked_tests(path):
            for name in sorted(names & by_name.keys()):
                wrong += 1
                print(
                    f"{path.relative_to(ROOT)}::{test} shows {', '.join(ids)} with"
                    f" {name} ({by_name[name].where}), which no program uses",
                    file=sys.stderr,
                )
    if wrong:
        print("show them through what a program calls, and remove what none does", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
