# pyright: basic, reportPrivateUsage=false
"""
Write `docs/operators.md`: which of PyTorch's operators convert, by path.

    python -m padc.tools.update_operators

ATen's ops are looked up in the tables of the lowerings. PyTorch's own samples of each
operator (`OpInfo`) are exported, converted, run and compared: those of float32 are
shown one by one, and those of other types are counted.
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from padc.backends.coreml.torch_ops.operators import aten_names
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
MOST_OF_OTHER_TYPES = 2
OTHER_TYPES = torch.int64, torch.bool, torch.float16
PLACES = frozenset(
    ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")
)
"""
Operators whose last result is places, which PyTorch leaves open for equal elements.

Most samples of other types than float32 have some: docs/refusals.md.
"""
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


def infos(dtype: torch.dtype) -> dict[str, Any]:
    """PyTorch's descriptions of its operators that take `dtype`, by their names."""
    from torch.testing._internal.common_methods_invocations import op_db

    return {
        f"{info.name}:{info.variant_test_name}".removesuffix(":"): info
        for info in op_db
        if dtype in info.supported_dtypes("cpu") and LAYOUTS not in info.name
    }


def samples(info: Any, dtype: torch.dtype) -> list[Sampled]:
    """Some of an operator's samples, those that have elements if there are any."""
    given = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    found = [each for each in given if has_elements(each)] or given
    most = MOST_SAMPLES if dtype == torch.float32 else MOST_OF_OTHER_TYPES
    step = ceil_div(len(found), most)
    return [
        Sampled(info.op, (each.input, *each.args), each.kwargs)
        for each in found[:: max(step, 1)]
    ]


def has_elements(sample: Any) -> bool:
    tensors = tensors_of((sample.input, sample.args, sample.kwargs))
    return all(tensor.numel() for tensor in tensors)


def outcome(sample: Sampled, has_places: bool = False) -> tuple[str, str]:
    """
    `right`, `refused`, `wrong` or `not exported`, with a detail.

    With `has_places`, the last result is not compared.
    """
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
    compared = slice(-1 if has_places else None)
    found = difference(results[compared], expected[compared])
    if found and any(x.dtype == torch.float16 for x in sample.tensors):
        # PyTorch rounds more: what it computes of the same numbers in float64 counts.
        exact = sample(*(widened(x) for x in sample.tensors))
        rounded = [x.to(y.dtype) for x, y in zip(exact, expected, strict=True)]
        found = difference(results[compared], rounded[compared])
    return ("wrong", found) if found else ("right", "")


def widened(x: Tensor) -> Tensor:
    return x.double() if x.dtype == torch.float16 else x.clone()


def difference(results: Sequence[Tensor], expected: Sequence[Tensor]) -> str:
    """How results differ; empty if they do not."""
    for result, should in zip(results, expected, strict=True):
        try:
            torch.testing.assert_close(
                *(result, should), **tolerances(should), equal_nan=True
            )
        except AssertionError as error:
            return str(error)
    return ""


def tolerances(expected: Tensor) -> dict[str, Any]:
    """Errors relative to each number, or in float16 to the largest one."""
    if expected.dtype != torch.float16:
        return {"rtol": 1e-4, "atol": 1e-5}
    finite = expected[expected.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 1.0
    return {"rtol": 4e-3, "atol": 4e-3 * largest}


def outcomes(name: str, dtype: torch.dtype) -> list[tuple[str, str]]:
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)
    warnings.simplefilter("ignore")
    has_places = dtype != torch.float32 and name.partition(":")[0] in PLACES
    found = samples(infos(dtype)[name], dtype)
    return [outcome(sample, has_places) for sample in found]


@dataclass(frozen=True)
class Op:
    """An ATen op, and its overloads, by what each path does with them."""

    name: str
    core: bool
    ways: dict[str, dict[str, list[str]]]


def aten_ops() -> Iterator[Op]:
    """The ops of ATen's core set, and all others that some path lowers."""
    legal = {"Core ML": legal_for_mil(), "machine code": legal_for_native()}
    for name in sorted(each.removeprefix("aten::") for each in aten_names()):
        packet = getattr(torch.ops.aten, name, None)
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


OTHERS = """\
## Samples of other types

At most {most} samples of each operator. An operator is refused if none of them
converts.
"""

Rows: TypeAlias = dict[str, list[tuple[str, str]]]
"""The outcomes of each operator's samples."""


def page(
    ops: Sequence[Op], rows: Rows, others: Mapping[torch.dtype, Rows] | None = None
) -> str:
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
    table += ["", "### Reasons", "", *reasons, ""]
    counted = [] if others is None else counts_by_type(rows, others)
    return "\n".join([*lines, "", samples, *table, *counted])


def counts_by_type(rows: Rows, others: Mapping[torch.dtype, Rows]) -> list[str]:
    """How many operators convert in other types, and which only in float32."""
    table = ["| type | operators | converted | refused |", "| --- | --- | --- | --- |"]
    lists: list[str] = []
    converted = {name for name, found in rows.items() if "right" in kinds_of(found)}
    for dtype, outcomes in others.items():
        name = str(dtype).removeprefix("torch.")
        kinds = {each: kinds_of(found) for each, found in outcomes.items()}
        exported = {each for each in kinds if kinds[each] - {"not exported"}}
        right = {each for each in exported if "right" in kinds[each]}
        refused = {each for each in exported - right if "refused" in kinds[each]}
        table.append(f"| {name} | {len(exported)} | {len(right)} | {len(refused)} |")
        only = ", ".join(sorted(refused & converted)) or "none"
        lists += [f"Refused in {name}, though not in float32: {only}.", ""]
    return [OTHERS.format(most=MOST_OF_OTHER_TYPES), *table, "", *lists]


def kinds_of(found: Sequence[tuple[str, str]]) -> set[str]:
    return {kind for kind, _ in found}


def summary(rows: Rows) -> str:
    kinds = [kinds_of(found) for found in rows.values()]
    exported = [each for each in kinds if each - {"not exported"}]
    return (
        f"Of {len(exported)} operators {sum('right' in each for each in exported)} "
        f"convert, and {sum('wrong' in each for each in exported)} give wrong results."
    )


def main() -> int:
    start = time.perf_counter()
    rows: dict[torch.dtype, Rows] = {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for dtype in (torch.float32, *OTHER_TYPES):
            names = sorted(infos(dtype))
            judged = pool.map(partial(outcomes, dtype=dtype), names, chunksize=8)
            rows[dtype] = dict(zip(names, judged, strict=True))
    of_float32 = rows.pop(torch.float32)
    PAGE.write_text(page(list(aten_ops()), of_float32, rows))
    wrong = [
        f"{dtype} {name}: {text}"
        for dtype, by_name in {torch.float32: of_float32, **rows}.items()
        for name, found in by_name.items()
        for kind, text in found
        if kind == "wrong"
    ]
    print(*wrong, summary(of_float32), sep="\n")
    print(f"{time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
