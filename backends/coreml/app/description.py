# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""The protobuf of an optimized program, with its inputs and outputs as described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from padc.backends.coreml import quiet
from padc.backends.coreml.app.metadata import describe_features, write_metadata
from padc.backends.coreml.evaluator.metadata_keys import FEATURES, metadata_key

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.backend.mil.load import (
        CoreMLProtoExporter,
        MILProtoExporter,
    )
    from coremltools.converters.mil.mil import Program, types


Sources: TypeAlias = Mapping[str, Program] | Mapping[None, Program]
"""The programs that functions come from, by name; None if there is one function."""


class Exporter(CoreMLProtoExporter):
    """coremltools' exporter, which takes classifiers for models of one function."""

    def __init__(self, *args: Any, sources: Sources, **options: Any):
        super().__init__(*args, **options)
        self.classifiers = {
            source.functions["main"]: classifier_of(source)
            for name, source in sources.items()
            if name is not None
        }

    def get_func_output(self, func: Any) -> Any:
        """The outputs of a function; the label of a classifier is one of any type."""
        if func not in self.classifiers:
            return super().get_func_output(func)
        (self.predicted_feature_name, _), self.classifier_config = self.classifiers[
            func
        ]
        outputs = super().get_func_output(func)
        self.classifier_config = None
        return outputs


def to_proto(program: Program, weights_dir: str, sources: Sources) -> Any:
    """
    A `Model` message; the weights are written to `weights_dir`.

    coremltools' `load` would add the op of a classifier again at each call.
    """
    version = max(each.opset_version.value for each in program.functions.values())
    names, config = classifier_of(program)
    model = Exporter(
        program,
        MILProtoExporter(program, weights_dir, version).export(),
        *names,
        classifier_config=config,
        convert_to="mlprogram",
        convert_from="milinternal",
        specification_version=version,
        sources=sources,
    ).export(version)
    described = {each.name: each for each in model.description.functions}
    for name, source in sources.items():
        function = described.get(name, model.description)
        write_defaults(source, function)
        features = getattr(source, "features", None)
        if name is not None:
            describe_classifier(source, function)
        if features is not None:
            describe_features(features.metadata, function)
            if name in (None, program.default_function_name):
                write_metadata(features.metadata, model.description)
        denotation = getattr(source, "denotation", None)
        if denotation is not None and (denotation.images or denotation.labels):
            key = metadata_key(FEATURES, name)
            model.description.metadata.userDefined[key] = denotation.to_json()
    return model


def classifier_of(program: Program) -> tuple[tuple[Any, Any], Any]:
    """The names of a classifier's outputs, and its configuration."""
    features = getattr(program, "features", None)
    classifier = None if features is None else features.classifier
    if classifier is None:
        return (None, None), None
    config = ct.ClassifierConfig(list(classifier.labels), classifier.name)
    return (classifier.name, classifier.probabilities_name), config


def describe_classifier(source: Program, description: Any) -> None:
    """
    Describe the outputs of a function that is a classifier, if it is one.

    coremltools does it for models of one function only, and for functions that
    `save_multifunction` takes from such models.
    """
    (label, probabilities), config = classifier_of(source)
    if config is None:
        return
    description.predictedFeatureName = label
    description.predictedProbabilitiesName = probabilities
    (output,) = (each for each in description.output if each.name == label)
    output.type.Clear()
    is_text = isinstance(config.class_labels[0], str)
    kind = output.type.stringType if is_text else output.type.int64Type
    kind.SetInParent()


def write_defaults(program: Program, description: Any) -> None:
    """
    Write the defaults of the inputs of a function.

    coremltools writes floats for integers, and only the defaults of a function `main`
    that is alone.
    """
    inputs = {each.name: each for each in program.functions["main"].input_types}
    for item in description.input:
        default = getattr(inputs.get(item.name), "default_value", None)
        if default is None:
            continue
        item.type.isOptional = True
        array = item.type.multiArrayType
        if types.is_int(inputs[item.name].dtype):
            array.intDefaultValue = int(default.flat[0])
        else:
            array.floatDefaultValue = float(default.flat[0])
