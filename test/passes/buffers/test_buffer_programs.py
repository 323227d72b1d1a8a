# pyright: basic
"""Random programs of buffers compute the same after the passes that rewrite copies."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block

from padc.passes.buffers.fill_border_only import FillBorderOnlyPass
from padc.passes.buffers.pad_into_producer import PadIntoProducerPass

PROGRAMS = int(os.environ.get("PADC_PROGRAMS", "48"))
SHARES = 4
Parse = Callable[[str], ModuleOp]


# --- the meaning of a program ---------------------------------------------------------


def run(module: ModuleOp, inputs: list[Any]) -> list[Any]:
    """The results of the only function that has a body; NaN is undefined."""
    (function,) = (
        op for op in module.ops if isinstance(op, func.FuncOp) and op.body.blocks
    )
    values = dict(zip(function.body.block.args, inputs, strict=True))
    return execute(function.body.block, values)


def execute(block: Block, values: dict[Any, Any]) -> list[Any]:
    for op in block.ops:
        args = [values[x] for x in op.operands]
        match op:
            case arith.ConstantOp():
                values[op.result] = op.value.value.data  # type: ignore
            case arith.AddiOp():
                values[op.result] = args[0] + args[1]
            case arith.SubiOp():
                values[op.result] = args[0] - args[1]
            case memref.AllocOp():
                shape = sizes_of(op.memref.type.get_shape(), args)  # type: ignore
                values[op.memref] = np.full(shape, np.nan)
            case memref.DeallocOp():
                args[0][...] = np.nan
            case memref.DimOp():
                values[op.result] = args[0].shape[args[1]]
            case memref.SubviewOp():
                values[op.result] = part(op, values)
            case memref.CastOp():
                values[op.dest] = args[0]
            case memref.CollapseShapeOp():
                assert args[0].flags.c_contiguous
                values[op.result] = args[0].reshape(-1)
            case linalg.FillOp() | linalg.CopyOp():
                args[1][...] = args[0]
            case linalg.AddOp():
                args[2][...] = args[0] + args[1]
            case linalg.GenericOp():
                # Each element of the output, from itself and the inputs.
                execute_generic(op, values)
            case scf.ForOp():
                for i in range(*args):
                    execute(op.body.block, values | {op.body.block.args[0]: i})
            case scf.YieldOp():
                pass
            case func.ReturnOp():
                return args
            case _:
                raise AssertionError(f"unexpected {op.name}")
    return []


def sizes_of(static: Any, dynamic: list[int]) -> list[int]:
    rest = iter(dynamic)
    return [next(rest) if size == DYNAMIC_INDEX else size for size in static]


def part(op: memref.SubviewOp, values: Mapping[Any, Any]) -> Any:
    lists = [
        sizes_of(static.get_values(), [values[x] for x in dynamic])
        for static, dynamic in (
            (op.static_offsets, op.offsets),
            (op.static_sizes, op.sizes),
            (op.static_strides, op.strides),
        )
    ]
    source, slices = values[op.source], []
    for full, offset, size, step in zip(source.shape, *lists, strict=True):
        assert size == 0 or 0 <= offset <= offset + (size - 1) * step < full
        slices.append(slice(offset, offset + (size - 1) * step + 1, step))
    return source[tuple(slices)]


def execute_generic(op: linalg.GenericOp, values: Mapping[Any, Any]) -> None:
    """`out = in + 1`, or `out = out + in`, or the same of a captured buffer."""
    block = op.body.block
    source, target = values[op.inputs[0]], values[op.outputs[0]]
    reads = block.args[1].first_use is not None
    loads = [x for x in block.ops if isinstance(x, memref.LoadOp)]
    other = values[loads[0].memref][0, 0] if loads else 1
    transposed = str(op.get_indexing_maps().data[1].data.results[0]) == "d1"
    target = target.T if transposed else target
    target[...] = source + (target if reads else other)


# --- random programs ------------------------------------------------------------------


class Program:
    """The text of a program while it grows: buffers of two dimensions."""

    def __init__(self, draw: random.Random):
        self.draw = draw
        self.lines: list[str] = []
        self.count = 0
        self.shapes: dict[str, tuple[int, int]] = {"%x": (2, 3), "%y": (2, 3)}
        for _ in range(draw.randint(3, 9)):
            draw.choice([self.pad, self.pad, self.compute, self.write, self.loop])()
        result = draw.choice([name for name in self.shapes if name[1] == "b"] or ["%x"])
        if result == "%x":
            result = self.alloc((2, 3))
            self.lines.append(self.copy("%x", result))
        shown = [name for name in self.shapes if name != result]
        # Each buffer is read at the end, which is when all of it counts.
        targets = [(f"%o{i}", name) for i, name in enumerate(shown)]
        if draw.random() < 0.5:
            targets = targets[: len(targets) // 2]
        arguments = [("%x", "%x"), ("%y", "%y"), *targets]
        self.lines += [self.copy(name, to, of=name) for to, name in targets]
        given = ", ".join(f"{to}: {self.type(name)}" for to, name in arguments)
        body = "\n".join(self.lines)
        type = self.type(result)
        self.text = f"""
          func.func @main({given}, %n: index, %f: f32) -> {type} {{
            %zero = arith.constant 0 : index
            %one = arith.constant 1 : index
            %two = arith.constant 2 : index
            %z = arith.constant 7.0 : f32
            {body}
            return {result} : {type}
          }}"""
        self.inputs = [self.shapes[name] for _, name in arguments]

    def name(self, letter: str) -> str:
        self.count += 1
        return f"%{letter}{self.count}"

    def type(self, name: str) -> str:
        rows, columns = self.shapes[name]
        return f"memref<{rows}x{columns}xf32>"

    def value(self) -> str:
        return self.draw.choice(["%z", "%z", "%f"])

    def alloc(self, shape: tuple[int, int]) -> str:
        name = self.name("b")
        self.shapes[name] = shape
        self.lines.append(f"{name} = memref.alloc() : {self.type(name)}")
        return name

    def copy(self, source: str, target: str, of: str = "") -> str:
        type = self.type(of or source)
        return f"linalg.copy ins({source} : {type}) outs({target} : {type})"

    def view(
        self, name: str, shape: tuple[int, int], lines: list[str], dynamic: bool = True
    ) -> tuple[str, str]:
        """A random part of a buffer, of a shape, and its type."""
        draw, full = self.draw, self.shapes[name]
        steps = [
            2 if (size - 1) * 2 < whole and draw.random() < 0.2 else 1
            for size, whole in zip(shape, full)
        ]
        offsets = [
            draw.randint(0, whole - (size - 1) * step - 1)
            for size, whole, step in zip(shape, full, steps)
        ]
        strides = [full[1] * steps[0], steps[1]]
        first: Any = offsets[0] * full[1] + offsets[1]
        places: list[Any] = list(offsets)
        if dynamic and offsets[0] == 1 and draw.random() < 0.3:
            places[0], first = "%n", "?"
        view = self.name("v")
        type = (
            f"memref<{shape[0]}x{shape[1]}xf32, "
            f"strided<[{strides[0]}, {strides[1]}], offset: {first}>>"
        )
        lines.append(
            f"{view} = memref.subview {name}[{places[0]}, {places[1]}] "
            f"[{shape[0]}, {shape[1]}] [{steps[0]}, {steps[1]}] "
            f": {self.type(name)} to {type}"
        )
        return view, type

    def any(self, owned: bool = False) -> str:
        names = [name for name in self.shapes if name[1] == "b" or not owned]
        return self.draw.choice(names) if names else self.alloc((2, 3))

    def smaller(self, shape: tuple[int, int]) -> tuple[int, int]:
        return (self.draw.randint(1, shape[0]), self.draw.randint(1, shape[1]))

    def pad(self) -> None:
        """A buffer that is filled, and whose part is a copy."""
        draw, source = self.draw, self.any()
        if draw.random() < 0.5:
            self.compute()
            source = list(self.shapes)[-1]
        shape = self.shapes[source]
        target = self.alloc(
            (shape[0] + draw.randint(0, 2), shape[1] + draw.randint(0, 2))
        )
        value, type = self.value(), self.type(target)
        if draw.random() < 0.85:
            self.lines.append(f"linalg.fill ins({value} : f32) outs({target} : {type})")
        for _ in range(draw.choice([0, 0, 0, 1])):
            self.write(draw.choice([target, source if source[1] == "b" else target]))
        view, type = self.view(target, shape, self.lines)
        self.lines.append(
            f"linalg.copy ins({source} : {self.type(source)}) outs({view} : {type})"
        )

    def compute(self) -> None:
        """A new buffer, computed from others."""
        draw = self.draw
        a, b = self.any(), self.any()
        (r, c), (rows, columns) = self.shapes[a], self.shapes[b]
        shape = min(r, rows), min(c, columns)
        target = self.alloc(shape)
        (a, type_a), (b, type_b) = (
            self.view(x, shape, self.lines)
            if self.shapes[x] != shape or draw.random() < 0.3
            else (x, self.type(x))
            for x in (a, b)
        )
        self.lines.append(
            f"linalg.add ins({a}, {b} : {type_a}, {type_b}) "
            f"outs({target} : {self.type(target)})"
        )

    def write(self, name: str = "", lines: list[str] | None = None) -> None:
        """Fill, copy to, or compute a part of a buffer."""
        draw, lines = self.draw, self.lines if lines is None else lines
        name = name or self.any(owned=True)
        shape = self.smaller(self.shapes[name])
        if draw.random() < 0.4:
            shape = self.shapes[name]
        view, type = self.view(name, shape, lines, lines is self.lines)
        if shape == self.shapes[name] and draw.random() < 0.7:
            view, type = name, self.type(name)
        source = self.any()
        kind = draw.choice(["fill", "copy", "generic"])
        fits = all(a <= b for a, b in zip(shape, self.shapes[source]))
        if kind == "fill" or not fits or source == name:
            lines.append(f"linalg.fill ins({self.value()} : f32) outs({view} : {type})")
            return
        given, type_of = self.view(source, shape, lines, lines is self.lines)
        if kind == "copy":
            lines.append(f"linalg.copy ins({given} : {type_of}) outs({view} : {type})")
            return
        self.generic(given, type_of, view, type, shape, lines)

    def generic(
        self,
        source: str,
        source_type: str,
        target: str,
        type: str,
        shape: tuple[int, int],
        lines: list[str],
    ) -> None:
        """An op that may read its output, or a buffer in its body."""
        draw = self.draw
        out = "j, i" if shape[0] == shape[1] and draw.random() < 0.5 else "i, j"
        other = self.any()
        how = draw.choice(
            [
                "%s = arith.addf %in, %out : f32",
                "%c = arith.constant 1.0 : f32\n%s = arith.addf %in, %c : f32",
                f"%e = memref.load {other}[%zero, %zero] : {self.type(other)}\n"
                "%s = arith.addf %in, %e : f32",
            ]
        )
        if "memref.load" in how and draw.random() < 0.5:
            how = how.replace(other, other)
        lines.append(
            "linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, "
            f"affine_map<(i, j) -> ({out})>], "
            'iterator_types = ["parallel", "parallel"]} '
            f"ins({source} : {source_type}) outs({target} : {type}) {{\n"
            f"^bb0(%in: f32, %out: f32):\n{how}\nlinalg.yield %s : f32\n}}"
        )

    def loop(self) -> None:
        """Writes to a buffer, twice."""
        lines: list[str] = []
        self.any(owned=True)
        self.write(lines=lines)
        inner = "\n".join(lines)
        self.lines.append(
            f"scf.for %i = %zero to %two step %one {{\n{inner}\nscf.yield\n}}"
        )


@pytest.mark.parametrize("share", range(SHARES))
def test_programs_compute_the_same(share: int, parse: Parse, ctx: Context):
    changed = 0
    for number in range(share, PROGRAMS, SHARES):
        program = Program(random.Random(number))
        module = parse(program.text)
        before = copies(module)
        expected = outcome(module, program)
        for each in (PadIntoProducerPass(), FillBorderOnlyPass()):
            each.apply(ctx, module)
            module.verify()
            for is_, should in zip(outcome(module, program), expected, strict=True):
                # What is undefined may change.
                is_ = np.where(np.isnan(should), should, is_)
                try:
                    np.testing.assert_array_equal(is_, should)
                except AssertionError as error:
                    error.add_note(f"{each.name}, {number}:{program.text}\n{module}")
                    raise
        changed += copies(module) < before
    assert changed > PROGRAMS // SHARES // 8


def copies(module: ModuleOp) -> int:
    return sum(isinstance(op, linalg.CopyOp) for op in module.walk())


def outcome(module: ModuleOp, program: Program) -> list[Any]:
    """The results, and the arguments afterwards."""
    inputs: list[Any] = [
        np.arange(100 * i, 100 * i + rows * columns, dtype=float).reshape(rows, columns)
        for i, (rows, columns) in enumerate(program.inputs)
    ]
    return [x.copy() for x in run(module, [*inputs, 1, 9.0])] + inputs
