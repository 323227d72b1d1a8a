# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The ops that `aten_schemas.txt` declares."""

import re
from pathlib import Path

import pytest
import torch
from xdsl.dialects.builtin import i1
from xdsl.utils.exceptions import VerifyException

from padc.ir import make_context
from padc.ir import torch as torch_d
from padc.ir.text import Parser
from padc.ir.torch.containers import is_subtype

SCHEMAS = Path(torch_d.__file__).parent / "aten_schemas.txt"


def test_schemas_are_current():
    """Other versions of PyTorch are held against the file by the test after this."""
    pytest.importorskip("torch_mlir")
    ours = re.findall(r"PyTorch ([\d.]+)", SCHEMAS.read_text())[0]
    if not torch.__version__.startswith(f"{ours}."):
        pytest.skip(f"aten_schemas.txt is of PyTorch {ours}, not {torch.__version__}")
    from padc.tools.update_aten_schemas import schemas_text, torch_mlir_ops

    assert SCHEMAS.read_text() == schemas_text(torch_mlir_ops())


def test_schemas_fit_the_installed_version():
    """What both versions have of an op's arguments has the same names and order."""
    lines = [line for line in SCHEMAS.read_text().splitlines() if line[0] != "#"]
    ours = [torch_d.Schema.parse(line) for line in lines]
    theirs = {
        ".".join(filter(None, (s.name.replace("::", "."), s.overload_name))): s
        for s in torch._C._jit_get_all_schemas()
    }

    both = [schema for schema in ours if schema.name in theirs]
    assert len(both) > 0.98 * len(ours)
    for schema in both:
        names = [a.name for a in theirs[schema.name].arguments]
        common = list(zip(schema.positions, names, strict=False))
        assert all(a == b for a, b in common), schema.name
        assert len(theirs[schema.name].returns) == len(schema.returns), schema.name


def test_every_line_is_a_schema():
    lines = [line for line in SCHEMAS.read_text().splitlines() if line[0] != "#"]

    for line in lines:
        schema = torch_d.Schema.parse(line)
        shown = ", ".join(argument.name for argument in schema.arguments)
        assert all(argument.name for argument in schema.arguments), (line, shown)
        assert line.count("=") == sum(a.has_default for a in schema.arguments)


def test_schema():
    schema = torch_d.schema_of("aten.conv2d.padding")

    assert schema is not None
    arguments = {a.name: (a.type, a.default) for a in schema.arguments}
    assert arguments == {
        "input": ("Tensor", None),
        "weight": ("Tensor", None),
        "bias": ("Tensor?", None),
        "stride": ("SymInt[2]", [1, 1]),
        "padding": ("str", "valid"),
        "dilation": ("SymInt[2]", [1, 1]),
        "groups": ("SymInt", 1),
    }
    assert [a.type for a in schema.returns] == ["Tensor"]


def test_default_of_a_sized_list_is_a_list():
    schema = torch_d.schema_of("aten.max_pool2d")

    assert schema is not None
    assert schema.arguments[schema.positions["padding"]].default == [0, 0]


def test_arguments_by_name():
    pad = torch_d.ConstantIntOp(1)
    pads = torch_d.ListConstructOp([pad.result, pad.result], torch_d.IntType())
    mode = torch_d.ConstantStrOp("constant")
    none = torch_d.ConstantNoneOp()
    x = torch_d.OperatorOp.create(result_types=[torch_d.VTensorType.get(i1, (2,))])
    size = torch_d.aten_op(
        "aten.size.int", [x.results[0], pad.result], [torch_d.IntType()]
    )
    op = torch_d.aten_op(
        "aten.pad",
        [x.results[0], pads.result, mode.result, none.result],
        [x.results[0].type],
    )
    op.verify()

    assert op.name == "torch.aten.pad"
    assert op.schema.name == "aten.pad"
    assert op.arg("self") is x.results[0]
    assert op.constant("pad") == [1, 1]
    assert op.constant("mode") == "constant"
    assert op.constant("value") is None
    assert not op.is_constant("self")
    with pytest.raises(torch_d.NotConstantError):
        torch_d.constant_value(size.results[0])


def test_unregistered_op_has_the_same_interface():
    x = torch_d.OperatorOp.create(result_types=[torch_d.VTensorType.get(i1, (2,))])

    op = torch_d.aten_op("aten.special_erfcx", [x.results[0]], [x.results[0].type])

    op.verify()
    assert op.name == "torch.operator"
    assert op.schema.name == "aten.special_erfcx"
    assert op.arg("self") is x.results[0]


@pytest.mark.parametrize(
    ("type", "schema_type", "expected"),
    [
        ("!torch.vtensor<[2],f32>", "Tensor", True),
        ("!torch.vtensor<[2],f32>", "Tensor?", True),
        ("!torch.none", "Tensor?", True),
        ("!torch.none", "Tensor", False),
        ("!torch.optional<vtensor>", "Tensor?", True),
        ("!torch.optional<vtensor>", "Tensor", False),
        ("!torch.int", "SymInt", True),
        ("!torch.int", "ScalarType?", True),
        ("!torch.int", "float", False),
        ("!torch.float", "Scalar", True),
        ("!torch.str", "Scalar", False),
        ("!torch.list<int>", "SymInt[2]", True),
        ("!torch.list<int>", "int[]?", True),
        ("!torch.list<int>", "float[]", False),
        ("!torch.list<optional<vtensor>>", "Tensor?[]", True),
        ("!torch.list<vtensor>", "Tensor?[]", True),
        ("!torch.list<optional<vtensor>>", "Tensor[]", False),
        ("!torch.int", "int[]", False),
    ],
)
def test_fits(type: str, schema_type: str, expected: bool):
    assert (
        torch_d.fits(Parser(make_context(), type).parse_type(), schema_type) == expected
    )


@pytest.mark.parametrize(
    ("type", "other", "expected"),
    [
        ("int", "any", True),
        ("str", "optional<int>", False),
        ("list<int>", "list<any>", True),
        ("vtensor<[2],unk>", "vtensor<[2],f32>", False),
        ("int", "int", True),
        ("int", "float", False),
        ("int", "number", True),
        ("float", "number", True),
        ("bool", "number", True),
        ("number", "number", True),
        ("str", "number", False),
        ("none", "optional<int>", True),
        ("optional<int>", "optional<int>", True),
        ("optional<int>", "optional<number>", True),
        ("optional<str>", "optional<number>", False),
        ("list<optional<int>>", "list<optional<number>>", True),
        ("int", "optional<int>", True),
        ("float", "optional<int>", False),
        ("list<int>", "list<number>", True),
        ("list<str>", "list<number>", False),
        ("int", "list<number>", False),
        ("vtensor<[2],f32>", "vtensor", True),
        ("vtensor<[2],f32>", "vtensor<[2],unk>", True),
        ("vtensor<[2],f32>", "vtensor<[2],f32>", True),
        ("vtensor<[2],f32>", "vtensor<[3],f32>", False),
        ("vtensor<[2],f32>", "vtensor<[2],f64>", False),
        ("int", "vtensor", False),
    ],
)
def test_subtypes(type: str, other: str, expected: bool):
    first, second = (
        Parser(make_context(), f"!torch.{each}").parse_type() for each in (type, other)
    )

    assert is_subtype(first, second) == expected


@pytest.mark.parametrize(
    ("torch_type", "builtin"),
    [
        ("!torch.vtensor<[2,?],si64>", "tensor<2x?xi64>"),
        ("!torch.vtensor<[],ui8>", "tensor<ui8>"),
        ("!torch.vtensor<[1],i1>", "tensor<1xi1>"),
        ("!torch.vtensor<[1],bf16>", "tensor<1xbf16>"),
    ],
)
def test_builtin_types(torch_type: str, builtin: str):
    ctx = make_context()
    vtensor = Parser(ctx, torch_type).parse_type()
    tensor = Parser(ctx, builtin).parse_type()

    assert torch_d.builtin_type(vtensor) == tensor
    assert torch_d.vtensor_type(tensor) == vtensor


def test_unranked_has_no_shape():
    type = Parser(make_context(), "!torch.vtensor<*,f32>").parse_type()

    with pytest.raises(VerifyException, match="known rank"):
        type.get_shape()
