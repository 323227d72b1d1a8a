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


TOGETHER = LEAST_TOGETHER, 8, MOST_TOGETHER


@proves("convert-buffers-to-llvm: gather blocks")
@pytest.mark.parametrize("together", TOGETHER)
def test_each_step_of_a_block_is_computed_once(together: int):
    number, first, step = ints("number first step")
    whole = number - number % together
    given = number > 0, 0 <= step, step < number, 0 <= first, first % together == 0
    is_full = z3.And(first < whole, first <= step, step < first + together)
    is_rest = z3.And(whole <= first, first < number, first <= step, step < number)
    is_its = first == step - step % together

    assert holds(z3.Xor(is_full, is_rest) == is_its, *given)
    assert holds(step - first < together, z3.Or(is_full, is_rest), *given)


@proves("convert-buffers-to-llvm: gather blocks")
@pytest.mark.parametrize("together", TOGETHER)
def test_steps_that_are_computed_together_have_places(together: int):
    number, first, more = ints("number first more")
    given = (
        z3.And(0 < number, 0 <= first, first < number, first % together == 0),
        z3.And(0 <= more, more < together),
    )

    # Places are stored for the steps, and 0 for as many as are computed together.
    assert holds(first + more < number + together, *given)
