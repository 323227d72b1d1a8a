# pyright: basic, reportArgumentType=false, reportCallIssue=false
"""Models that change their buffers: Core ML programs and machine code, call by call."""

import copy
import math
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.torch_version import TorchVersion

import padc
from padc.backends.coreml import quiet
from padc.backends.coreml.evaluator import load
from padc.errors import UnsupportedError, WrongResultError
from padc.models.mlir_model import MlirModel
from padc.testing import compile_for_oracle
from padc.tools import padc_opt
from padc.verification import run_package

with quiet():
    import coremltools as ct

HALF = torch.float16


class Attention(nn.Module):
    """A layer that decodes token by token, with its keys and values in buffers."""

    keys: Tensor
    values: Tensor

    def __init__(self, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.project = nn.Linear(8, 24).to(dtype)
        self.register_buffer("keys", torch.zeros(1, 2, 6, 4, dtype=dtype))
        self.register_buffer("values", torch.zeros(1, 2, 6, 4, dtype=dtype))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        parts = self.project(x).view(1, 1, 6, 4).transpose(1, 2)
        q, k, v = parts.split(2, 1)
        self.keys[:, :, position] = k
        self.values[:, :, position] = v
        seen = torch.arange(6) <= position
        y = F.scaled_dot_product_attention(q, self.keys, self.values, seen[None, None])
        return y.flatten(1)


class Gpt(nn.Module):
    """Two such layers, and a counter of positions."""

    def __init__(self, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.embed = nn.Embedding(5, 8, dtype=dtype)
        self.layers = nn.ModuleList([Attention(dtype), Attention(dtype)])
        self.head = nn.Linear(8, 5).to(dtype)
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64))

    def forward(self, token: Tensor) -> Tensor:
        x = self.embed(token)
        for layer in self.layers:
            x = x + layer(x, self.position).reshape(x.shape)
        self.position += 1
        return self.head(x)


class Buffers(nn.Module):
    """A function of the module itself, which has the buffers that are given."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor):
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value.clone())

    def forward(self, *args: Tensor) -> Any:
        return self.function(self, *args)


def before_and_after(m: Any, x: Tensor) -> Any:
    before = m.total * 2
    m.total.add_(x)
    return before + 1, m.total * 3


def swapped(m: Any, x: Tensor) -> Tensor:
    a = m.a.clone()
    m.a.copy_(m.b)
    m.b.copy_(a + x)
    return x * 2


def through_views(m: Any, x: Tensor) -> Tensor:
    row = m.table[1]
    row += x
    m.table.t()[0].mul_(0.5)
    m.table.view(-1)[2:4] = x[:2]
    return row * 2


def running_mean(m: Any, x: Tensor) -> Tensor:
    m.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - m.mean


def replaced(m: Any, x: Tensor) -> Tensor:
    m.last = x * 2 + m.last
    return m.last + 1


def returned_before(m: Any, x: Tensor) -> Any:
    alias = m.total
    m.total += x
    return alias, m.total.view(3, 1)


def masked(m: Any, x: Tensor) -> Tensor:
    m.seen |= x > 0.5
    return torch.where(m.seen, x, -x)


def counted(m: Any, x: Tensor) -> Any:
    m.n += 1
    m.steps.sub_(m.n)
    return x * 2, m.n, m.steps


def copied(m: Any, x: Tensor) -> Tensor:
    old = m.last.clone()
    m.last.copy_(x)
    return x - old


def twice(m: Any, x: Tensor) -> Tensor:
    m.total.add_(x)
    y = m.total.relu()
    m.total.mul_(0.5)
    return y - m.total


def filled(m: Any, x: Tensor) -> Tensor:
    m.total.fill_(2.5)
    return x + m.total


Z, ONES = torch.zeros(3), torch.ones(3)
MODELS: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "read before and after": lambda t: Buffers(before_and_after, total=Z.to(t)),
    "two buffers": lambda t: Buffers(swapped, a=ONES.to(t), b=Z.to(t)),
    "views": lambda t: Buffers(through_views, table=torch.zeros(2, 3, dtype=t)),
    "running mean": lambda t: Buffers(running_mean, mean=2 * ONES.to(t)),
    "replaced": lambda t: Buffers(replaced, last=Z.to(t)),
    "returned": lambda t: Buffers(returned_before, total=-ONES.to(t)),
    "copy of the input": lambda t: Buffers(copied, last=Z.to(t)),
    "twice": lambda t: Buffers(twice, total=Z.to(t)),
    "filled": lambda t: Buffers(filled, total=Z.to(t)),
    "rank 0": lambda t: Buffers(before_and_after, total=torch.tensor(0.5, dtype=t)),
    "not zero": lambda t: Buffers(
        swapped, a=torch.tensor([-0.0, torch.inf, 1]).to(t), b=Z.to(t)
    ),
    "bools": lambda t: Buffers(masked, seen=torch.tensor([True, False, False])),
    "counters": lambda t: Buffers(
        counted, n=torch.tensor(70000), steps=torch.zeros(2, dtype=torch.int32)
    ),
}


def inputs_of(model: nn.Module, dtype: torch.dtype) -> list[tuple[Tensor, ...]]:
    """Arguments of five calls."""
    generator = torch.Generator().manual_seed(0)
    shape = (4, 3) if getattr(model, "function", None) is running_mean else (3,)
    xs = [torch.randn(shape, generator=generator).to(dtype) for _ in range(5)]
    if isinstance(getattr(model, "total", None), Tensor) and model.total.dim() == 0:
        xs = [x[0] for x in xs]
    return [(x,) for x in xs]


def leaves(outputs: Any) -> list[Tensor]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def convert(model: nn.Module, args: Any, **options: Any) -> padc.Program:
    """A program that agrees with the model, and has nothing to find."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the buffer .* cannot be a state")
        program = padc.convert(model, args, verify=True, **options)
    assert program.check() == []
    return program


def check_calls(
    run: Callable[..., Any],
    model: nn.Module,
    calls: list[tuple[Tensor, ...]],
    tolerance: float,
) -> None:
    """`run` returns in each call what the model returns."""
    eager = copy.deepcopy(model)
    for args in calls:
        with torch.no_grad():
            expected = leaves(eager(*args))
            # Before a later call changes an alias of a buffer.
            expected = [x.clone() for x in expected]
        actual = leaves(run(*args))
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def state_names(program: padc.Program, tmp_path: Path) -> tuple[list[str], list[str]]:
    """The states and the inputs of a saved program."""
    program.save(tmp_path / "m.mlpackage")
    package = load(tmp_path / "m.mlpackage")
    return [x.name for x in package.states], [x.name for x in package.inputs]


@pytest.mark.parametrize(
    "target", ["iOS15", pytest.param("iOS18", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", MODELS)
def test_inputs_and_outputs(name: str, target: str):
    model = MODELS[name](torch.float32)
    calls = inputs_of(model, torch.float32)

    program = convert(model, calls[0], target=target, states="inputs")

    check_calls(program.run, model, calls, 0)


def taken_over(m: Any, x: Tensor) -> Tensor:
    result = m.c * x
    m.c.copy_(x * 2)
    return result


def used_between(m: Any, x: Tensor) -> Tensor:
    old = m.c.clone()
    m.c.copy_(old + x)
    return old * (m.c * 2)


def in_a_branch(m: Any, x: Tensor) -> Tensor:
    old = m.c.clone()
    branches = (lambda a, b: a * b), (lambda a, b: a - b)
    y = torch.cond(x.sum() > 0, *branches, (x, old))
    m.c.copy_(x * 2)
    return y


def widened(m: Any, x: Tensor) -> Tensor:
    result = m.c * x
    m.c.copy_(x.sign().to(m.c.dtype).abs())
    return result


@pytest.mark.parametrize("states", ["inputs", "native"])
@pytest.mark.parametrize(
    ("function", "value"),
    [
        (taken_over, torch.full([3], 2.0, dtype=HALF)),
        (taken_over, torch.full([3], -math.inf, dtype=HALF)),
        (used_between, torch.full([3], 2.0, dtype=HALF)),
        (in_a_branch, torch.full([3], 2.0, dtype=HALF)),
        *(
            (widened, torch.tensor([1, 0, 3], dtype=x))
            for x in (torch.int8, torch.uint8)
        ),
    ],
)
def test_the_policy(function: Any, value: Tensor, states: Any, tmp_path: Path):
    model, x = Buffers(function, c=value), torch.tensor([1.0, -2.0, 0.5]).to(HALF)

    program = convert(model, (x,), target="iOS18", precision="float16", states=states)

    found, _ = state_names(program, tmp_path)
    assert ("c" in found) == (states == "native")
    check_calls(program.run, model, [(x,), (2 * x,), (x,)], 1e-3)


def test_infinite_buffers_of_float32():
    model, x = Buffers(taken_over, c=torch.full([3], -math.inf)), torch.ones(3)

    program = convert(model, (x,), target="iOS18", precision="float16", states="native")

    check_calls(program.run, model, [(x,), (x,)], 1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_states_of_float16(name: str, tmp_path: Path):
    model = MODELS[name](HALF)
    calls = inputs_of(model, HALF)

    program = convert(model, calls[0], target="iOS18", precision="float16")

    states, _ = state_names(program, tmp_path)
    assert set(states) - {"is_initialized"} == (
        set() if name == "counters" else {n for n, _ in model.named_buffers()}
    )
    check_calls(program.run, model, calls, 1e-3)
    program.reset()
    check_calls(program.run, model, calls, 1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_states_of_a_float16_program(name: str):
    model = MODELS[name](torch.float32)
    calls = inputs_of(model, torch.float32)

    program = convert(model, calls[0], target="iOS18", precision="float16")

    if name != "not zero":  # Its infinities differ.
        check_calls(program.run, model, calls, 1e-2)


@pytest.mark.parametrize("name", MODELS)
def test_machine_code(name: str):
    model = MODELS[name](torch.float32)
    calls = inputs_of(model, torch.float32)
    kept = copy.deepcopy(model.state_dict())

    compiled = padc.compile(model, calls[0])

    assert "the whole model" not in compiled.report()
    check_calls(compiled, model, calls, 1e-6)
    for key, value in model.state_dict().items():
        assert torch.equal(value, kept[key]), "the model's own buffer changed"


@pytest.mark.parametrize("name", MODELS)
def test_reference(name: str):
    model = MODELS[name](torch.float32)
    calls = inputs_of(model, torch.float32)

    run = compile_for_oracle(torch.export.export(model, calls[0]))

    check_calls(run, model, calls, 0)


@pytest.mark.parametrize(
    ("target", "precision", "dtype", "tolerance"),
    [
        ("iOS15", "float32", torch.float32, 1e-5),
        ("iOS17", "float16", torch.float32, 2e-2),
        ("iOS18", "float32", torch.float32, 1e-5),
        ("iOS18", "float32", HALF, 5e-3),
        ("iOS18", "float16", torch.float32, 2e-2),
    ],
)
def test_gpt_with_a_cache(
    target: str, precision: Any, dtype: torch.dtype, tolerance: float, tmp_path: Path
):
    torch.manual_seed(0)
    model = Gpt(dtype).eval()
    tokens = [(torch.tensor([[i % 5]]),) for i in (1, 4, 2, 0, 3, 1)]

    program = convert(model, tokens[0], target=target, precision=precision)

    check_calls(program.run, model, tokens, tolerance)
    states, inputs = state_names(program, tmp_path)
    caches = [f"layers_{i}_{kind}" for i in (0, 1) for kind in ("keys", "values")]
    is_state = target == "iOS18" and (precision == "float16" or dtype == HALF)
    assert states == (caches if is_state else [])
    assert inputs == ["token", "position", *([] if is_state else caches)]


def test_a_cache_is_updated_before_it_is_read():
    program = convert(
        Gpt(HALF).eval(), (torch.tensor([[1]]),), target="iOS18", precision="float16"
    )

    lines = [line.split(" = ", 1)[-1] for line in program.mlir().splitlines()]

    ops = [line.split("(")[0] for line in lines if line.startswith("mil.")]
    update = ops.index("mil.coreml_update_state")
    assert ops[update - 1] == "mil.scatter"
    assert "mil.matmul" in ops[update:] or "mil.scaled_dot_product_attention" in ops
    assert ops.count("mil.read_state") == ops.count("mil.coreml_update_state") == 4


def test_core_ml_starts_states_as_zeros(tmp_path: Path):
    """What an app sees, which makes a state and knows nothing of padc."""
    model = Buffers(running_mean, mean=torch.tensor([3.0, -1.0, 0.5], dtype=HALF))
    x = torch.randn(4, 3).to(HALF)
    program = convert(model, (x,), target="iOS18", precision="float16")
    program.save(tmp_path / "m.mlpackage")
    package = load(tmp_path / "m.mlpackage")
    state = package.make_state()
    assert not state.read_state("mean").any()

    for _ in range(3):
        (actual,) = package.predict({"args_0": x.numpy()}, state).values()
        expected = model(x)
        np.testing.assert_allclose(actual, expected, rtol=5e-3, atol=5e-3)
        np.testing.assert_allclose(state.read_state("mean"), model.mean, rtol=5e-3)


def test_a_buffer_that_returns_to_zero(tmp_path: Path):
    """The value of the export is not taken again."""
    model = Buffers(lambda m, x: m.total.mul_(0) + x, total=torch.ones(3, dtype=HALF))
    x = torch.ones(3, dtype=HALF)

    program = convert(model, (x,), target="iOS18")

    check_calls(program.run, model, [(x,), (x,)], 0)


def test_the_buffers_of_the_export_are_the_first(tmp_path: Path):
    model = Buffers(before_and_after, total=torch.ones(3))
    x = torch.ones(3)
    program = convert(model, (x,), states="inputs")
    model(x)  # Changes the model's own buffer, which the export shares.

    program.verify()

    torch.testing.assert_close(program.run(x)[0], 3 * torch.ones(3))
    assert torch.equal(model.total, 2 * torch.ones(3))


def test_what_run_package_takes(tmp_path: Path):
    model = Buffers(before_and_after, total=torch.ones(3))
    x = torch.ones(3)
    convert(model, (x,), states="inputs").save(tmp_path / "m.mlpackage")

    before, after, total = run_package(tmp_path / "m.mlpackage", [x, 5 * x])

    assert torch.equal(before, 11 * x) and torch.equal(after, 18 * x)
    assert torch.equal(total, 6 * x)
    with pytest.raises(padc.UsageError, match="takes 2 inputs, got 1"):
        run_package(tmp_path / "m.mlpackage", [x])


def test_wrong_buffers_are_found(tmp_path: Path):
    """A buffer that no output depends on is compared, too."""
    x = torch.ones(3)
    right = Buffers(lambda m, x: m.total.add_(x).mul(0), total=torch.zeros(3))
    wrong = Buffers(lambda m, x: m.total.sub_(x).mul(0), total=torch.zeros(3))
    path = tmp_path / "m.mlpackage"
    convert(wrong, (x,)).save(path)
    exported = torch.export.export(right, (x,))

    with pytest.raises(WrongResultError, match="'buffer total' is off by 2"):
        padc.verification.verify_package(right, exported, path, [(x,)])


def test_programs_from_files(tmp_path: Path):
    model = Buffers(counted, n=torch.tensor(3), steps=torch.zeros(2, dtype=torch.int32))
    x = torch.ones(3)
    exported = torch.export.export(model, (x,))
    torch.export.save(exported, tmp_path / "m.pt2")
    torch.export.save(exported.run_decompositions({}), tmp_path / "functional.pt2")

    for name in ("m.pt2", "functional.pt2"):
        program = padc.convert(tmp_path / name, verify=True)
        check_calls(program.run, model, [(x,), (x,)], 0)
        check_calls(padc.compile(padc.load(tmp_path / name)), model, [(x,), (x,)], 0)


@pytest.mark.parametrize("level", ["torch", "tcp", "mil"])
def test_programs_from_text(
    level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = Buffers(swapped, a=torch.ones(3, dtype=HALF), b=torch.zeros(3, dtype=HALF))
    x = torch.randn(3).to(HALF)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "m.pt2")
    to_mil = [
        "convert-torch-to-tcp,convert-tcp-to-mil{target=iOS18}",
        "convert-torch-to-mil{target=iOS18},convert-model-buffers-to-states{target=iOS18}",
    ]
    passes = {"torch": "canonicalize", "tcp": "convert-torch-to-tcp"}
    chosen = passes.get(level, ",".join(to_mil))
    padc_opt.main(["--print-weights", "-p", chosen, str(tmp_path / "m.pt2")])
    text = capsys.readouterr().out
    assert ("!mil.state" in text) == (level == "mil")
    (tmp_path / "m.mlir").write_text(text)

    program = padc.convert(tmp_path / "m.mlir", target="iOS18", precision="float16")

    if level != "mil":
        program.verify()
        interpreted = MlirModel(tmp_path / "m.mlir")
        check_calls(interpreted, model, [(x,), (x,), (x,)], 0)
    check_calls(program.run, model, [(x,), (x,), (x,)], 1e-3)
    states, _ = state_names(program, tmp_path)
    assert states == ["a", "b", "is_initialized"]


def test_torch_compile():
    model = Buffers(before_and_after, total=torch.zeros(3))
    eager = copy.deepcopy(model)
    compiled: Any = torch.compile(model, backend="padc")

    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        for x in torch.randn(3, 3):
            expected = [y.clone() for y in eager(x)]
            torch.testing.assert_close(list(compiled(x)), expected)
            assert torch.equal(model.total, eager.total)


def test_outputs_that_do_not_fit_change_nothing():
    compiled = padc.compile(Buffers(twice, total=torch.zeros(3)), (x := torch.ones(3),))

    with pytest.raises(padc.UsageError):
        compiled.run_into([torch.empty(4)], x)
    compiled.run_into([out := torch.empty(3)], x)

    assert torch.equal(out, 0.5 * torch.ones(3))


# --- what is refused --------------------------------------------------------------


def refusal(model: nn.Module, *args: Tensor, **options: Any) -> str:
    with pytest.raises(UnsupportedError) as caught:
        padc.convert(model, args, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("value", "options", "parts"),
    [
        (ONES, {"target": "iOS17"}, ["iOS17 has no states", "choose iOS18"]),
        (ONES, {"target": "iOS18"}, ["float32[3]", "set precision='float16'"]),
        (ONES.int(), {"target": "iOS18"}, ["int32[3]", "set states='auto'"]),
    ],
)
def test_buffers_that_cannot_be_states(value: Tensor, options: Any, parts: list[str]):
    model = Buffers(lambda m, x: m.total.add_(1) * x, total=value)

    text = refusal(model, torch.ones(3), states="native", **options)

    for part in ["the buffer 'total' cannot be a state", *parts, "test_states.py:"]:
        assert part in text


def test_a_warning_says_which_buffers_are_no_states():
    model = Buffers(swapped, a=torch.zeros(3), b=torch.zeros(3))

    with pytest.warns(UserWarning, match="buffer 'a' cannot be a state.*, and 1 more"):
        padc.convert(model, (torch.ones(3),), target="iOS18")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the buffer")
        padc.convert(model, (torch.ones(3),), target="iOS17")


def test_other_policies_are_unknown():
    with pytest.raises(padc.UsageError, match="no states policy 'outputs'"):
        padc.convert(nn.ReLU(), (torch.ones(3),), states="outputs")  # pyright: ignore


def test_changed_parameters():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                self.scale.mul_(2)
            return x * self.scale

    text = refusal(Model(), torch.ones(3))

    if torch.__version__ < TorchVersion("2.9"):  # It refuses by itself.
        assert "a leaf Variable that requires grad" in text
        return
    assert "parameter 'scale'" in text and "register it as a buffer" in text


def test_buffers_that_share_memory():
    model = Buffers(lambda m, x: m.a.add_(x) + m.b, a=torch.zeros(3), b=torch.zeros(3))
    model.b = model.get_buffer("a")[:]
    apart = Buffers(lambda m, x: m.a.add_(x) + m.b, a=torch.zeros(3), b=torch.zeros(3))
    both = torch.zeros(6)
    apart.a, apart.b = both[:3], both[3:]

    text = refusal(model, torch.ones(3))
    program = convert(apart, (torch.ones(3),))

    assert "buffer 'a', which shares memory with 'b'" in text and "clone()" in text
    check_calls(program.run, apart, [(torch.ones(3),), (torch.ones(3),)], 0)


def test_what_returns_nothing():
    model = Buffers(
        lambda m, x: (m.total.add_(x), None)[1], total=torch.zeros(3, dtype=HALF)
    )

    text = refusal(model, torch.ones(3, dtype=HALF), target="iOS18")

    assert "the model returns nothing" in text


def test_assignments_in_submodules():
    """torch.export forgets them, and the program would be another one."""
    x = torch.ones(3)
    inner = Buffers(replaced, last=torch.zeros(3))
    unread = Buffers(lambda m, x: setattr(m, "last", x * 2) or m.last + 1, last=Z)
    in_place = Buffers(running_mean, mean=torch.zeros(3))
    model = nn.Sequential(in_place, Buffers(running_mean, mean=torch.ones(3)))

    text = refusal(nn.Sequential(nn.ReLU(), inner), x)
    program = convert(model, (x[None],))

    assert "the model assigns its buffer '1.last'" in text
    assert "m.last = x * 2 + m.last" in text and "self.last.copy_(value)" in text
    check_calls(program.run, model, [(x[None],), (2 * x[None],)], 0)
    convert(nn.Sequential(nn.ReLU(), unread), (x,))


def test_exports_in_threads_leave_pytorch_as_it_was():
    assign = nn.Module.__setattr__

    def export() -> None:
        padc.convert(nn.Sequential(nn.ReLU()), (torch.ones(3),))

    threads = [threading.Thread(target=export) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert nn.Module.__setattr__ is assign


def counted_by_one(m: Any, x: Tensor) -> Tensor:
    m.c.add_(1)
    return x + m.c


def turned_into_halves(m: Any, x: Tensor) -> Tensor:
    m.c = (m.c + x).half()
    return m.c * 2


@pytest.mark.parametrize(
    ("function", "value", "precision", "part"),
    [
        (counted_by_one, torch.tensor(2**40), "float32", "int64 constant has values"),
        (turned_into_halves, torch.zeros(3), "float32", "float32[3] to float16[3]"),
    ],
)
@pytest.mark.parametrize("target", ["iOS17", "iOS18"])
def test_values_and_types_that_do_not_fit(
    function: Any, value: Tensor, precision: Any, part: str, target: str
):
    model = Buffers(function, c=value)

    with pytest.raises(UnsupportedError) as error:
        padc.convert(model, (torch.ones(3),), target=target, precision=precision)

    assert "the buffer 'c'" in str(error.value) or "its buffer 'c'" in str(error.value)
    assert part in str(error.value) and "test_states.py:" in str(error.value)


def multiplied(m: Any, x: Tensor) -> Tensor:
    result = m.c * x
    m.c.copy_(x * 1e6)
    return result


def masked_largely(m: Any, x: Tensor) -> Tensor:
    m.c.masked_fill_(x > 0, -1e9)
    return (m.c + x).softmax(-1)


def creeping(m: Any, x: Tensor) -> Tensor:
    m.c.add_(1e-8)
    return x + m.c * 1e8


BEYOND_FLOAT16 = [
    (multiplied, torch.zeros(3), "above 65504"),
    (masked_largely, torch.zeros(3), "above 65504"),
    (creeping, torch.zeros(3), "below 6e-08"),
    (taken_over, torch.full((3,), 1e9), "above 65504"),
    (masked_largely, torch.full((3,), -1e9), "above 65504"),
]


@pytest.mark.parametrize(("function", "value", "part"), BEYOND_FLOAT16)
def test_numbers_that_states_of_float16_do_not_have(
    function: Any, value: Tensor, part: str
):
    with pytest.raises(UnsupportedError, match=part) as error:
        padc.convert(
            Buffers(function, c=value),
            (torch.ones(3),),
            target="iOS18",
            precision="float16",
            states="native",
        )

    assert "the buffer 'c'" in str(error.value) and "test_states.py:" in str(
        error.value
    )


@pytest.mark.parametrize(("function", "value"), [case[:2] for case in BEYOND_FLOAT16])
def test_numbers_beyond_float16_in_inputs_and_outputs(function: Any, value: Tensor):
    model, x = Buffers(function, c=value), torch.tensor([1.0, -2.0, 0.5])
    program = padc.convert(model, (x,), target="iOS17", precision="float16")

    for _ in range(3):
        (actual,), expected = program.run(x), model(x)
        torch.testing.assert_close(actual, expected, rtol=1e-2, atol=1e-2)


def test_verify_leaves_the_buffers_of_the_model():
    model = nn.Sequential(Buffers(lambda m, x: setattr(m, "c", x) or x * 2, c=Z))

    padc.convert(model, (torch.ones(3),), verify=True)

    assert torch.equal(model.get_buffer("0.c"), Z)


def test_inputs_are_described_in_order_next_to_states(tmp_path: Path):
    class Counter(nn.Module):
        count: Tensor

        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.ones(2))

        def forward(self, x: Tensor) -> Tensor:
            self.count.add_(1)
            return x + self.count

    program = padc.convert(
        Counter(),
        (torch.ones(2),),
        target="iOS18",
        precision="float16",
        inputs=[ct.TensorType("z")],  # The flag of the state is not described.
        verify=True,
    )
    program.save(tmp_path / "counter.mlpackage")

    model = load(tmp_path / "counter.mlpackage")
    assert [each.name for each in model.inputs] == ["z"]
    assert {each.name for each in model.states} == {"count", "is_initialized"}
    assert program.run(torch.zeros(2))[0].tolist() == [2, 2]
