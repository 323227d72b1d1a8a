"""
A small GPT as a Core ML package that keeps its keys and values in states.

    $ python -m examples.gpt

Converts one step of the model, generates text with the package, and compares it with
PyTorch's. The weights are random, and so is the text.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import padc

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 64, 4, 2
PROMPT = (17, 42, 99)


class Attention(nn.Module):
    """Attention of one token to those before it, which are in the cache."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        # A state of Core ML is float16. A cache of that dtype is the same in PyTorch.
        cache = torch.zeros(1, HEADS, CONTEXT, WIDTH // HEADS, dtype=torch.float16)
        self.keys: Tensor
        self.values: Tensor
        self.register_buffer("keys", cache)
        self.register_buffer("values", cache.clone())

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        heads = self.project(x).view(1, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind()
        self.keys[:, :, position] = key.half()
        self.values[:, :, position] = value.half()
        mask = (torch.arange(CONTEXT) <= position)[None]
        found = F.scaled_dot_product_attention(
            query, self.keys.float(), self.values.float(), attn_mask=mask
        )
        return self.out(found.transpose(1, 2).reshape(1, 1, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), position)
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    """The logits of the next token, from one token and its position."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, token: Tensor, position: Tensor) -> Tensor:
        x = self.tokens(token) + self.positions(position)
        for block in self.blocks:
            x = block(x, position)
        return self.head(self.norm(x))[:, -1]


def gpt() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return GPT().eval(), (torch.tensor([[PROMPT[0]]]), torch.tensor([0]))


Step = Callable[[int, int], np.ndarray]
"""The logits of the next token, from a token and its position."""


def generate(step: Step, count: int) -> list[int]:
    """The most likely `count` tokens after the prompt."""
    text: list[int] = [*PROMPT]
    for position in range(len(PROMPT) + count - 1):
        logits = step(text[position], position)
        if position + 1 == len(text):
            text.append(int(logits.argmax()))
    return text[len(PROMPT) :]


def step_of_pytorch(model: nn.Module) -> Step:
    def step(token: int, position: int) -> np.ndarray:
        with torch.no_grad():
            return model(torch.tensor([[token]]), torch.tensor([position])).numpy()

    return step


def step_of_package(path: Path) -> Step:
    """As an app would do it: `make_state`, and `predict` with the state."""
    package = padc.coreml.load(path)
    state = package.make_state()

    def step(token: int, position: int) -> np.ndarray:
        inputs = {
            "token": np.array([[token]], np.int32),
            "position": np.array([position], np.int32),
        }
        (logits,) = package.predict(inputs, state).values()
        return logits

    return step


def main(path: Path | None = None) -> int:
    """Tell the story; the package is written to `path`, by default a temporary one."""
    model, inputs = gpt()
    program = padc.convert(model, inputs, target="iOS18", verify=True)
    with tempfile.TemporaryDirectory() as folder:
        path = path or Path(folder) / "gpt.mlpackage"
        program.save(path)
        generated = generate(step_of_package(path), 50)
    expected = generate(step_of_pytorch(model), 50)
    print("package:", *generated)
    print("PyTorch:", *expected)
    return 0 if generated == expected else 1


if __name__ == "__main__":
    sys.exit(main())
