# pyright: reportUnknownMemberType=false
"""The walk over a package that collects violations of the rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from padc.backends.coreml.checker.checked_op import Op, Shapes, Value, read_type
from padc.backends.coreml.checker.finding import Finding
from padc.backends.coreml.checker.rules import RULES, is_available, newer
from padc.backends.coreml.checker.shapes import WeightShapes, compute, load
from padc.backends.coreml.evaluator.execution import Block
from padc.backends.coreml.evaluator.features import Feature, describe
from padc.backends.coreml.evaluator.metadata_keys import LOCATIONS, metadata_key
from padc.backends.coreml.evaluator.package import Message
from padc.backends.coreml.evaluator.values.types import (
    DTYPES,
    FP16,
    StateType,
    TensorType,
)
from padc.errors import InvalidProgramError, SourceLocation, UnsupportedError
from padc.ir.targets import TARGETS, resolve_target

OPSETS = {f"CoreML{number}": target for number, target in enumerate(TARGETS, 5)}

IO_TYPES = {"fp32": "iOS15", "int32": "iOS15", "fp16": "iOS16", "int8": "iOS26"}
"""The first target with inputs and outputs of each element type."""

STRING = 2  # DataType of mlmodel/format/MIL.proto

RESERVED = frozenset(
    "any bool program func tensor list dict tuple true false string bf16 fp16 fp32 "
    "fp64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 state".split()
)


def check(path: Path | str, target: str | None = None) -> list[Finding]:
    """
    Look for everything in a saved package that breaks a rule of Core ML.

    Args:
        path: A `.mlpackage` that holds an ML program.
        target: The system that the package is to run on, "iOS15" to "iOS18", "iOS26" or
            "newest"; by default the oldest one that its opset allows.

    Returns:
        A finding for each place that breaks a rule.

    Raises:
        UsageError: There is no such package or target.
        InvalidProgramError: The manifest or the protobuf is damaged.
        UnsupportedError: The package does not hold an ML program.

    Example:
        >>> import padc, torch
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> padc.coreml.check("relu.mlpackage", target="iOS17")
        []
    """
    target = None if target is None else resolve_target(target)
    package = WeightShapes(path)
    package.check_kind()
    model = package.spec.description
    described = {item.name: item for item in model.functions}
    findings: list[Finding] = []
    for name, function in sorted(package.spec.mlProgram.functions.items()):
        several = name if described else None
        locations = read_locations(model, several)
        checker = _FunctionChecker(name, function, package, target, locations)
        with np.errstate(all="ignore"):
            checker.check(described.get(name, model))
        findings += checker.findings
    return findings


class _FunctionChecker:
    def __init__(
        self,
        name: str,
        function: Message,
        package: WeightShapes,
        target: str | None,
        locations: Mapping[str, SourceLocation],
    ):
        self.name = name
        self.function = function
        self.package = package
        self.locations = locations
        if function.opset not in function.block_specializations:
            raise InvalidProgramError(
                f"function {name!r} has no block for its opset {function.opset!r}"
            )
        if (opset := OPSETS.get(function.opset)) is None:
            raise InvalidProgramError(
                f"function {name!r} has the opset {function.opset!r}; padc knows "
                f"{', '.join(OPSETS)}"
            )
        self.opset = opset
        self.target = min(target or self.opset, self.opset, key=TARGETS.index)
        self.shapes = Shapes(package)
        self.ops: list[Op] = []
        self.findings: list[Finding] = []

    def report(
        self, rule: str, op_type: str, output: str, message: str, at: Op | None = None
    ) -> None:
        """Add a finding, at the line of its output, or of the op that it is about."""
        source = RULES[rule].source
        location = self.locations.get(output if at is None else at.name)
        self.findings.append(Finding(rule, op_type, output, message, source, location))

    def check(self, description: Message) -> None:
        inputs = {
            item.name: self.define("input", item, ()) for item in self.function.inputs
        }
        outputs = self.read_block(
            self.function.block_specializations[self.function.opset], inputs
        )
        if self.target != self.opset:
            self.report_target()
        states = {
            name: inputs.pop(name)
            for name, value in list(inputs.items())
            if isinstance(value.type, StateType)
        }
        self.check_states(description.state, states)
        self.check_features("input", description.input, inputs)
        # The outputs of a classifier are not those of its program.
        if not description.predictedFeatureName:
            self.check_features("output", description.output, outputs)
        try:
            program = load(self.package, self.function)
        except UnsupportedError:
            return self.check_ops()  # Only the declared shapes are known.
        except InvalidProgramError as error:
            self.check_ops()
            if not self.findings:
                self.report("computed", "function", self.name, error.message)
            return
        for sizes in samples(description, program):
            self.check_shapes(program, sizes)

    def report_target(self) -> None:
        """Report that the target lacks the opset, at the first op that needs it."""
        message = f"its opset {self.function.opset} is unknown to {self.target}"
        for op in self.ops:
            for why in newer(op, self.target):
                message += f"; it has {op.type} '{op.name}', and {why}"
                return self.report("target", "function", self.name, message, at=op)
        self.report("target", "function", self.name, message)

    def check_shapes(
        self, program: Block, sizes: Mapping[str, tuple[int, ...]] | None
    ) -> None:
        """Check the ops for inputs of these sizes; None is the declared ones."""
        errors: dict[str, InvalidProgramError] = {}
        for output, result in compute(program, sizes) if sizes is not None else ():
            if isinstance(result, InvalidProgramError):
                errors[output] = result
            else:
                self.shapes.computed[output] = result
        self.check_ops()
        self.shapes.computed.clear()
        explained = {finding.output for finding in self.findings}
        computed = {f.output for f in self.findings if f.rule == "computed"}
        for op in self.ops:
            error = errors.get(op.name)
            if error is None or op.name in computed:
                continue
            # An op that breaks a rule often cannot be run: one finding is enough.
            if error.__cause__ is None or op.name not in explained:
                message = f"{error.message}, for {sizes}"
                self.report("computed", op.type, op.name, message)

    def check_ops(self) -> None:
        """
        Check the ops against the rules for which they have no finding yet.

        The rules are those of the function's own opset. Where the target is older, one
        finding says so for all ops.
        """
        assert self.opset is not None
        known = {(finding.rule, finding.output) for finding in self.findings}
        for name, rule in RULES.items():
            if rule.check is None:
                continue
            for op in self.ops:
                if rule.op_types and op.type not in rule.op_types:
                    continue
                if (name, op.name) not in known:
                    for message in rule.check(op, self.opset):
                        self.report(name, op.type, op.name, message)

    # --- reading ----------------------------------------------------------------------

    def read_block(
        self, block: Message, outer: Mapping[str, Value]
    ) -> dict[str, Value]:
        """Read the ops of a block, inner blocks first; returns its outputs."""
        scope = dict(outer)
        for item in block.inputs:
            scope[item.name] = self.define("block", item, outer)
        for operation in block.operations:
            for inner in operation.blocks:
                self.read_block(inner, scope)
            if operation.type == "const":
                outputs = self.read_const(operation, scope)
            else:
                outputs = self.read_op(operation, scope)
            scope |= {value.name: value for value in outputs}
        for name in set(block.outputs) - scope.keys():
            message = f"nothing defines the output '{name}' of a block"
            self.report("undefined", "function", self.name, message)
        return {name: scope[name] for name in block.outputs if name in scope}

    def read_const(self, operation: Message, scope: Mapping[str, Value]) -> list[Value]:
        value = operation.attributes["val"] if "val" in operation.attributes else None
        for item in operation.outputs:
            if value is None:
                self.report("input-missing", "const", item.name, "it has no value")
            else:
                self.check_weight("const", item.name, value)
        return [
            self.define("const", item, scope, True, value) for item in operation.outputs
        ]

    def read_op(self, operation: Message, scope: Mapping[str, Value]) -> list[Value]:
        kind, name = operation.type, next((o.name for o in operation.outputs), "")
        inputs: dict[str, list[Value]] = {}
        for key, argument in operation.inputs.items():
            inputs[key] = []
            for binding in argument.arguments:
                if binding.WhichOneof("binding") == "value":
                    inputs[key].append(self.inline(kind, name, binding.value))
                elif binding.name in scope:
                    inputs[key].append(scope[binding.name])
                else:
                    message = f"nothing before it defines '{binding.name}'"
                    self.report("undefined", kind, name, message)
                    # The input is given, even though nothing is known about it.
                    inputs[key].append(Value("", None, True))
        # The constexpr ops of iOS16 have attributes instead of inputs.
        for key, value in operation.attributes.items():
            if key != "name" and kind != "custom_layer":
                inputs[key] = [self.inline(kind, name, value)]
        is_constant = kind.startswith("constexpr_")
        outputs = [
            self.define(kind, item, scope, is_constant) for item in operation.outputs
        ]
        self.ops.append(Op(kind, inputs, outputs, self.shapes))
        return outputs

    def inline(self, op_type: str, output: str, value: Message) -> Value:
        """An inline constant."""
        self.check_weight(op_type, output, value)
        return Value("", read_type(value.type), True, value)

    def check_weight(self, op_type: str, output: str, value: Message) -> None:
        if value.WhichOneof("value") == "blobFileValue":
            try:
                self.package.constant(value)
            except InvalidProgramError as error:
                self.report("weights", op_type, output, error.message)
            except UnsupportedError:
                pass  # `define` reports this type.

    def define(
        self,
        op_type: str,
        item: Message,
        scope: Mapping[str, Value] | Sequence[str],
        is_constant: bool = False,
        constant: Message | None = None,
    ) -> Value:
        """The value that a `NamedValueType` declares."""
        if item.name in scope:
            message = "an earlier value has this name"
            self.report("name-unique", op_type, item.name, message)
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", item.name):
            message = "a name has only letters, digits and _, and no digit first"
            self.report("name-form", op_type, item.name, message)
        elif item.name in RESERVED:
            message = "the name is reserved"
            self.report("name-form", op_type, item.name, message)
        # The labels of a classifier are not tensors.
        fault = None if op_type == "classify" else unknown_element(item.type)
        if fault is not None:
            message = f"Core ML has no tensors of {fault}"
            self.report("element-type", op_type, item.name, message)
        return Value(item.name, read_type(item.type), is_constant, constant)

    # --- inputs and outputs of the model ----------------------------------------------

    def check_features(
        self, kind: str, described: Sequence[Message], values: Mapping[str, Value]
    ) -> None:
        features = {item.name: describe(item) for item in described}
        for name in sorted(features.keys() ^ values.keys()):
            where = "describes no" if name in values else "only describes the"
            message = f"the model {where} {kind} of this name"
            self.report("description", kind, name, message)
        for name, value in values.items():
            if not isinstance(value.type, TensorType):
                continue
            since = IO_TYPES.get(element := value.type.dtype.name)
            if since is None or not is_available(since, self.target):
                message = f"{self.target} has no {kind} of {element}"
                self.report("io-type", kind, name, message)
            if kind == "input" and value.type.shape == ():
                self.report("io-rank", kind, name, "it has rank 0")
            feature = features.get(name)
            if feature is None or feature.color is not None:
                continue
            if feature.dtype != value.type.dtype.storage or (
                feature.shape and not fits(feature.shape, value.type)
            ):
                message = f"it is {value.type}, but described as {feature.expected}"
                self.report("description", kind, name, message)

    def check_states(
        self, described: Sequence[Message], values: Mapping[str, Value]
    ) -> None:
        features = {item.name: describe(item) for item in described}
        for name in sorted(features.keys() ^ values.keys()):
            where = "describes no" if name in values else "only describes the"
            message = f"the model {where} state of this name"
            self.report("description", "state", name, message)
        for name, value in values.items():
            assert isinstance(value.type, StateType)
            tensor, feature = value.type.tensor, features.get(name)
            if not is_available("iOS18", self.target):
                self.report("state", "state", name, f"{self.target} has no states")
            if tensor.dtype is not FP16:
                message = f"it is {tensor.dtype}, a state is fp16"
                self.report("state", "state", name, message)
            if not tensor.shape or None in tensor.shape:
                message = f"it is {tensor}, a state has a fixed shape, and no rank of 0"
                self.report("state", "state", name, message)
            if feature is not None and (
                feature.dtype != tensor.dtype.storage or not fits(feature.shape, tensor)
            ):
                message = f"it is {tensor}, but described as {feature.expected}"
                self.report("description", "state", name, message)


def fits(shape: Sequence[int], kind: TensorType) -> bool:
    # Core ML passes a scalar as an array of one element.
    dims = kind.shape or (1,)
    return len(shape) == len(dims) and all(
        dim in (None, size) for size, dim in zip(shape, dims, strict=True)
    )


def unknown_element(message: Message) -> str | None:
    """The element type of a tensor, if Core ML's runtime does not have it."""
    if message.WhichOneof("type") != "tensorType":
        return None
    tensor = message.tensorType
    if tensor.dataType == STRING or (
        tensor.dataType in DTYPES and DTYPES[tensor.dataType].name != "int64"
    ):
        return None
    names = tensor.DESCRIPTOR.fields_by_name["dataType"].enum_type.values_by_number
    known = names.get(tensor.dataType)
    return known.name.lower() if known else f"type {tensor.dataType}"


def read_locations(
    model: Message, function: str | None = None
) -> dict[str, SourceLocation]:
    """
    The lines of Python that padc recorded in a package's metadata.

    Of packages with several functions, those of one of them.
    """
    key = metadata_key(LOCATIONS, function)
    try:
        recorded = json.loads(model.metadata.userDefined.get(key, "{}"))
        lines = {name: text.rpartition(":") for name, text in recorded.items()}
        return {
            name: SourceLocation(file, int(line))
            for name, (file, _, line) in lines.items()
        }
    except (AttributeError, ValueError, RecursionError):
        return {}  # Not written by padc.


def samples(
    description: Message, program: Block
) -> Sequence[dict[str, tuple[int, ...]] | None]:
    """
    Shapes of a function's inputs to check it with. Flexible ones have the default, the
    smallest and the largest, or all that are listed; None if a shape is not described.
    """
    features = {item.name: describe(item) for item in description.input}
    choices = {
        name: sizes_of(features.get(name), kind)
        for name, kind in program.inputs.items()
        if isinstance(kind, TensorType)
    }
    if not all(choices.values()):
        return [None]
    return [
        {name: sizes[min(index, len(sizes) - 1)] for name, sizes in choices.items()}
        for index in range(max(map(len, choices.values()), default=1))
    ]


def sizes_of(feature: Feature | None, kind: TensorType) -> list[tuple[int, ...]]:
    static = tuple(size for size in kind.shape if size is not None)
    if len(static) == len(kind.shape):
        return [static]
    if feature is None:
        return []
    smallest = tuple(low for low, _ in feature.ranges)
    largest = tuple(high for _, high in feature.ranges if high is not None)
    shapes = [feature.shape, *feature.shapes, smallest]
    if prod(largest) < 2**31:
        shapes.append(largest)
    return [shape for shape in dict.fromkeys(shapes) if fits(shape, kind)]
