# pyright: basic
"""Elements of float tensors are parsed as they are printed."""

import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    TensorType,
)
from xdsl.utils.exceptions import ParseError

from padc.ir import make_context, text
from padc.ir.text import Parser

TYPES = [Float16Type(), BFloat16Type(), Float32Type(), Float64Type()]


def parsed(text: str) -> DenseIntOrFPElementsAttr:
    attribute = Parser(make_context(), text).parse_attribute()
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    return attribute


def bits(values: Sequence[Any]) -> list[bytes]:
    """The bits of numbers, but of any NaN the same."""
    return [struct.pack("d", math.nan if math.isnan(x) else x) for x in values]


HURTING = [math.inf, -math.inf, math.nan, -0.0, 16777215.0, 1e10, 4286578688.0]


@pytest.mark.parametrize("type", TYPES, ids=str)
@pytest.mark.parametrize("shape", [[], [1], [3]], ids=str)
def test_elements_that_are_printed_as_bits(type: AnyFloat, shape: list[int]):
    for number in HURTING:
        (held,) = type.iter_unpack(
            type.pack([number if abs(number) < 6e4 else math.inf])
        )
        numbers = [held, 1.0, -held][: math.prod(shape)]
        printed = DenseIntOrFPElementsAttr.from_list(TensorType(type, shape), numbers)

        assert bits([*parsed(str(printed)).iter_values()]) == bits(numbers)


@given(st.lists(st.floats(width=32), min_size=1, max_size=3))
@example([0.0, -0.0])
def test_all_floats(numbers: list[float]):
    type = TensorType(Float32Type(), [len(numbers)])
    printed = DenseIntOrFPElementsAttr.from_list(type, numbers)

    assert bits([*parsed(str(printed)).iter_values()]) == bits(numbers)


def test_bits_of_complex_elements():
    type = TensorType(ComplexType(Float32Type()), [1])

    attribute = parsed("dense<(0x7f800000, 0xff800000)> : tensor<1xcomplex<f32>>")

    assert attribute.type == type
    assert [*attribute.iter_values()] == [(math.inf, -math.inf)]


def test_hexadecimal_integers_are_numbers():
    assert [*parsed("dense<[0x10, 3]> : tensor<2xi32>").iter_values()] == [16, 3]


@pytest.mark.parametrize(
    "constant",
    [
        "dense<1.0> : tensor<200000000xf32>",
        "dense <1.0> : tensor<200000000xf32>",
        "dense<1.0> // x\n : tensor<200000000xf32>",
        "dense<1.0> : tensor <200000000xf32>",
        "dense<1.0> : vector<20000x20000xf32>",
        "dense<(0.0, 1.0)> : tensor<200000000xcomplex<f32>>",
        "dense<true> : tensor<200000000xi1>",
        'dense<"0x00000000"> : tensor<200000000xf32>',
        "dense<1.0> : !u",
    ],
)
def test_equal_elements_have_a_bound(constant: str):
    aliases = "!t // x\n = tensor // y\n <200000000xf32>\n!u = !t\n"
    op = f'"test.op"() {{a = {constant}}} : () -> ()'
    parser = Parser(make_context(), aliases + op)

    with pytest.raises(ParseError, match=r"equal elements; .* 33554432 at most"):
        parser.parse_module()


def test_equal_elements_of_a_known_type_have_a_bound():
    parser = Parser(make_context(), "<1.0>")

    with pytest.raises(ParseError, match="33554432 at most"):
        DenseIntOrFPElementsAttr.parse_with_type(
            parser, TensorType(Float32Type(), [200000000])
        )


def test_constants_of_equal_elements_have_one_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text, "MOST_REPEATED", 100)
    constants = ", ".join(["dense<1> : tensor<40xi32>"] * 3)

    with pytest.raises(ParseError, match=r"40 equal elements; .* 100 at most"):
        Parser(make_context(), f"[{constants}]").parse_attribute()


def test_listed_elements_have_no_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text, "MOST_REPEATED", 0)

    assert len(parsed("dense<[1, 1, 1]> : tensor<3xi32>")) == 3
    assert len(parsed('dense<"0x010000000100000001000000"> : tensor<3xi32>')) == 3
    assert len(parsed("dense<> : tensor<0xi32>")) == 0


def test_more_bits_than_the_type_has_are_refused():
    with pytest.raises(ParseError, match="f16 has fewer bits"):
        parsed("dense<0x10000> : tensor<f16>")
