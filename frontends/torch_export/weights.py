"""The tensors that a model holds, as weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch.export import ExportedProgram

from padc.ir.weights import Array


def held_tensors(ep: ExportedProgram) -> Mapping[str, torch.Tensor]:
    """The parameters, buffers and constants of a program, by qualified name."""
    held = {**ep.constants, **ep.state_dict}
    return {k: v for k, v in held.items() if isinstance(v, torch.Tensor)}


def weight_array(tensor: torch.Tensor) -> Array:
    """
    The data of a tensor as a weight, without a copy if it is contiguous.

    numpy does not have bfloat16: its bits are returned, as uint16.
    """
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()
