# pyright: basic
"""bfloat16 inside a model becomes float32 for Core ML, which is said."""

from collections.abc import Callable

import pytest
import torch
from functions import Function
from torch import Tensor, nn

import padc
from padc.errors import UnsupportedError

X = torch.randn(5, 5, generator=torch.Generator().manual_seed(0))
BFLOAT16 = torch.bfloat16


class Mixed(nn.Module):
    """Weights and computation in bfloat16."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(5, 3).to(BFLOAT16)
        self.scale = nn.Buffer(torch.tensor([1.0, -3e38, 1e-30], dtype=BFLOAT16))

    def forward(self, x: Tensor) -> Tensor:
        dtype = self.scale.dtype
        y = self.linear(x.to(dtype)).relu() * self.scale
        return y.softmax(-1, dtype=torch.float32) + y.sum(1, True, dtype=dtype).float()


def test_it_is_computed_in_float32():
    with pytest.warns(
        UserWarning, match=r"bfloat16: .* float32, first by aten\..* at "
    ):
        program = padc.convert(Mixed().eval(), (X,))

    assert not program.check()
    # Not rounded on the way, unlike PyTorch's.
    expected = Mixed().float().eval()(X)
    torch.testing.assert_close(program.run(X)[0], expected)


@pytest.mark.parametrize(
    ("function", "x"),
    [(lambda x: x.to(BFLOAT16) * 2, X), (lambda x: x.float() * 2, X.to(BFLOAT16))],
    ids=["output", "input"],
)
def test_inputs_and_outputs_are_refused(function: Callable[..., Tensor], x: Tensor):
    with pytest.raises(UnsupportedError, match="Core ML has no bfloat16"):
        padc.convert(Function(function).eval(), (x,))
