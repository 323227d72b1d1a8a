"""The last op of a classifier, by the docstring of coremltools' mil/ops/defs/iOS15/
classify.py. The predicted label is the one of the highest probability."""

from padc.backends.coreml.evaluator.ops.registry import AnyValue, Float, op
from padc.backends.coreml.evaluator.values.limits import steps


@op()
def classify(
    probabilities: Float, classes: AnyValue
) -> tuple[str | int, dict[str | int, float]]:
    steps(probabilities.size)
    numbers: list[float] = probabilities.reshape(-1).tolist()
    label = classes[int(probabilities.argmax())]
    return label, dict(zip(classes, numbers, strict=True))
