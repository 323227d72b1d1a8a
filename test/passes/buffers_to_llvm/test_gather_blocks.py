"""Blocks of gathers: each step is in one, and all that they touch is theirs."""

import pytest
import z3
from proofs import holds, ints, proves

from padc.passes.buffers_to_llvm.gathers import (
    BLOCKS,
    LEAST_TOGETHER,
    MOST_TOGETHER,
)
from padc.passes.buffers_to_llvm.work_sharing import ELEMENTS


@proves("convert-buffers-to-llvm: gather blocks")
@pytest.mark.parametrize("block", BLOCKS)
def test_each_step_is_in_one_block(block: int):
    count, step, item, part = ints("count step item part")
    begin = item * ELEMENTS + part * block
    end = z3.If((item + 1) * ELEMENTS < count, (item + 1) * ELEMENTS, count)
    number = z3.If(end - begin < block, end - begin, block)
    given = 0 <= step, step < count, item >= 0, part >= 0, begin < end
    is_inside = z3.And(begin <= step, step < begin + number)
    is_its = z3.And(item == step / ELEMENTS, part == (step - item * ELEMENTS) / block)

    assert holds(is_inside == is_its, *given)


@proves("convert-buffers-to-llvm: gather blocks")
@pytest.mark.parametrize("together", [LEAST_TOGETHER, 8, MOST_TOGETHER])
@pytest.mark.parametrize("block", BLOCKS)
def test_steps_that_are_copied_together_have_places_and_memory(
    block: int, together: int
):
    number, first, more = ints("number first more")
    given = (
        z3.And(0 < number, number <= block),
        z3.And(0 <= first, first < number, first % together == 0),
        z3.And(0 <= more, more < together),
    )
    # Places are stored for the steps, and 0 for as many as are copied together.
    has_place = first + more < number + together
    has_memory = first + more < block

    assert holds(z3.And(has_place, has_memory), *given)
