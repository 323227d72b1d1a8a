# pyright: basic
"""Random programs as machine code, against the reference, with guarded memory."""

import ctypes
import faulthandler
import os
import random
from collections.abc import Sequence

import pytest
import torch
from insert_programs import make_inserts
from native_programs import GUARD, HAS_PAGES, POISON, compiled, guarded
from tcp_programs import MAKERS, Draw, tolerance
from xdsl.dialects.builtin import ModuleOp

from padc.backends.reference import run

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "10"))
SHARES = 8
"""The number of tests that share the programs."""


def check(
    module: ModuleOp,
    draw: Draw,
    expected: Sequence[torch.Tensor],
    number: int,
    atol: float = 0.0,
) -> None:
    """
    Check the results of `module`, and that it uses no other memory.

    Every other program has its memory before pages that cannot be accessed, the others
    after them. Each fifth one checks its loads and stores itself. Half of them split
    their work for three threads.
    """
    text, at_end = str(module), number % 2 == 0
    pairs = [
        guarded(x, at_end) if isinstance(x, torch.Tensor) else (x, None)
        for x in draw.inputs
    ]
    outputs = [guarded(torch.zeros_like(x), at_end) for x in expected]
    copies = [x.clone() if isinstance(x, torch.Tensor) else x for x, _ in pairs]

    threads = 3 if number % 4 > 1 else 1
    function = compiled(module, check=number % 5 == 0, threads=threads)
    function.at_end = at_end
    function([x for x, _ in pairs], [output for output, _ in outputs])

    for (output, outside), should in zip(outputs, expected, strict=True):
        torch.testing.assert_close(
            output,
            should,
            rtol=0,
            atol=atol,
            equal_nan=True,
            msg=lambda message: f"{message}\n{text}",
        )
        assert (outside == POISON).all(), text
    function.check_arena()
    for (x, outside), copy in zip(pairs, copies, strict=True):
        if isinstance(x, torch.Tensor) and isinstance(copy, torch.Tensor):
            assert outside is not None and (outside == POISON).all(), text
            assert torch.equal(bits(x), bits(copy)), text


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1).view(torch.uint8)


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_computes_what_the_reference_does(share: int):
    for number in range(share, PROGRAMS, SHARES):
        make = MAKERS[number % len(MAKERS)]
        draw = Draw(random.Random(number))
        module = make(draw)
        (expected,) = run(module, *draw.inputs)
        x = draw.inputs[0]
        assert isinstance(x, torch.Tensor)
        finite = x.double().nan_to_num(0, 0, 0).abs().flatten().tolist()
        atol = tolerance(make, expected.dtype) * max([0.0, *finite])
        check(module, draw, [expected], number, atol)


@pytest.mark.parametrize("share", range(SHARES))
def test_machine_code_writes_strided_parts(share: int):
    for number in range(share, PROGRAMS, SHARES):
        draw = Draw(random.Random(number))
        module, expected = make_inserts(draw)
        check(module, draw, expected, number)


@pytest.mark.skipif(not HAS_PAGES, reason="this system has no mprotect")
@pytest.mark.parametrize("at_end, offset", [(True, 12 + GUARD), (False, -1)])
def test_a_use_of_memory_next_to_a_guarded_tensor_ends_the_process(
    at_end: bool, offset: int
):
    """In a child, which uses none of PyTorch's threads: they do not survive a fork."""
    inside, outside = guarded(torch.zeros(3), at_end)
    first = outside if at_end else inside
    assert ctypes.string_at(first.data_ptr(), 12 + GUARD)
    import resource  # Windows does not have it.

    if not (child := os.fork()):
        faulthandler.disable()  # pytest's would print the fault
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ctypes.string_at(first.data_ptr() + offset, 1)
        os._exit(0)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
