"""
Saved Core ML packages on any machine: run them, and check them against Core ML's rules.

    >>> import numpy as np, padc, torch
    >>> padc.convert(torch.nn.ReLU(), (torch.ones(2),)).save("relu.mlpackage")
    >>> x = np.array([-1, 1], np.float32)
    >>> padc.coreml.load("relu.mlpackage").predict({"input": x})
    {'relu': array([0., 1.], dtype=float32)}
    >>> padc.coreml.check("relu.mlpackage", target="iOS17")
    []
"""

from padc.backends.coreml.checker import Finding, check
from padc.backends.coreml.evaluator import Feature, Limits, Model, State, load
from padc.backends.coreml.locations import LocationsPolicy

__all__ = [
    "Feature",
    "Finding",
    "Limits",
    "LocationsPolicy",
    "Model",
    "State",
    "check",
    "load",
]
