"""
Which expressions in a `.pt2` file are plain arithmetic, and how users read them.

PyTorch evaluates symbolic sizes with `sympy.sympify`, and the guards of a program with
`exec`: both run any Python. Only the calls that PyTorch itself prints are let through.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping

from padc.common.archive import UnsafeError

SYMPY_FUNCTIONS = frozenset(
    """
    Abs Add And BooleanFalse BooleanTrue CeilDiv CeilToInt CleanDiv Eq Equality
    ExprCondPair Float FloatPow FloatTrueDiv FloorDiv FloorToInt Ge GreaterThan Gt
    Identity IntTrueDiv Integer IsNonOverlappingAndDenseIndicator LShift Le LessThan
    Lt Max Min Mod ModularIndexing Mul Ne Not Or Piecewise Pow PowByNatural PythonMod
    RShift Rational RoundDecimal RoundToInt StrictGreaterThan StrictLessThan Symbol
    ToFloat TruncToFloat TruncToInt Unequality Where ceiling floor
    """.split()
)
POWERS = frozenset(["Pow", "PowByNatural", "FloatPow", "LShift"])
MOST_CHARACTERS = 10_000
MOST_DEPTH = 200
MOST_OF_A_MAXIMUM = 16
"""Arguments of one, since sympy compares them with each other."""
LARGEST_EXPONENT, LARGEST_EXPONENT_OF_SUM = 64, 4
LARGEST_NUMBER = 2**64

NUMBER = re.compile(r"[-+]?\d{1,40}(\.\d{0,40})?")
"""The digits of a Float, without an exponent."""

GUARD_FUNCTIONS = frozenset(["abs", "bool", "float", "int", "max", "min", "round"])
GUARD_METHODS = frozenset(["size", "storage_offset", "stride"])
MODULE_FUNCTIONS = re.compile(
    r"math\.(ceil|floor|fmod|inf|isnan|pow|sqrt|trunc)"
    r"|torch\.(sym_(float|int|ite|max|min|not)|_sym_sqrt)"
)

PLAIN = (
    ast.Expression, ast.Load, ast.UnaryOp, ast.USub, ast.UAdd, ast.Not, ast.BoolOp,
    ast.And, ast.Or, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv,
    ast.Mod, ast.Pow, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
    ast.IfExp, ast.keyword,
)  # fmt: skip
"""Syntax that is plain whatever its operands are."""


def check_size(text: str) -> None:
    """Raise UnsafeError unless `text` is a symbolic size as PyTorch writes it."""
    check_expression(text, is_plain_size)


def check_guard(text: str) -> None:
    """Raise UnsafeError unless `text` is a condition on the inputs of a program."""
    check_expression(text, is_plain_guard)


def check_expression(
    text: str, is_plain: Callable[[ast.AST, ast.AST | None], bool]
) -> None:
    """Raise UnsafeError unless all of an expression is plain."""
    shown = text if len(text) < 80 else f"{text[:77]}..."
    try:
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"it has more than {MOST_CHARACTERS} characters")
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnsafeError(f"{shown!r} is not a symbolic size: {error}") from error
    if depth_of(tree) > MOST_DEPTH:
        raise UnsafeError(f"{shown!r} is nested more than {MOST_DEPTH} levels deep")
    parents = {
        child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)
    }
    for node in ast.walk(tree):
        is_known = isinstance(node, PLAIN) or is_plain(node, parents.get(node))
        if not is_known or is_huge(node):
            raise UnsafeError(
                f"{shown!r} is not arithmetic on sizes, and PyTorch would run it"
            )


def depth_of(tree: ast.AST) -> int:
    """The levels of a tree; functions that call themselves fail at a thousand."""
    depth, level = 0, [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def is_plain_size(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a part of an expression of sympy only computes."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in SYMPY_FUNCTIONS
        case ast.Name(id=name):
            return name in SYMPY_FUNCTIONS or is_symbol(name)
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Constant(value=str() as name):
            # The name of a symbol, or the digits of a Float.
            return is_symbol(name) or re.fullmatch(r"[-+.\de]{1,40}", name) is not None
        case _:
            return False


def is_symbol(name: str) -> bool:
    """Whether this names a symbol of PyTorch (s0, u3, zf1) or a truth value."""
    return re.fullmatch(r"[a-z]{1,3}\d+|true|false|int_oo", name) is not None


def is_plain_guard(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a part of a guard only reads the inputs' sizes, and computes."""
    match node:
        case ast.Call(func=ast.Name(id="round"), args=args, keywords=[]):
            return len(args) == 1
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            return name in GUARD_FUNCTIONS
        case ast.Call(func=ast.Attribute(attr="size" | "stride"), args=args):
            # One of them only: Python would repeat all of them.
            return isinstance(parent, ast.Subscript) and not args and not node.keywords
        case ast.Call(func=ast.Attribute(), keywords=[]):
            return True
        case ast.Attribute(value=ast.Name(id="math" | "torch" as module), attr=name):
            return MODULE_FUNCTIONS.fullmatch(f"{module}.{name}") is not None
        case ast.Attribute(value=ast.Subscript() | ast.Attribute(), attr=name) if (
            isinstance(parent, ast.Attribute | ast.Subscript)
        ):
            return not name.startswith("_")  # A part of an input with named parts.
        case ast.Attribute(
            value=ast.Subscript() | ast.Attribute() | ast.Name(id="L"), attr=name
        ):
            return name in GUARD_METHODS
        case ast.Name(id=name):
            return name in GUARD_FUNCTIONS or name in ("L", "math", "torch")
        case ast.Subscript(slice=ast.Constant()):
            return True
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Constant(value=str() as name):
            is_key = isinstance(parent, ast.Subscript)
            return is_key and re.search(r"[\"'\\\n]", name) is None
        case _:
            return False


def is_huge(node: ast.AST) -> bool:
    """Whether a part may compute a number of very many digits."""
    match node:
        case ast.Constant(value=int() as number):
            return abs(number) > LARGEST_NUMBER
        case ast.Call(func=ast.Name(id=name), args=[base, exponent]) if name in POWERS:
            return is_huge_power(base, exponent)
        case ast.Call(func=ast.Name(id=name)) if name in POWERS:
            return True
        case ast.Call(func=ast.Name(id="Max" | "Min"), args=values):
            return len(values) > MOST_OF_A_MAXIMUM
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            return is_huge_power(base, exponent)
        case _:
            return False


def is_huge_power(base: ast.AST, exponent: ast.AST) -> bool:
    """Whether a power's exponent is not a small number, or its base a power."""
    nested = list(ast.walk(base))
    if any(
        isinstance(node, ast.Pow) or (isinstance(node, ast.Name) and node.id in POWERS)
        for node in nested
    ):
        return True
    is_sum = any(isinstance(node, ast.Name) and node.id == "Add" for node in nested)
    # sympy multiplies out powers of sums.
    most = LARGEST_EXPONENT_OF_SUM if is_sum else LARGEST_EXPONENT
    match exponent:
        case ast.Call(func=ast.Name(id="Integer"), args=[inner]):
            return is_huge_power(base, inner)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return is_huge_power(base, inner)
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str() as n)]):
            return NUMBER.fullmatch(n) is None or abs(float(n)) > most
        case ast.Constant(value=int() | float() as number):
            return number > most
        case ast.Call(func=ast.Name(id="Symbol" | "Rational")) | ast.Name():
            return False
        case _:
            return True


def shown(text: str, inputs: Mapping[str, tuple[int, str]]) -> str:
    """A guard as users read it: `x.shape[2] % 4 == 0`."""
    normal = ast.unparse(ast.parse(text.strip(), mode="eval"))
    for source, (_, name) in inputs.items():
        normal = normal.replace(f"{source}.size()", f"{name}.shape")
    return normal.replace("torch.sym_", "")
