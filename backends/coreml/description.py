# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""The protobuf of an optimized program, with its inputs and outputs as described."""

from __future__ import annotations

from typing import Any

from padc.backends.coreml import FEATURES, quiet
from padc.backends.coreml.metadata import write_metadata

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.backend.mil.load import (
        CoreMLProtoExporter,
        MILProtoExporter,
    )
    from coremltools.converters.mil.mil import Program, types


def to_proto(program: Program, weights_dir: str) -> Any:
    """
    A `Model` message; the weights are written to `weights_dir`.

    coremltools' `load` would add the op of a classifier again at each call.
    """
    version = program.functions["main"].opset_version.value
    features = getattr(program, "features", None)
    classifier = None if features is None else features.classifier
    names: tuple[Any, Any] = None, None
    config: Any = None
    if classifier is not None:
        config = ct.ClassifierConfig(list(classifier.labels), classifier.name)
        names = classifier.name, classifier.probabilities_name
    model = CoreMLProtoExporter(
        program,
        MILProtoExporter(program, weights_dir, version).export(),
        *names,
        classifier_config=config,
        convert_to="mlprogram",
        convert_from="milinternal",
        specification_version=version,
    ).export(version)
    write_defaults(program, model.description)
    if features is not None:
        write_metadata(features.metadata, model.description)
    denotation = getattr(program, "denotation", None)
    if denotation is not None and (denotation.images or denotation.labels):
        model.description.metadata.userDefined[FEATURES] = denotation.to_json()
    return model


def write_defaults(program: Program, description: Any) -> None:
    """Write the defaults of integer inputs as integers; coremltools writes floats."""
    inputs = {each.name: each for each in program.functions["main"].input_types}
    for item in description.input:
        default = getattr(inputs.get(item.name), "default_value", None)
        if default is not None and types.is_int(inputs[item.name].dtype):
            item.type.multiArrayType.intDefaultValue = int(default.flat[0])
