"""
The functions of `vector_calls`, as LLVM IR.

Each has a form for floats and for vectors of several lengths. An attribute of the first
one names the others, so that LLVM's vectorizer calls them. They are declared before
LLVM's passes, which know nothing else about them, and defined and inlined after them.

See "Vector Function ABI" in LLVM's language reference.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from padc.passes.buffers_to_llvm.vector_calls import (
    EXPONENT,
    LANES,
    MANTISSA,
    SCALED,
)
from padc.passes.buffers_to_llvm.vector_math import TABLES

VECTOR = f"<{LANES} x float>"
WIDTHS = (LANES, 8, 4)
"""The lengths of vectors. A vector that is shorter than `LANES` is part of one."""
MASKS = f"{VECTOR} zeroinitializer, i16 -1, i32 4"
"""No lane is masked; rounding is to nearest."""
MANTISSA_FORM = 0b1111
"""From 3/4 to 3/2; NaN below 0, and 1 of -0."""


def number(x: float) -> str:
    """A constant of type float."""
    return f"float 0x{np.float64(np.float32(x)).view(np.uint64):016X}"


@dataclass(frozen=True)
class Instruction:
    """An instruction for vectors of `LANES` floats."""

    name: str
    """The function that it computes."""
    operands: int
    intrinsic: str
    args: str
    """The arguments of the intrinsic; the operands are %0, %1."""
    types: str
    """The types of these arguments."""
    before: str = ""
    """Code in front of the call."""

    def variant(self, width: int) -> str:
        """The name of the function for vectors of `width` floats, or for floats."""
        return self.name if width == 1 else f"{self.name}_{width}"

    @property
    def attribute(self) -> str:
        """The attribute that tells LLVM the variants."""
        kinds = "v" * self.operands
        found = (
            f"_ZGV_LLVM_N{width}{kinds}_{self.name}({self.variant(width)})"
            for width in WIDTHS
        )
        return f'"vector-function-abi-variant"="{",".join(found)}"'

    @property
    def declared(self) -> str:
        """The declaration of the intrinsic, which several may share."""
        return f"declare {VECTOR} @{self.intrinsic}({self.types})"

    def declarations(self) -> str:
        return "\n".join(
            f"declare <{width} x float> @{self.variant(width)}"
            f"({', '.join([f'<{width} x float>'] * self.operands)})"
            for width in WIDTHS
        )

    def definitions(self) -> str:
        return "\n".join(
            [
                self.defined(
                    LANES,
                    f"{self.before}"
                    f"  %r = call {VECTOR} @{self.intrinsic}({self.args})\n"
                    f"  ret {VECTOR} %r\n",
                ),
                *(self.defined(width, self.widened(width)) for width in WIDTHS[1:]),
                self.defined(1, self.of_float()),
            ]
        )

    def defined(self, width: int, body: str) -> str:
        type = type_of(width)
        args = ", ".join(f"{type} %{i}" for i in range(self.operands))
        return (
            f"define linkonce_odr hidden {type} @{self.variant(width)}({args}) "
            f"alwaysinline {{\n{body}}}"
        )

    def call(self) -> str:
        """A call of the function for whole vectors."""
        args = ", ".join(f"{VECTOR} %w{i}" for i in range(self.operands))
        return f"  %r = call {VECTOR} @{self.variant(LANES)}({args})\n"

    def widened(self, width: int) -> str:
        lines = [
            f"  %w{i} = shufflevector {type_of(width)} %{i}, {type_of(width)} poison, "
            f"<{LANES} x i32> {lanes(width, LANES)}\n"
            for i in range(self.operands)
        ]
        return (
            "".join(lines)
            + self.call()
            + f"  %n = shufflevector {VECTOR} %r, {VECTOR} poison, "
            f"<{width} x i32> {lanes(width, width)}\n"
            f"  ret {type_of(width)} %n\n"
        )

    def of_float(self) -> str:
        lines = [
            f"  %w{i} = insertelement {VECTOR} poison, float %{i}, i32 0\n"
            for i in range(self.operands)
        ]
        return (
            "".join(lines)
            + self.call()
            + f"  %n = extractelement {VECTOR} %r, i32 0\n  ret float %n\n"
        )


def type_of(width: int) -> str:
    return "float" if width == 1 else f"<{width} x float>"


def lanes(number: int, length: int) -> str:
    """The first `number` elements, and `length` in all."""
    places = [f"i32 {i}" for i in range(number)]
    return f"<{', '.join(places + ['i32 poison'] * (length - number))}>"


def permutation(name: str, table: Sequence[float]) -> Instruction:
    """The element of a table at the place that the last bits of a float give."""
    values = ", ".join(map(number, table))
    return Instruction(
        name,
        1,
        "llvm.x86.avx512.permvar.sf.512",
        f"{VECTOR} <{values}>, <{LANES} x i32> %i",
        f"{VECTOR}, <{LANES} x i32>",
        f"  %i = bitcast {VECTOR} %0 to <{LANES} x i32>\n",
    )


MASK_TYPES = f"{VECTOR}, i16, i32"
INSTRUCTIONS = (
    Instruction(
        EXPONENT,
        1,
        "llvm.x86.avx512.mask.getexp.ps.512",
        f"{VECTOR} %0, {MASKS}",
        f"{VECTOR}, {MASK_TYPES}",
    ),
    Instruction(
        MANTISSA,
        1,
        "llvm.x86.avx512.mask.getmant.ps.512",
        f"{VECTOR} %0, i32 {MANTISSA_FORM}, {MASKS}",
        f"{VECTOR}, i32, {MASK_TYPES}",
    ),
    Instruction(
        SCALED,
        2,
        "llvm.x86.avx512.mask.scalef.ps.512",
        f"{VECTOR} %0, {VECTOR} %1, {MASKS}",
        f"{VECTOR}, {VECTOR}, {MASK_TYPES}",
    ),
    *(permutation(*table) for table in TABLES.items()),
)
PURE = ("nounwind", "willreturn", "memory(none)")


def attributes(name: str) -> Sequence[str]:
    """The attributes of the declaration of a function, by its name."""
    return [
        text
        for instruction in INSTRUCTIONS
        if instruction.name == name
        for text in (*PURE, instruction.attribute)
    ]


@functools.cache
def declarations() -> str:
    """The vector functions, kept although nothing calls them yet."""
    names = [x.variant(width) for x in INSTRUCTIONS for width in WIDTHS]
    used = ", ".join(f"ptr @{name}" for name in names)
    return "\n".join(
        [
            *(x.declarations() for x in INSTRUCTIONS),
            f"@llvm.compiler.used = appending global [{len(names)} x ptr] [{used}], "
            'section "llvm.metadata"',
        ]
    )


@functools.cache
def definitions() -> str:
    intrinsics = dict.fromkeys(x.declared for x in INSTRUCTIONS)
    return "\n".join([*intrinsics, *(x.definitions() for x in INSTRUCTIONS)])
