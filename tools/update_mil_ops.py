# pyright: basic, reportMissingTypeStubs=false
"""
Write `ir/mil_ops.txt`, the list of Core ML's ops that `padc.ir.mil` declares.

    python -m padc.tools.update_mil_ops

The source is coremltools' registry of op specs. A line is one form of one op: its
name, the first target that has this form, its inputs in order, and which element
types each of its type variables stands for:

    conv iOS17 x:T weight:U bias:U? strides:int32?! | T=fp16,fp32 U=fp16,fp32

`?` marks an optional input, `!` an input that must be constant, `*` a tuple of values.
Ops on functions and lists, which are not tensors, are left out. So is `const`: a
constant is written where it is used. `state` is the type of a state.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from padc.backends.coreml import quiet
from padc.ir.targets import TARGETS

MIL_OPS = Path(__file__).resolve().parents[1] / "ir" / "mil_ops.txt"

NOT_TENSOR_OPS = {"const", "make_list"}
NOT_TENSOR_INPUTS = {
    "InternalInputType",
    "ListInputType",
    "PyFunctionInputType",
}
DIALECT_OPS = {"coreml_update_state": "iOS18"}
"""Ops that a package has as other ones, with the first target that has these."""


def mil_ops() -> str:
    """The text of `ir/mil_ops.txt` for the coremltools that is installed."""
    with quiet():
        import coremltools as ct
        from coremltools.converters.mil.mil.ops.registry import SSAOpRegistry

    lines = ["# Written by tools/update_mil_ops.py, which explains the format."]
    registered = dict(SSAOpRegistry.core_ops)
    for name, since in DIALECT_OPS.items():
        registered[name] = {getattr(ct.target, since): SSAOpRegistry.dialect_ops[name]}
    for name, forms in sorted(registered.items()):
        previous = None
        for target in TARGETS:
            if (op := forms.get(getattr(ct.target, target))) is None:
                continue  # The op is newer, or has the form of the previous target.
            inputs = op.input_spec.input_types
            kinds = {type(spec).__name__ for spec in inputs.values()}
            if name in NOT_TENSOR_OPS or kinds & NOT_TENSOR_INPUTS:
                continue
            form = " ".join([*_inputs(inputs), *_type_variables(op)])
            if form != previous:
                lines.append(f"{name} {target} {form}")
            previous = form
    return "\n".join(lines) + "\n"


def _inputs(inputs: dict[str, Any]) -> Iterator[str]:
    for name, spec in inputs.items():
        marks = ("?" if spec.optional else "") + ("!" if spec.const else "")
        match type(spec).__name__:
            case "TensorInputType":
                yield f"{name}:{spec.type_domain_id or _types(spec.type_domain)}{marks}"
            case "TupleInputType":
                yield f"{name}:any{marks}*"
            case "StateInputType":
                yield f"{name}:state{marks}"
            case "ListOrTensorOrDictInputType":
                yield f"{name}:any{marks}"
            case kind:
                raise NotImplementedError(f"input {name} of the new kind {kind}")


def _type_variables(op: Any) -> Iterator[str]:
    if op.type_domains:
        yield "|"
    for variable, domain in op.type_domains.items():
        yield f"{variable}={_types(domain)}"


def _types(domain: tuple[type, ...]) -> str:
    from coremltools.converters.mil.mil import types

    return ",".join(types.builtin_to_string(element) for element in domain)


if __name__ == "__main__":
    MIL_OPS.write_text(mil_ops())
