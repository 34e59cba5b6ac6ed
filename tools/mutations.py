"""The small changes that `mutants.py` makes to a module, one at a time, and where each of them is.

Left out is what no test should notice: messages in logs, type annotations, decorators, assertions that only tell mypy,
how long something is waited for, and the numbers at the top of a module: sizes of buffers and the like, where one more
or less is no mistake, or the kernel's own, without which nothing works.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

TIMES = ("SECONDS", "EVERY", "seconds", "timeout")
"""Endings of names whose number says how long something takes: tests assert on no times."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of a module."""

    module: str
    """Path of the module below the root of the tree."""

    function: str
    """Full name of the function that it is in; empty at the top of a module."""

    line: int
    text: str
    """The line as it stands there, without its indentation."""

    change: str
    """What becomes what."""

    start: int = field(compare=False)
    end: int = field(compare=False)
    new: bytes = field(compare=False)
    outermost: str = field(compare=False, default="")
    """Full name of the function that is defined when the module is imported, which it is in."""

    at_import: bool = field(compare=False, default=False)
    """Whether it is in code that runs when the module is imported, such as the default of a field."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Names it as long as its line is not changed; line numbers move with every edit above."""
        return self.module, self.function, self.text, self.change

    def order(self, seed: int) -> bytes:
        """Its place in the order of a seed, which an edit of other code does not change."""
        return hashlib.sha256(repr((seed, *self.key)).encode()).digest()

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.end :]


def of_module(path: Path, root: Path) -> list[Mutation]:
    """Every change of a module that still compiles and means something else."""
    source = path.read_bytes()
    finder = _Finder(str(path.relative_to(root)), source)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, module: str, source: bytes) -> None:
        self.found: list[Mutation] = []
        self._module, self._source = module, source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self._functions = 0
        self._outermost = ""
        self._times = False
        self._seen: Counter[tuple[str, str, str]] = Counter()

    # -- where we are ------------------------------------------------------------------------------------------------

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            return
        self._inside(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = [one for one in (*node.args.defaults, *node.args.kw_defaults) if one is not None]
        self._functions += 1
        if self._functions == 1:
            self._outermost = ".".join((*self._names, node.name))
        self._inside(node.name, [*defaults, *node.body])
        self._functions -= 1

    def _inside(self, name: str, nodes: list[ast.stmt] | list[ast.AST]) -> None:
        self._names.append(name)
        for node in nodes:
            self.visit(node)
        self._names.pop()

    # -- what is left out --------------------------------------------------------------------------------------------

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned([node.target], node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node.targets, node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        self._timed((node.arg or "").endswith(TIMES), node.value)

    def _assigned(self, targets: list[ast.expr], value: ast.expr) -> None:
        self._timed(ast.unparse(targets[0]).endswith(TIMES), value)

    def _timed(self, times: bool, value: ast.expr) -> None:
        before, self._times = self._times, self._times or times
        self.visit(value)
        self._times = before

    # -- what is changed ---------------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, operator in enumerate(node.ops):
            for other in TURNED[type(operator)]:
                operators = [*node.ops[:index], other(), *node.ops[index + 1 :]]
                self._add(node, ast.Compare(node.left, operators, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._add(node, ast.BoolOp(other, node.values))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, node.operand)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self._condition(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        if not isinstance(node.test, ast.Constant):
            self._condition(node.test, switched_on=False)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._condition(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._condition(test)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self._condition(node.guard)
            self.visit(node.guard)
        for statement in node.body:
            self.visit(statement)

    def _condition(self, test: ast.expr, *, switched_on: bool = True) -> None:
        for value in (False, True) if switched_on else (False,):
            # A name that the condition gives its value to is still needed.
            kept = any(isinstance(one, ast.NamedExpr) for one in ast.walk(test))
            always: ast.expr = ast.Constant(value)
            if kept:
                always = ast.BoolOp(ast.Or() if value else ast.And(), [test, always])
            self._add(test, always)

    def visit_Expr(self, node: ast.Expr) -> None:
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(value, ast.Call):
            return
        if ast.unparse(value.func).startswith(("log.", "logging.", "super().")):
            return
        self._add(node, ast.Pass())
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._add(node, ast.Pass())
        if node.exc is not None:
            self.visit(node.exc)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool(value):
                self._add(node, ast.Constant(not value))
            case int(value) if self._names and not self._times:
                self._add(node, ast.Constant(value + 1))
                if value:
                    self._add(node, ast.Constant(value - 1))

    def visit_Return(self, node: ast.Return) -> None:
        match node.value:
            case ast.Constant(value=str(text)):
                self._add(node.value, ast.Constant("" if text else "changed"))
            case ast.Constant(value=None):
                pass
            case ast.expr() as value:
                self.visit(value)

    def _add(self, node: ast.stmt | ast.expr, new: ast.AST) -> None:
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        old = self._source[start:end]
        text = ast.unparse(new)
        whole = isinstance(node, ast.stmt)
        function, line = ".".join(self._names), self._lines[node.lineno - 1].decode().strip()
        change = f"{_one_line(old.decode())} -> {_one_line(text)}"
        self._seen[function, line, change] += 1
        if (count := self._seen[function, line, change]) > 1:
            change += f" (number {count})"
        self.found.append(
            Mutation(
                module=self._module,
                function=function,
                line=node.lineno,
                text=line,
                change=change,
                start=start,
                end=end,
                outermost=self._outermost if self._functions else "",
                at_import=not self._functions,
                new=text.encode() if whole or isinstance(new, ast.Constant) else f"({text})".encode(),
            )
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
