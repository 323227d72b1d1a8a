# pyright: basic
"""What coremltools' clean-up passes make of padc's programs, against PyTorch."""

import pytest
from functions import Several, check_each
from optimized_functions import ALLOWED, FUNCTIONS
from torch.export import export

from padc.testing import compile_for_coreml


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_compute_the_same_afterwards(name: str):
    functions, x = FUNCTIONS[name]
    program = compile_for_coreml(export(Several(functions), (x,)))

    check_each(functions, program(x), x, **ALLOWED[name], equal_nan=True)
