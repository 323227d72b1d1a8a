"""
A checker of saved Core ML packages: what Core ML refuses or computes wrongly, and why.

    for finding in check("model.mlpackage", target="iOS17"):
        print(finding)

It applies the rules of `rules.py`, each with its source, and compares the shapes that a
program declares with those that the evaluator computes. It does not run the program.
"""

from padc.backends.coreml.checker.check import check
from padc.backends.coreml.checker.finding import Finding
from padc.backends.coreml.checker.rules import RULES

__all__ = ["RULES", "Finding", "check"]
