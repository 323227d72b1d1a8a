"""Definitions before uses: in a block, across blocks, and in nested regions."""

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from padc.ir.dominance import immediate_dominators, verify

Parse = Callable[[str], ModuleOp]

DIAMOND = """
func.func @main(%c : i1, %x : i32) -> i32 {{
  cf.cond_br %c, ^left, ^right
^left:
  %a = arith.addi %x, %x : i32
  cf.br ^join
^right:
  {in_right}
  cf.br ^join
^join:
  {in_join}
  func.return %x : i32
}}
"""

VALID = {
    "join uses what the entry defines": DIAMOND.format(
        in_right="", in_join="%b = arith.addi %x, %x : i32"
    ),
    "loop: a later block in the text comes first on every path": """
    func.func @main(%c : i1, %x : i32) -> i32 {
      cf.br ^first
    ^second:
      %b = arith.addi %a, %a : i32
      cf.cond_br %c, ^first, ^end
    ^first:
      %a = arith.addi %x, %x : i32
      cf.br ^second
    ^end:
      func.return %b : i32
    }""",
    "a predecessor that cannot be reached does not count": """
    func.func @main(%x : i32) -> i32 {
      %a = arith.addi %x, %x : i32
      cf.br ^end
    ^dead:
      cf.br ^end
    ^end:
      func.return %a : i32
    }""",
    "nested region uses an outer value": """
    func.func @main(%c : i1, %x : i32) -> i32 {
      %a = arith.addi %x, %x : i32
      %y = scf.if %c -> (i32) {
        scf.yield %a : i32
      } else {
        scf.yield %x : i32
      }
      func.return %y : i32
    }""",
    "a use in a block that cannot be reached": """
    func.func @main(%x : i32) -> i32 {
      cf.br ^end
    ^dead:
      %b = arith.addi %a, %a : i32
      %a = arith.addi %x, %x : i32
      cf.br ^end
    ^end:
      func.return %x : i32
    }""",
}

INVALID = {
    "in a block": (
        """
        func.func @main(%x : i32) -> i32 {
          %b = arith.addi %x, %a : i32
          %a = arith.muli %x, %x : i32
          func.return %b : i32
        }""",
        "'arith.addi' uses %a (operand #1), which does not dominate this use: "
        "'arith.muli' defines it later in the same block",
    ),
    "by itself": (
        """
        func.func @main(%x : i32) -> i32 {
          %a = arith.addi %x, %a : i32
          func.return %a : i32
        }""",
        "it is a result of 'arith.addi' itself",
    ),
    "in a sibling block": (
        DIAMOND.format(in_right="%b = arith.addi %a, %a : i32", in_join=""),
        "not every path to it goes through the block of 'arith.addi'",
    ),
    "after a branch": (
        DIAMOND.format(in_right="", in_join="%b = arith.addi %a, %a : i32"),
        "not every path to it goes through the block of 'arith.addi'",
    ),
    "of a block argument": (
        """
        func.func @main(%c : i1, %x : i32) -> i32 {
          cf.cond_br %c, ^left(%x : i32), ^right
        ^left(%a : i32):
          cf.br ^right
        ^right:
          func.return %a : i32
        }""",
        "'func.return' uses %a (operand #0), which does not dominate this use: "
        "not every path to it goes through the block of a block argument",
    ),
    "in a nested region": (
        """
        func.func @main(%c : i1, %x : i32) -> i32 {
          %y = scf.if %c -> (i32) {
            scf.yield %a : i32
          } else {
            scf.yield %x : i32
          }
          %a = arith.addi %x, %x : i32
          func.return %y : i32
        }""",
        "'scf.yield' uses %a (operand #0), which does not dominate this use: "
        "'arith.addi' defines it later",
    ),
    "in the op's own region": (
        """
        func.func @main(%c : i1, %x : i32) -> i32 {
          %y = scf.if %c -> (i32) {
            scf.yield %y : i32
          } else {
            scf.yield %x : i32
          }
          func.return %y : i32
        }""",
        "it is a result of 'scf.if' itself",
    ),
    "in a module": (
        "%b = arith.addi %1, %1 : i32\n%1 = arith.constant 0 : i32",
        "'arith.addi' uses its operand #0, which does not dominate this use",
    ),
}


@pytest.mark.parametrize("case", VALID)
def test_valid(case: str, parse: Parse):
    verify(parse(VALID[case]))


@pytest.mark.parametrize("case", INVALID)
def test_invalid(case: str, parse: Parse):
    source, message = INVALID[case]
    module = parse(source)

    with pytest.raises(VerifyException) as error:
        verify(module)

    assert message in str(error.value)


def test_use_outside_of_the_region(parse: Parse):
    module = parse(VALID["nested region uses an outer value"])
    (function,) = module.ops
    inner, conditional, _ = function.regions[0].block.ops
    then, otherwise = (region.block.last_op for region in conditional.regions)
    assert then is not None and then.parent is not None and otherwise is not None
    inner.detach()
    then.parent.insert_op_before(inner, then)
    otherwise.operands = inner.results

    with pytest.raises(VerifyException, match=r"in a region that does not enclose it"):
        verify(module)


def test_error_has_the_location(parse: Parse):
    source, _ = INVALID["in a block"]
    module = parse(source.replace(", %a : i32", ', %a : i32 loc("model.py":7:0)'))

    with pytest.raises(VerifyException, match=r"at model\.py:7$"):
        verify(module)


def test_dominator_tree(parse: Parse):
    (function,) = parse(DIAMOND.format(in_right="", in_join="")).ops
    entry, left, right, join = function.regions[0].blocks

    tree = immediate_dominators(function.regions[0])

    assert tree == {entry: entry, left: entry, right: entry, join: entry}
