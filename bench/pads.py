# pyright: basic, reportMissingTypeStubs=false, reportMissingImports=false
"""
Pads of float32 by padc's machine code, PyTorch, onnxruntime and memcpy.

All run in this thread and take turns, each round in another order, since a run leaves
its data in the caches. Times are medians of `ROUNDS` runs of `REPEATS` calls, in CPU
time of this thread, which other processes affect less than wall-clock time. padc writes
to a given output; "new" allocates its output, as PyTorch does. memcpy copies as many
bytes as the padded tensor has: called by ctypes, without any check, and as machine
code that padc calls as it calls a pad, "copy". So memcpy / padc tells what a pad costs
with its call, and copy / padc what the machine code costs.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable

import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from torch import Tensor, nn

import padc

ROUNDS = 31
REPEATS = 10
SHAPES = [
    (1, 64, 112, 112),
    (8, 64, 56, 56),
    (1, 256, 14, 14),
    (1, 3, 224, 224),
    (1, 3, 1080, 1920),
]
MODES = {
    "constant": "constant",
    "replicate": "edge",
    "reflect": "reflect",
    "circular": "wrap",
}
"""Modes: PyTorch's names, and ONNX's."""


class Pad(nn.Module):
    def __init__(self, mode: str):
        super().__init__()
        self.mode = mode

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x, (1, 1, 1, 1), self.mode)


class Copy(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.clone()


def by_onnxruntime(mode: str, x: Tensor) -> Callable[[], object]:
    """A run of ONNX's `Pad` with bound input and output memory."""
    floats = TensorProto.FLOAT
    y = F.pad(x, (1, 1, 1, 1))
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "pads"], ["y"], mode=MODES[mode])],
        "pad",
        [helper.make_tensor_value_info("x", floats, x.shape)],
        [helper.make_tensor_value_info("y", floats, y.shape)],
        [helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1] * 2)],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9
    )
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    binding = session.io_binding()
    binding.bind_ortvalue_input(
        "x", onnxruntime.OrtValue.ortvalue_from_numpy(x.numpy())
    )
    output = onnxruntime.OrtValue.ortvalue_from_numpy(y.numpy())
    binding.bind_ortvalue_output("y", output)
    session.run_with_iobinding(binding)
    expected = F.pad(x, (1, 1, 1, 1), mode)
    assert (output.numpy() == expected.numpy()).all()
    return lambda: session.run_with_iobinding(binding)


def contestants(mode: str, x: Tensor) -> dict[str, Callable[[], object]]:
    model = Pad(mode)
    expected = model(x)
    compiled = padc.compile(model, (x,))
    assert compiled.is_native
    y = torch.empty_like(expected)
    outputs = [y]
    compiled.run_into(outputs, x)
    assert torch.equal(y, expected)
    source, target = torch.randn_like(expected), torch.empty_like(expected)
    copy, targets = padc.compile(Copy(), (source,)), [target]
    return {
        "memcpy": lambda: ctypes.memmove(
            target.data_ptr(), source.data_ptr(), source.nbytes
        ),
        "copy": lambda: copy.run_into(targets, source),
        "padc": lambda: compiled.run_into(outputs, x),
        "padc, new": lambda: compiled(x),
        "PyTorch": lambda: model(x),
        "onnxruntime": by_onnxruntime(mode, x),
    }


def microseconds(run: Callable[[], object]) -> float:
    start = time.thread_time()
    for _ in range(REPEATS):
        run()
    return (time.thread_time() - start) / REPEATS * 1e6


def main() -> None:
    torch.set_num_threads(1)
    print(f"Pads by 1 of height and width, fp32, one thread, us: medians of {ROUNDS}")
    print("In brackets: the speed of padc relative to each; 2.0 is twice as fast")
    order = random.Random(0)
    with torch.inference_mode():
        for shape in SHAPES:
            x = torch.randn(shape)
            for mode in MODES:
                runs = contestants(mode, x)
                times: dict[str, list[float]] = {name: [] for name in runs}
                for _ in range(ROUNDS):
                    for name in order.sample(list(runs), len(runs)):
                        times[name].append(microseconds(runs[name]))
                medians = {name: statistics.median(it) for name, it in times.items()}
                columns = [
                    f"{name} {median:.1f} ({median / medians['padc']:.2f})"
                    for name, median in medians.items()
                ]
                print(f"{'x'.join(map(str, shape)):14} {mode:10}", "  ".join(columns))


if __name__ == "__main__":
    main()
