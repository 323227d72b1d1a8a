"""
Why ops without a lowering are refused, and what to do instead.

These are lines of docs/refusals.md. What a lowering refuses has its reason there.
"""

from __future__ import annotations

from collections.abc import Mapping

from padc.errors import Obstacle
from padc.ir.torch import AtenOp

OTHERWISE = (
    "padc does not lower this op, and PyTorch does not decompose it into ops that padc "
    "lowers",
    "write it with other ops of PyTorch",
)
TRAINING = (
    "it draws random numbers",
    "call model.eval() before converting; F.dropout takes training=self.training",
)
RANDOM = (
    "it draws random numbers, and each run would give others",
    "pass the numbers as an input",
)
NUMBERS = (
    "it draws random numbers, and each run would give others",
    "pass the numbers as an input; for a dropout, call model.eval()",
)
SIZES = (
    "the size of its result depends on values",
    "use torch.where(mask, a, b), topk, or a mask that multiplies",
)
COUNTS = (
    SIZES[0],
    "compare with all classes: (x[:, None] == torch.arange(classes)).sum(0)",
)
STRIDES = (
    "its tensor is a part of another one, or a dynamic one, or its strides reach "
    "beyond the elements, or write one twice",
    "use unfold or slices; the memory of other tensors is not part of the program",
)
EIGENVALUES = (
    "Core ML has no such op, and it takes a number of steps that depends on values",
    "compute it before, as a constant",
)
NO_OP = "Core ML has no such op", EIGENVALUES[1]
BITS = "Core ML cannot take the bits of a number as another", "convert it: x.to(dtype)"
POWERS = (
    "the exponent of an integer is a dynamic size",
    "use torch.exp2(torch.tensor(n)), or compute sizes by +, -, * and //",
)
QUANTIZED = (
    "PyTorch computes with float64, and with zero points that are floats, in other "
    "types",
    "give it float32, float16 or bfloat16, and zero points that are integers",
)

INTEGERS = (
    "integers between ends that are computed depend on how each is rounded",
    "use torch.arange",
)

CAUSES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("native_dropout", "feature_alpha_dropout"), TRAINING),
    "rrelu_with_noise_functional": TRAINING,
    "bernoulli": NUMBERS,  # PyTorch makes it of dropouts, too.
    "unique_consecutive": SIZES,
    **dict.fromkeys(("_unique", "_unique2", "unique_dim"), SIZES),
    "unique_dim_consecutive": SIZES,
    "_ctc_loss": SIZES,
    "bincount": COUNTS,
    "linspace": INTEGERS,
    "where": (SIZES[0], "use torch.where(mask, a, b), or weights by F.one_hot"),
    **dict.fromkeys(("as_strided", "as_strided_copy", "as_strided_scatter"), STRIDES),
    **dict.fromkeys(("resize", "resize_as"), STRIDES),
    **dict.fromkeys(("_linalg_svd", "linalg_svd", "linalg_svdvals"), EIGENVALUES),
    **dict.fromkeys(("svd", "_linalg_eigh", "linalg_eigh"), EIGENVALUES),
    **dict.fromkeys(("linalg_eigvalsh", "linalg_pinv", "pinverse"), EIGENVALUES),
    **dict.fromkeys(("linalg_matrix_rank", "linalg_cond", "matrix_exp"), EIGENVALUES),
    **dict.fromkeys(("linalg_matrix_exp", "linalg_lstsq"), EIGENVALUES),
    **dict.fromkeys(("linalg_ldl_factor", "linalg_ldl_factor_ex"), NO_OP),
    "linalg_ldl_solve": NO_OP,
    **dict.fromkeys(("linalg_eig", "linalg_eigvals", "_linalg_eigvals"), EIGENVALUES),
    **dict.fromkeys(("igamma", "igammac"), EIGENVALUES),
    **dict.fromkeys(("special_gammainc", "special_gammaincc"), EIGENVALUES),
    "pow.int_to_int": POWERS,
    "view.dtype": BITS,
    "fake_quantize_per_tensor_affine": QUANTIZED,
    "fake_quantize_per_channel_affine": QUANTIZED,
}
"""The cause and the way out by the name of the op, with or without its overload."""


def refusal(op: AtenOp, otherwise: tuple[str, str] = OTHERWISE) -> Obstacle:
    """Why an op that has no lowering is refused; `otherwise`, if it has no cause."""
    return Obstacle(*cause(op.schema.name, op.has_effect, otherwise))


def cause(
    schema: str, is_random: bool, otherwise: tuple[str, str] = OTHERWISE
) -> tuple[str, str]:
    """The message and the hint for an op without a lowering, by its schema."""
    name = schema.removeprefix("aten.")
    for key in (name, name.partition(".")[0]):
        if key in CAUSES:
            return CAUSES[key]
    return RANDOM if is_random else otherwise
