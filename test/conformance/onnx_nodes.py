# pyright: basic, reportMissingImports=false, reportMissingTypeStubs=false
"""
ONNX' own tests of its padded ops, mapped onto `tcp` and run by the reference.

    python test/conformance/onnx_nodes.py

prints how many of each op pass, and why others are not mapped. The tests are the inputs
and outputs in `onnx.backend.test.case.node` of ONNX' wheel, which
`make conformance-onnx` installs into .venv/onnx, for this alone.
"""

import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnx_to_tcp import MAPPINGS, NotMappedError, program
from xdsl.utils.exceptions import VerifyException

from padc.backends.reference import run
from padc.errors import PadcError

TOLERANCE = 1e-5
"""For floats: absolute, and relative to each expected number."""
TOLERANCES = {"test_averagepool_2d_ceil_last_window_starts_on_pad": 1e-3}
"""For tests whose expected values are written with four digits."""


@dataclass
class Case:
    """A node, its inputs, and the outputs that ONNX expects."""

    name: str
    op_type: str
    attributes: Mapping[str, Any]
    inputs: Sequence[np.ndarray | None]
    expected: Sequence[np.ndarray]


def outcome(case: Case) -> tuple[str, str]:
    """ "passed", "failed" or "not mapped", and why."""
    tolerance = TOLERANCES.get(case.name, TOLERANCE)
    indices = case.op_type == "MaxPool" and len(case.expected) > 1
    op_type = "MaxPoolWithIndices" if indices else case.op_type
    try:
        module, inputs = program(op_type, case.attributes, case.inputs)
        results = run(module, *(torch.from_numpy(array) for array in inputs))
        if len(results) != len(case.expected):
            return "failed", f"{len(results)} results, not {len(case.expected)}"
        for actual, expected in zip(results, case.expected, strict=True):
            torch.testing.assert_close(
                actual,
                torch.from_numpy(np.asarray(expected)),
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
            )
    except NotMappedError as reason:
        return "not mapped", str(reason)
    except (AssertionError, PadcError, VerifyException) as error:
        return "failed", " ".join(str(error).split())
    return "passed", ""


def cases() -> Iterator[Case]:
    """ONNX' tests of one node each, of the ops that are mapped."""
    import onnx.backend.test.case.node
    from onnx import helper

    for test in onnx.backend.test.case.node.collect_testcases(None):
        # An op that is defined by others is tested again with these in its place.
        if test.model is None or "_expanded" in test.name:
            continue
        (node, *more) = test.model.graph.node
        if more or node.op_type not in MAPPINGS:
            continue
        attributes = {
            attribute.name: value.decode() if isinstance(value, bytes) else value
            for attribute in node.attribute
            for value in [helper.get_attribute_value(attribute)]
        }
        for arrays, expected in test.data_sets or []:
            given = iter(arrays)
            # An input without a name is left out.
            inputs = [np.asarray(next(given)) if name else None for name in node.input]
            yield Case(test.name, node.op_type, attributes, inputs, expected)


def main() -> int:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ONNX computes all its tests, some with 1 / 0.
        tests = list(cases())
    for case in tests:
        found, why = outcome(case)
        counts[case.op_type][found] += 1
        if found == "failed":
            print(f"failed: {case.name}: {why}")
        elif found == "not mapped":
            reasons[f"{case.op_type}: {why}"] += 1
    total = sum(counts.values(), Counter[str]())
    columns = ("passed", "failed", "not mapped")
    print(f"{'':16}" + "".join(f"{column:>12}" for column in columns))
    for op_type, found in [*sorted(counts.items()), ("all", total)]:
        print(f"{op_type:16}" + "".join(f"{found[column]:12}" for column in columns))
    print("not mapped:")
    for reason, count in reasons.most_common():
        print(f"{count:4}  {reason}")
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2] / ".venv/onnx"))
    sys.exit(main())
