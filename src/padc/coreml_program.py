# pyright: reportUnknownMemberType=false
"""
`padc.convert`, and the Core ML program that it returns.

coremltools takes seconds to load: functions import the files that need it.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import torch
from torch.export import ExportedProgram
from xdsl.printer import Printer

from padc.backends.coreml import quiet
from padc.backends.coreml.checker import Finding, check
from padc.backends.coreml.evaluator import load
from padc.backends.coreml.locations import DEFAULT_LOCATIONS, LocationsPolicy
from padc.backends.coreml.numerics import Keep, Numerics
from padc.common.garbage_collection import without_collection
from padc.coreml_lowering import Observer, Steps, emitted, emitter, lowered, set_sizes
from padc.errors import resolve
from padc.float16_report import Float16Report, pytorch_errors, report_of
from padc.ir.main_function import main
from padc.ir.model_buffers import changed_buffers
from padc.ir.precisions import DEFAULT_PRECISION, Precision, resolve_precision
from padc.ir.targets import DEFAULT_TARGET, resolve_target
from padc.models.described_shapes import described_export
from padc.models.exported import Source, as_source, imported
from padc.models.interpreter import initial_tensor
from padc.packages.session import Session, check_samples
from padc.passes import pipelines
from padc.passes.tcp_to_mil.policies import (
    DEFAULT_GRID_SAMPLE_POLICY,
    DEFAULT_PAD_POLICY,
    GridSamplePolicy,
    PadPolicy,
    resolve_grid_sample_policy,
    resolve_pad_policy,
)
from padc.passes.torch_to_mil.states_policy import (
    DEFAULT_STATES_POLICY,
    StatesPolicy,
    resolve_states_policy,
)
from padc.verification import (
    TOLERANCES,
    Comparison,
    check_tolerance,
    compare_calls,
    compare_packages,
    sample_inputs,
    tensor_outputs,
)

Stage: TypeAlias = Literal["torch", "tcp", "mil"]


@dataclass
class Program:
    """
    A model converted to Core ML; `convert` makes it.

    The examples of the methods continue this one.

    Example:
        >>> import padc, torch
        >>> model = torch.nn.Conv2d(1, 1, 3, padding="same").eval()
        >>> program = padc.convert(model, (torch.randn(1, 1, 8, 8),))
        >>> program.target, program.precision, program.operation_count
        ('iOS17', 'float32', 1)
    """

    model: torch.nn.Module | ExportedProgram
    """The model that was converted; for MLIR text, one that interprets it."""
    exported: Source
    """The model's export, or the MLIR text."""
    target: str
    """The oldest system that the program runs on: "iOS15" and so on."""
    precision: Precision
    """The dtype that floats are computed in; inputs and outputs keep theirs."""
    pad_policy: PadPolicy
    """Which pads are Core ML's own ops; see `convert`."""
    grid_sample_policy: GridSamplePolicy
    """Which grid samples are Core ML's own ops; see `convert`."""
    states: StatesPolicy
    """Which buffers that the model changes are states; see `convert`."""
    numerics: Numerics
    """The precision of the program, and how its weights are stored; see `convert`."""
    _pymil: Any = field(repr=False)
    _emitter: Callable[[], Callable[[Numerics], Any]] = field(repr=False)
    """Lowers the model again; returns a function that emits it with other numerics."""
    _initial: Mapping[str, torch.Tensor] = field(repr=False)
    """The values at export of the buffers that the model changes."""
    _running: Session | None = field(default=None, init=False, repr=False)
    """The session of `run`, after its first call."""

    @property
    def operation_count(self) -> int:
        """The number of ops, also in branches and loops, without constants."""
        from padc.backends.coreml.blocks import operations_of

        return sum(op.op_type != "const" for op in operations_of(self._pymil))

    def save(
        self, path: str | Path, *, locations: LocationsPolicy = DEFAULT_LOCATIONS
    ) -> None:
        """
        Write the program as a package; replace the package that is there.

        The same model, options and versions of padc, PyTorch and coremltools give the
        same bytes.

        Args:
            path: The folder to write, named `.mlpackage`.
            locations: How the package records the line of Python that each op comes
                from, which `padc check` prints. "relative": with the file's path in its
                project (the nearest folder above that has a `pyproject.toml`,
                `setup.py` or `.git`) or in `site-packages`. "absolute": with its full
                path. "off": not at all.

        Raises:
            UsageError: The package cannot be written, or there is no such policy.
            UnsupportedError: It breaks a rule of Core ML (see `check`).

        What was at `path` is unchanged if anything fails.

        Example:
            >>> program.save("model.mlpackage")
        """
        from padc.backends.coreml.save import save_package

        with without_collection():
            save_package(self._pymil, path, self.target, locations)

    def mlir(self, stage: Stage = "mil") -> str:
        """
        Print the program as MLIR text.

        Args:
            stage: The level to print: "torch", the ATen graph; "tcp", with padding made
                explicit; or "mil", Core ML's ops.

        Returns:
            The text, without the data of weights.

        Raises:
            UsageError: There is no such stage.

        Example:
            >>> "tcp.conv" in program.mlir("tcp")
            True
        """
        resolve("stage", stage, get_args(Stage))
        ops = None if stage == "torch" else pipelines.legal_for_mil()
        passes = {
            "torch": [],
            "tcp": pipelines.to_mil_tcp(),
            "mil": pipelines.to_mil(
                self.target,
                self.pad_policy,
                self.grid_sample_policy,
                self.states,
                self.precision,
            ),
        }
        ctx, module = imported(self.exported, ops)
        features = getattr(self._pymil, "features", None)
        set_sizes(module, self.exported, features, self.target)
        pipelines.run_passes(ctx, module, passes[stage])
        text = io.StringIO()
        Printer(text).print_op(module)
        return text.getvalue() + "\n"

    def run(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """
        Save the program to a temporary package, and run that on this machine.

        Buffers that the model changes keep their new values for the next call, as in
        the model. They start with their values at export, also after `reset`.

        Args:
            *inputs: The tensors that the model takes, in its order and of its dtypes;
                of the shapes of the example inputs, or within the dynamic ones. An
                input that is an image or of float16 in the package gets the nearest
                value that it has.

        Returns:
            The model's outputs in its order, of its dtypes and shapes. (The package has
            others for some: see `padc.verification.run_package`.) For an image, the
            tensor that its pixels denote; for a classifier, the probabilities.

        Raises:
            UsageError: The inputs do not fit, or have values that int32 does not have.
            UnsupportedError: The evaluator cannot run the program on these values.

        Example:
            >>> (output,) = program.run(torch.zeros(1, 1, 8, 8))
            >>> output.shape
            torch.Size([1, 1, 8, 8])
        """
        if self._running is None:
            self._running = self._session()
        outputs = self._running.run(inputs)
        return tuple(
            # Inputs and outputs of Core ML have at least rank 1.
            output.to(like.dtype).reshape(output.shape if like.dim() else ())
            for output, like in zip(outputs, tensor_outputs(self.exported), strict=True)
        )

    def reset(self) -> None:
        """
        Give the buffers that `run` changed the values that they had at export.

        Example:
            >>> class Total(torch.nn.Module):
            ...     def __init__(self):
            ...         super().__init__()
            ...         self.register_buffer("total", torch.zeros(1))
            ...
            ...     def forward(self, x):
            ...         self.total += x
            ...         return self.total.clone()
            >>> one = torch.ones(1)
            >>> total = padc.convert(Total(), (one,))
            >>> total.run(one), total.run(one)
            ((tensor([1.]),), (tensor([2.]),))
            >>> total.reset()
            >>> total.run(one)
            (tensor([1.]),)
        """
        if self._running is not None:
            self._running.reset()

    def _session(self, pymil: Any = None) -> Session:
        """A session of the program, or of one with other numerics."""
        from padc.backends.coreml.save import save_package

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            save_package(self._pymil if pymil is None else pymil, path)
            return Session(load(path))

    def check(self) -> list[Finding]:
        """
        Look for what Core ML would refuse or compute wrong in the saved package.

        Returns:
            A finding for each place that breaks a rule; see `padc.coreml.check`.

        Example:
            >>> program.check()
            []
        """
        from padc.backends.coreml.save import save_package

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            save_package(self._pymil, path)
            return check(path, self.target)

    def verify(
        self,
        inputs: Sequence[Sequence[torch.Tensor]] | None = None,
        *,
        tolerance: float | None = None,
    ) -> list[Comparison]:
        """
        Run the saved package and the model in PyTorch, and compare their outputs.

        If weights are compressed, two comparisons come first. The program without
        compression must agree with PyTorch as usual, or within `tolerance` if that is
        larger. The package must agree with a program that has the values of the
        compressed weights, but stores them as they are. What remains is what the
        compression costs: it is returned, and by default not limited.

        Args:
            inputs: The samples to compare on: for each, the tensors that the model
                takes, in order. By default two: the example inputs, and random ones of
                the same shapes and dtypes. Give others for other dynamic sizes. If the
                model changes buffers, all samples are run twice, one after the other.
                For an image, the model gets the tensor that the nearest image denotes,
                and what rounding to pixels changed in an output is no error.
            tolerance: The largest error allowed, in parts of the expected output's
                range; by default that of `padc.verification.TOLERANCES` for the
                precision, and any error if weights are compressed.

        Returns:
            For each output, and each buffer that the model changes, the comparison with
            the largest relative error.

        Raises:
            WrongResultError: An output is off by more of its range than is allowed.
            UnsupportedError: The package breaks a rule of Core ML (see `check`).
            UsageError: There are no inputs, or they do not fit.

        Example:
            >>> (comparison,) = program.verify([[torch.ones(1, 1, 8, 8)]])
            >>> comparison.name, comparison.relative_error < 1e-4
            ('conv2d', True)
        """
        check_tolerance(tolerance)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            self.save(path)
            session = Session(load(path))
        if inputs is None:
            inputs = session.samples(sample_inputs(self.exported))
        check_samples(inputs)
        if self.numerics.compression is not None:
            emit = self._emitter()
            exact = emit(replace(self.numerics, compression=None))
            bound = max(TOLERANCES[self.precision], tolerance or 0)
            self._compare(self._session(exact), inputs, bound)
            pretended = emit(replace(self.numerics, pretend=True))
            compare_packages(session, self._session(pretended), inputs)
            session.reset()
            tolerance = float("inf") if tolerance is None else tolerance
        return self._compare(session, inputs, tolerance)

    def float16_report(
        self, inputs: Sequence[Sequence[torch.Tensor]] | None = None
    ) -> Float16Report:
        """
        Find out what float16 costs in accuracy, and what to keep in float32.

        The model is converted to float16 several times, each with other kinds of ops in
        float32, and run on this machine. Compression of weights is left out.

        Args:
            inputs: The samples to compare on, as `verify` takes them.

        Returns:
            The errors in float16, those with each kind of ops in float32, those of
            PyTorch itself in float16, and what to give as `keep_float32`.

        Raises:
            UsageError: There are no inputs, or they do not fit.

        Example:
            >>> program.float16_report().advice
            'float16 is within 0.01 of the range: nothing to keep'
        """
        from padc.backends.coreml.float16.keep_float32 import kinds_of

        if inputs is None:
            inputs = self._session().samples(sample_inputs(self.exported))
        check_samples(inputs)
        emit = self._emitter()

        def trial(names: tuple[str, ...]) -> Sequence[Comparison]:
            keep = (*self.numerics.keep_float32, *names)
            session = self._session(emit(Numerics("float16", keep)))
            return self._compare(session, inputs, float("inf"))

        return report_of(
            trial,
            kinds_of(emit(Numerics("float32"))),
            partial(pytorch_errors, self.model, self.exported, inputs),
        )

    def _compare(
        self,
        session: Session,
        inputs: Sequence[Sequence[torch.Tensor]],
        tolerance: float | None,
    ) -> list[Comparison]:
        """The comparisons of a session with the model in PyTorch."""
        return compare_calls(
            self.model,
            self.exported,
            session,
            inputs,
            self.precision,
            self._initial,
            tolerance,
        )


def convert(
    model: torch.nn.Module | ExportedProgram | str | Path,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str = DEFAULT_TARGET,
    precision: Precision = DEFAULT_PRECISION,
    keep_float32: Keep = (),
    compress: str | None = None,
    pad_policy: PadPolicy = DEFAULT_PAD_POLICY,
    grid_sample_policy: GridSamplePolicy = DEFAULT_GRID_SAMPLE_POLICY,
    states: StatesPolicy = DEFAULT_STATES_POLICY,
    dynamic_shapes: Any = None,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    outputs: Sequence[Any] | Mapping[str, Any] | None = None,
    classifier_config: Any = None,
    metadata: Mapping[str, Any] | None = None,
    verify: bool = False,
    observer: Observer | None = None,
) -> Program:
    """
    Convert a model to a Core ML program.

    Args:
        model: A module, or what `torch.export.export` or `torch.export.load` returned;
            or the path of a `.pt2` file, or of a `.mlir` file as torch-mlir and padc
            print it, at any level, with the data of its weights. A `.pt2` file is read
            as data, and refused if it could run code: `padc.load(path, trust=True)`
            loads such a file.
        example_inputs: For a module, a tuple of its arguments, to export it with.
            Tensors of rank 5 and less, of dtypes that Core ML has or can represent
            (int64 becomes int32); float64, bfloat16 and complex ones are refused.
        target: The oldest system to run on: "iOS15" to "iOS18", "iOS26" or "newest".
        precision: The dtype that floats are computed in; inputs and outputs keep
            theirs.
        keep_float32: Ops that compute in float32 if `precision` is "float16": kinds
            ("norms", "softmax", "coordinates", "reductions", "convolutions", "matmuls",
            "exponentials", "trigonometry", "activations", "arithmetic", "recurrent");
            paths of modules of the model ("layers.0", "layers.*.norm"), which stand for
            all in them; and functions that take an op of coremltools' MIL and return
            whether to keep it.
        compress: How the weights of convolutions, matrix products, embeddings and LSTMs
            are stored: "int8"; "int4", with a scale for each 32 of an input channel;
            "palette1" to "palette8", as 1, 2, 3, 4, 6 or 8 bits that choose one of the
            most fitting values; "sparse", weights of which at least half are zeros
            without these, or "sparse75", after 75 % became zeros.
        pad_policy: Which pads are Core ML's own ops. "auto": those that Core ML has.
            "native": all, where transposes allow it, with an error for the others.
            "decompose": only those by a constant.
        grid_sample_policy: Which grid samples are Core ML's own ops. "auto": those that
            Core ML computes as PyTorch does. "native": all, with an error for those
            that Core ML does not have. "decompose": none.
        states: Which buffers that the model changes in `forward` are Core ML's states;
            each of the others is an input and an output, which the caller hands on.
            "auto": those that states hold as they are, from iOS18 on: float16, bool and
            8-bit integers, and float32 if `precision` is "float16". "native": all, with
            an error for the others. "inputs": none.
        dynamic_shapes: For a module, the dimensions whose sizes may vary between calls,
            as `torch.export.export` takes them. Each needs a `max`. By default those
            that `inputs` describes by `ct.RangeDim` or `ct.EnumeratedShapes`.
        inputs: Descriptions of the inputs by coremltools' classes, `ct.TensorType` and
            `ct.ImageType`: names, images, dtypes, defaults, and shapes among those that
            the model was exported for. A list describes each input, in the model's
            order; a dictionary some, by the model's names. What a description leaves
            out is as without it. See docs/app.md.
        outputs: Descriptions of the outputs, in the same way: names, images, dtypes.
        classifier_config: A `ct.ClassifierConfig`: the class labels. The output with
            the probabilities becomes the predicted label and a dictionary.
        metadata: What the package says about itself, by these keys: "author",
            "license", "short_description", "version" (strings); "input_description" and
            "output_description" (strings by the names in the package);
            "user_defined_metadata" (strings by key); "preview_type" and
            "preview_parameters", for Xcode.
        verify: Whether to run the program and compare it with the model, as
            `Program.verify` does.
        observer: Called after each step with its name, the module if the step has one,
            and the seconds that it took.

    Returns:
        The program. It has its own copy of the weights.

    Raises:
        UsageError: An argument does not fit.
        UnsupportedError: Parts of the model cannot be converted; lists all of them.
        InvalidProgramError: The file of a path is damaged, or its MLIR does not verify.
        MissingEnvironmentError: coremltools is not installed.
        WrongResultError: `verify` found a difference.

    Example:
        >>> import padc, torch
        >>> model = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect").eval()
        >>> program = padc.convert(
        ...     model,
        ...     (torch.randn(1, 3, 8, 8),),
        ...     dynamic_shapes=({2: torch.export.Dim("height", min=4, max=64)},),
        ...     verify=True,
        ... )
        >>> [output.shape for output in program.run(torch.zeros(1, 3, 20, 8))]
        [torch.Size([1, 4, 20, 8])]
    """
    target, precision = resolve_target(target), resolve_precision(precision)
    numerics = Numerics.named(precision, keep_float32, compress, target)
    resolve_pad_policy(pad_policy)
    resolve_grid_sample_policy(grid_sample_policy)
    resolve_states_policy(states)
    steps = Steps(observer)
    features = None
    if any(each is not None for each in (inputs, outputs, classifier_config, metadata)):
        from padc.backends.coreml.app.features import Features

        features = Features.of(inputs, outputs, classifier_config, metadata)
        if dynamic_shapes is None and isinstance(model, torch.nn.Module):
            example_inputs, dynamic_shapes = described_export(
                model, example_inputs, inputs
            )
    exported = as_source("padc.convert", model, example_inputs, dynamic_shapes)
    model = model if isinstance(model, torch.nn.Module) else exported
    if exported is not model:
        steps.end("export")
    passes = pipelines.to_mil(target, pad_policy, grid_sample_policy, states, precision)
    with quiet(), without_collection():
        module, weights, described = lowered(exported, target, features, passes, steps)
        pymil = emitted(module, weights, target, described, numerics, steps)
    initial = {
        each.name: initial_tensor(each, weights)
        for each in changed_buffers(main(module))
    }
    program = Program(
        model,
        exported,
        target,
        precision,
        pad_policy,
        grid_sample_policy,
        states,
        numerics,
        pymil,
        partial(emitter, exported, target, features, passes),
        initial,
    )
    if verify:
        program.verify()
        steps.end("verify")
    return program
