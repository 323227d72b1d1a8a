"""The ops that `mil_ops.txt` declares, and their Python interface."""

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.dialects.test import TestOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.ir import make_context, mil, mil_types
from padc.ir.text import Parser

MIL_OPS = Path(mil.__file__).parent / "mil_ops.txt"


def tensor(*shape: int) -> SSAValue:
    (value,) = TestOp(result_types=[TensorType(f32, shape)]).results
    return value


def test_the_list_of_ops_is_current():
    from padc.tools.update_mil_ops import mil_ops

    assert MIL_OPS.read_text() == mil_ops()


def test_importing_the_dialect_needs_no_coremltools():
    code = "import sys, padc.ir.mil; sys.exit('coremltools' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_inputs():
    x, y = tensor(2), tensor(2)

    op = mil.op("concat", [TensorType(f32, [4])], values=[x, y], axis=0)
    op.verify()

    assert op.input("values") == (x, y)
    assert op.input("axis") == 0
    assert op.input("interleave") is None


def test_none_leaves_an_input_out():
    op = mil.op("clip", [TensorType(f32, [2])], x=tensor(2), alpha=None, beta=1.0)

    with pytest.raises(VerifyException, match="needs an input 'alpha'"):
        op.verify()


def test_ops_of_a_newer_target():
    x = tensor(1, 2, 3, 4)
    op = mil.op(
        "slice_update", [x.type], x=x, update=x, begin=[0] * 4, end=[1, 2, 3, 4]
    )
    op.verify()

    op.check("iOS18")
    op.check("iOS26")
    with pytest.raises(VerifyException, match="slice_update needs iOS18"):
        op.check("iOS17")


def test_inputs_of_a_newer_target():
    indices = TestOp(result_types=[TensorType(i32, [2])]).results[0]
    op = mil.op(
        "gather", [TensorType(f32, [2])], x=tensor(3), indices=indices, batch_dims=0
    )
    op.verify()

    op.check("iOS16")
    with pytest.raises(VerifyException, match="gather of iOS15 has no input 'batch"):
        op.check("iOS15")


def test_an_unknown_op_is_refused():
    with pytest.raises(ValueError, match="Core ML has no op 'levitate'"):
        mil.op("levitate", [])


@pytest.mark.parametrize("dtype", mil_types.NUMPY_TYPES)
def test_arrays_keep_shape_and_dtype(dtype: np.dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)

    back = mil_types.constant_of(mil_types.constant_attr(array))

    assert isinstance(back, np.ndarray)
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, array)


def test_arrays_that_core_ml_lacks_are_refused():
    with pytest.raises(ValueError, match="no constants of dtype float64"):
        mil_types.constant_attr(np.zeros(2))


SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text('azAZ09_"\\ ')
)


@given(SCALARS | st.lists(st.integers(-(2**31), 2**31 - 1) | st.floats(), max_size=4))
def test_constants_survive_printing(value: mil_types.Constant):
    op = mil.op("identity", [TensorType(f32, [])], x=value)

    (parsed,) = Parser(make_context(), str(op)).parse_module().ops

    assert isinstance(parsed, mil.MilOp)
    back = parsed.input("x")
    assert (
        back == value
        or (isinstance(value, float) and math.isnan(value))
        or (isinstance(value, list) and str(back) == str(value))
    )
    assert type(back) is type(value)
