"""Pools: reductions of VALID windows."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.pattern_rewriter import RewritePattern
from xdsl.utils.exceptions import VerifyException

from padc.ir import padding
from padc.ir.arithmetic import Whole
from padc.ir.tcp.tensors import (
    AnyTensor,
    IntegerList,
    TensorOp,
    verify_dims,
    verify_positive,
    verify_result,
    windows,
)

__all__ = [
    "ArgMaxPoolOp",
    "AvgPoolOp",
    "MaxPoolOp",
    "PoolOp",
]


class PoolOp(TensorOp, HasCanonicalizationPatternsInterface, abc.ABC):
    """A reduction of every window that lies within the input, over some dimensions."""

    kernel = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))
    dilations = prop_def(DenseArrayBase.constr(i64))
    dims = prop_def(DenseArrayBase.constr(i64))

    custom_directives = (IntegerList,)

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
        **properties: Attribute | None,
    ):
        super().__init__(
            operands=[input],
            result_types=[result_type],
            properties={
                "kernel": DenseArrayBase.from_list(i64, kernel),
                "strides": DenseArrayBase.from_list(i64, strides),
                "dilations": DenseArrayBase.from_list(i64, dilations),
                "dims": DenseArrayBase.from_list(i64, dims),
                **properties,
            },
        )

    def result_element_type(self) -> Attribute:
        return self.input_type.element_type

    def verify_(self) -> None:
        input_type = self.input_type
        dims = self.dims.get_values()
        verify_dims(self, input_type, dims)
        verify_positive(
            self,
            len(dims),
            kernel=self.kernel.get_values(),
            strides=self.strides.get_values(),
            dilations=self.dilations.get_values(),
        )
        shape = list(input_type.get_shape())
        for dim, kernel, stride, dilation in zip(
            dims,
            self.kernel.get_values(),
            self.strides.get_values(),
            self.dilations.get_values(),
            strict=True,
        ):
            shape[dim] = windows(self, shape[dim], kernel, stride, dilation)
        inferred = TensorType(self.result_element_type(), shape)
        verify_result(self, self.result.type, inferred)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from padc.ir.tcp.pool_patterns import PoolOfPad

        return (PoolOfPad(),)


class CountingPoolOp(PoolOp, abc.ABC):
    """A pool that leaves the first and last elements of some dimensions uncounted."""

    uncounted_lower = opt_prop_def(
        DenseArrayBase.constr(i64), prop_name="uncountedLower"
    )
    uncounted_upper = opt_prop_def(
        DenseArrayBase.constr(i64), prop_name="uncountedUpper"
    )

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
        *,
        uncounted_lower: Sequence[int] | None = None,
        uncounted_upper: Sequence[int] | None = None,
        **properties: Attribute | None,
    ):
        def unless_zeros(amounts: Sequence[int] | None) -> DenseArrayBase | None:
            if amounts is None or not any(amounts):
                return None
            return DenseArrayBase.from_list(i64, amounts)

        super().__init__(
            input,
            kernel,
            strides,
            dilations,
            dims,
            result_type,
            uncountedLower=unless_zeros(uncounted_lower),
            uncountedUpper=unless_zeros(uncounted_upper),
            **properties,
        )

    @property
    def uncounted(self) -> list[tuple[int, int]]:
        """The numbers of uncounted elements at both ends of each of `dims`."""
        none = (0,) * len(self.dims)
        lower, upper = self.uncounted_lower, self.uncounted_upper
        return list(
            zip(
                none if lower is None else lower.get_values(),
                none if upper is None else upper.get_values(),
                strict=True,
            )
        )

    def verify_(self) -> None:
        super().verify_()
        rank = len(self.dims)
        for name, amounts in (
            ("uncountedLower", self.uncounted_lower),
            ("uncountedUpper", self.uncounted_upper),
        ):
            if amounts is None:
                continue
            values = amounts.get_values()
            if len(values) != rank or any(value < 0 for value in values):
                raise VerifyException(
                    f"'{self.name}' has {name} {list(values)}; expected {rank} "
                    "non-negative integers, one for each of dims"
                )


@irdl_op_definition
class MaxPoolOp(PoolOp):
    """
    The largest element of every window that lies within the input, or NaN.

    ```mlir
    %y = tcp.max_pool %x kernel [3, 3] strides [2, 2] dilations [1, 1] dims [2, 3]
       : tensor<1x4x9x9xf32> -> tensor<1x4x4x4xf32>
    ```
    """

    name = "tcp.max_pool"

    input = operand_def(base(AnyTensor))

    assembly_format = (
        "$input `kernel` custom<IntegerList>($kernel) "
        "`strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) "
        "`dims` custom<IntegerList>($dims) attr-dict "
        "`:` type($input) `->` type($result)"
    )


@irdl_op_definition
class AvgPoolOp(CountingPoolOp):
    """
    The mean of every window that lies within the input.

    The first `uncountedLower` and last `uncountedUpper` elements of a pooled
    dimension are part of the sum, but not counted: each sum is divided by the number
    of elements of its window that count. With a `divisor`, it is divided by that.
    Integers divide towards zero.

    ```mlir
    %y = tcp.avg_pool %x kernel [3, 3] strides [2, 2] dilations [1, 1] dims [2, 3]
         uncountedLower [0, 0] uncountedUpper [1, 1]
       : tensor<1x4x9x9xf32> -> tensor<1x4x4x4xf32>
    ```
    """

    name = "tcp.avg_pool"

    input = operand_def(base(AnyTensor))
    divisor = opt_prop_def(IntegerAttr.constr(i64))

    assembly_format = (
        "$input `kernel` custom<IntegerList>($kernel) "
        "`strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) "
        "`dims` custom<IntegerList>($dims) "
        "(`uncountedLower` custom<IntegerList>($uncountedLower)^)? "
        "(`uncountedUpper` custom<IntegerList>($uncountedUpper)^)? "
        "(`divisor` $divisor^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        input: SSAValue,
        kernel: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        dims: Sequence[int],
        result_type: AnyTensor,
        *,
        uncounted_lower: Sequence[int] | None = None,
        uncounted_upper: Sequence[int] | None = None,
        divisor: int | None = None,
    ):
        super().__init__(
            input,
            kernel,
            strides,
            dilations,
            dims,
            result_type,
            uncounted_lower=uncounted_lower,
            uncounted_upper=uncounted_upper,
            divisor=None if divisor is None else IntegerAttr(divisor, i64),
        )

    def counts(self) -> list[list[int]] | None:
        """
        For each of `dims`, the number of counted elements of each window along it.

        None if a size is dynamic. A window's divisor is the product over `dims`.
        """
        counts: list[list[int]] = []
        for dim, kernel, stride, dilation, (lower, upper) in zip(
            self.dims.get_values(),
            self.kernel.get_values(),
            self.strides.get_values(),
            self.dilations.get_values(),
            self.uncounted,
            strict=True,
        ):
            size = self.input_type.get_shape()[dim]
            if size == DYNAMIC_INDEX:
                return None
            counts.append(
                padding.window_counts(size, kernel, stride, dilation, lower, upper)
            )
        return counts

    def verify_(self) -> None:
        super().verify_()
        if self.divisor is not None and self.divisor.value.data == 0:
            raise VerifyException("'tcp.avg_pool' has divisor 0; expected another")
        if self.divisor is None and (counts := self.counts()) is not None:
            if any(count < 1 for along in counts for count in along):
                raise VerifyException(
                    "'tcp.avg_pool' has a window in which no element counts; "
                    "make it smaller, or give a divisor"
                )


@irdl_op_definition
class ArgMaxPoolOp(CountingPoolOp):
    """
    The position of the largest element of every window: the first one, or the last NaN.

    Positions are int64, row-major over `dims` of the input without the first
    `uncountedLower` and last `uncountedUpper` elements. A window's search starts with
    the least value, at its first position that is not in `uncountedLower`; every larger
    element after that replaces it, and so does every NaN. Padding with the least value
    is therefore never chosen, except by a dilated window that meets only padding.

    ```mlir
    %i = tcp.arg_max_pool %x kernel [3, 3] strides [2, 2] dilations [1, 1] dims [2, 3]
         uncountedLower [1, 1] uncountedUpper [1, 1]
       : tensor<1x4x9x9xf32> -> tensor<1x4x4x4xi64>
    ```
    """

    name = "tcp.arg_max_pool"

    input = operand_def(base(AnyTensor))

    assembly_format = (
        "$input `kernel` custom<IntegerList>($kernel) "
        "`strides` custom<IntegerList>($strides) "
        "`dilations` custom<IntegerList>($dilations) "
        "`dims` custom<IntegerList>($dims) "
        "(`uncountedLower` custom<IntegerList>($uncountedLower)^)? "
        "(`uncountedUpper` custom<IntegerList>($uncountedUpper)^)? "
        "attr-dict `:` type($input) `->` type($result)"
    )

    def result_element_type(self) -> Attribute:
        return i64

    # A position is the sum over `dims` of a place along the dimension times its step.

    def steps(self, sizes: Sequence[Whole]) -> list[Whole]:
        """The distance between neighbours in each of `dims`, of an input of `sizes`."""
        steps: list[Whole] = []
        step: Whole = 1
        for dim, (lower, upper) in reversed(
            list(zip(self.dims.get_values(), self.uncounted, strict=True))
        ):
            steps.insert(0, step)
            step = (sizes[dim] - (lower + upper)) * step
        return steps

    def first_place(self, i: int, window: Whole) -> Whole:
        """Where a window begins along `dims[i]`; negative in the lower padding."""
        return window * self.strides.get_values()[i] - self.uncounted[i][0]

    def search_start(self, i: int, first: Whole) -> Whole:
        """The distance from a window's first place to where its search starts."""
        if not self.uncounted[i][0]:
            return 0
        return padding.search_start(first, self.dilations.get_values()[i])
