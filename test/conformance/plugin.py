# pyright: basic, reportMissingTypeStubs=false
"""
The pytest plug-in that runs padc's evaluator in place of Core ML.

`MLModel` stays coremltools' own: the plug-in replaces the object through which it calls
Core ML, and the queries of the operating system. The plug-in compares numbers too,
since the tests' own tolerance for fp16 is 0.5. Tests that Core ML is known to fail
(xfail, or skip for a radar) run all the same: the evaluator does not share Core ML's
faults.
"""

import itertools
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from exceptions import EXCEPTIONS

from padc.backends.coreml.evaluator import load
from padc.backends.coreml.evaluator.values import kernels
from padc.errors import PadcError

FP32_TOLERANCE = 1e-4
"""Of an fp32 program: absolute, and relative to each expected number."""
FP16_TOLERANCE = 1e-2
"""Of a program with fp16 in it: relative to the range of the output, 0 included."""


@dataclass
class Tally:
    """What became of the tests."""

    collected: int = 0
    run: int = 0
    comparing: int = 0
    comparisons: int = 0
    passed: int = 0
    failed: int = 0
    excepted: dict[str, int] = field(default_factory=dict[str, int])
    skipped: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, part: str) -> None:
        """Add one that was written as JSON."""
        for name, count in json.loads(part).items():
            if isinstance(count, int):
                setattr(self, name, getattr(self, name) + count)
            else:
                total = Counter(getattr(self, name)) + Counter(count)
                setattr(self, name, dict(total))

    def __str__(self) -> str:
        lines = [
            f"collected: {self.collected}",
            f"run: {self.run}, of which {self.comparing} compare numbers",
            f"numeric comparisons made: {self.comparisons}",
            f"passed: {self.passed}",
            f"failed: {self.failed}",
        ]
        for title, reasons in ("excepted", self.excepted), ("skipped", self.skipped):
            lines.append(f"{title}: {sum(reasons.values())}")
            lines += [f"  {count:5} {why}" for why, count in sorted(reasons.items())]
        return "\n".join(lines)


tally = Tally()


class Proxy:
    """What `libcoremlpython._MLModelProxy` is on a Mac."""

    def __init__(self, path: str, units: str, function: str, hints: Any, asset: Any):
        try:
            self.model = load(path, function_name=function or None)
        except PadcError as error:
            # coremltools keeps it and raises it when the model is to predict.
            raise RuntimeError(str(error)) from error

    @staticmethod
    def maximum_supported_specification_version() -> int:
        return 10

    def newState(self) -> Any:
        return self.model.make_state()

    def predict(self, data: dict[str, Any], state: Any) -> dict[str, Any]:
        """Core ML converts arrays to the type that the model describes."""
        dtypes = {feature.name: feature.dtype for feature in self.model.inputs}
        inputs = {name: np.asarray(data[name]).astype(dtypes[name]) for name in data}
        try:
            return self.model.predict(inputs, state)
        except PadcError as error:
            message = "Unable to compute the prediction using ML Program"
            raise RuntimeError(f"{message}: {error}") from error


def stand_in() -> None:
    """Make coremltools believe that it is on a Mac, and Core ML there."""
    import coremltools
    import coremltools._deps as deps
    from coremltools.converters import _converters_entry
    from coremltools.models import model, utils

    deps._IS_MACOS = True
    for module in (model, utils):
        vars(module).update(_is_macos=lambda: True, _macos_version=lambda: (26, 0))
    model._MLModelProxy = Proxy
    coremltools.convert = programs_only(coremltools.convert)
    # Python does so by itself, and not as often: each time takes longer than a test.
    _converters_entry.gc = SimpleNamespace(collect=lambda: None)
    from coremltools.converters.mil import testing_utils

    testing_utils.compare_backend = compare
    pytest.skip = skip


skip_unless_fault = pytest.skip


def skip(reason: str = "", **options: Any) -> None:
    """`pytest.skip`, but not for a fault of Core ML: those have numbers of radars."""
    if "rdar://" not in reason:
        skip_unless_fault(reason, **options)


def programs_only(convert: Callable[..., Any]) -> Callable[..., Any]:
    """`coremltools.convert`, but with an fp32 program in place of a neural network
    where no target is named: a few tests run one of each."""
    import coremltools

    def to_program(*arguments: Any, **options: Any) -> Any:
        target = options.get("minimum_deployment_target")
        if options.get("convert_to") == "neuralnetwork" and target is None:
            precision = coremltools.precision.FLOAT32
            options |= {"convert_to": "mlprogram", "compute_precision": precision}
        return convert(*arguments, **options)

    return to_program


def compare(
    mlmodel: Any,
    input_key_values: dict[str, Any],
    expected_outputs: dict[str, Any],
    dtype: str = "fp32",
    atol: float = 1e-4,
    rtol: float = 1e-5,
    also_compare_shapes: bool = True,
    state: Any = None,
) -> dict[str, Any]:
    """In the place of coremltools.converters.mil.testing_utils.compare_backend."""
    from coremltools.converters.mil import testing_utils

    predicted = testing_utils.run_core_ml_predict(mlmodel, input_key_values, state)
    if also_compare_shapes:
        testing_utils.compare_shapes(
            mlmodel, input_key_values, expected_outputs, predicted
        )
    fp16 = dtype == "fp16" or has_fp16(mlmodel.get_spec())
    for name, expected in expected_outputs.items():
        actual = testing_utils._get_coreml_out_from_dict(predicted, name)
        tally.comparisons += 1
        if isinstance(actual, np.ndarray):
            assert_close(actual, np.asarray(expected), fp16)
        else:
            assert actual == expected
    return predicted


def assert_close(actual: np.ndarray, expected: np.ndarray, fp16: bool) -> None:
    """Raise AssertionError where numbers are further apart than they may be."""
    atol = rtol = FP32_TOLERANCE
    if fp16:
        if actual.shape == expected.shape:
            # What fp16 cannot hold is infinite in it.
            beyond = np.isinf(actual) & (np.abs(expected) > np.finfo(np.float16).max)
            expected = np.where(beyond, np.copysign(np.inf, expected), expected)
        finite = expected[np.isfinite(expected)].astype(np.float64)
        extent = finite.max(initial=0) - finite.min(initial=0)
        # Nor can it hold the smallest ones better than this.
        spacing = float(np.finfo(np.float16).smallest_subnormal)
        atol, rtol = max(FP16_TOLERANCE * extent, spacing / 2), 0.0
    np.testing.assert_allclose(actual, expected, atol=atol, rtol=rtol)


def has_fp16(spec: Any) -> bool:
    """Whether any value of the program is of fp16."""
    return re.search(r"dataType: FLOAT16", str(spec.mlProgram)) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kernels", choices=("numpy", "torch"), help="what computes all kernels"
    )
    parser.addoption("--sample", type=int, help="the most cases of a test")
    parser.addoption("--shard", help="I/N: the I-th of N parts of the tests")
    parser.addoption("--tally", help="where to write what became of the tests")


def pytest_configure(config: pytest.Config) -> None:
    if (computing := config.getoption("--kernels")) is not None:
        kernels.WORTH = np.inf if computing == "numpy" else -1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """A class that inherits a test takes the same parameters: they are no iterator."""
    product = itertools.product
    itertools.product = lambda *sets, **options: list(product(*sets, **options))
    try:
        return (yield)
    finally:
        itertools.product = product


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if (sample := config.getoption("--sample")) is not None:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [
            case
            for group in cases.values()
            for case in group[:: max(1, len(group) // sample)][:sample]
        ]
    if shard := config.getoption("--shard"):
        part, parts = map(int, shard.split("/"))
        items[:] = items[part - 1 :: parts]
    tally.collected = len(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    seed = zlib.crc32(item.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    if report.skipped:
        why = report.longrepr[2].removeprefix("Skipped: ")
        tally.skipped[why] = tally.skipped.get(why, 0) + 1
    elif report.when == "call":
        tally.run += 1
        settle(report)
    elif report.failed:
        tally.failed += 1
    return report


def settle(report: pytest.TestReport) -> None:
    """Count a test, after what EXCEPTIONS says of it."""
    name = report.nodeid
    reasons = [why for pattern, why in EXCEPTIONS.items() if re.search(pattern, name)]
    if report.failed and reasons:
        report.outcome = "passed"
        tally.excepted[reasons[0]] = tally.excepted.get(reasons[0], 0) + 1
    elif report.failed:
        tally.failed += 1
    elif reasons:
        report.outcome = "failed"
        report.longrepr = f"passes, against the exception made: {reasons[0]}"
        tally.failed += 1
    else:
        tally.passed += 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    before = tally.comparisons
    rand = np.random.rand
    if "test_recurrent" in item.nodeid and re.search("fp16|float16", item.name):
        # They expect what their weights give before these are rounded to fp16. As
        # coremltools' own `random_gen` does, let fp16 hold them: 2 * r - 1, too.
        np.random.rand = lambda *shape: np.round(rand(*shape) * 1024) / 1024
    try:
        return (yield)
    finally:
        np.random.rand = rand
        tally.comparing += tally.comparisons > before


def pytest_report_teststatus(report: pytest.TestReport) -> Any:
    return None if report.failed else (report.outcome, "", "")


def pytest_sessionfinish(session: pytest.Session) -> None:
    file = Path(str(session.config.getoption("--tally")))
    file.write_text(json.dumps(asdict(tally)))
