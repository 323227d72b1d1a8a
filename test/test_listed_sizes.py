# pyright: reportUnknownMemberType=false, reportMissingTypeStubs=false
"""Guards that leave sizes with gaps: packages list the shapes that they take."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import coremltools as ct
import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.nn import functional as F

import padc
from padc.errors import UnsupportedError, UsageError
from padc.versions import numbers

pytestmark = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"), reason="PyTorch 2.8 keeps no guards"
)

Function = Callable[..., torch.Tensor]
SIZES: Any = Dim.AUTO(min=2, max=40)  # type: ignore[operator]


class One(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class Two(nn.Module):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


def exported(
    function: Function,
    *shapes: Sequence[int],
    most: int = 40,
    dims: Sequence[int] = (0,),
) -> ExportedProgram:
    """A program of inputs whose given dimensions have sizes of 2 to `most`."""
    model = One(function) if len(shapes) == 1 else Two(function)
    sizes: Any = {dim: Dim.AUTO(min=2, max=most) for dim in dims}  # type: ignore[operator]
    inputs = tuple(torch.rand(*shape) for shape in shapes)
    return torch.export.export(model, inputs, dynamic_shapes=(sizes,) * len(inputs))


def rows_of_5(x: torch.Tensor) -> torch.Tensor:
    return x.view(-1, 5).sum(1)


def converted(program: ExportedProgram, warning: str, **options: Any) -> padc.Program:
    with pytest.warns(padc.PadcWarning, match=warning):
        found = padc.convert(program, **options)
    assert not found.check()
    return found


def test_multiples_of_a_number(tmp_path: Path):
    """Multiples of 5 up to 40."""
    program = exported(rows_of_5, [20])

    package = converted(program, r"takes 7 of .* \(10, 15, 20, \.\.\., 40\), since")

    for size in range(10, 41, 5):
        package.verify([(torch.rand(size),)])
    for size in (5, 9, 11, 41):
        with pytest.raises(UsageError, match=r"one of the shapes \[\(10,\), \(15,\)"):
            package.run(torch.rand(size))
    package.save(tmp_path / "m.mlpackage")
    (described,) = (
        ct.models.MLModel(str(tmp_path / "m.mlpackage"), skip_model_load=True)
        .get_spec()
        .description.input
    )
    listed = described.type.multiArrayType.enumeratedShapes.shapes
    assert [[*each.shape] for each in listed] == [[n] for n in range(10, 41, 5)]


def test_all_sizes_but_one():
    program = exported(lambda x: x * 2 if x.shape[0] != 7 else x, [20])

    package = converted(program, r"takes 38 of .* 2 to 40 \(2, 3, 4, \.\.\., 40\)")

    package.verify([(torch.rand(n),) for n in (6, 8)])
    with pytest.raises(UsageError, match="shape"):
        package.run(torch.rand(7))


def test_two_dimensions():
    program = exported(
        lambda x: F.pixel_unshuffle(x, 2), [1, 1, 8, 8], most=16, dims=[2, 3]
    )

    package = converted(program, r"takes 7 of the sizes of 4 to 16 \(4, 6, 8")

    package.verify([(torch.rand(1, 1, *sizes),) for sizes in ((4, 10), (16, 6))])
    with pytest.raises(UsageError, match="shape"):
        package.run(torch.rand(1, 1, 4, 5))


def test_two_sizes_that_a_guard_on_several_makes_one():
    """Sizes of 4 and 8 are left, and then 8 alone."""

    def f(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        return x * 2 if n % 4 == 0 and n < 11 and n * m > 15 else x

    program = exported(f, [8, 8], most=20, dims=[0, 1])

    converted(program, "takes the size 8, not those of 2 to 10").verify(
        [(torch.rand(8, 2),)]
    )


def test_a_name_and_a_dtype_that_the_user_gives():
    inputs = [ct.TensorType("vector", dtype=np.float16)]

    package = converted(
        exported(rows_of_5, [20]), "takes 7 of", target="iOS17", inputs=inputs
    )

    assert package.run(torch.ones(15).half())[0].tolist() == [5, 5, 5]
    with pytest.raises(UsageError, match="the input 'vector'"):
        package.run(torch.ones(16).half())
    assert inputs[0].shape is None


class Counted(nn.Module):
    calls: torch.Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return rows_of_5(x) + self.calls


@pytest.mark.parametrize("states", ["native", "inputs"])
def test_a_model_with_a_buffer(states: str):
    sizes = ({0: SIZES},)
    program = torch.export.export(Counted(), (torch.ones(20),), dynamic_shapes=sizes)

    options = {"target": "iOS18", "states": states, "precision": "float16"}
    package = converted(program, "takes 7 of", **options)

    assert package.run(torch.ones(15))[0].tolist() == [6, 6, 6]
    assert package.run(torch.ones(10))[0].tolist() == [7, 7]


def test_a_size_that_the_user_chooses():
    program = exported(rows_of_5, [20])

    package = padc.convert(program, inputs=[ct.TensorType(shape=(15,))])

    package.verify([(torch.rand(15),)])
    with pytest.raises(UsageError, match="shape"):
        package.run(torch.rand(10))
    with pytest.raises(
        UsageError, match=r"the shape \(16,\) does not fit: dimension 0"
    ):
        padc.convert(program, inputs=[ct.TensorType(shape=(16,))])


def test_a_large_range_of_which_few_sizes_are_left():
    """A guard on several sizes is tried for these, not for a billion combinations."""

    def f(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        return x * 2 if n % 400_000 == 0 and n + m > 9 else x

    sizes = {0: Dim.AUTO(min=2, max=10**6), 1: Dim.AUTO(min=2, max=40)}  # type: ignore[operator]
    x = torch.zeros(400_000, 4, dtype=torch.bool)
    program = torch.export.export(One(f), (x,), dynamic_shapes=(sizes,))

    converted(
        program, r"takes 2 of the sizes .* \(400000, 800000\), since .* % 400000 == 0$"
    )


def test_two_inputs_of_equal_sizes():
    program = exported(lambda x, y: rows_of_5(x + y), [20], [20])

    package = converted(program, "takes 7 of", target="iOS18")

    package.verify([(torch.rand(n), torch.rand(n)) for n in (10, 35)])
    with pytest.raises(UnsupportedError, match=r"'x' and 'y' .* from iOS18 on"):
        padc.convert(program, target="iOS17")


def test_an_input_with_a_range_beside_one_that_lists():
    program = exported(lambda x, y: rows_of_5(x).sum() + y, [20], [11])

    package = converted(program, "takes 7 of", target="iOS17")
    inputs = {"y": ct.TensorType(shape=(ct.RangeDim(2, 9),))}
    smaller = converted(program, "takes 7 of", target="iOS17", inputs=inputs)

    package.verify([(torch.rand(10), torch.rand(n)) for n in (2, 3, 40)])
    smaller.verify([(torch.rand(10), torch.rand(n)) for n in (2, 9)])
    with pytest.raises(UsageError, match=r"2\.\.9"):
        smaller.run(torch.rand(10), torch.rand(10))


def test_only_guards_with_gaps_are_named():
    """Those on `n` leave one size, and those on `m` hundreds."""

    def f(x: torch.Tensor) -> torch.Tensor:
        n, m = x.shape
        return x * 2 if n % 4 == 0 and 5 < n < 11 and m % 3 == 0 else x

    with pytest.raises(UnsupportedError, match=r"would list 33\d shapes") as caught:
        padc.convert(exported(f, [8, 9], most=1000, dims=[0, 1]))

    (problem,) = caught.value.problems
    assert "x.shape[1] % 3 == 0; " in problem.message


@pytest.mark.parametrize(
    "program, options, reason",
    [
        (exported(rows_of_5, [20], most=1000), {}, "list 199 shapes, .* takes 128"),
        (
            exported(rows_of_5, [20]),
            {"inputs": [ct.TensorType(shape=(ct.RangeDim(10, 20),))]},
            "'x' is described with a shape, and not all inputs",
        ),
        (
            exported(lambda x, y: rows_of_5(x).sum() + y, [20], [11]),
            {"inputs": {"y": ct.TensorType(shape=ct.EnumeratedShapes([(2,), (9,)]))}},
            "'y' is described with a shape, and not all inputs",
        ),
        (
            torch.export.export(
                Two(lambda x, y: x * y if x.shape[0] % 5 == 0 else x),
                (torch.rand(20, 3), torch.rand(3)),
                dynamic_shapes=({0: SIZES, 1: SIZES}, {0: SIZES}),
            ),
            {"target": "iOS18"},
            "'x' and 'y' would list shapes that do not belong together",
        ),
        (
            exported(
                lambda x, y: rows_of_5(x).sum() + y.view(-1, 4).sum(1), [20], [20]
            ),
            {"target": "iOS18"},
            "'x' and 'y' would list shapes that do not belong together",
        ),
    ],
    ids=["too many", "a range", "a list", "shared", "pairs"],
)
def test_what_cannot_be_listed(
    program: ExportedProgram, options: dict[str, Any], reason: str
):
    with pytest.raises(UnsupportedError, match=reason) as caught:
        padc.convert(program, **options)

    problem = caught.value.problems[0]
    assert "dimension 0 of the input 'x': " in problem.message
    assert "exported where x.shape[0] % 5 == 0; " in problem.message
    assert problem.location is not None
    assert Path(problem.location.file) == Path(__file__)
    assert problem.hint is not None and "list the shapes" in problem.hint
