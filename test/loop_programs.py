# pyright: basic
"""
Random programs of linalg ops on buffers, of sizes for which ops share their loops.

Each op is computed by numpy when it is drawn, so that the next one can fit. All elements
are small whole numbers: sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TYPES = {"f32": np.float32, "f64": np.float64}
ROWS = (16, 17, 20, 24)
COLUMNS = (32, 33, 40, 48, 65)
FEW = (1, 3, 5)
"""So few rows or columns share no loops."""


@dataclass
class View:
    """A buffer, or a part of it."""

    name: str
    type: str
    array: Any


class LoopProgram:
    """The text of a program while it grows, and what it computes."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        draw = self.draw
        self.lines: list[str] = []
        self.count = 0
        self.type = draw.choice(["f32", "f32", "f64"])
        self.rows, self.columns = (
            draw.choice(sizes if draw.random() < 0.85 else FEW)
            for sizes in (ROWS, COLUMNS)
        )
        n, m = self.rows, self.columns
        self.inputs = [
            self.argument(s) for s in ((n, m), (n + 2, m + 4), (n, 1), (1, m))
        ]
        self.inputs += [self.argument(s) for s in ((m, n), (2 * n + 8, 2 * m + 8))]
        self.buffers = [*self.inputs]
        self.made: list[View] = []
        self.arguments = [x.array.copy() for x in self.inputs]
        ops = [self.elementwise] * 3 + [self.normalize] * 5 + [self.window] * 2
        ops += [self.reduce] * 2 + [self.pad] * 2 + [self.moves, self.two]
        ops += [self.product] * 2 + [self.border] * 3
        for _ in range(draw.randint(2, 7)):
            draw.choice(ops)()
        if not self.made:
            self.elementwise()
        last = self.made[-1]
        others = [x for x in self.made[:-1] if draw.random() < 0.25]
        self.results = [*others, last]
        given = ", ".join(f"{x.name}: {x.type}" for x in self.inputs)
        types = ", ".join(x.type for x in self.results)
        names = ", ".join(x.name for x in self.results)
        body = "\n".join(self.lines)
        self.text = (
            f"func.func @main({given}) -> ({types}) {{\n{body}\n"
            f"return {names} : {types}\n}}"
        )
        self.expected = [x.array for x in self.results]

    # Buffers.

    def name(self, letter: str) -> str:
        self.count += 1
        return f"%{letter}{self.count}"

    def whole(self, name: str, array: Any) -> View:
        sizes = "x".join(map(str, array.shape))
        return View(name, f"memref<{sizes}x{self.type}>", array)

    def argument(self, shape: Sequence[int]) -> View:
        draw = np.random.default_rng(len(shape) + sum(shape))
        array = draw.integers(-3, 4, shape).astype(TYPES[self.type])
        return self.whole(self.name("x"), array)

    def alloc(self, shape: Sequence[int]) -> View:
        undefined = np.full(shape, np.nan, TYPES[self.type])
        new = self.whole(self.name("b"), undefined)
        self.lines.append(f"{new.name} = memref.alloc() : {new.type}")
        self.buffers.append(new)
        self.made.append(new)
        return new

    def part(self, x: View, shape: Sequence[int]) -> View | None:
        """A random part of a whole buffer; None if it is too small."""
        draw, full = self.draw, x.array.shape
        if len(full) != len(shape) or any(a > b for a, b in zip(shape, full)):
            return None
        if full == tuple(shape):
            return x
        steps = [
            2 if (n - 1) * 2 < whole and draw.random() < 0.2 else 1
            for n, whole in zip(shape, full)
        ]
        firsts = [
            draw.randint(0, whole - (n - 1) * step - 1)
            for n, whole, step in zip(shape, full, steps)
        ]
        array = x.array[
            tuple(
                slice(first, first + (n - 1) * step + 1, step)
                for first, n, step in zip(firsts, shape, steps)
            )
        ]
        size = x.array.itemsize
        own = [stride // size for stride in x.array.strides]
        strides = [a * step for a, step in zip(own, steps)]
        offset = sum(a * first for a, first in zip(own, firsts))
        sizes = "x".join(map(str, shape))
        layout = f"strided<{strides}, offset: {offset}>"
        if all(step == 1 for step in steps) and offset == 0:
            layout = f"strided<{strides}>"
        view = View(self.name("v"), f"memref<{sizes}x{self.type}, {layout}>", array)
        self.lines.append(
            f"{view.name} = memref.subview {x.name}{firsts} {[*shape]} {steps} "
            f": {x.type} to {view.type}"
        )
        return view

    def any(self, shape: Sequence[int]) -> View:
        """A buffer of this shape or a part of one; those of late are likely."""
        draw = self.draw
        names = [x for x in self.buffers if len(x.array.shape) == len(shape)]
        fit = [x for x in names if all(a <= b for a, b in zip(shape, x.array.shape))]
        late = [x for x in fit if x in self.made[-2:]]
        source = draw.choice(late if late and draw.random() < 0.6 else fit)
        view = self.part(source, shape)
        assert view is not None
        return view

    def target(self, shape: Sequence[int]) -> View:
        draw = self.draw
        fit = [
            x
            for x in self.made
            if len(x.array.shape) == len(shape)
            and all(a <= b for a, b in zip(shape, x.array.shape))
        ]
        if fit and draw.random() < 0.35:
            view = self.part(draw.choice(fit), shape)
            assert view is not None
            return view
        larger = [n + draw.choice([0, 0, 0, 1, n]) for n in shape]
        view = self.part(self.alloc(larger), shape)
        assert view is not None
        return view

    # Ops.

    def generic(
        self,
        inputs: Sequence[tuple[View, str]],
        output: tuple[View, str],
        loops: str,
        sizes: Sequence[int],
        body: str,
        compute: Callable[..., Any],
    ) -> None:
        """An op whose loops are named in order: "i", "j" and so on; "P" reduces."""
        names = [each.lower() for each in loops]
        grids = dict(zip(names, np.indices(sizes), strict=True))

        def index(map: str) -> tuple[Any, ...]:
            return tuple(eval(each, {}, grids) for each in map.split(", ") if each)

        operands = [*inputs, output]
        reduces = any(each.isupper() for each in loops)
        for x, map in inputs:
            in_place = x.array is output[0].array and map == output[1]
            if np.shares_memory(x.array, output[0].array) and (reduces or not in_place):
                return
        target, where = output[0].array, index(output[1])
        values = [x.array[index(map)] for x, map in inputs]
        kinds = ['"reduction"' if each.isupper() else '"parallel"' for each in loops]
        if reduces:
            compute(target, where, *values)
        else:
            target[where] = compute(*values, target[where], *grids.values())
        domain = ", ".join(names)
        maps = ", ".join(f"affine_map<({domain}) -> ({map})>" for _, map in operands)
        ins = ", ".join(x.name for x, _ in inputs)
        types = ", ".join(x.type for x, _ in inputs)
        given = f"ins({ins} : {types}) " if inputs else ""
        arguments = [f"%e{i}: {self.type}" for i in range(len(inputs))]
        self.lines.append(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = "
            f"[{', '.join(kinds)}]}} {given}outs({output[0].name} : "
            f"{output[0].type}) {{\n^bb0({', '.join([*arguments, f'%o: {self.type}'])}):"
            f"\n{body}\n}}"
        )

    def binary(self, name: str, result: str, a: str, b: str) -> str:
        name = "maximum" if name == "max" else name
        return f"{result} = arith.{name}f {a}, {b} : {self.type}\n"

    def yields(self, value: str) -> str:
        return f"linalg.yield {value} : {self.type}"

    def operand(self) -> tuple[View, str]:
        """An input of an op on rows and columns."""
        n, m = self.rows, self.columns
        shape, map = self.draw.choice(
            [((n, m), "i, j")] * 6
            + [((n, 1), "i, 0"), ((1, m), "0, j"), ((m, n), "j, i")]
        )
        return self.any(shape), map

    def elementwise(self) -> None:
        draw, shape = self.draw, (self.rows, self.columns)
        target = self.target(shape)
        inputs = [self.operand() for _ in range(draw.choice([0, 1, 1, 2]))]
        if inputs and draw.random() < 0.2 and not np.isnan(float(target.array.flat[0])):
            inputs[0] = target, "i, j"
        names = [f"%e{i}" for i in range(len(inputs))]
        reads_output = draw.random() < 0.2
        if reads_output:
            names.append("%o")
        taken = None
        if draw.random() < 0.15 and names:
            taken = draw.randrange(len(names))
        body, value, steps = "", names[0] if names else "%c", []
        if not names:
            body = f"%c = arith.constant 1.0 : {self.type}\n"
        if taken is not None:
            value = names[taken]
        for number, name in enumerate(names[1:] if taken is None else []):
            how = draw.choice(["add", "sub", "max"])
            body += self.binary(how, f"%s{number}", value, name)
            value = f"%s{number}"
            steps.append(how)
        if draw.random() < 0.3:
            body += self.binary("add", "%d", value, value)
            value, double = "%d", True
        else:
            double = False

        def compute(*values: Any) -> Any:
            used = [*values[: len(inputs)]]
            if reads_output:
                used.append(values[len(inputs)])
            if not used:
                used = [np.ones_like(values[0])]
            if taken is not None:
                used = [used[taken]]
            result = used[0]
            for how, value in zip(steps, used[1:], strict=True):
                result = {"add": np.add, "sub": np.subtract, "max": np.maximum}[how](
                    result, value
                )
            return result + result if double else result

        order = draw.choice(["ij", "ij", "ij", "ji"])
        sizes = shape if order == "ij" else shape[::-1]
        self.generic(
            inputs, (target, "i, j"), order, sizes, body + self.yields(value), compute
        )

    def fill(self, target: View, number: int = 0) -> None:
        name = self.name("c")
        self.lines.append(f"{name} = arith.constant {number}.0 : {self.type}")
        self.lines.append(
            f"linalg.fill ins({name} : {self.type}) outs({target.name} : {target.type})"
        )
        target.array[...] = number

    def copy(self, source: View, target: View) -> None:
        if np.shares_memory(source.array, target.array):
            return
        self.lines.append(
            f"linalg.copy ins({source.name} : {source.type}) "
            f"outs({target.name} : {target.type})"
        )
        target.array[...] = source.array

    def joins(self) -> tuple[str, Callable[..., Any]]:
        """The body of a reduction, and what it does."""
        if self.draw.random() < 0.7:
            return self.binary("add", "%s", "%o", "%e0"), np.add.at
        return self.binary("max", "%s", "%o", "%e0"), np.maximum.at

    def reduce(self) -> None:
        """Rows or columns are summed, or their largest elements sought."""
        draw, (n, m) = self.draw, (self.rows, self.columns)
        along_rows = draw.random() < 0.7
        target = self.target((n, 1) if along_rows else (1, m))
        self.start(target)
        body, join = self.joins()
        body += self.yields("%s")
        source, map = self.any((n, m)), "i, j"
        inputs = [(source, map)]
        if along_rows and draw.random() < 0.15:
            # The same element all along the row, whose length the other input tells.
            inputs = [(self.any((n, 1)), "i, 0"), (self.any((1, m)), "0, j")]
        if along_rows:
            loops, sizes, where = "iJ", (n, m), "i, 0"
        elif draw.random() < 0.5:
            loops, sizes, where = "Ij", (n, m), "0, j"
        else:
            loops, sizes, where = "jI", (m, n), "0, j"

        def compute(out: Any, where: Any, x: Any, *_: Any) -> None:
            join(out, where, x)

        self.generic(inputs, (target, where), loops, sizes, body, compute)

    def start(self, target: View) -> None:
        """The first values of sums: numbers, or what other ops leave."""
        draw, shape = self.draw, target.array.shape
        kind = draw.choice(["fill"] * 5 + ["copy", "add", "other", "none"])
        if kind == "fill":
            self.fill(target, draw.choice([0, 0, 2]))
        elif kind == "copy":
            self.copy(self.any(shape), target)
        elif kind == "other":
            self.fill(self.alloc(shape), 1)
        elif kind == "add":
            body = self.binary("add", "%s", "%o", "%o") + self.yields("%s")
            double = lambda x, *_: x + x  # noqa: E731
            self.generic([], (target, "i, j"), "ij", shape, body, double)

    def product(self) -> None:
        """Sums of products, often with ops on the same buffer before and after them."""
        draw, (n, m) = self.draw, (self.rows, self.columns)
        terms = draw.choice([1, 4, 7, 9])
        image = self.inputs[-1]
        a, b = self.part(image, (n, terms)), self.part(image, (terms, m))
        target = self.target((n, m))
        assert a is not None and b is not None
        whole = (target, "i, j")
        kind = draw.choice(["fill", "fill", "row", "one of two", "none"])
        if kind == "fill":
            self.fill(target, draw.choice([0, 1]))
        elif kind != "none":
            inputs = [(self.any((1, m)), "0, j"), (self.any((1, m)), "0, j")]
            taken = draw.randint(0, 1) if kind == "one of two" else 0
            inputs, body = inputs[: taken + 1], self.yields(f"%e{taken}")
            self.generic(
                inputs, whole, "ij", (n, m), body, lambda *values: values[taken]
            )
        body = f"%p = arith.mulf %e0, %e1 : {self.type}\n"
        body += self.binary("add", "%s", "%o", "%p") + self.yields("%s")

        def compute(out: Any, where: Any, x: Any, y: Any) -> None:
            np.add.at(out, where, x * y)

        given = [(a, "i, k"), (b, "k, j")]
        self.generic(given, whole, "ijK", (n, m, terms), body, compute)
        how = draw.choice(["add", "sub", "max", "none"])
        if how != "none":
            join = {"add": np.add, "sub": np.subtract, "max": np.maximum}[how]
            body = self.binary(how, "%s", "%o", "%e0") + self.yields("%s")
            inputs = [self.operand()]
            self.generic(inputs, whole, "ij", (n, m), body, lambda x, o, *_: join(o, x))

    def two(self) -> None:
        """Two results of one op."""
        n, m = self.rows, self.columns
        source, (a, b) = self.any((n, m)), (self.alloc((n, m)) for _ in range(2))
        map = "affine_map<(i, j) -> (i, j)>"
        self.lines.append(
            f"linalg.generic {{indexing_maps = [{map}, {map}, {map}], "
            'iterator_types = ["parallel", "parallel"]} '
            f"ins({source.name} : {source.type}) "
            f"outs({a.name}, {b.name} : {a.type}, {b.type}) {{\n"
            f"^bb0(%e: {self.type}, %o: {self.type}, %p: {self.type}):\n"
            + self.binary("add", "%s", "%e", "%e")
            + f"linalg.yield %s, %e : {self.type}, {self.type}\n}}"
        )
        a.array[...], b.array[...] = source.array + source.array, source.array

    def normalize(self) -> None:
        """What a softmax does: each element, then a row of them, then each again."""
        n, m = self.rows, self.columns
        first = self.part(self.alloc((n, m)), (n, m))
        assert first is not None
        self.generic(
            [(self.any((n, m)), "i, j"), (self.any((n, 1)), "i, 0")],
            (first, "i, j"),
            "ij",
            (n, m),
            self.binary("sub", "%s", "%e0", "%e1") + self.yields("%s"),
            lambda a, b, *_: a - b,
        )
        sums = self.alloc((n, 1))
        self.start(sums)
        body, join = self.joins()
        terms = first if self.draw.random() < 0.75 else self.any((n, m))
        self.generic(
            [(terms, "i, j")],
            (sums, "i, 0"),
            "iJ",
            (n, m),
            body + self.yields("%s"),
            join,
        )
        self.generic(
            [(first, "i, j"), (sums, "i, 0")],
            (self.target((n, m)), "i, j"),
            "ij",
            (n, m),
            self.binary("add", "%s", "%e0", "%e1") + self.yields("%s"),
            lambda a, b, *_: a + b,
        )

    def pad(self) -> None:
        """A buffer that is filled, with a copy inside, and perhaps copies of its rows."""
        draw, (n, m) = self.draw, (self.rows, self.columns)
        new = self.alloc((n + draw.randint(0, 3), m + draw.randint(0, 3)))
        if draw.random() < 0.8:
            self.fill(new, draw.randint(-1, 2))
        inside = self.part(new, (n, m))
        assert inside is not None
        self.copy(self.any((n, m)), inside)
        rows, columns = new.array.shape
        for _ in range(draw.randint(0, 2)):
            shape = draw.choice([(1, columns), (rows, 1), (2, columns), (rows, 2)])
            source, target = self.part(new, shape), self.part(new, shape)
            if source is not None and target is not None:
                self.copy(source, target)
        if draw.random() < 0.5:
            self.window(new)

    def at(
        self, x: View, firsts: Sequence[int], shape: Sequence[int], step: int = 1
    ) -> View:
        """A part of a whole buffer, with so many rows from one to the next."""
        full = x.array.shape[1]
        offset = firsts[0] * full + firsts[1]
        layout = f"strided<[{full * step}, 1]" + (
            f", offset: {offset}" if offset else ""
        )
        sizes = "x".join(map(str, shape))
        view = View(
            self.name("v"),
            f"memref<{sizes}x{self.type}, {layout}>>",
            x.array[firsts[0] :: step, firsts[1] : firsts[1] + shape[1]][: shape[0]],
        )
        self.lines.append(
            f"{view.name} = memref.subview {x.name}{[*firsts]} {[*shape]} [{step}, 1] "
            f": {x.type} to {view.type}"
        )
        return view

    def border(self) -> None:
        """Short rows with a border at each end, then copies of rows above and below."""
        draw, n = self.draw, self.rows
        m = min(draw.randint(1, 9), self.columns)
        left, right = draw.randint(0, 4), draw.randint(0, 4)
        above, below = draw.choice([0, 0, 1, 2, 9]), draw.choice([0, 1, 2, 3])
        wide = left + m + right
        new = self.alloc((above + n + below, wide))
        step = 2 if draw.random() < 0.1 and n > 2 else 1
        rows = n // step
        source = self.any((rows, m))
        parts = [(left, m), (0, left), (left + m, right)]
        if draw.random() < 0.2:
            draw.shuffle(parts)
        for first, count in parts:
            if not count or (draw.random() < 0.1 and first != left):
                continue
            target = self.at(new, (above, first), (rows, count), step)
            kind = draw.choice(["own", "own", "fill", "source", "column"])
            if first == left and count == m:
                self.copy(source, target)
            elif kind == "fill":
                self.fill(target, draw.randint(-1, 2))
            elif kind == "source":
                self.copy(self.any((rows, count)), target)
            else:
                size = 1 if kind == "column" else count
                place = draw.randint(0, wide - size)
                own = self.at(new, (above, place), (rows, size), step)
                if kind == "column":
                    for k in range(count):
                        each = self.at(new, (above, first + k), (rows, 1), step)
                        self.copy(own, each)
                else:
                    self.copy(own, target)
        for first, count in ((0, above), (above + n, below)):
            if not count:
                continue
            edge = 0 if draw.random() < 0.8 else draw.randint(0, wide - 1)
            size = wide - edge if draw.random() < 0.8 else draw.randint(1, wide - edge)
            each = draw.choice([1, count])
            for k in range(0, count, each):
                last = above + n + below - each
                at = draw.randint(min(max(above - 2, 0), last), last)
                place = edge if draw.random() < 0.9 else draw.randint(0, wide - size)
                self.copy(
                    self.at(new, (at, place), (each, size)),
                    self.at(new, (first + k, edge), (each, size)),
                )

    def moves(self) -> None:
        """Neighboring parts of one buffer, which are written one after the other."""
        draw, (n, m) = self.draw, (self.rows, self.columns)
        new = self.alloc((n, 2 * m))
        for first in (0, m):
            if draw.random() < 0.2:
                continue
            view = View(
                self.name("v"),
                f"memref<{n}x{m}x{self.type}, strided<[{2 * m}, 1]"
                + (f", offset: {first}>>" if first else ">>"),
                new.array[:, first : first + m],
            )
            self.lines.append(
                f"{view.name} = memref.subview {new.name}[0, {first}] [{n}, {m}] [1, 1]"
                f" : {new.type} to {view.type}"
            )
            if draw.random() < 0.3:
                self.fill(view, 1)
            else:
                self.copy(self.any((n, m)), view)

    def window(self, image: View | None = None) -> None:
        """Windows that move over an image, which is read by rows and columns."""
        draw, (n, m) = self.draw, (self.rows, self.columns)
        high, wide = draw.randint(1, 5), draw.randint(1, 4)
        down, across = draw.choice([1, 1, 2]), draw.choice([0, 1, 1, 2, 2])
        step = draw.choice([1, 1, 2]) if wide < 3 else 1
        shape = (n - 1) * down + high, (m - 1) * across + (wide - 1) * step + 1
        images = self.buffers if image is None else [image]
        fit = [
            x
            for x in images
            if len(x.array.shape) == 2
            and all(a <= b for a, b in zip(shape, x.array.shape))
        ]
        if not fit:
            return
        source = self.part(draw.choice(fit), shape)
        assert source is not None
        target = self.target((n, m))
        if draw.random() < 0.85:
            self.fill(target, draw.choice([0, -2]))
        # Its sizes are those of the window; it is seldom read.
        window = self.alloc((high, wide))
        self.made.remove(window)
        self.buffers.remove(window)
        body, join = self.joins()
        taken = 1 if draw.random() < 0.1 else 0
        if taken:
            self.fill(window, 2)
            body = body.replace("%e0", "%e1")
        column = f"j * {across} + q * {step}" if across else f"q * {step}"
        loops, sizes = draw.choice(
            [
                ("iPQj", (n, high, wide, m)),
                ("iPQj", (n, high, wide, m)),
                ("iQPj", (n, wide, high, m)),
                ("ijPQ", (n, m, high, wide)),
            ]
        )

        def compute(out: Any, where: Any, *values: Any) -> None:
            join(out, where, values[taken])

        self.generic(
            [(source, f"i * {down} + p, {column}"), (window, "p, q")],
            (target, "i, j"),
            loops,
            sizes,
            body + self.yields("%s"),
            compute,
        )
