"""Tells which code, fields and settings no program uses, and which tests show a requirement only through such code.

With --check either is an error: code that only tests call is read and kept working for nothing, and a requirement
counts only when it holds for people who run the programs, so a test that carries the id of one (`pytest.mark.seed`)
must not name what no program uses.

How it is found: beginning with what runs when modules are imported and with what a decorator registers, by going from
each definition to those that its code names. Functions, classes and constants of modules are followed through imports;
methods and fields by their names alone, so two of one name keep each other alive. A field is used when something reads
it. So some unused code is not found; what is found is unused, but for what is called or read from outside: EXCEPTIONS.
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
CALLS_BACK = {"click", "aiohttp", "web", "logging", "argparse", "asyncio", "socketserver", "tarfile", "RequestHandler"}
"""Libraries and classes of theirs whose base classes call methods of ours by their names."""

HARMLESS_DECORATORS = {
    *("property", "staticmethod", "classmethod", "cached_property", "abstractmethod", "overload", "override"),
    *("setter", "dataclass", "contextmanager", "asynccontextmanager", "cache", "lru_cache", "total_ordering"),
    *("runtime_checkable", "final", "wraps", "unique"),
}
"""Decorators that call nothing by themselves; any other one may register what it decorates."""

READ_WHOLE = {"TypedDict", "Structure", "Enum", "StrEnum", "IntEnum", "Flag", "IntFlag", "NamedTuple"}
"""Base classes whose fields are read by what is not in the code: an encoder, the kernel, whoever goes through them."""

WIRE = {"Struct", "Part", "Kind"}
"""Base classes of what travels: whoever gives such a field a value sends it, so somebody else reads it."""

EXCEPTIONS = {
    "Discovery.wait_looked": "tests await the first full look instead of sleeping",
    "Listener.accept": "asyncio calls it: a listener is a socket",
    "Volume": "the source of a volume is the one field of it that is set, whichever that is",
    "LabelSelector": "selectors are made of the whole",
    "NodeSelectorTerm": "selectors are made of the whole",
    "ObjectMeta.generate_name": "whoever writes with the client may leave the name to the server",
    "_Term.match_fields": "read, so that one that is no list is told",
    "_Profile": "given to the runtime as a whole",
    "_Call": "given to the runtime as a whole",
    "_Argument": "given to the runtime as a whole",
    "Pool.attach": "the node service of CSI calls it",
    "FilePool.attach": "the node service of CSI calls it",
    "FilePool._attach_now": "the node service of CSI calls it",
    "BLOCK_BYTES": "the node service of CSI attaches with it",
    "PodCondition": "conditions of others are sent back with our own",
    "_Http2": "h2 calls and reads it: it is the library's own connection with two mends",
}
"""What may be there though no program uses it, and why."""

UNDER_WAY: tuple[str, ...] = ()
"""Beginnings of places whose programs are being written; empty before a release."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Definition:
    """A function, class, method, field or constant of a module."""

    name: str
    where: str
    lines: int
    uses: set[str]
    """What its own code names: `module:name`, `.name` for attributes that are read, `?name` for strings."""

    key: str
    """How others name it."""

    inside: str = ""
    """The class of a method or field."""

    also: str = ""
    """Another way in which others name it."""

    registered: bool = False

    @property
    def full(self) -> str:
        return f"{self.inside}.{self.name}" if self.inside else self.name


@dataclass(slots=True)
class Code:
    definitions: list[Definition] = field(default_factory=list)
    at_import: set[str] = field(default_factory=set)
    """What is named outside of definitions: that code runs when its module is imported."""

    aliases: dict[str, str] = field(default_factory=dict)
    """`module:name` of what a module imports, and of what it is there."""


def names_in(*nodes: ast.AST) -> set[str]:
    """Every name, attribute and string that could be the name of something."""
    return {use.rpartition(":")[2].lstrip(".?=*") for use in _uses(nodes, {}, "", set())}


def _uses(nodes: tuple[ast.AST, ...], imported: dict[str, str], module: str, modules: set[str]) -> set[str]:
    found = set()
    for node in nodes:
        for one in ast.walk(node):
            match one:
                case ast.Attribute(value=ast.Name(id=base), attr=name) if imported.get(base) in modules:
                    found.add(f"{imported[base]}:{name}")
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(f".{name}")
                case ast.Name(id=name):
                    found.add(f"{module}:{name}")
                case ast.Constant(value=str(text)) if text.isidentifier():
                    found.add(f"?{text}")
                case ast.keyword(arg=str(name)):
                    found.add(f"={name}")
                case ast.MatchClass(cls=cls, patterns=patterns, kwd_attrs=names):
                    found.update(f".{name}" for name in names)
                    if patterns:  # each stands for one of the first fields
                        found.add(f"*{ast.unparse(cls).rpartition('.')[2]}")
    return found


class _Reader:
    def __init__(self, path: Path, root: Path, modules: set[str], code: Code) -> None:
        self._at = str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
        self._module, self._modules, self._code = _dotted(path, root), modules, code
        self._tree = ast.parse(path.read_text())
        self._imported: dict[str, str] = {}

    def read_as_run(self) -> None:
        """All of it runs: nothing in it is looked for."""
        self._read_imports()
        self._code.at_import |= self._uses(self._tree)

    def read(self) -> None:
        self._read_imports()
        self._read_body()

    def _read_imports(self) -> None:
        for node in ast.walk(self._tree):
            match node:
                case ast.ImportFrom(module=str(package), names=names):
                    for one in names:
                        full, name = f"{package}.{one.name}", one.asname or one.name
                        self._imported[name] = full if full in self._modules else package
                        if full not in self._modules:
                            self._code.aliases[f"{self._module}:{name}"] = f"{package}:{one.name}"
                case ast.Import(names=names):
                    self._imported |= {one.asname: one.name for one in names if one.asname}

    def _read_body(self) -> None:
        for node in self._tree.body:
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._code.definitions.append(self._function(node))
                case ast.ClassDef():
                    self._code.definitions += self._class(node)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if name != "__all__":
                    self._code.definitions.append(self._definition(name, node, self._uses(value)))
                case _:
                    self._code.at_import |= self._uses(node)

    def _uses(self, *nodes: ast.AST) -> set[str]:
        return _uses(nodes, self._imported, self._module, self._modules)

    def _definition(self, name: str, node: ast.stmt, uses: set[str], inside: str = "") -> Definition:
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        key = f".{name}" if inside else f"{self._module}:{name}"
        return Definition(name, f"{self._at}:{node.lineno}", lines, uses, key, inside=inside)

    def _function(self, node: Function, *, inside: str = "") -> Definition:
        decorators = {ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list}
        parts = (node.args, *node.body, *node.decorator_list, *([node.returns] if node.returns else []))
        made = self._definition(node.name, node, self._uses(*parts), inside)
        made.registered = any(one.rpartition(".")[2] not in HARMLESS_DECORATORS for one in decorators)
        return made

    def _class(self, node: ast.ClassDef) -> Iterator[Definition]:
        methods = [one for one in node.body if isinstance(one, Function) and not _is_special(one.name)]
        own = [one for one in node.body if one not in methods]
        yield self._definition(node.name, node, self._uses(*node.bases, *node.keywords, *node.decorator_list, *own))
        bases = {part for base in node.bases for part in ast.unparse(base).replace("[", ".").split(".")}
        for method in methods:
            made = self._function(method, inside=node.name)
            made.registered |= bool(bases & CALLS_BACK)
            yield made
        if not bases & READ_WHOLE:
            for one in self._fields(node):
                one.also = f"={one.name}" if bases & WIRE else f"*{node.name}"
                yield one

    def _fields(self, node: ast.ClassDef) -> Iterator[Definition]:
        seen = set()
        for one in node.body:
            match one:
                case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                    seen.add(name)
                    yield self._definition(name, one, set(), node.name)
        for method in node.body:
            for part in ast.walk(method) if isinstance(method, Function) else ():
                match part:
                    case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()) if name not in seen:
                        seen.add(name)
                        yield Definition(name, f"{self._at}:{part.lineno}", 1, set(), f".{name}", inside=node.name)


def read(root: Path = SOURCE, *, leaving_out: Path = TESTING) -> Code:
    code = Code()
    paths = [path for path in sorted(root.rglob("*.py")) if leaving_out not in path.parents]
    modules = {_dotted(path, root) for path in paths}
    for path in paths:
        _Reader(path, root, modules, code).read()
    if root == SOURCE:
        for tool in TOOLS.glob("generate_*.py"):
            _Reader(tool, TOOLS, modules, code).read_as_run()
    return code


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
        Definition(name, str(path.relative_to(root.parent.parent)), len(path.read_text().splitlines()), set(), name)
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
    by_key: dict[str, list[Definition]] = defaultdict(list)
    by_name: dict[str, list[Definition]] = defaultdict(list)
    for one in code.definitions:
        by_key[one.key].append(one)
        by_key[one.also].append(one)
        by_name[one.name].append(one)
    used = code.at_import | {one.key for one in code.definitions if one.registered or one.full in EXCEPTIONS}
    reached: set[int] = set()
    queue = list(used)
    while queue:
        use = queue.pop()
        found = by_name[use[1:]] if use[0] == "?" else by_key[use]
        new = {code.aliases[use]} if use in code.aliases else set()
        for one in found:
            reached.add(id(one))
            new |= one.uses
        queue += new - used
        used |= new
    return [
        one
        for one in code.definitions
        if id(one) not in reached and not _is_special(one.name) and not {one.inside, one.full} & EXCEPTIONS.keys()
    ]


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
    found = [one for one in (*unused_modules(), *unused(read())) if not one.where.startswith(UNDER_WAY)]
    for one in found:
        print(f"{one.where}: {one.full} ({one.lines} lines)")
    if "--check" not in sys.argv[1:]:
        print(f"{len(found)} definitions that no program uses")
        return 0
    if found:
        print("no program uses these: remove them, and the tests of nothing else", file=sys.stderr)
    by_name = {one.name: one for one in found}
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
        print("show them through what a program calls", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
