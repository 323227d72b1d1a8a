# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
The inputs and outputs of a program in Core ML.

Core ML has neither inputs of rank 0 nor int64: inputs of rank 0 get the shape [1], and
int64 inputs become int32. Inputs and outputs that it cannot have are refused by name.
"""

import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from padc.backends.coreml import quiet
from padc.backends.coreml.app.defaults import check_apart, default_of
from padc.backends.coreml.app.denotation import Denotation, Image, Labels
from padc.backends.coreml.app.features import Features, check_name, result_names
from padc.backends.coreml.app.images import (
    check_image,
    image_input,
    image_scope,
    pixels_of,
    tensor_of,
)
from padc.backends.coreml.app.io_types import (
    described_dtype,
    dtype_outside,
    pymil_dtype,
)
from padc.backends.coreml.app.labels import check_probabilities, probabilities_of
from padc.backends.coreml.app.metadata import check_described
from padc.backends.coreml.app.shapes import Ranges, Size
from padc.backends.coreml.uninitialized import unfilled
from padc.errors import (
    Obstacle,
    Problem,
    SourceLocation,
    UnsupportedError,
    UsageError,
)
from padc.ir import mil, mil_types
from padc.ir.main_function import main
from padc.ir.names import identifier, unique_name
from padc.ir.targets import TARGETS
from padc.ir.torch.describe import describe_type, shape_of
from padc.ir.torch.size_ranges import ATTRIBUTE, SizeRange, size_ranges
from padc.warn import warn

with quiet():
    import coremltools as ct
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.mil import types

# coremltools attaches the op builders at run time; a type checker does not see them.
mb: Any = Builder

INT32 = np.iinfo(np.int32)


def check_interface(module: ModuleOp, target: str) -> None:
    """
    Raise `UnsupportedError` for inputs and outputs of `@main` that Core ML cannot have.

    The module may be at any level. Called before a program is lowered, so that an error
    names the input, not the first op that fails because of it.
    """
    interface = Interface(main(module), target)
    with quiet(), warnings.catch_warnings(action="ignore"):
        interface.input_types()
        interface.output_names()
    if interface.problems:
        raise UnsupportedError(interface.problems)


def check_features(module: ModuleOp, target: str, features: Features) -> None:
    """Raise `UsageError` for descriptions that do not fit; after `check_interface`."""
    interface = Interface(main(module), target, features)
    with quiet(), warnings.catch_warnings(action="ignore"):
        interface.input_types()
        interface.output_names()


class Interface:
    """The inputs and outputs of a function, and the names in use."""

    def __init__(self, main: FuncOp, target: str, features: Features | None = None):
        self.main = main
        self.target = target
        self.features = features or Features()
        self.problems: list[Problem] = []
        self.used_names: set[str] = set()
        self.numbers: dict[str, int] = {}
        """The last number that was appended to each name."""
        self.owners: dict[str, str] = {}
        """Which input or output has a name, as messages call it."""
        self.claimed: set[str] = set()
        """The names that the user chose."""
        self.input_names: Sequence[str] = ()
        """The names of the inputs in the package, after `input_types`."""
        self.described_inputs = self.features.of_inputs(main)
        self.described_outputs = self.features.of_outputs(main)
        self.images: dict[str, Image] = {}
        """The images among the inputs and outputs, by name."""
        self.probabilities: tuple[str, tuple[int, ...]] | None = None
        """The name and the shape of a classifier's output, after `output_names`."""

    def unique(self, name: str) -> str:
        """`name` as an identifier of MIL that differs from every other name."""
        unique = unique_name(identifier(name), self.used_names, self.numbers)
        self.used_names.add(unique)
        return unique

    def namer(self, name: str) -> Callable[[str], str]:
        """Unique names for ops of one input or output, by what they do."""
        return lambda what: self.unique(f"{name}_{what}")

    def claim(self, name: str, owner: str) -> str:
        """A name that the user chose; UsageError if Core ML cannot have it here."""
        check_name(name)
        if name in self.used_names:
            raise clash(name, self.owners.get(name, "another one"), owner)
        self.used_names.add(name)
        self.claimed.add(name)
        self.owners[name] = owner
        return name

    def names(
        self,
        kind: str,
        described: Sequence[Any],
        attributes: ArrayAttr[DictionaryAttr] | None,
    ) -> list[str]:
        """The names of the inputs or outputs in the package."""
        given: list[str] = []
        for index in range(len(described)):
            name = attributes.data[index].data.get("padc.name") if attributes else None
            given.append(
                name.data if isinstance(name, StringAttr) else f"{kind}_{index}"
            )
        chosen = [
            each and each.name and self.claim(each.name, f"the {kind} '{own}'")
            for own, each in zip(given, described, strict=True)
        ]
        return [
            name or self.name_as_given(kind, own)
            for own, name in zip(given, chosen, strict=True)
        ]

    def name_as_given(self, kind: str, given: str) -> str:
        """
        The name of an input or output for which the user chose none.

        Raises UsageError if the user chose it for another one.
        """
        owner = f"the {kind} '{given}'"
        if (name := identifier(given)) in self.claimed:
            raise clash(name, self.owners[name], owner)
        if (unique := self.unique(given)) != given:
            warn(
                f"Core ML cannot have an {kind} '{given}' here: "
                f"it is '{unique}' in the package"
            )
        self.owners[unique] = owner
        return unique

    # --- inputs -----------------------------------------------------------------------

    def input_types(self) -> Mapping[BlockArgument, Any]:
        """The inputs as coremltools describes them, except those with a problem."""
        arguments = self.main.args
        names = self.names("input", self.described_inputs, self.main.arg_attrs)
        ranges = Ranges()
        sizes: dict[BlockArgument, list[Size]] = {}
        found: dict[BlockArgument, Any] = {}
        self.input_names = names
        rows = list(zip(arguments, names, self.described_inputs, strict=True))
        for argument, name, described in rows:
            if isinstance(argument.type, mil_types.StateType):
                continue
            try:
                check_dtype(argument.type, self.target)
                # Core ML has no inputs of rank 0.
                sizes[argument] = input_sizes(argument) or [1]
            except Obstacle as error:
                text = f"input {name}: {describe_type(argument.type)} {error.message}"
                self.problems.append(Problem(text, None, error.hint))
                continue
            with misfits(f"input {name}", argument.type):
                ranges.choose(described, sizes[argument])
        check_enumerated_inputs(self.described_inputs, self.target)
        by_name = {name: sizes[each] for each, name, _ in rows if each in sizes}
        of_name = dict(zip(names, self.described_inputs, strict=True))
        for argument, name, described in rows:
            if argument in sizes and default_in(described) is not None:
                with misfits(f"input {name}", argument.type):
                    check_apart(name, of_name, by_name, ranges)
        for argument, name, described in rows:
            if isinstance(state := argument.type, mil_types.StateType):
                wrapped: Any = ct.TensorType(None, state.tensor.get_shape(), types.fp16)
                found[argument] = ct.StateType(wrapped, name)
            elif argument in sizes:
                with misfits(f"input {name}", argument.type):
                    found[argument] = self.input_type(
                        argument, name, described, sizes[argument], ranges
                    )
        check_described(self.features.metadata, "input", names)
        return found

    def input_type(
        self,
        argument: BlockArgument,
        name: str,
        described: Any,
        sizes: Sequence[Size],
        ranges: Ranges,
    ) -> Any:
        """One input as coremltools describes it; Obstacle if it does not fit."""
        dtype = pymil_dtype(argument.type)
        if isinstance(described, ct.ImageType):
            image = check_image(described, sizes, dtype, self.target)
            if default_in(described) is not None:
                raise Obstacle("is described as an image with a default value")
            self.images[name] = image
            first = image.channel_first
            return image_input(name, described, sizes, ranges, first)
        outside = dtype_outside(dtype, self.target)
        if described is not None and described.dtype is not None:
            outside = described_dtype(described.dtype, dtype, outside, self.target)
        shape = ranges.shape(described, sizes)
        made: Any = ct.TensorType(name, shape)
        made.dtype = types.string_to_builtin(outside)
        if (default := default_in(described)) is not None:
            shape = made.shape.default
            value = default_of(default, shape, made.dtype)
            made.default_value = np.full(shape, value)
        return made

    def value_of(self, argument: BlockArgument, placeholder: Any) -> Any:
        """The ops from an input of the package to the argument."""
        var, name = placeholder, placeholder.name
        if isinstance(argument.type, mil_types.StateType):
            return var
        if name in self.images:
            with image_scope():
                var = tensor_of(self.images[name], var, self.namer(name))
        if shape_of(argument.type) == ():
            var = mb.squeeze(x=var, name=self.unique(f"{name}_scalar"))
        dtype = pymil_dtype(argument.type)
        if types.builtin_to_string(var.dtype) != dtype:
            var = mb.cast(x=var, dtype=dtype)
        return var

    # --- outputs ----------------------------------------------------------------------

    def output_names(self) -> Sequence[str]:
        """The names of the outputs; notes those that Core ML cannot have."""
        returned = self.main.get_return_op()
        values = () if returned is None else returned.operands
        names = self.names("output", self.described_outputs, self.main.res_attrs)
        for value, name in zip(values, names, strict=True):
            try:
                check_dtype(value.type, self.target)
                hint = "return it with dimensions joined"
                check_shape(shape_of(value.type) or (), hint)
                check_filled(value)
            except Obstacle as error:
                text = f"output {name}: {describe_type(value.type)} {error.message}"
                where = location_of(value)
                self.problems.append(Problem(text, where, error.hint))
        if not self.problems:
            self.check_outputs(values, names)
        return names

    def check_outputs(self, values: Sequence[SSAValue], names: Sequence[str]) -> None:
        """Raise UsageError if a description does not fit its output."""
        for value, name, described in zip(values, names, self.described_outputs):
            dtype = pymil_dtype(value.type)
            with misfits(f"output {name}", value.type):
                if isinstance(described, ct.ImageType):
                    sizes = list(shape_of(value.type) or ())
                    image = check_image(described, sizes, "fp32", self.target)
                    self.images[name] = image
                elif described is not None and described.dtype is not None:
                    described_dtype(described.dtype, dtype, dtype, self.target, True)
        final = list(names)
        if self.features.classifier is not None:
            final += self.check_classifier(values, names)
        check_described(self.features.metadata, "output", final)

    def check_classifier(
        self, values: Sequence[SSAValue], names: Sequence[str]
    ) -> Sequence[str]:
        """Find the probabilities; the names of the outputs that a classifier adds."""
        classifier = self.features.classifier
        assert classifier is not None
        own = [
            name
            for name, given in zip(names, result_names(self.main))
            if given is not None
        ]
        name = own[probabilities_of(classifier, own)]
        position = names.index(name)
        value, described = values[position], self.described_outputs[position]
        if isinstance(described, ct.ImageType) or getattr(described, "dtype", None):
            raise UsageError(
                f"the output '{name}' has the probabilities of the classifier, and is "
                "described as an image or by a dtype",
                hint="leave that out: a classifier gives a label and a dictionary",
            )
        shape = shape_of(value.type) or ()
        is_float = pymil_dtype(value.type) in ("fp16", "fp32")
        check_probabilities(classifier, name, shape, is_float)
        self.probabilities = name, shape
        return [
            self.claim(classifier.name, "the class label"),
            self.claim(classifier.probabilities_name, "the probabilities by label"),
        ]

    def result_of(self, var: Any, name: str, described: Any) -> Any:
        """The ops from a result to the output of the package."""
        if isinstance(described, ct.ImageType):
            with image_scope():
                image, namer = self.images[name], self.namer(name)
                return pixels_of(image, described, var, namer)
        if described is None or described.dtype is None:
            return var
        dtype = types.builtin_to_string(var.dtype)
        outside = described_dtype(described.dtype, dtype, dtype, self.target, True)
        return var if outside == dtype else mb.cast(x=var, dtype=outside)

    def denotation(self, names: Sequence[str]) -> Denotation:
        """The meaning of images and labels, after the outputs were named."""
        own = [n for n, given in zip(names, result_names(self.main)) if given]
        labels, classifier = None, self.features.classifier
        if self.probabilities is not None and classifier is not None:
            name, shape = self.probabilities
            labels = Labels(classifier.probabilities_name, shape)
            own[own.index(name)] = labels.output
        return Denotation(self.images, own, labels)


def clash(name: str, one: str, other: str) -> UsageError:
    return UsageError(
        f"two inputs or outputs are named '{name}': {one} and {other}",
        hint="choose another name for one of them",
    )


def default_in(described: Any) -> Any:
    """The default value in a description; None without one."""
    return getattr(described, "default_value", None)


@contextmanager
def misfits(what: str, type_: Attribute) -> Generator[None]:
    """Raise UsageError where a description does not fit an input or output."""
    try:
        yield
    except Obstacle as error:
        message = f"{what}: {describe_type(type_)} {error.message}"
        raise UsageError(message, hint=error.hint) from error


def check_enumerated_inputs(described: Sequence[Any], target: str) -> None:
    """Raise UsageError if several inputs list shapes in a way Core ML does not have."""
    listed = [x for x in described if isinstance(x and x.shape, ct.EnumeratedShapes)]
    if len(listed) > 1 and TARGETS.index(target) < TARGETS.index("iOS18"):
        raise UsageError(
            f"{len(listed)} inputs have enumerated shapes",
            hint="choose the target iOS18 or newer, or give ranges for all but one",
        )
    if len({len(each.shape.shapes) for each in listed}) > 1:
        raise UsageError(
            "inputs list different numbers of enumerated shapes",
            hint="the first shapes of all inputs go together, then the second ones",
        )


def location_of(value: SSAValue) -> SourceLocation | None:
    """Where a value is computed; None for an argument."""
    owner = value.owner
    return SourceLocation.of(owner.location) if isinstance(owner, Operation) else None


def input_sizes(argument: BlockArgument) -> list[Size]:
    """The sizes of an input, numbers and ranges; Obstacle for those without bounds."""
    shape: list[Size] = list(shape_of(argument.type) or ())
    hint = "join dimensions of the input, and reshape it in the model"
    check_shape(shape_of(argument.type) or (), hint)
    dynamic = [dim for dim, size in enumerate(shape) if size == DYNAMIC_INDEX]
    sizes: list[SizeRange] = size_ranges(argument) if dynamic else []
    if dynamic and not sizes:
        raise Obstacle(
            "has sizes without bounds",
            f"give them by torch.bind_symbolic_shape, or by {ATTRIBUTE}",
        )
    if len(sizes) != len(dynamic):
        raise Obstacle(
            f"has {len(dynamic)} dynamic sizes, and {len(sizes)} ranges in {ATTRIBUTE}"
        )
    for dim, size in zip(dynamic, sizes, strict=True):
        if size.upper >= INT32.max:
            raise Obstacle(
                f"has no upper bound of dimension {dim}, and Core ML needs one "
                f"below {INT32.max}",
                hint='give the dimension one: torch.export.Dim("name", max=...)',
            )
        shape[dim] = size
    return shape


def check_dtype(type_: Attribute, target: str) -> None:
    """Raise Obstacle for a dtype that neither Core ML has nor the lowering widens."""
    try:
        dtype = pymil_dtype(type_)
        if not mil.is_widened(dtype, target):
            mil.check_element_type(dtype, target)
    except Obstacle as error:
        raise Obstacle(f"is not possible: {error.message}", error.hint) from error


def check_shape(shape: Sequence[int], hint: str) -> None:
    """Raise Obstacle for the shape of an input or output that Core ML cannot have."""
    if len(shape) > mil.MAX_RANK:
        most = f"Core ML's tensors have rank {mil.MAX_RANK} at most"
        raise Obstacle(f"has rank {len(shape)}; {most}", hint)
    if 0 in shape:
        message = "has no elements, and Core ML has no empty tensors"
        raise Obstacle(message, "leave it out")


def check_filled(output: SSAValue) -> None:
    """Raise Obstacle for an output whose numbers PyTorch leaves arbitrary."""
    if (op := unfilled(output)) is not None:
        message = f"is what {op.schema.name} gives: arbitrary numbers"
        raise Obstacle(message, "fill it, or use torch.zeros")
