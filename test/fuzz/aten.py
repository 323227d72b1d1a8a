# pyright: basic
"""MLIR text with any of ATen's ops, on constants and inputs that they may not take."""

from __future__ import annotations

import re
from random import Random

from fuzz.changes import FLOATS, NUMBERS
from fuzz.mlir import MlirModels, MlirRuns, MlirText
from fuzz.seed_texts import spec, ways

from padc.ir.torch.schemas import Argument, Schema, declarations
from padc.tools.instrumentation import PASSES_KEY

ELEMENTS = "f32", "f64", "f16", "bf16", "i1", "si64", "si32", "si8", "ui8"
SHAPES = (
    *((), (1,), (4,), (0,), (2, 3), (3, 3), (4, 4), (0, 2)),
    *((1, 2, 5), (2, 2, 2), (1, 2, 4, 4), (2, 2, 3, 3), (1, 2, 3, 3, 3)),
)
SIZES = (-1, 0, 1, 1, 2, 2, 3)
WORDS = (
    *("none", "mean", "sum", "constant", "reflect", "replicate", "circular", "tanh"),
    *("bilinear", "nearest", "floor", "trunc", "same", "valid", "ij", "xy", "L", "fro"),
)
ABSENT = 0.4
"""The share of optional arguments that are None."""


class AtenOps(MlirText):
    """
    What `padc-opt` does with ATen's ops, each of all that a schema declares.

    A case is a reproducer: a line with the passes, and a function of two or three ops.
    """

    def prepare(self) -> None:
        self.pipelines = ["fold-constants", *map(spec, ways())]
        self.schemas = [
            text for name, text in declarations().items() if name.startswith("aten.")
        ]

    def case(self, rng: Random) -> bytes:
        # PyTorch gets the operands as they are only where all of them are constants.
        constant = rng.random() < 0.7
        writer = Writer(rng, () if constant else (tensor_type(rng), tensor_type(rng)))
        for _ in range(rng.choice((1, 1, 2, 3))):
            writer.op(rng.choice(self.schemas))
        passes = rng.choice(self.pipelines)
        return f"{PASSES_KEY}{passes}\n{writer.text()}\n".encode()


class AtenModels(AtenOps, MlirModels):
    """
    What `padc convert` does with ATen's ops.

    A case is the text.
    """

    def prepare(self) -> None:
        MlirModels.prepare(self)
        AtenOps.prepare(self)

    def case(self, rng: Random) -> bytes:
        return AtenOps.case(self, rng).partition(b"\n")[2]

    def run(self, case: bytes) -> None:
        MlirModels.run(self, case)


class AtenRuns(AtenModels, MlirRuns):
    """
    What `padc run` does with ATen's ops.

    A case is the text.
    """


def tensor_type(rng: Random, element: str = "") -> str:
    shape = ",".join(map(str, rng.choice(SHAPES)))
    return f"!torch.vtensor<[{shape}],{element or rng.choice(ELEMENTS)}>"


def torch_type(type: str) -> str:
    """The type of the torch dialect for an ATen type."""

    def inner(type: str) -> str:
        if type.endswith("?"):
            return f"optional<{inner(type[:-1])}>"
        if type.endswith("]"):
            return f"list<{inner(type[: type.rindex('[')])}>"
        others = {
            "Tensor": "vtensor",
            "SymInt": "int",
            "Scalar": "number",
            "Any": "any",
        }
        return others.get(type, type)

    return f"!torch.{inner(type)}"


class Writer:
    """A function of `inputs`, types of tensors, that is written line by line."""

    def __init__(self, rng: Random, inputs: tuple[str, ...]):
        self.rng = rng
        self.inputs = inputs
        self.tensors = [(f"%x{i}", type) for i, type in enumerate(inputs)]
        """The values so far that are tensors, with their types."""
        self.last = ("%none", "!torch.none")
        self.lines: list[str] = []

    def text(self) -> str:
        parameters = ", ".join(f"%x{i}: {type}" for i, type in enumerate(self.inputs))
        value, type = self.last
        first = "%none = torch.constant.none"
        lines = [first, *self.lines, f"func.return {value} : {type}"]
        return "\n".join([f"func.func @main({parameters}) -> {type} {{", *lines, "}"])

    def line(self, right: str, type: str) -> tuple[str, str]:
        """A new value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = {right}")
        return name, type

    def op(self, declaration: str) -> None:
        """An op that takes what its schema says, and results of some type."""
        schema = Schema.parse(declaration)
        # Most ops take operands of one dtype only.
        element = self.rng.choice([*ELEMENTS, "f32", "f32", "f32", ""])
        operands = [self.operand(each, element) for each in schema.arguments]
        names = ", ".join(name for name, _ in operands)
        types = ", ".join(type for _, type in operands)
        taken = [type for _, type in operands if "vtensor" in type]
        results = [
            self.rng.choice([*taken, tensor_type(self.rng, element)])
            if each.type == "Tensor"
            else torch_type(each.type)
            for each in schema.returns
        ]
        made = [f"%r{len(self.lines)}_{i}" for i in range(len(results))]
        all_results = ", ".join(results)
        if "!" in declaration[:2]:
            right = (
                f'torch.operator "torch.{schema.name}"({names}) : ({types}) -> '
                f"({all_results})"
            )
        else:
            to = f" -> {all_results}" if results else ""
            right = f"torch.{schema.name} {names} : {types}{to}"
        self.lines.append(f"{', '.join(made)} = {right}" if made else right)
        values = list(zip(made, results, strict=True))
        self.tensors += [each for each in values if "vtensor<" in each[1]]
        self.last = [self.last, *values][-1]

    def operand(self, argument: Argument, element: str) -> tuple[str, str]:
        """A value for an argument, as a rule of its type."""
        if argument.has_default and self.rng.random() < 0.5:
            return self.constant(argument.default, argument.type, element)
        return self.value(argument.type, element)

    def constant(self, value: object, type: str, element: str) -> tuple[str, str]:
        """A Python value."""
        match value:
            case None:
                return self.line("torch.constant.none", "!torch.none")
            case bool():
                right = f"torch.constant.bool {str(value).lower()}"
                return self.line(right, "!torch.bool")
            case int():
                return self.line(f"torch.constant.int {value}", "!torch.int")
            case float() if value - value == 0:
                return self.line(f"torch.constant.float {value:e}", "!torch.float")
            case str():
                return self.line(f'torch.constant.str "{value}"', "!torch.str")
            case _:
                return self.value(type, element)

    def value(self, type: str, element: str) -> tuple[str, str]:
        """A value of an ATen type."""
        rng = self.rng
        if type.endswith("?"):
            if rng.random() < ABSENT:
                return self.constant(None, type, element)
            return self.value(type[:-1], element)
        if match := re.fullmatch(r"(.+)\[(\d*)\]", type):
            return self.list_of(match[1], int(match[2] or 0), element)
        match type:
            case "Tensor":
                return self.tensor(element)
            case "int" | "SymInt":
                near = rng.random() < 0.85
                number = rng.choice(SIZES if near else NUMBERS)
                return self.constant(max(-(2**63), min(number, 2**63 - 1)), "", "")
            case "ScalarType":
                return self.constant(rng.choice((*range(16), 27, 28, 43)), "", "")
            case "Layout" | "MemoryFormat":
                return self.constant(rng.choice((0, 0, 1, 2, 3, 9, -1, 2**40)), "", "")
            case "Scalar":
                kind = rng.choice(("int", "float", "bool"))
                return self.value(kind, element)
            case "float":
                number = rng.choice(FLOATS)
                if number - number:
                    return self.line(
                        "torch.constant.float 0x7FF0000000000000", "!torch.float"
                    )
                return self.constant(number, "", "")
            case "bool":
                return self.constant(rng.random() < 0.5, "", "")
            case "str":
                return self.constant(rng.choice(WORDS), "", "")
            case "Device":
                device = rng.choice(("cpu", "cpu", "meta", "cuda:0", "mps"))
                return self.line(f'torch.constant.device "{device}"', "!torch.Device")
            case _:
                return self.constant(None, "", "")

    def list_of(self, type: str, size: int, element: str) -> tuple[str, str]:
        count = size if size and self.rng.random() < 0.7 else self.rng.randrange(5)
        values = [self.value(type, element) for _ in range(count)]
        names = ", ".join(name for name, _ in values)
        types = ", ".join(each for _, each in values)
        result = torch_type(f"{type}[]")
        return self.line(
            f"torch.prim.ListConstruct {names} : ({types}) -> {result}", result
        )

    def tensor(self, element: str) -> tuple[str, str]:
        """A tensor that is there, or a new constant of one number."""
        rng = self.rng
        if self.tensors and rng.random() < 0.5:
            return rng.choice(self.tensors)
        element = element or rng.choice(ELEMENTS)
        shape = rng.choice(SHAPES)
        if "f" in element:
            number = f"{rng.choice((0.0, 1.0, -1.0, 2.5)):e}"
        elif element == "i1":
            number = rng.choice(("true", "false"))
        else:
            number = str(
                rng.choice((0, 1, 2, 100) if element == "ui8" else (-1, 0, 1, 3))
            )
        builtin = "x".join([*map(str, shape), element])
        type = f"!torch.vtensor<[{','.join(map(str, shape))}],{element}>"
        return self.line(
            f"torch.vtensor.literal(dense<{number}> : tensor<{builtin}>) : {type}", type
        )
