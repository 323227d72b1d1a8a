"""
The Core ML backend: emission of `.mlpackage` and an evaluator that runs one.

    emit, body_emitter, blocks   from `mil` to a program of coremltools
    app/                inputs and outputs as an app wants them
    float16/            which ops of a float16 program compute in float32
    numerics            what a program computes in, and how its weights are stored
    optimize, repaired_passes    coremltools' passes on a program
    compress, compressions       compression of weights
    symbolic_reshapes   sizes that coremltools infers wrongly
    uninitialized       outputs that a model never fills
    locations           lines of Python that a package records
    model_buffers       changed buffers in a package's metadata
    save, replacing     from a program to a package on disk
    target              `padc-opt -t mil`
    checker             whether Core ML would take a package
    evaluator           runs packages, on any machine
    torch_ops           padc's lowerings inside of `ct.convert`
"""

import logging
from collections.abc import Generator
from contextlib import contextmanager

from padc.common.log_levels import log_level
from padc.errors import MissingEnvironmentError
from padc.versions import require

IMAGE_ORIGIN = "padc.image"
"""The origin that ops between pixels and the model's tensors have in their scope."""


@contextmanager
def quiet() -> Generator[None]:
    """Keep coremltools' log to errors, in an import of it or a call."""
    require("coreml")
    try:
        with log_level("coremltools", logging.ERROR):
            yield
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        raise MissingEnvironmentError(
            f"the Core ML backend needs the package {missing}",
            hint="pip install 'padc[coreml]'",
        ) from error
