"""
The driver of lowerings that are tables: it replaces each op by what its rule builds.

A rule raises for an op that it cannot lower. The driver leaves that op alone, and
reports a `Problem` that names the op, its operand types and its source line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, TypeAlias, TypeVar

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    LocationAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.transforms.dead_code_elimination import region_dce
from xdsl.utils.exceptions import VerifyException

from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError, origin
from padc.ir.torch import AtenOp, ListUnpackOp, NotConstantError, is_any_tensor
from padc.ir.torch.describe import describe_type

Key = TypeVar("Key", bound=Hashable)
Rule = TypeVar("Rule", bound=Callable[..., Any])
Op = TypeVar("Op", bound=Operation)

Replacement: TypeAlias = (
    SSAValue | Sequence[SSAValue | Sequence[SSAValue] | None] | None
)
"""
What replaces an op's first results; None if the op stays.

A sequence replaces the elements of a result that is a list. A result without a
replacement, or with None, must not have uses.
"""


class LoweringTable(dict[Key, Rule]):
    """The rule for each op, by the op's class or by the name of its ATen schema."""

    def lowers(self, *keys: Key) -> Callable[[Rule], Rule]:
        """Register the decorated rule for the ops `keys`."""

        def register(rule: Rule) -> Rule:
            twice = [key for key in keys if key in self]
            assert not twice, f"two rules for {twice}"
            self.update(dict.fromkeys(keys, rule))
            return rule

        return register


@dataclass(frozen=True)
class Outcome:
    """The ops of a module that were replaced, and those that could not be lowered."""

    problems: Mapping[Operation, Problem]
    """The ops that could not be lowered, in program order; they stay."""
    replaced: Mapping[SSAValue, SSAValue]
    """For each result of an op that was lowered, the value used in its place."""


def lower_ops(
    module: ModuleOp,
    op_type: type[Op],
    rule: Callable[[Op], Replacement],
    *,
    cast: Callable[[Op, SSAValue, SSAValue], SSAValue] = lambda op, new, old: new,
    users_first: bool = False,
) -> Outcome:
    """
    Replace every op of class `op_type` in `module` by the values that `rule` builds.

    `cast(op, new, old)` converts a new value to the type of the old one. With
    `users_first`, ops are lowered in reverse program order.
    """
    ops = [op for op in module.walk() if isinstance(op, op_type)]
    problems: dict[Operation, Problem] = {}
    replaced: dict[SSAValue, SSAValue] = {}
    for op in reversed(ops) if users_first else ops:
        made = attempt(op, rule)
        if isinstance(made, Problem):
            problems[op] = made
        elif made is not None:
            for old, new in made:
                new.name_hint = old.name_hint
                replaced[old] = cast(op, new, old)
                old.replace_all_uses_with(replaced[old])
            erase(op)
    in_order = dict[Operation, Problem](
        (op, problems[op]) for op in ops if op in problems
    )
    return Outcome(in_order, replaced)


def lower_all(
    module: ModuleOp,
    op_type: type[Op],
    rule: Callable[[Op], Replacement],
    *,
    cast: Callable[[Op, SSAValue, SSAValue], SSAValue] = lambda op, new, old: new,
    users_first: bool = False,
) -> None:
    """
    Run `lower_ops`, then remove dead code.

    Raises UnsupportedError with the problems of all ops that could not be lowered.
    """
    outcome = lower_ops(module, op_type, rule, cast=cast, users_first=users_first)
    if outcome.problems:
        raise UnsupportedError(list(outcome.problems.values()))
    if outcome.replaced:
        region_dce(module.body)


def attempt(
    op: Op, rule: Callable[[Op], Replacement]
) -> Sequence[tuple[SSAValue, SSAValue]] | Problem | None:
    """The values to replace and their replacements, or why there are none."""
    try:
        made = rule(op)
        if made is None:
            return None
        replaced = pairs(op, made)
        for old, new in replaced:
            check_sizes(old, new)
        return replaced
    except Obstacle as error:
        return problem(op, error.message, error.hint)
    except NotConstantError as error:
        return problem(op, f"an argument is computed: {error}", "make it a constant")
    except VerifyException as error:
        return problem(op, str(error), None)
    except Exception:
        # Rules rely on what PyTorch checks; a program that is text may not hold to it.
        if (found := invalid_op(op)) is None:
            raise
        return problem(*found, "correct the program")


def invalid_op(op: Operation) -> tuple[Operation, str] | None:
    """The first op, up to `op`, that PyTorch would not make, and why not."""
    try:
        from padc.ir.torch.calls import why_invalid_before
    except ModuleNotFoundError:  # padc-opt does without PyTorch.
        return None
    return why_invalid_before(op)


def pairs(
    op: Operation, made: SSAValue | Sequence[SSAValue | Sequence[SSAValue] | None]
) -> list[tuple[SSAValue, SSAValue]]:
    """Each value to replace, a result of `op` or an element of one, and the new one."""
    found: list[tuple[SSAValue, SSAValue]] = []
    given = [made] if isinstance(made, SSAValue) else made
    padded = chain(given, repeat(None))
    for index, (old, new) in enumerate(zip(op.results, padded)):
        if new is None:
            if old.first_use is not None:
                raise Obstacle(f"its result {index} is used", "leave it out")
            continue
        if isinstance(new, SSAValue):
            found.append((old, new))
            continue
        for use in old.uses:
            if not isinstance(use.operation, ListUnpackOp):
                raise Obstacle("a list of tensors that is not unpacked", "unpack it")
            found += zip(use.operation.elements, new, strict=True)
    return found


def check_sizes(old: SSAValue, new: SSAValue) -> None:
    """Raise Obstacle if a tensor has other static sizes than the one it replaces."""
    if not (is_any_tensor(old.type) and is_any_tensor(new.type)):
        return
    declared, made = old.type.get_shape(), new.type.get_shape()
    if len(declared) != len(made) or any(
        DYNAMIC_INDEX not in (a, b) and a != b
        for a, b in zip(declared, made, strict=True)
    ):
        raise Obstacle(
            f"it makes {describe_type(new.type)}, and the program declares "
            f"{describe_type(old.type)}",
            "correct the type of the result",
        )


def erase(op: Operation) -> None:
    """Erase `op`, and the ops that unpack its lists."""
    for result in op.results:
        for use in list(result.uses):
            if isinstance(use.operation, ListUnpackOp):
                Rewriter.erase_op(use.operation)
    Rewriter.erase_op(op)


def source_of(op: Operation) -> LocationAttr:
    """The location for the ops that replace `op`: its line and its ATen name."""
    if isinstance(op, AtenOp) and not isinstance(op.location, NameLoc):
        return NameLoc(StringAttr(op.schema.name), op.location)
    return op.location


def problem(op: Operation, message: str, hint: str | None) -> Problem:
    """Why `op` cannot be lowered, with its name, operand types and source line."""
    types = [describe_type(type) for type in op.operand_types if is_any_tensor(type)]
    operands = f" of {', '.join(types)}" if types else ""
    return Problem(
        f"{described(op)}{operands}: {message}", SourceLocation.of(op.location), hint
    )


def described(op: Operation) -> str:
    """The name of an op, and of the ATen op that it was lowered from."""
    if isinstance(op, AtenOp):
        return op.schema.name
    source = origin(op)
    return f"'{op.name}'" if source == op.name else f"{source}, which is '{op.name}'"
