"""Programs at the mil level as they are written, in the evaluator."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from padc.backends.coreml.evaluator import load
from padc.ir.targets import resolve_target
from padc.ir.weights import weights_of
from padc.models.mlir_model import MlirModel
from padc.packages.session import Session
from padc.passes import pipelines
from padc.passes.tcp_to_mil.policies import (
    DEFAULT_GRID_SAMPLE_POLICY,
    DEFAULT_PAD_POLICY,
)
from padc.versions import require


class WrittenProgram:
    """
    What a package is compared with if its program has ops of Core ML in the text.

    PyTorch and the reference do not have these ops. The evaluator runs them before
    coremltools' passes, in the precision and with the weights of the text: those are
    what the comparison judges, and the file that was written.
    """

    def __init__(self, model: MlirModel):
        require("coreml")
        from padc.backends.coreml.emit import emit
        from padc.backends.coreml.save import save_package

        ctx, module = model.program()
        target = resolve_target("newest")  # The text may have any op.
        policies = DEFAULT_PAD_POLICY, DEFAULT_GRID_SAMPLE_POLICY
        pipelines.run_passes(ctx, module, pipelines.to_mil(target, *policies, "inputs"))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mlpackage"
            save_package(emit(module, weights_of(ctx), target), path)
            self._session = Session(load(path))

    def __call__(
        self, example: object, inputs: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs, in order."""
        return list(self._session.run(inputs))

    @property
    def buffers(self) -> Mapping[str, torch.Tensor]:
        """The buffers that the program changes."""
        session = self._session
        return {each.buffer: session.buffer(each) for each in session.buffers}
