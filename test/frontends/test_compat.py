"""Versions of PyTorch that differ from the one of `aten_schemas.txt`."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from functions import Function
from torch import Tensor

from padc.errors import UnsupportedError
from padc.frontends.compat import children
from padc.frontends.torch_export import export_module, import_exported_program
from padc.ir import torch as torch_d
from padc.ir.torch import Schema, schema_of
from padc.ir.weights import Weights


def import_with(text: str | None, function: Callable[[Tensor], Tensor]) -> None:
    """Import a gelu while the table of ops has `text` for it."""
    program = export_module(Function(function), (torch.ones(2),))

    def schema(name: str) -> Schema | None:
        if name != "aten.gelu":
            return schema_of(name)
        return None if text is None else Schema.parse(text)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(torch_d, "schema_of", schema)
        import_exported_program(program, Weights())


def test_op_that_the_table_does_not_have():
    with pytest.raises(UnsupportedError, match=r"'aten\.gelu' on \(float32\[2\]\)"):
        import_with(None, F.gelu)


def test_argument_that_the_table_does_not_have():
    text = "aten::gelu(Tensor self) -> Tensor"

    import_with(text, F.gelu)  # without it
    with pytest.raises(UnsupportedError, match="with approximate") as error:
        import_with(text, lambda x: F.gelu(x, approximate="tanh"))

    assert torch.__version__ in (error.value.hint or "")


def test_argument_at_another_position():
    text = "aten::gelu(Tensor self, int new=0, *, str approximate='none') -> Tensor"

    import_with(text, lambda x: F.gelu(x, approximate="tanh"))  # by name
    text = "aten::gelu(str approximate, Tensor self) -> Tensor"
    with pytest.raises(UnsupportedError, match="with self"):
        import_with(text, F.gelu)


def test_children():
    spec = pytree.tree_structure(((1, 2), {"a": 3}))

    assert [part.num_children for part in children(spec)] == [2, 1]
    assert all(not children(leaf) for leaf in children(children(spec)[0]))
