"""An evaluator of saved Core ML packages, for any machine.

    model = load("model.mlpackage")
    outputs = model.predict({"x": array})

It reads the package from disk and computes each op as its documentation says. It is an
oracle, independent on purpose: it shares no formula with the passes and no code with
the emission of packages. It needs numpy and protobuf only; PyTorch, where it is
installed, computes some kernels of large arrays faster (`values/kernels.py`).

    package, messages   a saved package, and its protobuf
    metadata_keys       the entries that padc writes into a package's metadata
    loading, execution  from the protobuf of a function to calls of kernels, and a run
    arguments           the arguments of a kernel
    features            inputs, outputs and states as a package describes them
    model               what `load` returns
    ops                 the kernels
"""

from padc.backends.coreml.evaluator.features import Feature
from padc.backends.coreml.evaluator.model import Model, State, load
from padc.backends.coreml.evaluator.values.limits import Limits

__all__ = ["Feature", "Limits", "Model", "State", "load"]
