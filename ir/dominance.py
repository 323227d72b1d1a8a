"""
Verifying that IR is valid: what xDSL verifies, and that definitions come before uses.

xDSL's parser accepts a use before its definition, and its verifier does not look for
one. MLIR's rule is checked here: the definition dominates the use. Every region is
checked, the body of a module too: padc has no region whose ops are unordered.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from padc.errors import SourceLocation, first_line
from padc.ir.builtin_shapes import verify_shapes


def verify(op: Operation) -> None:
    """
    Verify `op`, what is nested in it, and that definitions dominate their uses.

    Raises VerifyException at the first fault.
    """
    with explained(op):
        op.verify()
    verify_more(op)


@contextmanager
def explained(op: Operation) -> Generator[None]:
    """
    Turn what verifiers of xDSL raise by accident into a VerifyException with the op.

    Some of them take for granted what the parser does not check: that an array has as
    many elements as the op needs, say. An error in a verifier of padc stays.
    """
    try:
        yield
    except DiagnosticException:
        raise
    except Exception as error:
        culprit = next((x for x in op.walk() if fault_of(x) == str(error)), None)
        if culprit is None or type(culprit).__module__.startswith("padc."):
            raise
        location = SourceLocation.of(culprit.location)
        where = "" if location is None else f"\n  at {location}"
        raise VerifyException(
            f"'{culprit.name}' is not valid: {first_line(error)}{where}"
        ) from error


def fault_of(op: Operation) -> str | None:
    """What is wrong with `op`, apart from what is nested in it; None if it is valid."""
    try:
        op.verify(verify_nested_ops=False)
    except Exception as error:
        return str(error)
    return None


def verify_more(op: Operation) -> None:
    """Raise VerifyException for what xDSL's verifiers do not look for."""
    for each in op.walk():
        verify_shapes(each)
    verify_dominance(op)


def verify_dominance(op: Operation) -> None:
    """
    Raise VerifyException at the first use in `op` that precedes its definition.

    A use in a block that cannot be reached is not checked, as in MLIR.
    """
    regions = _Regions()
    for user in op.walk():
        block = user.parent
        if block is not None and not regions.is_reachable(block):
            continue
        for number, operand in enumerate(user.operands):
            fault = regions.fault(operand, user)
            if fault is not None:
                raise VerifyException(_message(user, number, fault))


def _message(user: Operation, number: int, fault: str) -> str:
    name = _name(user.operands[number], number)
    message = f"'{user.name}' uses {name}, which does not dominate this use: {fault}"
    location = SourceLocation.of(user.location)
    return message if location is None else f"{message}\n  at {location}"


def _name(value: SSAValue, number: int) -> str:
    if value.name_hint is None:
        return f"its operand #{number}"
    return f"%{value.name_hint} (operand #{number})"


class _Regions:
    """The dominator tree of each region, and the order of ops in each block."""

    def __init__(self) -> None:
        self._dominators: dict[Region, dict[Block, Block]] = {}
        self._orders: dict[Block, dict[Operation, int]] = {}

    def fault(self, value: SSAValue, user: Operation) -> str | None:
        """Why `value` is not defined at `user`; None if it is."""
        definer = value.owner
        block = definer.parent if isinstance(definer, Operation) else definer
        if block is None or block.parent is None:
            return "it is not in the program"
        region = block.parent
        within = user.parent and region.find_ancestor_block_in_region(user.parent)
        if within is None:
            return f"{_definer(definer)} is in a region that does not enclose it"
        if within is not block:
            if self.dominates(block, within):
                return None
            return f"not every path to it goes through the block of {_definer(definer)}"
        if isinstance(definer, Block):
            return None
        ancestor = block.find_ancestor_op_in_block(user)
        assert ancestor is not None
        if ancestor is definer:
            return f"it is a result of {_definer(definer)} itself"
        order = self._order(block)
        if order[definer] < order[ancestor]:
            return None
        return f"{_definer(definer)} defines it later in the same block"

    def is_reachable(self, block: Block) -> bool:
        region = block.parent
        return region is None or block in self._tree(region)

    def dominates(self, block: Block, other: Block) -> bool:
        """Whether `block` is on every path to `other`, a block of the same region."""
        assert block.parent is not None
        tree = self._tree(block.parent)
        if other not in tree:
            return True
        while other is not block:
            parent = tree[other]
            if parent is other:
                return False
            other = parent
        return True

    def _tree(self, region: Region) -> dict[Block, Block]:
        if region not in self._dominators:
            self._dominators[region] = immediate_dominators(region)
        return self._dominators[region]

    def _order(self, block: Block) -> dict[Operation, int]:
        if block not in self._orders:
            self._orders[block] = {op: i for i, op in enumerate(block.ops)}
        return self._orders[block]


def _definer(definer: Operation | Block) -> str:
    return "a block argument" if isinstance(definer, Block) else f"'{definer.name}'"


def immediate_dominators(region: Region) -> dict[Block, Block]:
    """
    The immediate dominator of each reachable block; the entry block's is itself.

    The algorithm of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm".
    xDSL's `DominanceInfo` counts predecessors that cannot be reached, and so finds too
    few dominators; and it takes memory quadratic in the number of blocks.
    """
    order = _reverse_postorder(region)
    number = {block: i for i, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for successor in _successors(block):
            predecessors[successor].append(block)

    tree = {block: block for block in order[:1]}

    def common(one: Block, other: Block) -> Block:
        while one is not other:
            if number[one] > number[other]:
                one = tree[one]
            else:
                other = tree[other]
        return one

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [pred for pred in predecessors[block] if pred in tree]
            dominator = known[0]
            for pred in known[1:]:
                dominator = common(dominator, pred)
            if tree.get(block) is not dominator:
                tree[block] = dominator
                changed = True
    return tree


def _reverse_postorder(region: Region) -> list[Block]:
    """The blocks that can be reached from the entry."""
    entry = region.first_block
    if entry is None:
        return []
    postorder: list[Block] = []
    seen = {entry}
    stack = [(entry, iter(_successors(entry)))]
    while stack:
        block, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            postorder.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(_successors(following))))
    return postorder[::-1]


def _successors(block: Block) -> Sequence[Block]:
    return () if block.last_op is None else block.last_op.successors
