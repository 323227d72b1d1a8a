# pyright: basic
"""Random ops on buffers that may share their loops, as machine code in guarded memory."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
import torch
from loop_programs import LoopProgram
from native_programs import GUARD, POISON, compiled_buffers, guarded
from xdsl.dialects.builtin import ModuleOp

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "64"))
SHARES = 8
Parse = Callable[[str], ModuleOp]


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_computes_what_numpy_does(share: int, parse: Parse):
    for number in range(share, PROGRAMS, SHARES):
        check(number, parse)


def check(number: int, parse: Parse) -> None:
    program = LoopProgram(number)
    at_end, threads = number % 2 == 0, 3 if number % 4 > 1 else 1
    function = compiled_buffers(
        parse(program.text), (0, GUARD)[number % 3 == 0], threads
    )
    function.at_end = at_end
    inputs = [guarded(torch.from_numpy(x), at_end) for x in program.arguments]
    outputs = [
        guarded(torch.zeros_like(torch.from_numpy(x)), at_end) for x in program.expected
    ]

    function([x for x, _ in inputs], [x for x, _ in outputs])

    for (output, outside), should in zip(outputs, program.expected, strict=True):
        defined = ~np.isnan(should)
        np.testing.assert_array_equal(
            output.numpy()[defined],
            should[defined],
            err_msg=f"{number}:\n{program.text}",
        )
        assert (outside == POISON).all(), program.text
    function.check_arena()
    for (x, outside), given in zip(inputs, program.arguments, strict=True):
        assert np.array_equal(x.numpy(), given), program.text
        assert (outside == POISON).all(), program.text
