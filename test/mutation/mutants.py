# pyright: basic
"""
Mutants of a source file: in each, one condition, case, entry or report is disabled.

    if a or b: return        `a` is false; `b` is false
    if a and b: rewrite(x)   the condition is false; `a` is true; `b` is true
    return a and b           of a function to bool: the same three
    fits = a and b           the same three
    return x if a else None  `a` is false; `a` is true; of nothing else than None, a
                             bool or an empty literal: other values are no guards
    [x for x in y if a]      `a` is false; `a` is true
    while a: x = f(x)        `a` is false
    case X() if a:           the case is never taken; `a` is true
    TABLE = {"k": v}         an entry of a table at the top level is left out
    yield message            left out, as are the checker's calls of `report`

The condition itself is still evaluated, since it may assign a name that is used later.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

JUMPS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
TABLES = (ast.Dict, ast.List, ast.Tuple, ast.Set)
PREDICATES = ("all", "any", "isa", "isinstance", "issubclass")


@dataclass(frozen=True)
class Mutant:
    """A change of one file."""

    where: str
    """The function or table, as `Class.function`."""
    what: str
    """The source that is disabled, and how; with `where`, unique in the file."""
    lines: range | None
    """The lines that a test must run to notice it; None if they run on import."""
    source: str
    """The whole file after the change."""

    @property
    def name(self) -> str:
        return f"{self.where}: {self.what}"


def mutants(source: str, only: tuple[str, ...] = ()) -> list[Mutant]:
    """The mutants of a file; with `only`, of functions with these names or parts."""
    found = _Mutants(source)
    found.visit(ast.parse(source))
    names: dict[str, int] = {}
    result: list[Mutant] = []
    for mutant in found.result:
        if only and not any(part in mutant.where for part in only):
            continue
        count = names[mutant.name] = names.get(mutant.name, 0) + 1
        what = mutant.what if count == 1 else f"{mutant.what} (number {count})"
        result.append(Mutant(mutant.where, what, mutant.lines, mutant.source))
    return result


class _Mutants(ast.NodeVisitor):
    def __init__(self, source: str):
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.starts = [*accumulate(map(len, self.lines), initial=0)]
        self.scopes: list[ast.AST] = []
        self.result: list[Mutant] = []

    # --- text -------------------------------------------------------------------------

    def offset(self, line: int, column: int) -> int:
        before = self.lines[line - 1].encode()[:column].decode()
        return self.starts[line - 1] + len(before)

    def span(self, node: ast.expr | ast.stmt | ast.pattern) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def add(self, node: ast.AST, change: str, span: tuple[int, int], new: str) -> None:
        start, end = span
        text = " ".join(ast.unparse(node).split())
        where = ".".join(getattr(scope, "name", "") for scope in self.scopes)
        inside = any(isinstance(x, ast.FunctionDef) for x in self.scopes)
        first = bisect_right(self.starts, start)
        lines = range(first, bisect_right(self.starts, end) + 1)
        self.result.append(
            Mutant(
                where,
                f"`{text}` {change}",
                lines if inside else None,
                self.source[:start] + new + self.source[end:],
            )
        )

    def fixed(self, test: ast.expr, value: bool) -> None:
        """Make a condition always `value`."""
        if isinstance(test, ast.Constant) or ast.unparse(test) == "TYPE_CHECKING":
            return
        # Of `x or ()`: the literal is false already.
        if not value and is_nothing(test):
            return
        # What notices that one operand is so notices that all are.
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == value:
            return
        start, end = self.span(test)
        new = f"(({self.source[start:end]}) {'or True' if value else 'and False'})"
        self.add(test, f"is {str(value).lower()}", (start, end), new)

    # --- what is disabled ----------------------------------------------------------------

    def visit_scope(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.scopes.append(node)
        # Decorators and annotations are not conditions.
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()

    visit_FunctionDef = visit_scope
    visit_ClassDef = visit_scope

    def visit_Assert(self, node: ast.Assert) -> None:
        """It is true of a verified module, so nothing is disabled."""

    def visit_If(self, node: ast.If) -> None:
        self.fixed(node.test, False)
        if not isinstance(node.body[-1], JUMPS) or node.orelse:
            self.fixed(node.test, True)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.fixed(node.test, False)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        if is_nothing(node.body) or is_nothing(node.orelse):
            self.fixed(node.test, False)
            self.fixed(node.test, True)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self.fixed(test, False)
            self.fixed(test, True)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for operand in node.values:
            self.fixed(operand, isinstance(node.op, ast.And))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        function = self.scopes[-1]
        assert isinstance(function, ast.FunctionDef)
        returns = None if function.returns is None else ast.unparse(function.returns)
        if returns == "bool" and node.value is not None:
            self.fixed(node.value, True)
            self.fixed(node.value, False)
        if function.name == "get_canonicalization_patterns" and node.value is not None:
            self.entries(node.value)
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is not None:
            self.fixed(node.guard, True)
            self.fixed(node.guard, False)
        elif not (isinstance(node.pattern, ast.MatchAs) and node.pattern.name is None):
            start, end = self.span(node.pattern)
            # The pattern may be in parentheses.
            end = self.source.index(":", end)
            new = f"{self.source[start:end]} if False"
            self.add(node.pattern, "never matches", (start, end), new)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if any(isinstance(x, ast.FunctionDef) for x in self.scopes):
            if node.value is not None and is_condition(node.value):
                self.fixed(node.value, False)
                self.fixed(node.value, True)
        elif node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name = ast.unparse(target)
            self.scopes.append(ast.alias(name))
            for inner in outside_types(node.value):
                if name != "__all__":
                    self.entries(inner)
            self.scopes.pop()
        self.generic_visit(node)

    visit_AnnAssign = visit_Assign

    def entries(self, node: ast.expr) -> None:
        """Leave out each entry of a table."""
        if not isinstance(node, TABLES) or isinstance(
            getattr(node, "ctx", None), ast.Store
        ):
            return
        if isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        else:
            pairs = [(None, value) for value in node.elts]
        if len(pairs) < 2:
            return
        for key, value in pairs:
            start, end = self.span(value)
            if key is not None:
                start = self.span(key)[0]
            elif isinstance(node, ast.Dict):
                start = self.source.rindex("**", 0, start)
            if isinstance(node, ast.Tuple) and len(pairs) == 2:
                # Of one element, it needs a comma.
                other = self.source[slice(*self.span(node.elts[value is node.elts[0]]))]
                places = self.span(node.elts[0])[0], self.span(node.elts[1])[1]
                has_comma = self.source[places[1] :].lstrip().startswith(",")
                new = other if has_comma else f"{other},"
                self.add(value, "is left out", places, new)
                continue
            # Without the comma after it, or of the last one before it.
            after = self.source[end:]
            rest = after.lstrip()
            if rest.startswith(","):
                end += len(after) - len(rest) + 1
            else:
                start = self.source.rindex(",", 0, start)
            self.add(key or value, "is left out", (start, end), "")

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value
        is_report = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in ("report", "check_weight")
        )
        if isinstance(call, ast.Yield) or is_report:
            self.add(node, "is left out", self.span(node), "pass")
        self.generic_visit(node)


def is_nothing(node: ast.expr) -> bool:
    """Whether an expression is None, a bool, or a literal without elements."""
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, bool)
    if isinstance(node, ast.Dict):
        return not node.keys
    return isinstance(node, ast.List | ast.Tuple) and not node.elts


def is_condition(node: ast.expr) -> bool:
    """Whether an expression is seen to be a bool."""
    match node:
        case ast.Compare() | ast.UnaryOp(ast.Not()):
            return True
        case ast.BoolOp():
            return any(map(is_condition, node.values))
        case ast.Call(ast.Name(name)):
            return name in PREDICATES
        case _:
            return False


def outside_types(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions in `node`, without the arguments of generic types."""
    if isinstance(node, ast.expr):
        yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(node, ast.Subscript) or inner is not node.slice:
            yield from outside_types(inner)


def all_mutants(source: str, only: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """The mutants that are other programs."""
    before = ast.dump(ast.parse(source))
    for mutant in mutants(source, only):
        if ast.dump(ast.parse(mutant.source)) != before:
            yield mutant
