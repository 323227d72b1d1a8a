"""Random weights that keep a network's activations in the range of a trained one."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def seeded(
    build: Callable[[], nn.Module], *shapes: tuple[int, ...], seed: int
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """
    The network that `build` returns, in eval mode, and example inputs of these shapes.

    Equal seeds give equal weights and inputs. PyTorch's random state does not change.
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = build()
        for module in model.modules():
            match module:
                case nn.Conv2d() | nn.Conv3d():
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                case nn.BatchNorm2d() | nn.InstanceNorm2d():
                    nn.init.uniform_(module.weight, 0.5, 1.5)
                    nn.init.normal_(module.bias, std=0.1)
                    # Means and variances become those of the example inputs, below.
                    module.momentum = None
                case _:
                    pass
        images = tuple(torch.rand(shape) for shape in shapes)
        model.train()(*images)
    return model.eval(), images
