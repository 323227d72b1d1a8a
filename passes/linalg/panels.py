"""Panels of columns, in which the kernel of matrix products reads weights."""

from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat
from xdsl.ir import SSAValue

from padc.ir.tcp import tensor_type
from padc.passes.common.kernel_tiles import FEW_ROWS, MOST_VECTORS, register_count


def most_vectors(vector_bytes: int) -> int:
    """
    The most vectors in a row of a panel.

    As many as the tiles have. With 16 registers these have 6 rows and 2 vectors; they
    would read panels of 4 vectors in halves, which takes up to a sixth more time.
    """
    return MOST_VECTORS if register_count(vector_bytes) > 16 else 2


def panel_of(weight: SSAValue, vector_bytes: int) -> int | None:
    """The columns of a panel: as many vectors as fit; None if none fits."""
    type = tensor_type(weight)
    assert isinstance(type.element_type, AnyFloat)
    lanes, most = vector_bytes // type.element_type.size, most_vectors(vector_bytes)
    sizes = [count * lanes for count in range(most, 0, -1)]
    return next((size for size in sizes if type.get_shape()[0] % size == 0), None)


def rows(x: SSAValue) -> int:
    """The number of rows of `x`; `FEW_ROWS` if it is dynamic."""
    sizes = tensor_type(x).get_shape()[:-1]
    return FEW_ROWS if DYNAMIC_INDEX in sizes else prod(sizes)


def column_of(panel: Any, column: Any, width: int) -> Any:
    """The column of the result that is a column of a panel of `width`."""
    return panel * width + column
