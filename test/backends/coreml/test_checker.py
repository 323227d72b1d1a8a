# pyright: basic, reportMissingTypeStubs=false
"""Packages that break a rule, each found; and packages that break none."""

import json
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coremltools
import coremltools.optimize.coreml as cto
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Program, types
from torch import nn

import padc
from padc.backends.coreml.checker import RULES, check
from padc.backends.coreml.checker.check import read_locations
from padc.backends.coreml.checker.finding import Finding
from padc.backends.coreml.checker.shapes import WeightShapes
from padc.backends.coreml.checker.shapes import load as load_shapes
from padc.backends.coreml.evaluator.execution import Call
from padc.backends.coreml.evaluator.package import Package
from padc.backends.coreml.evaluator.values.dataless import is_dataless
from padc.errors import InvalidProgramError, SourceLocation, UsageError

ct: Any = coremltools
mb: Any = Builder

TARGETS = {15: ct.target.iOS15, 16: ct.target.iOS16, 17: ct.target.iOS17}
TARGETS[18] = ct.target.iOS18
STRING = 2  # DataType of mlmodel/format/MIL.proto
FP16, FP32, INT32, INT64 = 10, 11, 23, 24  # DataType of mlmodel/format/MIL.proto


def save(
    path: Path,
    build: Callable[..., Any],
    shapes: dict[str, tuple[int, ...]],
    ios: int,
    ints: tuple[str, ...] = (),
) -> Path:
    """A package of `build(**inputs)`, op for op."""
    target = TARGETS[ios]
    with Function(
        {
            name: mb.placeholder(shape, types.int32 if name in ints else types.fp32)
            for name, shape in shapes.items()
        },
        opset_version=target,
    ) as function:
        function.set_outputs([mb.identity(x=build(**function.inputs), name="out")])
    program = Program()
    program.add_function("main", function)
    model = ct.convert(
        program,
        source="milinternal",
        compute_precision=ct.precision.FLOAT32,
        minimum_deployment_target=target,
        pass_pipeline=ct.PassPipeline.EMPTY,
        skip_model_load=True,
    )
    model.save(str(path))
    return path


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the protobuf of a package."""
    file = path / "Data/com.apple.CoreML/model.mlmodel"
    spec = ct.proto.Model_pb2.Model()
    spec.ParseFromString(file.read_bytes())
    change(spec)
    file.write_bytes(spec.SerializeToString())


def find(spec: Any, op_type: str) -> Any:
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    return next(op for op in block.operations if op.type == op_type)


def constant(spec: Any, op_type: str, name: str) -> Any:
    """The value of a constant input of an op."""
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    (argument,) = find(spec, op_type).inputs[name].arguments
    (const,) = (op for op in block.operations if op.outputs[0].name == argument.name)
    return const.attributes["val"]


def set_ints(op_type: str, name: str, *numbers: int) -> Callable[[Any], None]:
    """An edit that changes a constant of ints, in the same number."""

    def change(spec: Any) -> None:
        tensor = constant(spec, op_type, name).immediateValue.tensor
        tensor.ints.values[:] = numbers

    return change


def set_text(op_type: str, name: str, text: str) -> Callable[[Any], None]:
    def change(spec: Any) -> None:
        tensor = constant(spec, op_type, name).immediateValue.tensor
        tensor.strings.values[:] = [text]

    return change


def bind(op_type: str, name: str, value: str) -> Callable[[Any], None]:
    """An edit that gives an op another value as input."""

    def change(spec: Any) -> None:
        argument = find(spec, op_type).inputs[name]
        del argument.arguments[:]
        argument.arguments.add().name = value

    return change


def set_type(op_type: str, dtype: int, *shape: int) -> Callable[[Any], None]:
    """An edit that declares another type of an op's output."""

    def change(spec: Any) -> None:
        tensor = find(spec, op_type).outputs[0].type.tensorType
        tensor.dataType, tensor.rank = dtype, len(shape)
        del tensor.dimensions[:]
        for size in shape:
            tensor.dimensions.add().constant.size = size

    return change


def rename(op_type: str, name: str) -> Callable[[Any], None]:
    """An edit of the name of an op's output, where it is defined and used."""

    def change(spec: Any) -> None:
        (block,) = spec.mlProgram.functions["main"].block_specializations.values()
        old = find(spec, op_type).outputs[0].name
        find(spec, op_type).outputs[0].name = name
        for op in block.operations:
            for argument in op.inputs.values():
                for binding in argument.arguments:
                    if binding.name == old:
                        binding.name = name

    return change


@dataclass
class Case:
    """A program of one op that matters, and the rules that it breaks."""

    rules: set[str]
    build: Callable[..., Any]
    change: Callable[[Any], Any] = lambda spec: None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=lambda: {"x": X})
    ints: tuple[str, ...] = ()
    ios: int = 17
    target: str | None = None


X = (1, 4, 6, 7)
WEIGHT = np.ones((2, 4, 2, 2), np.float32)


def relu(x: Any) -> Any:
    return mb.relu(x=x)


def pad(x: Any, *amounts: int, mode: str = "constant") -> Any:
    return mb.pad(x=x, pad=list(amounts), mode=mode)


def conv(x: Any, weight: Any = WEIGHT, **options: Any) -> Any:
    return mb.conv(x=x, weight=weight, **options)


def avg_pool(x: Any, **options: Any) -> Any:
    return mb.avg_pool(x=x, **{"kernel_sizes": [2, 2], "pad_type": "custom", **options})


def resample(x: Any, coordinates: Any) -> Any:
    return mb.resample(
        x=x,
        coordinates=coordinates,
        sampling_mode="bilinear",
        padding_mode="constant",
        padding_value=0.0,
        coordinates_mode="normalized_minus_one_to_one",
        align_corners=False,
    )


GRID = {"x": X, "c": (1, 3, 3, 2)}

CASES: dict[str, Case] = {
    # pad
    "reflect outside the last two": Case(
        {"pad-axes"}, lambda x: pad(x, 1, 1, 0, 0, 0, 1, mode="reflect")
    ),
    "replicate outside the last two": Case(
        {"pad-axes"}, lambda x: pad(x, 1, 0, 0, 0, 0, 0, mode="replicate")
    ),
    "reflect by the size": Case(
        {"pad-reflect"}, lambda x: pad(x, 0, 0, 0, 7, mode="reflect")
    ),
    "replicate by more than the size": Case(
        {"pad-replicate"}, lambda x: pad(x, 7, 0, 0, 0, mode="replicate")
    ),
    "symmetric": Case(
        {"option"},
        lambda x: pad(x, 1, 1, mode="reflect"),
        set_text("pad", "mode", "symmetric"),
    ),
    "negative": Case(
        {"pad-negative"},
        lambda x: pad(x, 0, 1),
        set_ints("pad", "pad", -1, 2),
    ),
    "computed": Case(
        {"pad-dynamic"},
        lambda x, p: mb.pad(x=x, pad=p),
        shapes={"x": (2, 3), "p": (4,)},
        ints=("p",),
    ),
    "too long": Case(
        {"pad-length"},
        lambda x, v: pad(x, 1, 1, 1, 1),
        bind("pad", "x", "v"),
        {"x": (3, 4), "v": (5,)},
    ),
    "pad of ints": Case(
        {"input-type"},
        lambda x: pad(relu(x), 1, 1),
        set_type("relu", INT32, *X),
    ),
    # Convolutions, pools and resampling.
    "conv same": Case({"pad-same"}, lambda x: conv(x, pad_type="same")),
    "pool same": Case({"pad-same"}, lambda x: avg_pool(x, pad_type="same_lower")),
    "same_lower on iOS15": Case(
        {"option", "pad-same"},
        lambda x: conv(x, pad_type="same"),
        set_text("conv", "pad_type", "same_lower"),
        ios=15,
    ),
    "dilated computed weight": Case(
        {"dynamic-weight", "computed"},
        lambda x, w: conv(x, w, dilations=[1, 1]),
        set_ints("conv", "dilations", 2, 1),
        {"x": X, "w": (2, 4, 2, 2)},
    ),
    "ceil overhang": Case(
        {"ceil-overhang"},
        lambda x: avg_pool(x, strides=[2, 2], ceil_mode=True),
    ),
    "ceil and uneven padding": Case(
        {"ceil-mode"},
        lambda x: avg_pool(x, strides=[1, 1], pad=[0, 0, 1, 1], ceil_mode=True),
        set_ints("avg_pool", "pad", 0, 0, 0, 2),
    ),
    "instance norm of rank 5": Case(
        {"input-rank"}, lambda x: mb.instance_norm(x=x), shapes={"x": (1, 2, 3, 4, 5)}
    ),
    "resample of rank 3": Case(
        {"input-rank"},
        lambda x, c, v: resample(x, c),
        bind("resample", "x", "v"),
        {**GRID, "v": (1, 4, 6)},
    ),
    "coordinates in threes": Case(
        {"resample-coordinates"},
        lambda x, c, v: resample(x, c),
        bind("resample", "coordinates", "v"),
        {**GRID, "v": (1, 3, 3, 3)},
    ),
    # Gathers.
    "negative index": Case(
        {"negative-index"}, lambda x: mb.gather(x=x, indices=[0, -1])
    ),
    "index beyond": Case(
        {"index-range"}, lambda x: mb.gather(x=x, indices=[0, 7], axis=3)
    ),
    # Of `gather_nd`, each number of an index is of a dimension of its own.
    "indices of several dimensions": Case(
        set(), lambda x: mb.gather_nd(x=x, indices=[[0, 3]])
    ),
    # What an opset has.
    "no such op": Case(
        {"opset"}, relu, lambda s: setattr(find(s, "relu"), "type", "r")
    ),
    "a newer package": Case({"target"}, relu, target="iOS15", ios=18),
    "an op of a newer opset": Case(
        {"opset"},
        relu,
        lambda s: setattr(find(s, "relu"), "type", "scaled_dot_product_attention"),
    ),
    "an input of a newer opset": Case(
        {"input-unknown"},
        lambda x: mb.gather(x=x, indices=[0], axis=3),
        lambda s: (
            find(s, "gather")
            .inputs["validate_indices"]
            .CopyFrom(find(s, "gather").inputs["axis"])
        ),
        ios=16,
    ),
    "a package of newer ops": Case(
        {"target"},
        lambda x: mb.scaled_dot_product_attention(query=x, key=x, value=x),
        target="iOS17",
        ios=18,
    ),
    "a package of newer inputs": Case(
        {"target"},
        lambda x: mb.gather(x=x, indices=[0], validate_indices=False),
        target="iOS16",
    ),
    "a missing input": Case(
        {"input-missing"}, conv, lambda s: find(s, "conv").inputs.pop("weight")
    ),
    "a computed option": Case(
        {"input-constant"},
        lambda x, k: avg_pool(x),
        bind("avg_pool", "kernel_sizes", "k"),
        {"x": X, "k": (2,)},
        ("k",),
    ),
    # Values.
    "ints": Case(
        set(), lambda x: mb.add(x=x, y=1), shapes={"x": (2,)}, ints=("x",), ios=15
    ),
    "fp16 output on iOS16": Case(set(), lambda x: mb.cast(x=x, dtype="fp16"), ios=16),
    "output of rank 0": Case(
        set(), lambda x: mb.reduce_sum(x=x, axes=[0, 1, 2, 3], keep_dims=False)
    ),
    "output of rank 0, described as one number": Case(
        set(),
        lambda x: mb.reduce_sum(x=x, axes=[0, 1, 2, 3], keep_dims=False),
        lambda s: s.description.output[0].type.multiArrayType.shape.append(1),
    ),
    "rank 6": Case(
        {"rank", "computed"},
        relu,
        set_type("relu", FP32, *X, 1, 1),
    ),
    "empty": Case(
        {"empty"},
        lambda x: mb.slice_by_size(x=x, begin=[0, 0, 0, 0], size=[1, 0, 6, 7]),
    ),
    "int64": Case(
        {"element-type", "input-type", "computed"}, relu, set_type("relu", INT64, *X)
    ),
    "undefined": Case({"undefined"}, relu, bind("relu", "x", "nothing")),
    "one name twice": Case({"name-unique"}, relu, rename("relu", "x")),
    "a name with a dot": Case({"name-form"}, relu, rename("relu", "a.b")),
    "a reserved name": Case({"name-form"}, relu, rename("relu", "tensor")),
    "an op that cannot be run": Case(
        {"computed"},
        lambda x: mb.reshape(x=x, shape=[24, 7]),
        set_ints("reshape", "shape", 24, 8),
    ),
    "declared otherwise": Case({"computed"}, relu, set_type("relu", FP32, 1, 4, 7, 6)),
    # Inputs and outputs of the model.
    "fp16 output on iOS15": Case(
        {"io-type", "target"}, lambda x: mb.cast(x=x, dtype="fp16"), target="iOS15"
    ),
    "input of rank 0": Case(
        {"io-rank", "computed"},
        relu,
        lambda s: clear_shape(s.mlProgram.functions["main"].inputs[0].type.tensorType),
        {"x": (1,)},
    ),
    "described otherwise": Case(
        {"description"},
        relu,
        lambda s: s.description.input[0].type.multiArrayType.shape.append(2),
    ),
    "described by another name": Case(
        {"description"}, relu, lambda s: setattr(s.description.input[0], "name", "z")
    ),
}


def clear_shape(tensor: Any) -> None:
    tensor.rank = 0
    del tensor.dimensions[:]


def test_an_opset_that_is_too_new_is_one_finding(tmp_path: Path):
    def gathers(x: Any) -> Any:
        for _ in range(3):
            x = mb.gather(x=x, indices=[0], validate_indices=False)
        return x

    path = save(tmp_path / "m.mlpackage", gathers, {"x": (1, 4)}, 17, ())

    (finding,) = check(path, "iOS15")

    assert finding.message == (
        "its opset CoreML7 is unknown to iOS15; it has gather 'gather_0', "
        "and iOS15 has no input 'batch_dims' of this op"
    )


class Largest(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.relu()
        return y.topk(2)[0] + 1


def test_an_opset_that_is_too_new_has_the_line_that_needs_it(tmp_path: Path):
    program = padc.convert(Largest(), (torch.rand(3, 4),), target="iOS17")
    program.save(tmp_path / "m.mlpackage")

    (finding,) = check(tmp_path / "m.mlpackage", "iOS15")

    assert finding.location is not None
    assert finding.location.text == "return y.topk(2)[0] + 1"


def test_an_opset_that_nothing_needs(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": X}, 17, ())

    (finding,) = check(path, "iOS15")

    assert finding.message == "its opset CoreML7 is unknown to iOS15"


@pytest.mark.parametrize("name", CASES)
def test_what_breaks_a_rule_is_found(name: str, tmp_path: Path):
    case = CASES[name]
    path = save(tmp_path / "m.mlpackage", case.build, case.shapes, case.ios, case.ints)
    edit(path, case.change)

    findings = check(path, case.target)

    assert {finding.rule for finding in findings} == case.rules
    for finding in findings:
        assert finding.source == RULES[finding.rule].source
        assert finding.source in str(finding) and finding.output in str(finding)


STATES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "element type": (
        "it is fp32, a state is fp16",
        lambda s: setattr(wrapped(s), "dataType", FP32),
    ),
    "described element type": (
        "described as float32",
        lambda s: setattr(
            s.description.state[0].type.stateType.arrayType, "dataType", FLOAT32
        ),
    ),
    "rank": ("no rank of 0", lambda s: clear_shape(wrapped(s))),
    "dynamic size": (
        "a fixed shape",
        lambda s: wrapped(s).dimensions[0].unknown.SetInParent(),
    ),
    "other shape": (
        "described as float16 of shape (2, 1)",
        lambda s: s.description.state[0].type.stateType.arrayType.shape.append(1),
    ),
    "not described": (
        "describes no state",
        lambda s: s.description.ClearField("state"),
    ),
    "only described": (
        "only describes the state",
        lambda s: (
            setattr(s.description.state.add(), "name", "other")
            or s.description.state[1].type.CopyFrom(s.description.state[0].type)
        ),
    ),
    "saved update": (
        "Core ML has no such op",
        lambda s: setattr(find(s, "write_state"), "type", "coreml_update_state"),
    ),
}
"""For each edit of a package with a state, what is found."""


def wrapped(spec: Any) -> Any:
    """The type of the tensor in the state of a package."""
    inputs = spec.mlProgram.functions["main"].inputs
    (state,) = [x for x in inputs if x.type.WhichOneof("type") == "stateType"]
    return state.type.stateType.wrappedType.tensorType


def save_accumulator(path: Path) -> Path:
    """A package with a state `total` of shape (2,)."""
    total = nn.Module()
    total.register_buffer("total", torch.zeros(2, dtype=torch.float16))
    total.forward = lambda x: total.total.add_(x) * 2  # pyright: ignore
    x = torch.ones(2, dtype=torch.float16)
    padc.convert(total, (x,), target="iOS18").save(path)
    return path


@pytest.mark.parametrize("name", STATES)
def test_what_breaks_a_rule_of_states_is_found(name: str, tmp_path: Path):
    message, change = STATES[name]
    path = save_accumulator(tmp_path / "m.mlpackage")
    assert check(path) == []
    edit(path, change)

    findings = check(path)

    assert message in "\n".join(map(str, findings))


def test_states_need_ios18(tmp_path: Path):
    path = save_accumulator(tmp_path / "m.mlpackage")

    messages = {finding.message for finding in check(path, "iOS17")}

    assert "iOS17 has no states" in messages


def test_every_rule_has_a_case():
    # The last are those of the tests of weights and states.
    covered = {rule for case in CASES.values() for rule in case.rules}
    covered |= {"weights", "state"}

    assert covered == RULES.keys()
    assert all(rule.source.startswith("https://") for rule in RULES.values())


@pytest.mark.parametrize("precision", [ct.precision.FLOAT32, ct.precision.FLOAT16])
def test_weights_cut_short(precision: Any, tmp_path: Path):
    model = nn.Sequential(nn.Conv2d(3, 64, 5), nn.Conv2d(64, 8, 3))
    path = convert(tmp_path, model, 1, 3, 8, 8, precision=precision)
    weights = path / "Data/com.apple.CoreML/weights/weight.bin"
    weights.write_bytes(weights.read_bytes()[:-64])

    (finding,) = check(path)

    assert finding.rule == "weights"
    assert finding.op_type == "const"


def test_no_weights(tmp_path: Path):
    path = convert(tmp_path, nn.Linear(64, 64), 1, 64)
    (path / "Data/com.apple.CoreML/weights/weight.bin").unlink()

    findings = check(path)

    assert {finding.rule for finding in findings} == {"weights"}


def convert(
    folder: Path,
    model: nn.Module,
    *shape: Any,
    precision: Any = ct.precision.FLOAT32,
) -> Path:
    """A package that coremltools makes of a module."""
    example = torch.rand([s if isinstance(s, int) else s.default for s in shape])
    package = ct.convert(
        torch.jit.trace(model.eval(), example),
        inputs=[ct.TensorType("x", ct.Shape(shape))],
        minimum_deployment_target=ct.target.iOS17,
        compute_precision=precision,
        skip_model_load=True,
    )
    package.save(str(folder / "coremltools.mlpackage"))
    return folder / "coremltools.mlpackage"


class Pad(nn.Module):
    def __init__(self, *amounts: int, mode: str):
        super().__init__()
        self.amounts, self.mode = amounts, mode

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, self.amounts, self.mode)


@pytest.mark.parametrize(
    "model, shape, rule",
    [
        (nn.ReplicationPad3d(2), (1, 6, 6, 6, 6), "pad-axes"),
        (nn.ReflectionPad3d(2), (1, 6, 6, 6, 6), "pad-axes"),
        (nn.Conv3d(2, 2, 3, padding=1, padding_mode="replicate"), (1, 2, 6, 6, 6), "pad-axes"),
        (nn.Conv2d(2, 2, 3, padding="same"), (1, 2, 6, 6), "pad-same"),
        (Pad(0, 5, 0, 0, mode="replicate"), (1, 2, 6, 4), "pad-replicate"),
        (nn.AvgPool2d(2, ceil_mode=True), (1, 2, 5, 4), "ceil-overhang"),
    ],
)  # fmt: skip
def test_what_coremltools_makes_and_core_ml_refuses(
    model: nn.Module, shape: tuple[int, ...], rule: str, tmp_path: Path
):
    path = convert(tmp_path, model, *shape)

    (finding,) = check(path)

    assert finding.rule == rule


def test_sizes_that_a_flexible_input_may_have(tmp_path: Path):
    height = ct.RangeDim(lower_bound=2, upper_bound=9, default=8)
    path = convert(tmp_path, Pad(0, 0, 3, 3, mode="reflect"), 1, 2, height, 8)

    findings = check(path)

    assert [finding.rule for finding in findings] == ["pad-reflect"]
    assert "of size 2 by (3, 3)" in findings[0].message


def test_an_input_of_unknown_sizes(tmp_path: Path):
    height = ct.RangeDim(lower_bound=4, upper_bound=9, default=8)
    path = convert(tmp_path, Pad(0, 0, 0, 0, 1, 1, mode="reflect"), 1, 2, height, 8, 8)
    edit(path, lambda s: s.description.input[0].type.multiArrayType.ClearField("shape"))
    edit(
        path,
        lambda s: s.description.input[0].type.multiArrayType.ClearField("shapeRange"),
    )

    (finding,) = check(path)

    assert finding.rule == "pad-axes"


def test_everything_that_is_wrong_with_an_op(tmp_path: Path):
    def both(spec: Any) -> None:
        for name in ("x", "weight"):
            find(spec, "conv").inputs.pop(name)

    path = save(tmp_path / "m.mlpackage", conv, {"x": X}, 17)
    edit(path, both)

    findings = check(path)

    assert [(f.rule, f.message) for f in findings] == [
        ("input-missing", "it has no input 'x'"),
        ("input-missing", "it has no input 'weight'"),
    ]


def test_ops_of_a_branch(tmp_path: Path):
    def branches(x: Any) -> Any:
        is_small = mb.less(x=mb.reduce_max(x=x), y=1.0)
        padded = lambda: pad(x, 1, 1, 0, 0, 0, 0, mode="reflect")  # noqa: E731
        constant = lambda: pad(x, 1, 1, 0, 0, 0, 0)  # noqa: E731
        return mb.cond(pred=is_small, _true_fn=padded, _false_fn=constant)

    path = save(tmp_path / "m.mlpackage", branches, {"x": X}, 17)

    (finding,) = check(path)

    assert finding.rule == "pad-axes"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of the ops that are run to compute shapes."""
    made: list[str] = []
    run = Call.run

    def spy(self: Call, *args: Any) -> Any:
        made.append(self.op_type)
        return run(self, *args)

    monkeypatch.setattr(Call, "run", spy)
    return made


def test_branches_are_not_run(calls: list[str], tmp_path: Path):
    def branches(x: Any) -> Any:
        y = mb.relu(x=x)
        return mb.cond(
            pred=mb.less(x=mb.const(val=1.0), y=mb.const(val=2.0)),
            _true_fn=lambda: mb.add(x=y, y=1.0),
            _false_fn=lambda: mb.mul(x=y, y=2.0),
        )

    assert check(save(tmp_path / "m.mlpackage", branches, {"x": X}, 17)) == []
    assert "relu" in calls and "cond" not in calls


def test_large_constants_are_not_computed(calls: list[str], tmp_path: Path):
    def filled(x: Any) -> Any:
        large = mb.fill(shape=[2**11, 2**11], value=1.0)
        small = mb.fill(shape=[2**9, 2**9], value=1.0)
        y = mb.add(x=mb.reduce_sum(x=large), y=mb.reduce_max(x=small))
        return mb.add(x=x, y=y)

    assert check(save(tmp_path / "m.mlpackage", filled, {"x": X}, 17)) == []
    assert calls.count("fill") == 1


def test_large_values_of_inputs_have_computed_shapes(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": (2**11, 2**10)}, 17)
    edit(path, set_type("relu", FP32, 2**10, 2**11))

    assert "computed" in {finding.rule for finding in check(path)}


def test_shapes_that_depend_on_values_of_inputs(tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage",
        lambda x, s: mb.reduce_sum(x=mb.reshape(x=x, shape=s)),
        {"x": (6,), "s": (2,)},
        17,
        ints=("s",),
    )

    assert check(path) == []


def test_lists(tmp_path: Path):
    def listed(x: Any) -> Any:
        pair = mb.make_list(init_length=2, elem_shape=(3,), dtype="fp32")
        pair = mb.list_write(ls=pair, index=0, value=x)
        return mb.list_read(ls=pair, index=0)

    assert check(save(tmp_path / "m.mlpackage", listed, {"x": (3,)}, 17)) == []


def test_unbounded_sizes(tmp_path: Path):
    height = ct.RangeDim(lower_bound=1, upper_bound=9, default=8)
    path = convert(tmp_path, Pad(1, 1, 1, 1, mode="replicate"), 1, 2, height, 8)

    def unbounded(spec: Any) -> None:
        ranges = spec.description.input[0].type.multiArrayType.shapeRange.sizeRanges
        ranges[2].upperBound = -1

    edit(path, unbounded)

    assert check(path) == []


def test_labels_that_are_integers(tmp_path: Path):
    torch_model = torch.jit.trace(nn.Linear(3, 2), torch.ones(1, 3))
    model: Any = ct.convert(
        torch_model,
        inputs=[ct.TensorType("x", (1, 3))],
        classifier_config=ct.ClassifierConfig([7, 9]),
        minimum_deployment_target=ct.target.iOS15,
        skip_model_load=True,
    )
    model.save(str(path := tmp_path / "m.mlpackage"))

    assert check(path) == []


def retyped(
    op_type: str, name: str, dtype: int, values: list[Any]
) -> Callable[[Any], None]:
    """An edit of a constant, which gets another element type."""

    def change(spec: Any) -> None:
        value = constant(spec, op_type, name)
        tensor = value.immediateValue.tensor
        tensor.Clear()
        kind = tensor.strings if dtype == STRING else tensor.floats
        kind.values.extend(values)
        value.type.tensorType.dataType = dtype
        (block,) = spec.mlProgram.functions["main"].block_specializations.values()
        for op in block.operations:
            if op.type == "const" and op.attributes["val"] is value:
                op.outputs[0].type.tensorType.dataType = dtype

    return change


def test_a_string_where_a_number_belongs(tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage", lambda x: mb.softmax(x=x, axis=-1), {"x": X}, 17
    )

    edit(path, retyped("softmax", "axis", STRING, ["last"]))

    assert "input-type" in {finding.rule for finding in check(path)}


def test_amounts_that_are_no_numbers(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", lambda x: pad(x, 0, 0, 1, 1), {"x": X}, 17)

    edit(path, retyped("pad", "pad", FP32, [0, 0, math.nan, 1]))

    assert "input-type" in {finding.rule for finding in check(path)}


def test_which_weights_have_only_shapes(tmp_path: Path):
    large, small = np.ones(5000, np.float32), np.ones(50, np.float32)
    places = np.arange(5000, dtype=np.int32)

    def build(x: Any) -> Any:
        y = mb.gather(x=mb.add(x=x, y=large), indices=places)
        return mb.add(x=y, y=mb.reduce_sum(x=small))

    package = WeightShapes(save(tmp_path / "m.mlpackage", build, {"x": (5000,)}, 17))
    program = load_shapes(package, package.spec.mlProgram.functions["main"])

    arrays = [
        x for x in constants_of(program) if isinstance(x, np.ndarray) and x.size > 9
    ]
    kinds = sorted((x.size, x.dtype.kind, is_dataless(x)) for x in arrays)
    assert kinds == [(50, "f", False), (5000, "f", True), (5000, "i", False)]


def constants_of(program: Any) -> list[Any]:
    """All constants that ops take."""
    found = [*program.constants.values()]
    for call in program.calls:
        found += call.fixed.values()
        for _, sources in call.variable.values():
            found += [x.value for x in sources if not isinstance(x, str)]
    return found


def test_a_finding_without_a_line():
    assert "at" not in str(Finding("rank", "add", "y", "it is", "docs")).split()


def test_nothing_to_find_in_compressed_weights(tmp_path: Path):
    # The op that expands the weight needs a scale of more values than are read of fp16.
    linear = nn.Linear(16, 5000)
    path = convert(tmp_path, linear, 1, 16, precision=ct.precision.FLOAT16)
    config = cto.OptimizationConfig(global_config=cto.OpLinearQuantizerConfig())
    package = ct.models.MLModel(str(path), skip_model_load=True)
    compressed: Any = cto.linear_quantize_weights(package, config)
    compressed.save(str(path))

    assert check(path) == []


class Residual(nn.Module):
    """A residual network: a stem, and blocks that are added to their input."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 7, 2, 3), nn.BatchNorm2d(8), nn.MaxPool2d(3, 2, 1)
        )
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        y = torch.relu(y + self.conv(y))
        return torch.softmax(self.head(y.mean([2, 3])), -1)


@pytest.mark.parametrize("precision", [ct.precision.FLOAT32, ct.precision.FLOAT16])
def test_nothing_to_find_in_what_coremltools_makes(precision: Any, tmp_path: Path):
    path = convert(tmp_path, Residual(), 1, 3, 32, 32, precision=precision)

    assert check(path) == []


IMAGE = (1, 4, 9, 8)
CLEAN: list[tuple[nn.Module, tuple[int, ...]]] = [
    (Residual(), (1, 3, 32, 32)),
    (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (1, 5, 8)),
    (nn.GroupNorm(2, 4), IMAGE),
    (nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1), IMAGE),
    (nn.AvgPool2d(2, ceil_mode=True), IMAGE),
    (nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), IMAGE),
    (nn.MaxPool2d(3, 2, dilation=2), IMAGE),
    (nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    (nn.Upsample(scale_factor=2, mode="nearest"), IMAGE),
    (nn.Conv2d(4, 4, 2, padding="same"), IMAGE),
    *(
        (Pad(2, 1, 0, 3, mode=mode), IMAGE)
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    *(
        (Pad(2, 1, 0, 1, 1, 1, mode=mode), (1, 2, 4, 5, 6))
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    (Pad(0, 7, 0, 0, mode="replicate"), (1, 2, 3, 4)),
    (Pad(-1, 2, mode="constant"), IMAGE),
]


@pytest.mark.parametrize("model, shape", CLEAN)
def test_nothing_to_find_in_what_padc_makes(
    model: nn.Module, shape: tuple[int, ...], tmp_path: Path
):
    path = tmp_path / "padc.mlpackage"
    padc.convert(model.eval(), (torch.rand(shape),)).save(path)

    assert check(path) == []


def test_the_line_that_padc_recorded(tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage", lambda x: conv(x, pad_type="same"), {"x": X}, 17
    )
    (finding,) = check(path)
    recorded = json.dumps({finding.output: "/models/net.py:12"})
    edit(
        path,
        lambda spec: spec.description.metadata.userDefined.update(
            {"padc.locations": recorded}
        ),
    )

    (located,) = check(path)

    assert located.location == SourceLocation("/models/net.py", 12)
    assert "at /models/net.py:12" in str(located)


class Normalized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate")
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        return y.relu()


def test_padc_records_the_line_of_each_op(tmp_path: Path):
    path = tmp_path / "padc.mlpackage"
    padc.convert(Normalized().eval(), (torch.rand(IMAGE),)).save(path)
    spec = Package(path).spec

    lines = read_locations(spec.description)

    block = spec.mlProgram.functions["main"].block_specializations["CoreML7"]
    ops = [op for op in block.operations if op.type != "const"]
    assert [(op.type, lines[op.outputs[0].name].text) for op in ops] == [
        ("pad", "y = self.norm(self.conv(x))"),
        ("conv", "y = self.norm(self.conv(x))"),
        ("relu", "return y.relu()"),
    ]


def test_the_line_in_one_of_several_functions(tmp_path: Path):
    path = tmp_path / "m.mlpackage"
    image = (torch.rand(IMAGE),)
    program = padc.convert(Normalized().eval(), image, target="iOS18")
    padc.save_functions({"first": program, "second": program}, path)

    def change(spec: Any) -> None:
        function = spec.mlProgram.functions["second"]
        (block,) = function.block_specializations.values()
        (relu,) = [op for op in block.operations if op.type == "relu"]
        relu.type = "unknown"

    edit(path, change)

    (finding,) = check(path)

    assert finding.location is not None
    assert finding.location.text == "return y.relu()"


@pytest.mark.parametrize("recorded", ["", "[]", "{", '{"a": 1}', '{"a": "b:c"}'])
def test_locations_that_padc_did_not_record(recorded: str, tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": X}, 17)
    edit(
        path,
        lambda spec: spec.description.metadata.userDefined.update(
            {"padc.locations": recorded}
        ),
    )

    assert check(path) == []


def test_what_cannot_be_checked(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": X}, 17)

    with pytest.raises(UsageError, match="no such folder"):
        check(tmp_path / "nowhere.mlpackage")
    with pytest.raises(UsageError, match="there is no target 'iOS3'"):
        check(path, "iOS3")
    edit(path, lambda s: setattr(s.mlProgram.functions["main"], "opset", "CoreML99"))
    with pytest.raises(InvalidProgramError, match="'main' has no block for its opset"):
        check(path)


def test_a_name_that_is_in_messages_of_pytorch(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": X}, 17)

    def rename(spec: Any) -> None:
        find(spec, "relu").outputs[0].name = "metadata"
        find(spec, "identity").inputs["x"].arguments[0].name = "metadata"

    edit(path, rename)
    assert check(path) == []
    edit(path, set_type("relu", FP32, 1, 4, 7, 6))

    assert {finding.rule for finding in check(path)} == {"computed"}


def test_absurd_sizes(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", relu, {"x": X}, 17)
    absurd = set_type("relu", FP32, 2**40, 2**40, 1, 1)
    edit(path, absurd)

    assert {finding.rule for finding in check(path)} == {"computed"}

    edit(
        path,
        lambda spec: (
            spec.mlProgram.functions["main"]
            .inputs[0]
            .type.CopyFrom(find(spec, "relu").outputs[0].type)
        ),
    )

    with pytest.raises(InvalidProgramError, match="is too large"):
        check(path)


def undefined_output(spec: Any) -> None:
    (block,) = spec.mlProgram.functions["main"].block_specializations.values()
    block.outputs[0] = "nowhere"


def no_value(spec: Any) -> None:
    del find(spec, "const").attributes["val"]


def no_block(spec: Any) -> None:
    function = spec.mlProgram.functions["main"]
    function.block_specializations["CoreML9"].CopyFrom(
        function.block_specializations[function.opset]
    )
    del function.block_specializations[function.opset]


@pytest.mark.parametrize(
    "change, rules",
    [
        (undefined_output, {"description", "undefined"}),
        (no_value, {"input-missing"}),
    ],
)
def test_what_no_op_has(change: Callable[[Any], None], rules: set[str], tmp_path: Path):
    path = save(
        tmp_path / "m.mlpackage", lambda x: mb.add(x=x, y=[1.0, 2.0]), {"x": (2,)}, 15
    )
    edit(path, change)

    assert {finding.rule for finding in check(path)} == rules


def test_a_function_without_a_block_for_its_opset(tmp_path: Path):
    path = save(tmp_path / "m.mlpackage", lambda x: mb.relu(x=x), {"x": (2,)}, 15)
    edit(path, no_block)

    with pytest.raises(InvalidProgramError, match="'main' has no block for its opset"):
        check(path)


# --- edits of one package -------------------------------------------------------------

FLOAT32, FLOAT16_ARRAY = 65568, 65552  # ArrayDataType of FeatureTypes.proto
BOOL, FLOAT64, INT8 = 1, 12, 21


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of `identity(add(x, y))`; `x` has shape (1, 3, 4), `y` is constant."""
    numbers = np.arange(3, dtype=np.float32).reshape(3, 1)
    path = tmp_path_factory.mktemp("adder") / "m.mlpackage"
    return save(path, lambda x: mb.add(x=x, y=numbers), {"x": (1, 3, 4)}, 17)


def main_of(spec: Any) -> Any:
    return spec.mlProgram.functions["main"]


def array_of(spec: Any, kind: str = "input") -> Any:
    """The described array of the input, or output."""
    return getattr(spec.description, kind)[0].type.multiArrayType


def drop_a_number(spec: Any) -> None:
    constant(spec, "add", "y").immediateValue.tensor.floats.values.pop()


def inline(spec: Any) -> Any:
    """Give `add` its constant without a `const` op."""
    (argument,) = find(spec, "add").inputs["y"].arguments
    argument.value.CopyFrom(constant(spec, "add", "y"))
    return argument.value


def inline_weight(spec: Any) -> None:
    inline(spec).blobFileValue.fileName = "@model_path/weights/nothing.bin"


def opset(name: str) -> Callable[[Any], None]:
    """An edit of the opset, from iOS17's."""

    def change(spec: Any) -> None:
        blocks = main_of(spec).block_specializations
        blocks[name].CopyFrom(blocks["CoreML7"])
        del blocks["CoreML7"]
        main_of(spec).opset = name

    return change


def classifier(spec: Any) -> None:
    spec.description.predictedFeatureName = "label"
    spec.description.output[0].name = "label"


def image(spec: Any) -> None:
    described = spec.description.input[0].type.imageType
    described.width, described.height, described.colorSpace = 4, 3, 10


def unknown_type(spec: Any) -> None:
    main_of(spec).inputs[0].type.tensorType.dataType = FLOAT64


def custom_layer(spec: Any) -> None:
    op = find(spec, "add")
    op.type = "custom_layer"
    op.attributes["weights"].CopyFrom(constant(spec, "custom_layer", "y"))
    tensor = op.attributes["weights"].type.tensorType
    tensor.rank = 6
    for _ in range(4):
        tensor.dimensions.add().constant.size = 1


def flexible(low: int, high: int, dim: int = 0) -> Callable[[Any], None]:
    """An edit that makes a size of the input flexible, and of the results."""

    def change(spec: Any) -> None:
        types = [find(spec, name).outputs[0].type for name in ("add", "identity")]
        for each in (main_of(spec).inputs[0].type, *types):
            each.tensorType.dimensions[dim].unknown.SetInParent()
        described = array_of(spec)
        for number, size in enumerate(described.shape):
            bounds = described.shapeRange.sizeRanges.add()
            is_flexible = number == dim
            bounds.lowerBound = low if is_flexible else size
            bounds.upperBound = high if is_flexible else size
        array_of(spec, "output").ClearField("shape")

    return change


def all_of(*changes: Callable[[Any], Any]) -> Callable[[Any], None]:
    def change(spec: Any) -> None:
        for each in changes:
            each(spec)

    return change


def other_name(spec: Any) -> None:
    spec.description.input[0].name = "z"


wrong_type = set_type("add", FP32, 1, 4, 3)
"""Neither `add` nor `identity` returns its declared type then."""
EDITS: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "nothing": (lambda s: None, []),
    "a constant of too few numbers": (drop_a_number, ["computed"]),
    "a constant that is damaged twice": (
        all_of(drop_a_number, rename("add", "a.b")),
        ["name-form"],
    ),
    "a constant in line": (inline, []),
    "a weight in line that is missing": (inline_weight, ["weights"]),
    "another output": (
        lambda s: setattr(s.description.output[0], "name", "z"),
        ["description", "description"],
    ),
    "outputs of a classifier": (classifier, []),
    "an image": (image, []),
    "a weight of rank 6 of a custom layer": (custom_layer, []),
    "a number of another type": (
        lambda s: setattr(array_of(s), "dataType", FLOAT16_ARRAY),
        ["description"],
    ),
    "another size": (
        lambda s: array_of(s).shape.__setitem__(1, 4),
        ["description"],
    ),
    "an unknown type of input": (unknown_type, ["element-type"]),
    "an unknown type": (set_type("add", 99, 1, 3, 4), ["element-type"]),
    "bools for outputs": (
        set_type("identity", BOOL, 1, 3, 4),
        ["computed", "description", "io-type"],
    ),
    "bytes for outputs": (
        set_type("identity", INT8, 1, 3, 4),
        ["computed", "description", "io-type"],
    ),
    "bytes for outputs of iOS26": (
        all_of(set_type("identity", INT8, 1, 3, 4), opset("CoreML9")),
        ["computed", "description"],
    ),
    "an input that is not described": (
        all_of(other_name, wrong_type),
        ["computed", "computed", "description", "description"],
    ),
    # Sizes: each op is reported once for a rule.
    "any size": (flexible(1, 2**62), []),
    "wrong for every size": (
        all_of(flexible(1, 9), wrong_type),
        ["computed", "computed"],
    ),
    "too many dimensions": (
        all_of(flexible(1, 9), set_type("add", FP32, 1, 1, 1, 1, 3, 4)),
        ["computed", "computed", "rank"],
    ),
    "the largest size": (flexible(3, 9, dim=1), ["computed"]),
    "an empty size": (flexible(0, 9), ["empty", "empty"]),
    "a flexible input that is not described": (
        all_of(flexible(1, 9), other_name),
        ["description", "description"],
    ),
}
"""For each edit of the package, the rules that are broken, in alphabetical order."""


@pytest.mark.parametrize("name", EDITS)
def test_what_is_found_after_an_edit(name: str, adder: Path, tmp_path: Path):
    change, rules = EDITS[name]
    path = tmp_path / "m.mlpackage"
    shutil.copytree(adder, path)
    edit(path, change)

    assert sorted(finding.rule for finding in check(path)) == rules


def test_an_opset_that_is_not_known(adder: Path, tmp_path: Path):
    path = tmp_path / "m.mlpackage"
    shutil.copytree(adder, path)
    edit(path, opset("CoreML99"))

    with pytest.raises(
        InvalidProgramError, match="has the opset 'CoreML99'; padc knows CoreML5, "
    ):
        check(path)
