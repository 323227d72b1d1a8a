# pyright: basic
"""`padc same`: its text, and the code in it, which is run."""

import math
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from padc.tools import padc


def run(capsys: pytest.CaptureFixture[str], command: str) -> tuple[str, str, Any]:
    """Output, errors and exit code of `padc same`."""
    with pytest.raises(SystemExit) as exit:
        padc.main(["same", *command.split()])
    printed = capsys.readouterr()
    return printed.out, printed.err, exit.value.code


def test_what_is_printed(capsys: pytest.CaptureFixture[str]):
    # Keras' amounts for this kernel are the example that padc was asked for.
    assert run(capsys, "--size 100 20 --kernel 4 1") == (
        """\
SAME of TensorFlow, Keras and JAX:

size  before  after  output
 100       1      2     100
  20       0      0      20

F.pad(x, (0, 0, 1, 2))  # before a max pool: value=-float('inf')

padding='same' of PyTorch: the same
SAME_UPPER of ONNX: the same
SAME_LOWER of ONNX: F.pad(x, (0, 0, 2, 1)), differs in dimension 0 (2 before, 1 after)
""",
        "",
        0,
    )


def test_strides_and_dilations(capsys: pytest.CaptureFixture[str]):
    command = "--size 13 --kernel 6 3 --stride 5 2 --dilation 1 2"
    out, _, _ = run(capsys, f"{command} --rule onnx_lower")

    # As TensorFlow documents it for 13, 6 and 5, with the odd one first.
    assert out.startswith("SAME_LOWER of ONNX:\n")
    assert "  13       2      1       3\n  13       2      2       7\n" in out
    assert "F.pad(x, (2, 2, 2, 1))  #" in out
    assert "# With a stride, the amounts depend on the size.\n" in out
    assert (
        "JAX: F.pad(x, (2, 2, 1, 2)), differs in dimension 0 (1 before, 2 after)" in out
    )
    assert "PyTorch: refused, padding='same' is not supported for strided" in out


def test_a_kernel_may_be_larger_than_the_input(capsys: pytest.CaptureFixture[str]):
    out, _, code = run(capsys, "--size 2 --kernel 8 --rule pytorch")

    assert "F.pad(x, (3, 4))" in out
    assert code == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("--kernel 3", "the following arguments are required: --size"),
        ("--size x --kernel 3", "invalid int value: 'x'"),
        ("--size 8 --kernel 3 --rule keras", "invalid choice: 'keras'"),
        ("--size 8 8 --kernel 3 3 3", "--size 8 8: 2 numbers for 3 dimensions"),
        ("--size 8 --kernel 3 0", "--kernel 3 0: must be 1 or more"),
        ("--size 8 --kernel 3 --stride -1", "--stride -1: must be 1 or more"),
        ("--size 8 --kernel 3 --stride 2 --rule pytorch", "--rule pytorch: padding='same' is not supported for strided convolutions"),
        ("--size 8 --kernel 3 --padding 1", "--padding is for --transposed only"),
        ("--size 8 --kernel 3 --output-padding 0 1", "--output-padding is for --transposed only"),
        ("--transposed --size 8 --kernel 3 --rule tensorflow", "--rule is not for --transposed"),
        ("--transposed --size 8 --kernel 3 --padding -1", "--padding -1: must be 0 or more"),
        ("--transposed --size 8 --kernel 3 3 3 3", "--transposed of 4 dimensions"),
        ("--transposed --size 8 --kernel 3 --stride 2 --output-padding 2", "--output-padding 2: PyTorch wants it less than the stride or the dilation, 2 and 1"),
        ("--transposed --size 2 --kernel 1 --padding 3", "the output of size 2 would have size -4"),
    ],
)  # fmt: skip
def test_what_makes_no_sense(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
):
    out, error, code = run(capsys, command)

    assert message in error
    assert "Traceback" not in error
    assert (out, code) == ("", 2)


# Transposed convolutions. TensorFlow and Keras are no dependencies of these tests: the
# code that is printed runs with what their documentation says of their functions.


def leads_back(
    y: Tensor, weight: Tensor, strides: list[int], mode: str, dilations: list[int]
) -> Tensor:
    """TensorFlow's convolution of channels-first `y` by PyTorch's transposed weight."""
    flat: list[int] = []
    for size, kernel, stride, dilation in zip(
        y.shape[2:], weight.shape[2:], strides, dilations, strict=True
    ):
        output = math.ceil(size / stride)
        total = max((output - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        before = total // 2 if mode == "SAME" else 0
        flat[:0] = [before, total - before if mode == "SAME" else 0]
    convolve: Any = [F.conv1d, F.conv2d, F.conv3d][len(strides) - 1]
    return convolve(F.pad(y, flat), weight, None, strides, 0, dilations)


def conv_transpose(
    input: Tensor,
    filters: Tensor,
    output_shape: list[int],
    strides: list[int],
    padding: str = "SAME",
    dilations: Any = None,
) -> Tensor:
    """`tf.nn.conv_transpose`: "the transpose (gradient) of" the convolution."""
    rank = len(strides)
    *sizes, channels = output_shape[1:]
    assert filters.shape[-2:] == (channels, input.shape[-1])
    weight = filters.permute(rank + 1, rank, *range(rank))
    y = input.new_zeros(output_shape[0], channels, *sizes).requires_grad_()
    x = leads_back(y, weight, strides, padding, dilations)
    gradient = input.movedim(-1, 1)
    # TensorFlow refuses an output_shape that does not lead back to the input's.
    assert x.shape == gradient.shape
    (result,) = torch.autograd.grad(x, y, gradient)
    return result.movedim(1, -1)


def pad(tensor: Tensor, paddings: list[list[int]]) -> Tensor:
    """`tf.pad`, which does not crop."""
    flat = [amount for pair in reversed(paddings) for amount in pair]
    assert min(flat) >= 0
    return F.pad(tensor, flat)


TF = SimpleNamespace(
    nn=SimpleNamespace(conv_transpose=conv_transpose), transpose=torch.permute, pad=pad
)


def keras_layer(
    filters: int,
    kernel_size: list[int],
    strides: list[int],
    padding: str,
    output_padding: list[int] | None = None,
    dilation_rate: Any = None,
) -> Any:
    """Keras' layer by its output size, and TensorFlow's transposed convolution."""
    assert max(strides) == 1 or max(dilation_rate) == 1
    assert output_padding is None or all(
        extra < stride for extra, stride in zip(output_padding, strides, strict=True)
    )

    def size(dim: int, size: int) -> int:
        k, s, d = kernel_size[dim], strides[dim], dilation_rate[dim]
        extent = d * (k - 1) + 1
        if output_padding is None:
            return size * s if padding == "same" else (size - 1) * s + max(extent, s)
        least = (size - 1) * s + extent + output_padding[dim]
        return least - 2 * (extent // 2) if padding == "same" else least

    def layer(x: Tensor, kernel: Tensor) -> Tensor:
        sizes = [size(dim, n) for dim, n in enumerate(x.shape[1:-1])]
        shape = [x.shape[0], *sizes, filters]
        mode = padding.upper()
        return conv_transpose(x, kernel, shape, strides, mode, dilation_rate)

    return layer


KERAS = {f"Conv{rank}DTranspose": keras_layer for rank in (1, 2, 3)}

windows = st.tuples(
    st.integers(1, 4),  # size
    st.integers(1, 4),  # kernel
    st.integers(1, 4),  # stride
    st.integers(1, 3),  # dilation
    st.integers(0, 4),  # padding
    st.integers(0, 3),  # output padding
)


def pytorch_takes(window: tuple[int, ...]) -> bool:
    size, kernel, stride, dilation, padding, extra = window
    output = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
    return extra < max(stride, dilation) and output > 0


def printed(command: str) -> str:
    """What `padc same --transposed` prints."""
    lines: list[str] = []
    parsed = padc.parser().parse_args(["same", "--transposed", *command.split()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda text: lines.append(text))
        parsed.command(parsed)
    return "\n".join(lines)


def options(dims: list[tuple[int, ...]]) -> str:
    names = ("size", "kernel", "stride", "dilation", "padding", "output-padding")
    return " ".join(
        f"--{name} {' '.join(map(str, values))}"
        for name, values in zip(names, zip(*dims, strict=True), strict=True)
    )


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Threads only cost time on tensors as small as these."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def compare(dims: list[tuple[int, ...]]) -> str:
    """Run all printed code, compare it with PyTorch, and return the printed text."""
    sizes, kernel, stride, dilation, padding, extra = zip(*dims, strict=True)
    rank = len(dims)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, *sizes, dtype=torch.float64, generator=generator)
    weight = torch.randn(3, 4, *kernel, dtype=torch.float64, generator=generator)
    bias = torch.randn(4, dtype=torch.float64, generator=generator)
    function: Any = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d]
    function = function[rank - 1]
    expected = function(x, weight, bias, stride, padding, extra, 1, dilation)

    text = printed(options(dims))

    variables: Any = {
        "tf": TF, "x": x.movedim(1, -1), "weight": weight, "bias": bias
    }  # fmt: skip
    exec(text.partition("\n")[2], variables)
    torch.testing.assert_close(variables["y"].movedim(-1, 1), expected)
    outside = "x".join(map(str, expected.shape[2:]))
    assert text.startswith(f"torch.nn.ConvTranspose{rank}d: ")
    assert text.partition("\n")[0].endswith(f" -> {outside}")
    keras = text.partition("# Keras: ")[2].partition("\n")[0]
    if keras != "no layer does this alone":
        layer = eval(keras, {**KERAS, "out_channels": 4})
        y = layer(x.movedim(1, -1), variables["filters"]) + bias
        torch.testing.assert_close(y.movedim(-1, 1), expected)
    return text


@settings(deadline=None)
@given(st.lists(windows.filter(pytorch_takes), min_size=1, max_size=3))
def test_what_is_printed_for_tensorflow_and_keras_is_pytorchs(
    dims: list[tuple[int, ...]],
):
    compare(dims)


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        # All that is needed is in an argument.
        ((5, 4, 2, 1, 1, 0), 'padding="SAME"'),
        ((5, 4, 2, 1, 1, 0), 'Keras: Conv1DTranspose(out_channels, [4], [2], "same", dilation_rate=[1])'),
        ((5, 2, 4, 1, 0, 2), 'Keras: Conv1DTranspose(out_channels, [2], [4], "same", dilation_rate=[1])'),
        ((5, 3, 2, 1, 0, 0), '[2], "valid", dilation_rate=[1])'),
        ((5, 3, 2, 1, 0, 1), '[2], "valid", output_padding=[1], dilation_rate=[1])'),
        ((5, 3, 2, 1, 1, 0), '[2], "same", output_padding=[0], dilation_rate=[1])'),
        # Cropped on both sides, on one only, by more than the kernel.
        ((5, 5, 2, 1, 1, 0), "y = y[:, 1:12, :]"),
        ((5, 3, 2, 1, 1, 1), "y = y[:, 1:11, :]"),
        ((9, 2, 1, 1, 3, 0), "y = y[:, 3:7, :]"),
        # The output padding is more than the padding: part of TensorFlow's output.
        ((5, 3, 3, 1, 1, 2), "x, filters, [x.shape[0], 16, weight.shape[1]]"),
        # Or it is more than a stride can make, which only a dilation allows.
        ((5, 2, 1, 3, 0, 2), "y = tf.pad(y, [[0, 0], [0, 2], [0, 0]])"),
        ((5, 2, 1, 3, 1, 2), "y = tf.pad(y, [[0, 0], [0, 1], [0, 0]])\ny = y[:, 1:9, :]"),
        ((5, 2, 1, 3, 0, 2), "# On CPUs, TensorFlow refuses dilations above 1."),
    ],
)  # fmt: skip
def test_the_code_is_the_least_that_does_it(dim: tuple[int, ...], expected: str):
    assert expected in compare([dim])


def test_onnx_has_pytorchs_attributes_and_may_find_the_pads_itself():
    attributes = (
        "ConvTranspose(strides=[2], dilations=[1], output_padding=[{}], pads=[{}, {}])"
    )

    for dim, suffix in (
        ((5, 3, 2, 1, 1, 1), '; auto_pad="SAME_UPPER" gives these pads'),
        # ONNX would crop 1 at one end only, as the total is odd.
        ((5, 3, 2, 1, 1, 0), ""),
        # ONNX asks for negative pads here, and gets none from onnxruntime.
        ((5, 1, 2, 1, 0, 0), ""),
    ):
        line = attributes.format(dim[5], dim[4], dim[4]) + suffix
        assert printed(options([dim])).endswith(f"# ONNX: {line}")


def test_pytorch_is_not_imported():
    code = (
        "import sys\nfrom padc.tools import padc\ntry:\n"
        "    padc.main('same --size 8 --kernel 3'.split())\n"
        "finally:\n    assert not {'torch', 'coremltools'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.startswith("SAME of TensorFlow")
    assert done.returncode == 0, done.stderr
