# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""
Emission of a module's `@main` as a program of coremltools' pymil.

All problems of a program are raised at once; `body_emitter` emits the ops.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from padc.backends.coreml import quiet
from padc.backends.coreml.app.features import Features
from padc.backends.coreml.app.interface import Interface
from padc.backends.coreml.body_emitter import BodyEmitter, int32_of
from padc.backends.coreml.model_buffers import BufferFeature
from padc.backends.coreml.symbolic_reshapes import quick_reshapes
from padc.errors import Obstacle, Problem, SourceLocation, UnsupportedError
from padc.ir.main_function import main
from padc.ir.model_buffers import ChangedBuffer, changed_buffers
from padc.ir.targets import resolve_target
from padc.ir.weights import Weights

with quiet():
    import coremltools as ct
    from coremltools.converters.mil import Builder
    from coremltools.converters.mil.converter import _reset_conversion_state
    from coremltools.converters.mil.mil import Function, Program

# coremltools attaches the op builders at run time; a type checker does not see them.
mb: Any = Builder


NO_OUTPUT = "the model returns nothing, and a Core ML program needs an output"


@quick_reshapes()
def emit(
    module: ModuleOp,
    weights: Weights,
    target: str = "newest",
    features: Features | None = None,
) -> Program:
    """
    Translate `@main` of `module` to a pymil program for `target`.

    The attribute `padc.name` names the inputs and outputs, unless `features` do. The
    program's attributes `changed_buffers`, `features` and `denotation` describe the
    buffers that it changes, and its inputs and outputs. Raises `UnsupportedError` with
    everything that Core ML or coremltools does not support, and `UsageError` if the
    features do not fit.
    """
    with quiet():
        # Op names are counted from the last program on otherwise. coremltools.convert
        # calls this too; there is no public function for it.
        _reset_conversion_state()
        target = resolve_target(target)
        return _Emitter(main(module), weights, target, features).emit()


class _Emitter(BodyEmitter):
    """Emits a function as a program, with its inputs, outputs and buffers."""

    def __init__(
        self,
        main: FuncOp,
        weights: Weights,
        target: str,
        features: Features | None = None,
    ):
        self.main = main
        self.interface = Interface(main, target, features)
        super().__init__(weights, target, self.interface.unique)
        self.problems = self.interface.problems

    def emit(self) -> Program:
        input_types = self.interface.input_types()
        output_names = self.interface.output_names()
        placeholders = {
            type_.name: placeholder_of(type_) for type_ in input_types.values()
        }
        version = getattr(ct.target, self.target)
        outputs: list[Any] = []
        with Function(placeholders, opset_version=version) as function:
            for argument, type_ in input_types.items():
                placeholder = function.inputs[type_.name]
                self.values[argument] = self.interface.value_of(argument, placeholder)
            results = self.emit_ops(self.main.body.block)
            if not results and not self.problems:
                # coremltools would return an input.
                self.problems.append(Problem(NO_OUTPUT, hint="return a tensor"))
            if self.problems:
                raise UnsupportedError(self.problems)
            described = self.interface.described_outputs
            for value, name, type_ in zip(results, output_names, described):
                outputs.append(self.emit_output(value, name, type_, outputs))
            function.set_outputs(outputs)
        function.set_input_types(tuple(input_types.values()))  # pyright: ignore
        if any(described):
            types_ = [each or ct.TensorType() for each in described]
            function.set_output_types(types_)
        program: Any = Program()
        program.add_function("main", function)
        program.changed_buffers = self.buffer_features(output_names)
        program.features = self.interface.features
        program.probabilities = self.interface.probabilities
        program.denotation = self.interface.denotation(output_names)
        return program

    def buffer_features(self, output_names: Sequence[str]) -> list[BufferFeature]:
        """The buffers that the program changes, as the package has them."""
        inputs, found = self.interface.input_names, list[BufferFeature]()
        for each in changed_buffers(self.main):
            feature = BufferFeature(each.name, inputs[each.argument])
            if each.result is not None:
                output = output_names[each.result]
                initial = each.initial_array(self.weights)
                self.check_buffer(each, initial)
                feature = replace(feature, output=output, initial=initial)
            found.append(feature)
        return found

    def check_buffer(self, buffer: ChangedBuffer, initial: np.ndarray) -> None:
        """Raise UnsupportedError if Core ML lacks some of the values at export."""
        try:
            int32_of(initial)
        except Obstacle as error:
            text = f"the buffer '{buffer.name}': {error.message}"
            where = SourceLocation.of(buffer.location(self.main))
            problem = Problem(text, where, "smaller numbers, or floats")
            raise UnsupportedError([problem]) from error

    def emit_output(
        self, value: SSAValue, name: str, described: Any, outputs: Sequence[Any]
    ) -> Any:
        """The pymil variable of a result, under its name in the package."""
        var = self.interface.result_of(self.values[value], name, described)
        # Only a value that is computed here, for this output only, can have its name.
        if var.op is None or var.op.op_type == "const" or var in outputs:
            return mb.identity(x=var, name=name)
        var.name = name
        return var


def placeholder_of(type_: Any) -> Any:
    """The placeholder of an input or a state."""
    is_state = isinstance(type_, ct.StateType)
    make = mb.state_tensor_placeholder if is_state else mb.placeholder
    return make(type_.shape.symbolic_shape, type_.dtype)
