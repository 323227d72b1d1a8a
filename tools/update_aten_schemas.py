"""
Write `ir/torch/aten_schemas.txt`: the ops of the `torch` dialect, from PyTorch itself.

    python -m padc.tools.update_aten_schemas

It needs PyTorch and torch-mlir. A schema is kept if it is functional (no mutated
argument, no `out=`) and the dialect can write the types of its arguments and results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCHEMAS_FILE = Path(__file__).parents[1] / "ir" / "torch" / "aten_schemas.txt"

HEADER = """\
# Written by tools/update_aten_schemas.py. The schemas of PyTorch {version} without
# alias annotations. "!" marks ops that torch-mlir does not register, which are written
# as torch.operator "torch.<name>"; "~" marks ops that draw random numbers.
"""

BASE = (
    "Tensor|int|SymInt|float|bool|str|Scalar|ScalarType|Layout|MemoryFormat|Device"
    "|Generator"
)
TYPE = rf"(?:{BASE})(?:\?|\[\d*\]){{0,3}}"
ARGUMENT = rf"{TYPE} \w+(?:=(?:\[[^]]*\]|[^\[,]+))?"
RETURN = rf"{TYPE}(?: \w+)?"
WRITABLE = re.compile(
    rf"(?:aten|prims?)::[\w.]+\((?:\*, )?(?:{ARGUMENT}(?:, (?:\*, )?{ARGUMENT})*)?\)"
    rf" -> (?:{RETURN}|\((?:{RETURN}(?:, {RETURN})*)?\))"
)
# Schemas that torch-mlir does not register are kept if they are tensor ops of an
# inference graph on the CPU, or arithmetic on scalars.
TENSOR_OP = re.compile(
    r"aten::(?!\w*(?:backward|cudnn|miopen|mkldnn|mps_|_mps|cuda|_foreach|fbgemm"
    r"|nested|sparse|nnpack|xnn|thnn|quantize|fused_|_test_|_padded_dense|sym_))"
    r".*\bTensor\b.*"
)
SCALAR_OP = re.compile(
    r"(?:aten|prim)::\w[\w.]*\((?:(?:int|float|bool) \w+(?:, )?)+\)"
    r" -> (?:int|float|bool)"
)


def schemas_text(is_registered: Callable[[str], bool]) -> str:
    """The file's text; `is_registered` knows the op names of torch-mlir."""
    import torch

    get_all_schemas: Callable[[], list[Any]] = torch._C._jit_get_all_schemas  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    lines: set[str] = set()
    for schema in get_all_schemas():
        text = re.sub(r"\(\w+( -> [\w*|]+)?\)", "", str(schema))
        if schema.is_mutable or not WRITABLE.fullmatch(text):
            continue
        name = text[: text.index("(")].replace("::", ".")
        registered = is_registered(f"torch.{name}")
        if registered or TENSOR_OP.fullmatch(text) or SCALAR_OP.fullmatch(text):
            flags = "" if registered else "!"
            lines.add(flags + ("~" if is_random(schema) else "") + text)
    version = ".".join(torch.__version__.split(".")[:2])
    return HEADER.format(version=version) + "".join(
        f"{line}\n" for line in sorted(lines)
    )


def is_random(schema: Any) -> bool:
    """Whether PyTorch tags the op as drawing random numbers."""
    import torch

    packet = getattr(torch.ops.aten, schema.name.partition("::")[2], None)
    overload = getattr(packet, schema.overload_name or "default", None)
    tags: list[Any] = getattr(overload, "tags", [])
    return torch.Tag.nondeterministic_seeded in tags


def torch_mlir_ops() -> Callable[[str], bool]:
    """Whether torch-mlir registers an op of this full name."""
    from torch_mlir import ir  # pyright: ignore
    from torch_mlir.dialects import torch as torch_d  # pyright: ignore

    context: Any = ir.Context()  # pyright: ignore
    torch_d.register_dialect(context)  # pyright: ignore
    return lambda name: bool(context.is_registered_operation(name))  # pyright: ignore


if __name__ == "__main__":
    SCHEMAS_FILE.write_text(schemas_text(torch_mlir_ops()))
