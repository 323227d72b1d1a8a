"""The functions of a module, its `main`, and the names of arguments and results."""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Block
from xdsl.traits import SymbolTable

from padc.errors import InvalidProgramError


def main(module: ModuleOp) -> func.FuncOp:
    """The function `main`. Raises InvalidProgramError if the module lacks it."""
    function = SymbolTable.lookup_symbol(module, "main")
    if not isinstance(function, func.FuncOp) or function.is_declaration:
        raise InvalidProgramError("the module has no function @main")
    return function


def functions_of(module: ModuleOp) -> list[func.FuncOp]:
    """The functions that have a body."""
    functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
    return [function for function in functions if not function.is_declaration]


def body_of(function: func.FuncOp) -> Block:
    """
    The block of a function.

    Raises InvalidProgramError unless it has exactly one, which ends in `func.return`.
    """
    blocks = list(function.body.blocks)
    if len(blocks) != 1:
        raise InvalidProgramError(
            f"@{function.sym_name.data} has {len(blocks)} blocks, expected one"
        )
    (block,) = blocks
    if not isinstance(block.last_op, func.ReturnOp):
        raise InvalidProgramError(
            f"@{function.sym_name.data} does not end in 'func.return'"
        )
    return block


def value_names(attributes: ArrayAttr[DictionaryAttr] | None) -> list[str]:
    """
    The `padc.name` of each argument or result that has these attributes.

    Raises InvalidProgramError if one has no name, or one that is not a string.
    """
    names: list[str] = []
    for each in attributes or ():
        if not isinstance(name := each.data.get("padc.name"), StringAttr):
            raise InvalidProgramError(f"'padc.name' is {name}, not a text")
        names.append(name.data)
    return names
