# pyright: basic, reportMissingTypeStubs=false, reportAttributeAccessIssue=false
"""Classifiers: the labels, and the op that gives the predicted one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from padc.backends.coreml import quiet
from padc.backends.coreml.app.metadata import check_text
from padc.errors import UsageError, first_line

with quiet():
    import coremltools as ct
    from coremltools.converters.mil.backend.mil.load import _add_classify_op

INT64 = np.iinfo(np.int64)
"""Labels that are integers have 64 bits in a package."""


@dataclass(frozen=True)
class Classifier:
    """A checked `ct.ClassifierConfig`."""

    labels: Sequence[str] | Sequence[int]
    name: str
    """The name of the output that is the predicted label."""
    probabilities: str | None
    """The name of the output that has the probabilities; None for the only one."""

    @property
    def probabilities_name(self) -> str:
        """The name of the output that is a dictionary, as coremltools chooses it."""
        return f"{self.name}_probs"


def classifier_of(config: Any) -> Classifier | None:
    """Read a `ct.ClassifierConfig`, and its file; raises UsageError."""
    if config is None:
        return None
    if not isinstance(config, ct.ClassifierConfig):
        raise UsageError(
            f"classifier_config is a {type(config).__name__}",
            hint="give ct.ClassifierConfig(class_labels)",
        )
    labels = config.class_labels
    if isinstance(labels, str | Path):
        labels = read_labels(Path(labels))
    elif isinstance(labels, tuple | list):
        labels = list(labels)
    else:
        raise UsageError(
            f"class_labels is a {type(labels).__name__}",
            hint="give a list of strings or integers, or a file, one label per line",
        )
    check_labels(labels)
    name = config.predicted_feature_name or "classLabel"
    return Classifier(labels, name, config.predicted_probabilities_output or None)


def read_labels(path: Path) -> list[str]:
    """The lines of a file, without blank ones at its end; raises UsageError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        is_text = isinstance(error, UnicodeDecodeError)
        reason = getattr(error, "strerror", None) or first_line(error)
        reason = "it is not text in UTF-8" if is_text else reason
        raise UsageError(
            f"cannot read the class labels in {path}: {reason}",
            hint="give a file with one label per line",
        ) from error
    while lines and not lines[-1].strip():
        lines.pop()
    if blank := [number for number, line in enumerate(lines, 1) if not line.strip()]:
        raise UsageError(
            f"line {blank[0]} of the class labels in {path} is blank",
            hint="each line is the label of one class: name it, or remove the line",
        )
    return lines


def check_labels(labels: Sequence[Any]) -> None:
    """Raise UsageError unless these are distinct strings, or distinct integers."""
    if not labels:
        raise UsageError("there are no class labels")
    kinds = {type(label) for label in labels}
    if kinds not in ({str}, {int}):
        listed = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise UsageError(
            f"the class labels are of type {listed}",
            hint="give strings only, or integers only",
        )
    for label in labels:
        if isinstance(label, str):
            check_text("a class label", label)
        elif not INT64.min <= label <= INT64.max:
            raise UsageError(
                f"the class label {label} does not fit in 64 bits",
                hint="give smaller integers, or strings",
            )
    if again := [label for label, count in Counter(labels).items() if count > 1]:
        raise UsageError(
            f"the class label {again[0]!r} occurs {Counter(labels)[again[0]]} times; "
            "the probabilities are a dictionary by label",
            hint="tell equal labels apart, as in 'crane (bird)', 'crane (machine)'",
        )


def probabilities_of(classifier: Classifier, names: Sequence[str]) -> int:
    """The position of the output with the probabilities; raises UsageError."""
    if classifier.probabilities is not None:
        if classifier.probabilities not in names:
            raise UsageError(
                f"the classifier's predicted_probabilities_output "
                f"'{classifier.probabilities}' is not an output",
                hint=f"the outputs are {', '.join(names)}",
            )
        return names.index(classifier.probabilities)
    if len(names) != 1:
        raise UsageError(
            f"the model has {len(names)} outputs; which has the probabilities?",
            hint="name it: predicted_probabilities_output="
            + " or ".join(repr(name) for name in names),
        )
    return 0


def check_probabilities(
    classifier: Classifier, name: str, shape: Sequence[int], is_float: bool
) -> None:
    """Raise UsageError unless an output has a float for each label."""
    if not is_float:
        raise UsageError(
            f"the output '{name}' has integers",
            hint="a classifier needs probabilities: the result of a softmax",
        )
    if min(shape, default=1) < 0:
        raise UsageError(
            f"the output '{name}' has a dynamic size",
            hint="a classifier has one probability for each label: batch size 1",
        )
    if prod(shape) != len(classifier.labels):
        raise UsageError(
            f"there are {len(classifier.labels)} class labels, and the output '{name}' "
            f"of shape {list(shape)} has {prod(shape)} elements",
            hint="give a label for each element; the batch size is 1",
        )


def add_classify(program: Any) -> None:
    """
    Replace a classifier's probabilities by the predicted label and a dictionary.

    In place, after all passes, by coremltools' own function.
    """
    classifier = program.features.classifier
    if classifier is None:
        return
    output, _ = program.probabilities
    config = ct.ClassifierConfig(
        list(classifier.labels), classifier.name, predicted_probabilities_output=output
    )
    main = program.functions["main"]
    position = [each.name for each in main.outputs].index(output)
    with quiet():
        _add_classify_op(program, config)
    if described := list(main.output_types or []):
        described.pop(position)
        main.set_output_types([ct.TensorType(), ct.TensorType(), *described])
