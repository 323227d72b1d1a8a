# pyright: basic
"""
Ops that treat a size of 1 as any other, traced without guards on it.

Where PyTorch computes the sizes and strides of a result, it asks whether each size is
1, and torch.export keeps the answers: a network that halves its input five times would
not hold for an image of 32 pixels, since `(L['x'].size()[2] // 32) != 1`. With
`backed_size_oblivious`, which PyTorch's exporter to ONNX sets for whole models, PyTorch
takes computed sizes for others than 1 and keeps nothing. Here it is set for the ops
only whose results are the same in either case, and that check the sizes that they need
in another way: `squeeze` decides by a size of 1, and `select` would lose the guard that
the element is there. Operands that are broadcast keep a guard that their sizes are
equal, unless one of them is the number 1; where the example's are not, the model is
traced with all guards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from torch.fx.experimental import _config as config
from torch.overrides import TorchFunctionMode

UNGUARDED = frozenset(
    (
        *(f"conv{rank}d" for rank in (1, 2, 3)),
        *(f"conv_transpose{rank}d" for rank in (1, 2, 3)),
        *(f"{kind}_pool{rank}d" for kind in ("avg", "lp", "max") for rank in (1, 2, 3)),
        *(f"max_pool{rank}d_with_indices" for rank in (1, 2, 3)),
        *(f"adaptive_{kind}_pool{r}d" for kind in ("avg", "max") for r in (1, 2, 3)),
        *("batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"),
        *("relu", "relu6", "leaky_relu", "prelu", "elu", "celu", "selu", "gelu"),
        *("silu", "mish", "softplus", "softsign", "hardtanh", "hardswish"),
        *("hardsigmoid", "sigmoid", "logsigmoid", "tanh", "tanhshrink", "exp", "log"),
        *("sqrt", "rsqrt", "abs", "neg", "clamp", "clamp_min", "square", "dropout"),
        *("add", "sub", "mul", "div", "true_divide", "pow", "maximum", "minimum"),
        *("radd", "rsub", "rmul", "rdiv", "truediv", "rtruediv", "rpow"),
        *("iadd", "isub", "imul", "itruediv"),
        *("mean", "sum", "softmax", "log_softmax", "linear"),
        *("permute", "transpose", "unsqueeze", "cat", "concat"),
        "pad",
    )
)
"""Names of functions, methods and ops, without the underscores around them."""


class UnguardedOps(TorchFunctionMode):
    """Traces the ops that `UNGUARDED` names."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # That of an op ends with its overload.
        name = getattr(func, "__name__", "").partition(".")[0].strip("_")
        if name in UNGUARDED:
            return unguarded(func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def unguarded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call, traced without guards on sizes of 1."""
    with cast(Any, config).patch(backed_size_oblivious=True):
        return function(*args, **kwargs)
