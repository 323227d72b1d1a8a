"""
Convolutions and pools with SAME padding as one of several systems computes it.

    >>> import padc, torch
    >>> conv = padc.nn.Conv2dSame(3, 32, 3, stride=2, rule="tensorflow")
    >>> conv(torch.zeros(1, 3, 9, 8)).shape
    torch.Size([1, 32, 5, 4])

The amounts of SAME padding depend on the system, and except in PyTorch on the size of
the input and the stride. Each module is a subclass of the PyTorch module that it
replaces, and loads its `state_dict`. `forward` computes the amounts, pads, and applies
the operation without padding; dynamic sizes are exported as arithmetic on them. The
output's spatial sizes are those of the input divided by the stride, rounded up. The
rules are

- "tensorflow", or "onnx_upper": SAME of TensorFlow, Keras and JAX, SAME_UPPER of ONNX.
  Source: "Notes on padding" of https://www.tensorflow.org/api_docs/python/tf/nn.
- "onnx_lower": SAME_LOWER of ONNX.
  Source: `auto_pad` of https://onnx.ai/onnx/operators/onnx__Conv.html.
- "pytorch": `padding="same"` of `torch.nn.Conv2d`, which takes stride 1 only.

Tensors may be unbatched. Give dynamic sizes a minimum of twice the stride: torch.export
then knows that the output does not have size 1, which it would specialize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from padc.versions import require

require("torch")

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from padc.ir import padding
from padc.ir.padding import Amounts, SameRule

__all__ = [
    "AvgPool1dSame",
    "AvgPool2dSame",
    "AvgPool3dSame",
    "Conv1dSame",
    "Conv2dSame",
    "Conv3dSame",
    "MaxPool1dSame",
    "MaxPool2dSame",
    "MaxPool3dSame",
]

Size: TypeAlias = int | tuple[int, ...]
"""One number for all dimensions, or one for each."""
PaddingMode: TypeAlias = Literal["zeros", "reflect", "replicate", "circular"]

MAXIMUM: Callable[[Any, Any], Any] = torch.sym_max  # pyright: ignore

# By spatial rank. Up to PyTorch 2.8, Dynamo cannot call these as attributes of modules.
CONVOLUTIONS: Mapping[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
MAX_POOLS: Mapping[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGE_POOLS: Mapping[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


class _Same(nn.Module):
    """The rule and the windows of a module, and the amounts that follow from them."""

    rank: int
    """The number of spatial dimensions."""
    rule: SameRule
    """The system whose SAME padding is computed."""
    window: tuple[tuple[int, int, int], ...]
    """Kernel, stride and dilation of each spatial dimension."""

    def _set_rule(
        self, rule: SameRule, kernel: Size, stride: Size, dilation: Size = 1
    ) -> None:
        """Raise ValueError if the rule is unknown or does not take the stride."""
        sizes = [
            (size,) * self.rank if isinstance(size, int) else tuple(size)
            for size in (kernel, stride, dilation)
        ]
        for size in sizes:
            if len(size) != self.rank:
                raise ValueError(f"expected one number or {self.rank}, got {size}")
        padding.check_same(rule, sizes[1])
        self.rule = rule
        self.window = tuple(zip(*sizes))

    def amounts(self, x: Tensor) -> list[Amounts]:
        """
        Compute the amounts of padding for an input.

        Args:
            x: The input, of shape [N, C, *spatial] or [C, *spatial] and any dtype.

        Returns:
            For each spatial dimension the lower and the upper amount, in elements;
            symbolic where the size is symbolic.

        Raises:
            ValueError: The input has fewer dimensions than the module's windows.

        Example:
            >>> pool = padc.nn.MaxPool1dSame(3, stride=2)
            >>> (amounts,) = pool.amounts(torch.zeros(1, 2, 8))
            >>> amounts.lower, amounts.upper
            (0, 1)
        """
        return [
            padding.same(
                self.rule,
                # The size does not matter to windows of stride 1 or of one element.
                size if stride > 1 and kernel > 1 else 1,
                kernel,
                stride,
                dilation,
                MAXIMUM if stride > dilation * (kernel - 1) + 1 else _first,
            )
            for size, (kernel, stride, dilation) in zip(
                x.shape[-self.rank :], self.window, strict=True
            )
        ]

    def extra_repr(self) -> str:
        """
        Describe the module's arguments.

        Returns:
            The text between the parentheses of `repr`.

        Example:
            >>> padc.nn.AvgPool1dSame(3, stride=2).extra_repr()
            "kernel_size=(3,), stride=(2,), padding=(0,), rule='tensorflow'"
        """
        return f"{super().extra_repr()}, rule={self.rule!r}"


def _first(total: int, _: int) -> int:
    """The maximum for windows without gaps, whose total is never negative."""
    return total


def _pad(
    x: Tensor, amounts: Sequence[Amounts], mode: str = "constant", value: float = 0
) -> Tensor:
    """`x` with its last dimensions padded by these amounts."""
    flat = [side for a in reversed(amounts) for side in (a.lower, a.upper)]
    return F.pad(x, flat, mode, value if mode == "constant" else None)


class _ConvSame(_Same):
    """The first base of a convolution; the second is PyTorch's."""

    weight: Tensor
    bias: Tensor | None
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    padding_mode: PaddingMode

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: PaddingMode = "zeros",
        *,
        rule: SameRule = "tensorflow",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        """
        Make the convolution, with random parameters as PyTorch's has them.

        Args:
            in_channels: The number of channels of the input.
            out_channels: The number of channels of the output.
            kernel_size: The size of the kernel, in elements: one for all dimensions, or
                one for each; so are `stride` and `dilation`.
            stride: The distance between windows, in elements.
            dilation: The distance between the elements of a window.
            groups: The number of groups that channels are divided into.
            bias: Whether there is a bias.
            padding_mode: The values of the padding: "zeros", "reflect", "replicate" or
                "circular".
            rule: The system whose SAME padding is computed.
            device: The device of the parameters.
            dtype: The dtype of the parameters, floating; float32 by default.

        Raises:
            ValueError: The rule is unknown or does not take the stride, or PyTorch
                refuses the other arguments.
        """
        conv = cast(Any, super())
        conv.__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            dilation=dilation,
            groups=groups,
            bias=bias,
            padding_mode=padding_mode,
            device=device,
            dtype=dtype,
        )
        self._set_rule(rule, self.kernel_size, self.stride, self.dilation)

    def forward(self, input: Tensor) -> Tensor:
        """
        Pad the input, and convolve it.

        Args:
            input: A tensor of shape [N, in_channels, *spatial] or, unbatched,
                [in_channels, *spatial], of the dtype of the parameters.

        Returns:
            A tensor of shape [N, out_channels, *ceil(spatial / stride)] and that dtype.

        Raises:
            RuntimeError: PyTorch refuses the shape or the dtype, or cannot pad by
                reflection or by a circle as far as the amounts say.

        Example:
            >>> conv = padc.nn.Conv1dSame(2, 6, 3, stride=2)
            >>> conv(torch.zeros(1, 2, 9)).shape
            torch.Size([1, 6, 5])
        """
        mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
        return CONVOLUTIONS[self.rank](
            _pad(input, self.amounts(input), mode),
            self.weight,
            self.bias,
            self.stride,
            0,
            self.dilation,
            self.groups,
        )


class Conv1dSame(_ConvSame, nn.Conv1d):
    """
    A convolution of [N, C, L] or [C, L] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> conv = padc.nn.Conv1dSame(2, 6, 3, stride=2)
        >>> conv(torch.zeros(1, 2, 9)).shape
        torch.Size([1, 6, 5])
    """

    rank = 1


class Conv2dSame(_ConvSame, nn.Conv2d):
    """
    A convolution of [N, C, H, W] or [C, H, W] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> conv = padc.nn.Conv2dSame(2, 6, 3, stride=2)
        >>> conv(torch.zeros(1, 2, 9, 8)).shape
        torch.Size([1, 6, 5, 4])
    """

    rank = 2


class Conv3dSame(_ConvSame, nn.Conv3d):
    """
    A convolution of [N, C, D, H, W] or [C, D, H, W] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> conv = padc.nn.Conv3dSame(2, 6, 3, stride=2)
        >>> conv(torch.zeros(1, 2, 9, 8, 7)).shape
        torch.Size([1, 6, 5, 4, 4])
    """

    rank = 3


class _MaxPoolSame(_Same):
    """The first base of a max pool; the second is PyTorch's."""

    kernel_size: Any
    stride: Any
    dilation: Any

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        dilation: Size = 1,
        *,
        rule: SameRule = "tensorflow",
    ) -> None:
        """
        Make the pool.

        Args:
            kernel_size: The size of a window, in elements: one for all dimensions, or
                one for each; so are `stride` and `dilation`.
            stride: The distance between windows; `kernel_size` by default.
            dilation: The distance between the elements of a window.
            rule: The system whose SAME padding is computed.

        Raises:
            ValueError: The rule is unknown or does not take the stride, or there are
                not as many sizes as spatial dimensions.
        """
        cast(Any, super()).__init__(kernel_size, stride, dilation=dilation)
        self._set_rule(rule, self.kernel_size, self.stride, self.dilation)

    def forward(self, input: Tensor) -> Tensor:
        """
        Pad the input, and take the maximum of each window.

        Args:
            input: A tensor of shape [N, C, *spatial] or [C, *spatial], of floats or
                integers.

        Returns:
            A tensor of shape [N, C, *ceil(spatial / stride)] and the same dtype.

        Raises:
            RuntimeError: PyTorch refuses the shape or the dtype.

        Example:
            >>> pool = padc.nn.MaxPool1dSame(3, stride=2)
            >>> pool(torch.tensor([[-1.0, -2.0, -3.0, -4.0]]))
            tensor([[-1., -3.]])
        """
        # -inf or the smallest integer, which never wins over an element of the input.
        dtype = input.dtype
        least = -torch.inf if dtype.is_floating_point else torch.iinfo(dtype).min
        padded = _pad(input, self.amounts(input), value=least)
        pool = MAX_POOLS[self.rank]
        return pool(padded, self.kernel_size, self.stride, 0, self.dilation)


class MaxPool1dSame(_MaxPoolSame, nn.MaxPool1d):
    """
    A max pool of [N, C, L] or [C, L] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.MaxPool1dSame(3, stride=2)
        >>> pool(torch.zeros(1, 2, 9)).shape
        torch.Size([1, 2, 5])
    """

    rank = 1


class MaxPool2dSame(_MaxPoolSame, nn.MaxPool2d):
    """
    A max pool of [N, C, H, W] or [C, H, W] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.MaxPool2dSame(3, stride=2)
        >>> pool(torch.zeros(1, 2, 9, 8)).shape
        torch.Size([1, 2, 5, 4])
    """

    rank = 2


class MaxPool3dSame(_MaxPoolSame, nn.MaxPool3d):
    """
    A max pool of [N, C, D, H, W] or [C, D, H, W] that pads as `rule` says.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.MaxPool3dSame(3, stride=2)
        >>> pool(torch.zeros(1, 2, 9, 8, 7)).shape
        torch.Size([1, 2, 5, 4, 4])
    """

    rank = 3


class _AvgPoolSame(_Same):
    """The first base of an average pool; the second is PyTorch's."""

    kernel_size: Any
    stride: Any

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        *,
        rule: SameRule = "tensorflow",
    ) -> None:
        """
        Make the pool.

        Args:
            kernel_size: The size of a window, in elements: one for all dimensions, or
                one for each; so is `stride`.
            stride: The distance between windows; `kernel_size` by default.
            rule: The system whose SAME padding is computed.

        Raises:
            ValueError: The rule is unknown or does not take the stride, or there are
                not as many sizes as spatial dimensions.
        """
        cast(Any, super()).__init__(kernel_size, stride, count_include_pad=False)
        self._set_rule(rule, self.kernel_size, self.stride)

    def forward(self, input: Tensor) -> Tensor:
        """
        Take the mean of the elements of the input in each window.

        Args:
            input: A tensor of shape [N, C, *spatial] or [C, *spatial], of floats.

        Returns:
            A tensor of shape [N, C, *ceil(spatial / stride)] and the same dtype.

        Raises:
            TypeError: The input has integers, which none of the systems takes.

        Example:
            >>> pool = padc.nn.AvgPool1dSame(3, stride=2)
            >>> pool(torch.tensor([[1.0, 2.0, 3.0, 4.0]]))
            tensor([[2.0000, 3.5000]])
        """
        if not input.dtype.is_floating_point:
            raise TypeError(f"an average pool of {input.dtype}: expected floats")
        amounts = self.amounts(input)
        if self._are_static(input, amounts):
            return self._pool_whole(input, amounts)
        sizes = [1] * (input.dim() - self.rank) + list(input.shape[-self.rank :])
        # The share of each window that is inside the input.
        ones = torch.ones(sizes, dtype=input.dtype, device=input.device)
        inside = self._pool_padded(ones, amounts)
        return self._pool_padded(input, amounts) / inside

    def _are_static(self, x: Tensor, amounts: Sequence[Amounts]) -> bool:
        """Whether PyTorch's own pool can pad by these amounts."""
        # Under TorchDynamo, symbolic integers have type int too.
        if torch.compiler.is_dynamo_compiling():
            return False
        # avg_pool3d refuses windows that do not fit without padding.
        if self.rank == 3 and any(
            type(size) is not int or size < kernel
            for size, (kernel, _, _) in zip(x.shape[-3:], self.window, strict=True)
        ):
            return False
        return all(type(a.lower) is int for a in amounts)

    def _pool_padded(self, x: Tensor, amounts: Sequence[Amounts]) -> Tensor:
        """The averages of whole windows, counting the zeros of the padding."""
        pool = AVERAGE_POOLS[self.rank]
        return pool(_pad(x, amounts), self.kernel_size, self.stride)

    def _pool_whole(self, x: Tensor, amounts: Sequence[Amounts]) -> Tensor:
        """
        The averages by PyTorch's pool, which pads both sides alike and can leave the
        padding out of the average.

        With a stride, `ceil_mode` adds the element that is missing above. With stride
        1, padding both sides by the larger amount gives all windows and one more, which
        is cut off.
        """
        strides = [stride for _, stride, _ in self.window]
        sides = [
            a.lower if stride > 1 else max(a.lower, a.upper)
            for a, stride in zip(amounts, strides, strict=True)
        ]
        ceil_mode = any(a.upper > side for a, side in zip(amounts, sides, strict=True))
        pool = AVERAGE_POOLS[self.rank]
        y = pool(x, self.kernel_size, self.stride, sides, ceil_mode, False)
        for dim, (a, side, stride) in enumerate(
            zip(amounts, sides, strides, strict=True), start=-self.rank
        ):
            if stride == 1 and a.lower != a.upper:
                y = y.narrow(dim, side - a.lower, x.shape[dim])
        return y


class AvgPool1dSame(_AvgPoolSame, nn.AvgPool1d):
    """
    An average pool of [N, C, L] or [C, L] that pads as `rule` says.

    The padding is not counted: each average is that of the elements inside the input.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.AvgPool1dSame(3, stride=2)
        >>> pool(torch.ones(1, 2, 9)).unique()
        tensor([1.])
    """

    rank = 1


class AvgPool2dSame(_AvgPoolSame, nn.AvgPool2d):
    """
    An average pool of [N, C, H, W] or [C, H, W] that pads as `rule` says.

    The padding is not counted: each average is that of the elements inside the input.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.AvgPool2dSame(3, stride=2)
        >>> pool(torch.ones(1, 2, 9, 8)).unique()
        tensor([1.])
    """

    rank = 2


class AvgPool3dSame(_AvgPoolSame, nn.AvgPool3d):
    """
    An average pool of [N, C, D, H, W] or [C, D, H, W] that pads as `rule` says.

    The padding is not counted: each average is that of the elements inside the input.

    Example:
        >>> import padc, torch
        >>> pool = padc.nn.AvgPool3dSame(3, stride=2)
        >>> pool(torch.ones(1, 2, 9, 8, 7)).unique()
        tensor([1.])
    """

    rank = 3
