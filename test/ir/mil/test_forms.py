"""The definitions of Core ML's ops."""

from padc.ir import mil, mil_forms, mil_types


def test_element_types_have_the_names_of_forms():
    assert mil_forms.ANY == {*mil_types.ELEMENT_TYPES.values(), "string"}


def test_every_declared_op_is_an_op_of_the_dialect():
    assert {*mil_forms.DECLARED} == {*mil.OPS}
