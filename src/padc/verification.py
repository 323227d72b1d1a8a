# pyright: reportUnknownMemberType=false
"""Running a saved package, and comparing it with the model in PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, TensorArgument
from torch.func import functional_call

from padc.backends.coreml.evaluator import load
from padc.errors import UsageError, WrongResultError, first_line, shortened
from padc.frontends.torch_export import held_tensors, kernels_for, module_of
from padc.frontends.torch_export.locations import error_location
from padc.ir.precisions import DEFAULT_PRECISION
from padc.models.exported import Source
from padc.models.mlir_model import MlirModel
from padc.packages.denoted import as_tensor
from padc.packages.session import Session, as_inputs, check_samples
from padc.packages.written_program import WrittenProgram

__all__ = [
    "TOLERANCES",
    "Comparison",
    "compare",
    "run_package",
    "sample_inputs",
    "tensor_outputs",
    "verify_package",
]

TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2}
"""The largest error allowed for each precision, relative to the output's range."""


@dataclass(frozen=True)
class Comparison:
    """
    The difference between an output of a package and the model's.

    Example:
        >>> import padc, torch
        >>> program = padc.convert(torch.nn.ReLU(), (torch.ones(3),))
        >>> program.verify()
        [Comparison(name='relu', max_error=0.0, relative_error=0.0)]
    """

    name: str
    """The name of the output; `buffer NAME` for a buffer that the model changes."""
    max_error: float
    """The largest absolute error, in the output's units; infinite where shapes or NaNs
    differ."""
    relative_error: float
    """`max_error` divided by the range (largest - smallest) of the expected output."""


def run_package(
    path: str | Path, inputs: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """
    Run a saved package on this machine.

    Args:
        path: A `.mlpackage` that holds an ML program.
        inputs: A tensor for each input of the package, in its order and of its shape:
            those of the model, then its buffers that are inputs. States are zeros. Any
            dtype will do if the package's dtype has all of the values.

    Returns:
        The outputs in the package's order, of its dtypes and shapes: int32 for int64,
        float32 for bool, [1] for rank 0.

    Raises:
        UsageError: There is no such package, or the inputs do not fit.
        InvalidProgramError: The package is damaged.
        UnsupportedError: The evaluator does not know part of the package.

    Example:
        >>> import padc, torch
        >>> from padc.verification import run_package
        >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
        >>> run_package("relu.mlpackage", [torch.tensor([-1.0, 1.0])])
        (tensor([0., 1.]),)
    """
    model = load(path)
    outputs = model.predict(as_inputs(model.inputs, inputs))
    return tuple(as_tensor(each, outputs[each.name]) for each in model.outputs)


def sample_inputs(exported: Source) -> list[tuple[torch.Tensor, ...]]:
    """
    Inputs to verify a program with.

    Args:
        exported: A program that was exported or saved with its example inputs.

    Returns:
        Two samples of the same shapes and dtypes, with dimensions in the same order in
        memory: the example inputs, and normally distributed values (a permutation of
        the example for integers and bools).

    Raises:
        UsageError: The program was saved without example inputs.

    Example:
        >>> import torch
        >>> from padc.verification import sample_inputs
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        >>> examples, random = sample_inputs(exported)
        >>> examples
        (tensor([1., 1.]),)
    """
    if exported.example_inputs is None:
        raise UsageError(
            "the program was saved without example inputs to verify it with",
            hint="give inputs to verify",
        )
    leaves = pytree.tree_leaves(exported.example_inputs)
    examples = tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))
    generator = torch.Generator().manual_seed(0)

    def random_like(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            values = torch.randn(tensor.shape, generator=generator)
        else:
            # Indices, for one, are only known to be legal where the example has them.
            order = torch.randperm(tensor.numel(), generator=generator)
            values = tensor.flatten()[order].reshape(tensor.shape)
        # Models may depend on the order in memory.
        return torch.empty_like(tensor).copy_(values)

    return [examples, tuple(map(random_like, examples))]


def tensor_outputs(exported: Source) -> list[torch.Tensor]:
    """
    The model's outputs that a package has: those that are tensors.

    Args:
        exported: The program that was converted.

    Returns:
        A tensor without data for each output, of the model's dtype and shape.

    Example:
        >>> import torch
        >>> from padc.verification import tensor_outputs
        >>> exported = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
        >>> [(output.dtype, output.dim()) for output in tensor_outputs(exported)]
        [(torch.float32, 1)]
    """
    if isinstance(exported, MlirModel):
        return exported.outputs
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    return [
        values[spec.arg.name]
        for spec in exported.graph_signature.output_specs
        if spec.kind == OutputKind.USER_OUTPUT and isinstance(spec.arg, TensorArgument)
    ]


def verify_package(
    model: torch.nn.Module | ExportedProgram,
    exported: Source,
    path: str | Path,
    inputs: Sequence[Sequence[torch.Tensor]] | None = None,
    precision: str = DEFAULT_PRECISION,
    *,
    tolerance: float | None = None,
    function_name: str | None = None,
) -> list[Comparison]:
    """
    Run a saved package and its model on the same inputs, and compare all outputs.

    If the model changes buffers, all samples are run twice, one after the other, and
    the buffers are compared after each. The model's own buffers do not change.

    Args:
        model: The model that was converted.
        exported: Its export, which has the structure of its arguments.
        path: The `.mlpackage`.
        inputs: The samples to compare on: for each, the tensors that the model takes,
            in order, of its dtypes and of shapes that the package accepts. By default
            those of `sample_inputs`, in shapes that the package accepts.
        precision: What the package computes in, "float32" or "float16", which decides
            the error that is allowed.
        tolerance: The error that is allowed instead, in parts of the expected output's
            range; for packages with compressed weights.
        function_name: The function of the package to run; by default its default
            function.

    Returns:
        For each output, the comparison with the largest relative error.

    Raises:
        WrongResultError: An output is off by more than `TOLERANCES[precision]`, or
            `tolerance`, of the expected output's range.
        UsageError: There are no inputs, or inputs or outputs do not correspond.
        InvalidProgramError: The package is damaged.
        UnsupportedError: The evaluator does not know part of the package.

    Example:
        >>> import padc, torch
        >>> from padc.verification import verify_package
        >>> program = padc.convert(torch.nn.ReLU(), (torch.ones(2),))
        >>> program.save("relu.mlpackage")
        >>> sample = [torch.tensor([-1.0, 1.0])]
        >>> verify_package(program.model, program.exported, "relu.mlpackage", [sample])
        [Comparison(name='relu', max_error=0.0, relative_error=0.0)]
    """
    session = Session(load(path, function_name=function_name))
    return compare_calls(
        model, exported, session, inputs, precision, tolerance=tolerance
    )


def compare_calls(
    model: torch.nn.Module | ExportedProgram,
    exported: Source,
    session: Session,
    inputs: Sequence[Sequence[torch.Tensor]] | None,
    precision: str,
    initial: Mapping[str, torch.Tensor] | None = None,
    tolerance: float | None = None,
) -> list[Comparison]:
    """
    Like `verify_package`, with a package that is loaded.

    If it changes buffers, all samples are run twice, one after the other, and the
    buffers are compared, too. `initial` are their values at export, by default those
    that they have now. `tolerance` is the error allowed, instead of the precision's.
    """
    check_tolerance(tolerance)
    if inputs is None:
        inputs = session.samples(sample_inputs(exported))
    check_samples(inputs)
    names = [each.buffer for each in session.buffers]
    values = initial_values(exported) if names and initial is None else initial
    if isinstance(model, MlirModel) and model.core_ml_op is not None:
        eager = WrittenProgram(model)
    else:
        eager = EagerCalls(model, {name: known(values or {}, name) for name in names})
    worst: dict[str, Comparison] = {}
    for sample in [*inputs, *inputs] if names else inputs:
        sample = session.nearest(sample)
        example = exported.example_inputs or (tuple(sample), {})
        actual = list(session.run(sample))
        expected = eager(example, sample)
        if len(actual) != len(expected):
            raise UsageError(
                f"the package has {len(actual)} outputs, the model has {len(expected)}"
            )
        for index, feature in enumerate(session.outputs):
            actual[index], expected[index] = session.denoted.comparable(
                feature, actual[index], expected[index]
            )
        actual += [session.buffer(each) for each in session.buffers]
        expected += eager.buffers.values()
        shown = [each.name for each in session.outputs]
        shown += [f"buffer {each.input}" for each in session.buffers]
        for name, is_, should in zip(shown, actual, expected, strict=True):
            found = compare(name, is_, should)
            worst[name] = max(
                worst.get(name, found), found, key=lambda c: c.relative_error
            )
    allowed = TOLERANCES[precision] if tolerance is None else tolerance
    hint = None
    if precision == "float16":
        hint = "Program.float16_report(), or padc convert --report, says what to keep "
        hint += "in float32"
    check_errors(worst.values(), allowed, hint)
    return list(worst.values())


def check_tolerance(tolerance: Any) -> None:
    """Raise UsageError unless `tolerance` is None or a number from 0 on."""
    if not isinstance(tolerance, float | int | None):
        raise UsageError(f"tolerance is {shortened(tolerance)}, not a number")
    if tolerance is not None and not tolerance >= 0:
        raise UsageError(
            f"tolerance is {shortened(tolerance)}", hint="give a number from 0 on"
        )


def compare_packages(
    session: Session,
    expected: Session,
    inputs: Sequence[Sequence[torch.Tensor]],
) -> None:
    """Raise WrongResultError unless two packages compute the same up to rounding."""
    for sample in inputs:
        results = zip(session.run(sample), expected.run(sample), strict=True)
        alike = session.denoted.alike
        found = [
            compare(feature.name, *alike(feature, is_, should))
            for feature, (is_, should) in zip(session.outputs, results, strict=True)
        ]
        check_errors(found, 1e-5)


def known(values: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """The value of a buffer; UsageError if the model does not have it."""
    if name not in values:
        raise UsageError(
            f"the package changes a buffer '{name}', which the model does not have",
            hint="give the model that was converted",
        )
    return values[name]


def initial_values(exported: Source) -> Mapping[str, torch.Tensor]:
    """The buffers and parameters of a program, by name."""
    if isinstance(exported, MlirModel):
        return exported.interpreter.buffers
    return held_tensors(exported)


def check_errors(
    comparisons: Iterable[Comparison], tolerance: float, hint: str | None = None
) -> None:
    """Raise WrongResultError if a relative error is above `tolerance`."""
    wrong = [c for c in comparisons if not c.relative_error <= tolerance]
    if wrong:
        listed = ", ".join(
            f"'{c.name}' is off by {c.max_error:.3g}, "
            f"{c.relative_error:.3g} of its range"
            for c in wrong
        )
        raise WrongResultError(
            f"the package does not compute what the model does: {listed}; "
            f"allowed is {tolerance:g} of the range",
            hint=hint,
        )


class EagerCalls:
    """Calls of a model in PyTorch that change copies of its buffers."""

    def __init__(
        self,
        model: torch.nn.Module | ExportedProgram,
        buffers: Mapping[str, torch.Tensor],
    ):
        self._module = module_of(model) if isinstance(model, ExportedProgram) else model
        self.buffers = {name: value.clone() for name, value in buffers.items()}
        """The buffers that the model changes."""

    def __call__(
        self, example: tuple[Any, ...], inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs; arguments that are not tensors are those of the example."""
        tensors = iter(inputs)
        leaves, spec = pytree.tree_flatten(example)
        given = [
            next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves
        ]
        args, kwargs = pytree.tree_unflatten(given, spec)
        with torch.inference_mode():
            result = self._call(args, kwargs)
        return [
            leaf
            for leaf in pytree.tree_leaves(result)
            if isinstance(leaf, torch.Tensor)
        ]

    def _call(self, args: Any, kwargs: Any) -> Any:
        if isinstance(self._module, MlirModel):
            step = self._module.interpreter.step
            outputs, self.buffers = step(args, self.buffers)
            return outputs
        # The model may assign buffers that no output depends on.
        buffers = {name: each.clone() for name, each in self._module.named_buffers()}
        buffers.update(self.buffers)
        # Puts new values that the model assigns into the dictionary, too.
        try:
            with kernels_for(self._module):
                result = functional_call(self._module, buffers, args, kwargs)
        except UsageError:
            raise
        except Exception as error:
            # PyTorch 2.8 expects other inputs, where later versions have guards.
            if str(error).startswith(("Guard failed", "Expected input at")):
                raise UsageError(
                    f"the model was not exported for these inputs: {error}",
                    hint="give verify inputs of sizes that the model takes",
                ) from error
            raise UsageError(
                f"PyTorch cannot run the model: {first_line(error)}",
                location=error_location(error),
                hint="give verify inputs that the model takes",
            ) from error
        self.buffers = {name: buffers[name] for name in self.buffers}
        return result


def compare(name: str, actual: torch.Tensor, expected: torch.Tensor) -> Comparison:
    """
    Compare an output with the expected one.

    Integers and bools have to be equal. NaN equals only NaN, infinity only itself.

    Args:
        name: The name of the output.
        actual: The package's output, of any dtype.
        expected: The model's output; its dtype decides how values are compared.

    Returns:
        The comparison; infinite errors where shapes differ, or values that have no
        finite difference.

    Example:
        >>> import torch
        >>> from padc.verification import compare
        >>> compare("y", torch.tensor([0.0, 2.5]), torch.tensor([0.0, 2.0]))
        Comparison(name='y', max_error=0.5, relative_error=0.25)
    """
    if expected.dim() == 0:
        expected = expected.reshape(1)
        actual = actual.reshape(-1)
    different = Comparison(name, float("inf"), float("inf"))
    if actual.shape != expected.shape:
        return different
    if expected.numel() == 0:
        return Comparison(name, 0.0, 0.0)
    is_, should = actual.double(), expected.double()
    same = (is_ == should) | (is_.isnan() & should.isnan())
    if not expected.is_floating_point():
        return Comparison(name, 0.0, 0.0) if bool(same.all()) else different
    error = torch.where(same, 0.0, (is_ - should).abs())
    if not bool(error.isfinite().all()):
        return different
    finite = should[should.isfinite()]
    extent = float(finite.max() - finite.min()) if finite.numel() else 0.0
    # A constant output has no range; its magnitude takes its place.
    scale = extent or float(finite.abs().max()) if finite.numel() else 1.0
    worst = float(error.max())
    return Comparison(name, worst, worst / (scale or 1.0))
