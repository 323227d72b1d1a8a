"""xDSL's `arith` dialect, with an op of upstream's that it lacks, and attributes."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.ir import Dialect
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure

FITS = "padc.fits"
"""The attribute of an `arith.fptosi` whose operand is known to fit into its result."""
NOT_POSITIVE = "padc.not_positive"
"""The attribute of a `math.exp` whose operand is known to be at most 0, or NaN."""


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """
    The remainder of a division of floats, with the sign of the dividend: C's fmod.

    ```mlir
    %r = arith.remf %a, %b : f32
    ```
    """

    name = "arith.remf"

    traits = traits_def(Pure())


Arith = Dialect(
    "arith",
    [*arith.Arith.operations, RemFOp],
    list(arith.Arith.attributes),
    [arith.ArithConstantMaterializationInterface()],
)
