# pyright: basic, reportPrivateUsage=false
"""
Write `docs/operators.md`: which of PyTorch's operators convert, by path.

    python -m padc.tools.update_operators

ATen's ops are looked up in the tables of the lowerings. PyTorch's own samples of each
operator (`OpInfo`, float32) are exported, converted, run and compared.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from padc.errors import UnsupportedError
from padc.frontends.torch_export.decompositions import UNPREDICTABLE, decomposition
from padc.ir.arithmetic import ceil_div
from padc.ir.torch import schema_of
from padc.passes.pipelines import legal_for_mil, legal_for_native
from padc.testing import compile_for_coreml
from padc.tools.update_support import Notes

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"
MOST_SAMPLES = 4
"""How many samples of an operator are run, spread evenly over all."""
LAYOUTS = "sparse"
"""Operators of tensors that are not strided, which torch.export does not take."""


class Sampled(torch.nn.Module):
    """A sample as a module whose arguments are the tensors in it."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any):
        super().__init__()
        self.function = function
        leaves, self.structure = pytree.tree_flatten((args, kwargs))
        self.leaves = [None if isinstance(x, Tensor) else x for x in leaves]
        self.places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
        self.tensors = tuple(x.detach() for x in leaves if isinstance(x, Tensor))

    def forward(self, *tensors: Tensor) -> list[Tensor]:
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return tensors_of(self.function(*args, **kwargs))


def tensors_of(value: Any) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, Tensor)]


def infos() -> dict[str, Any]:
    """PyTorch's descriptions of its operators that take float32, by their names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        f"{info.name}:{info.variant_test_name}".removesuffix(":"): info
        for info in op_db
        if torch.float32 in info.supported_dtypes("cpu") and LAYOUTS not in info.name
    }


def samples(info: Any) -> list[Sampled]:
    """Some of an operator's samples."""
    found = list(info.sample_inputs("cpu", torch.float32, requires_grad=False))
    step = ceil_div(len(found), MOST_SAMPLES)
    return [
        Sampled(info.op, (each.input, *each.args), each.kwargs)
        for each in found[:: max(step, 1)]
    ]


def outcome(sample: Sampled) -> tuple[str, str]:
    """`right`, `refused`, `wrong` or `not exported`, with a detail."""
    torch.manual_seed(0)
    try:
        expected = sample(*(each.clone() for each in sample.tensors))
        program = torch.export.export(sample, sample.tensors)
    except Exception as error:
        return "not exported", type(error).__name__
    try:
        results = compile_for_coreml(program)(*sample.tensors)
    except UnsupportedError as error:
        return "refused", error.problems[0].message
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    for result, should in zip(results, expected, strict=True):
        try:
            torch.testing.assert_close(
                *(result, should), rtol=1e-4, atol=1e-5, equal_nan=True
            )
        except AssertionError as error:
            return "wrong", str(error)
    return "right", ""


def outcomes(name: str) -> list[tuple[str, str]]:
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    return [outcome(sample) for sample in samples(infos()[name])]


@dataclass(frozen=True)
class Op:
    """An ATen op, and its overloads, by what each path does with them."""

    name: str
    core: bool
    ways: dict[str, dict[str, list[str]]]


def aten_ops() -> Iterator[Op]:
    """The ops of ATen's core set, and all others that some path lowers."""
    legal = {"Core ML": legal_for_mil(), "machine code": legal_for_native()}
    for name in sorted(dir(torch.ops.aten)):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, OpOverloadPacket):
            continue
        overloads = [getattr(packet, each) for each in packet.overloads()]
        shown = [op for op in overloads if is_core(op) or is_any(op, legal.values())]
        ways = {
            path: grouped({op._overloadname: way(op, names) for op in shown})
            for path, names in legal.items()
        }
        if shown:
            yield Op(name, any(map(is_core, shown)), ways)


def is_core(op: OpOverload) -> bool:
    return torch.Tag.core in op.tags


def is_any(op: OpOverload, legal: Collection[Collection[str]]) -> bool:
    return any(way(op, names) == "own" for names in legal)


def way(op: OpOverload, legal: Collection[str]) -> str:
    """How a path lowers `op`."""
    schema = schema_of(str(op).removesuffix(".default"))
    if schema is not None and schema.name in legal:
        return "own"
    if UNPREDICTABLE & set(op.tags) or decomposition(op) is None:
        return "none"
    return "decomposed"


def grouped(ways: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for overload, each in ways.items():
        found[each].append(overload)
    return found


def cell(ways: dict[str, list[str]]) -> str:
    """`own`, or, where overloads differ: `own: Tensor, decomposed: Scalar`."""
    marks = {"own": "own", "decomposed": "decomposed", "none": "—"}
    if len(ways) == 1:
        return marks[next(iter(ways))]
    return "; ".join(
        f"{marks[each]}: {', '.join(overloads)}" for each, overloads in ways.items()
    )


INTRODUCTION = """\
# Operators

`make operators` writes this page.

## ATen

The ops of ATen's core set (bold), and the others that a path lowers itself. *own*: the
path has a lowering for it. *decomposed*: PyTorch decomposes it, where that ends in ops
that the path lowers. —: Core ML refuses it ([refusals.md](refusals.md)); natively
PyTorch runs that op. Overloads are named where they differ. Operators that PyTorch
itself always decomposes are not listed.
"""
SAMPLES = """\
## PyTorch's samples

Samples of PyTorch's own tests (`OpInfo`, float32, at most {most} of each operator),
converted to Core ML, run by the evaluator, and compared with PyTorch. "3 of 4" means
that three are right and one is refused, for the reason below. Samples that
`torch.export` refuses do not count. {counts}
"""


def page(ops: Sequence[Op], rows: dict[str, list[tuple[str, str]]]) -> str:
    """The page of these ops, and of these outcomes of samples."""
    lines = [INTRODUCTION, "| op | Core ML | machine code |", "| --- | --- | --- |"]
    for op in ops:
        name = f"**{op.name}**" if op.core else op.name
        cells = " | ".join(map(cell, op.ways.values()))
        lines.append(f"| {name} | {cells} |")
    notes = Notes()
    table = ["| operator | right | reasons |", "| --- | --- | --- |"]
    for name, found in rows.items():
        kinds = Counter(kind for kind, _ in found)
        count = len(found) - kinds["not exported"]
        reasons = {notes.number(text) for kind, text in found if kind == "refused"}
        marks = " ".join(f"[{number}]" for number in sorted(reasons))
        marks += f" **{kinds['wrong']} wrong**" * bool(kinds["wrong"])
        right = f"{kinds['right']} of {count}" if count else "not exported"
        table.append(f"| {name} | {right} | {marks} |")
    reasons = [f"{number}. {text}" for text, number in notes.numbers.items()]
    samples = SAMPLES.format(most=MOST_SAMPLES, counts=summary(rows))
    return "\n".join([*lines, "", samples, *table, "", "### Reasons", "", *reasons, ""])


def summary(rows: dict[str, list[tuple[str, str]]]) -> str:
    kinds = [{kind for kind, _ in found} for found in rows.values()]
    exported = [each for each in kinds if each - {"not exported"}]
    return (
        f"Of {len(exported)} operators {sum('right' in each for each in exported)} "
        f"convert, and {sum('wrong' in each for each in exported)} give wrong results."
    )


def main() -> int:
    start = time.perf_counter()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        names = sorted(infos())
        rows = dict(zip(names, pool.map(outcomes, names, chunksize=8), strict=True))
    PAGE.write_text(page(list(aten_ops()), rows))
    wrong = [
        f"{name}: {text}"
        for name, found in rows.items()
        for kind, text in found
        if kind == "wrong"
    ]
    print(*wrong, summary(rows), sep="\n")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
