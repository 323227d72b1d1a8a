# pyright: basic
"""Elements that a result has several times: nearest upsampling by whole numbers."""

import torch
import torch.nn.functional as F
from functions import Function
from proofs import holds, ints, proves
from z3 import And

import padc


@proves("convert-buffers-to-llvm: repeated elements")
def test_steps_that_share_a_load_read_one_element():
    """`kernels.Body.repeated`: step `s` of group `p` divided by `n` is `p`."""
    p, s, n = ints("p s n")

    assert holds((p * n + s) / n == p, And(p >= 0, n > 0, 0 <= s, s < n))


def test_repeated_elements():
    """Several factors, some of them in one dimension; ops with it; other dtypes."""

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        scaled = [F.interpolate(x, scale_factor=k) for k in (1, 2, 3, 8, 9)]
        exact = F.interpolate(x, scale_factor=(1, 3), mode="nearest-exact")
        volume = F.interpolate(x[:, :, None], scale_factor=(2, 1, 2))
        ops = F.interpolate(x + 1, scale_factor=2).sin() * 2
        return [*scaled, exact, volume, ops, F.interpolate(y, scale_factor=2)]

    inputs = torch.randn(2, 3, 5, 37), torch.arange(42).view(1, 2, 3, 7).byte()
    expected = function(*inputs)
    for threads in (1, 2):
        compiled = padc.compile(Function(function), inputs, threads=threads)

        assert compiled.is_native
        torch.testing.assert_close(compiled(*inputs), expected, rtol=1e-6, atol=1e-6)


def test_rounded_coordinates():
    """PyTorch's coordinate of element 41 is below 1, with float32's 1 / 41."""
    x = torch.randn(1, 1, 2, 3)
    model = Function(lambda x: F.interpolate(x, scale_factor=41))

    actual = padc.compile(model, (x,))(x)

    assert torch.equal(actual, model(x))
    assert not torch.equal(actual, x.repeat_interleave(41, 2).repeat_interleave(41, 3))
