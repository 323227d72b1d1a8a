# pyright: reportPrivateUsage=false, reportUnknownMemberType=false
"""`.pt2` files: PyTorch's own load, hostile ones are refused before they do anything."""

import io
import json
import os
import pickle
import re
import struct
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._export.serde import serialize

import padc
from padc.common.archive import UnsafeError
from padc.common.pt2_tensors import ITEM_SIZES
from padc.frontends.torch_export import load
from padc.frontends.torch_export.expressions import check_guard, check_size
from padc.frontends.torch_export.program_text import check_texts
from padc.versions import numbers

SAVED = Path(__file__).parent / "saved"


NEEDS_GUARDS = pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"),
    reason="PyTorch 2.8 reads no programs with guards",
)


class Touch:
    """Pickles to a call that makes a file."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("hacked",)


EXAMPLES = "data/sample_inputs/model.pt"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def saved() -> bytes:
    return (SAVED / "torch_2.13.pt2").read_bytes()


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of the PyTorch that is installed."""
    path = tmp_path_factory.mktemp("saved") / "model.pt2"
    length = torch.export.Dim("length", min=4, max=64)
    model = nn.Sequential(nn.Conv1d(1, 2, 3), nn.BatchNorm1d(2)).eval()
    program = torch.export.export(
        model, (torch.ones(1, 1, 8),), dynamic_shapes=({2: length},)
    )
    torch.export.save(program, path)
    return path.read_bytes()


def rewritten(
    saved: bytes,
    change: Callable[[str, bytes], bytes | None],
    extra: dict[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
) -> Path:
    """The archive where `change` has made new members; None leaves one out."""
    path = Path("changed.pt2")
    with (
        zipfile.ZipFile(io.BytesIO(saved)) as old,
        zipfile.ZipFile(path, "w", compression) as new,
    ):
        for name in old.namelist():
            content = change(name.partition("/")[2], old.read(name))
            if content is not None:
                new.writestr(name, content)
        root = old.namelist()[0].partition("/")[0]
        for name, content in (extra or {}).items():
            new.writestr(f"{root}/{name}", content)
    return path


def with_member(saved: bytes, member: str, content: bytes) -> Path:
    """The archive with another content of one member, which it may not have yet."""
    return rewritten(
        saved,
        lambda name, old: None if name == member else old,
        {member: content},
    )


def with_graph(saved: bytes, *replacements: tuple[str, str]) -> Path:
    """The archive where the text of the graph is changed."""

    def change(name: str, content: bytes) -> bytes:
        if name != "models/model.json":
            return content
        text = content.decode()
        for old, new in replacements:
            text, count = re.subn(old, lambda _, new=new: new, text)
            assert count
        json.loads(text)
        return text.encode()

    return rewritten(saved, change)


def check_refused(path: Path, message: str) -> None:
    with pytest.raises(padc.UsageError, match=message) as caught:
        load(path)
    assert "--trust" in str(caught.value)
    assert not Path("hacked").exists()


@pytest.mark.parametrize("version", ["2.8", "2.13", "2.15"])
def test_files_of_all_versions(version: str):
    path = SAVED / f"torch_{version}.pt2"
    if numbers(torch.__version__) < numbers("2.9") and version != "2.8":
        with pytest.raises(padc.InvalidProgramError):  # Nor does torch.export.load.
            padc.load(path)
        return

    program = padc.load(path)

    (output,) = program.module()(torch.ones(1, 1, 4, 4))
    assert output[:, 0, 0].tolist() == [2 * 36 + 1, 2 * 117 + 1]
    assert program.state_dict["tied"] is not None
    assert program.example_inputs is not None
    assert [tuple(x.shape) for x in program.example_inputs[0]] == [(2, 1, 4, 4)]


def test_guards_of_files_of_the_oldest_version():
    """They are assertions in the graph, which machine code would not check."""
    model = padc.compile(padc.load(SAVED / "torch_2.8_assertions.pt2"))

    assert model.is_native
    for rows in 2, 6:
        x = torch.randn(rows, 4)
        torch.testing.assert_close(model(x), x.relu() + rows)
    with pytest.raises(padc.UsageError, match=r"is 5, but .* x\.shape\[0\] % 2 == 0"):
        model(torch.ones(5, 4))


def test_what_padc_loads_is_what_pytorch_loads(fresh: bytes):
    Path("model.pt2").write_bytes(fresh)

    ours, theirs = load("model.pt2"), torch.export.load("model.pt2")

    x = torch.randn(1, 1, 20)
    assert str(ours.graph) == str(theirs.graph)
    assert str(ours.graph_signature) == str(theirs.graph_signature)
    assert ours.range_constraints == theirs.range_constraints
    torch.testing.assert_close(ours.module()(x), theirs.module()(x), rtol=0, atol=0)
    for name, tensor in theirs.state_dict.items():
        assert type(ours.state_dict[name]) is type(tensor)
        assert ours.state_dict[name].requires_grad == tensor.requires_grad


def test_arguments_of_all_kinds():
    class Kinds(nn.Module):
        def forward(
            self, x: torch.Tensor, by_name: dict[str, torch.Tensor], mode: str, n: float
        ) -> Any:
            padded = nn.functional.pad(x, (1, 1), mode=mode)
            product = torch.einsum("bij,bkj->bik", padded, padded) * n
            return {"sum": product + by_name["y"], "size": x.shape[2]}

    # A view of a part of its memory, and a parameter.
    y = nn.Parameter(torch.arange(3.0))[1:2]
    arguments = (torch.ones(1, 2, 5), {"y": y}, "reflect", 2.5)
    program = torch.export.export(Kinds(), arguments)
    torch.export.save(program, "kinds.pt2")

    loaded = load("kinds.pt2")

    actual = loaded.module()(*arguments)
    torch.testing.assert_close(actual, program.module()(*arguments))
    assert loaded.example_inputs is not None
    (x, by_name, *rest), _ = loaded.example_inputs
    torch.testing.assert_close([x, by_name], [*arguments[:2]])
    assert rest == [*arguments[2:]]


@pytest.mark.parametrize(
    "dim",
    [torch.export.Dim.DYNAMIC, torch.export.Dim.AUTO(min=2, max=9), None],  # type: ignore[operator]
)
def test_inputs_with_attributes(dim: Any):
    """PyTorch marks the examples of dynamic sizes, with sets and objects."""
    x = torch.ones(3, 4)
    program = torch.export.export(nn.ReLU(), (x,), dynamic_shapes=({0: dim},))
    torch.export.save(program, "marked.pt2")

    loaded = load("marked.pt2")

    assert loaded.example_inputs is not None
    torch.testing.assert_close(loaded.example_inputs[0][0], x)


@pytest.mark.parametrize(
    "dtype", [torch.uint16, torch.float8_e4m3fn, torch.complex64, torch.bfloat16]
)
def test_inputs_of_all_dtypes(dtype: torch.dtype):
    x = torch.arange(6).to(dtype)[1::2]
    torch.export.save(torch.export.export(nn.Identity(), (x,)), "dtypes.pt2")

    loaded = load("dtypes.pt2")

    assert loaded.example_inputs is not None
    (found,) = loaded.example_inputs[0]
    assert found.dtype == dtype and found.stride() == x.stride()
    assert found.to(torch.complex64).tolist() == x.to(torch.complex64).tolist()


class Gradless(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", torch.bfloat16):
            z = y @ y
        return z + 1, y


def test_regions_without_gradients_or_of_other_types(saved: bytes):
    program = torch.export.export(Gradless(), (torch.eye(3),))
    torch.export.save(program, "regions.pt2")

    loaded = load("regions.pt2")

    targets = {str(node.target) for node in loaded.graph.nodes}
    assert {"wrap_with_set_grad_enabled", "wrap_with_autocast"} <= targets
    torch.testing.assert_close(
        loaded.module()(torch.eye(3)), program.module()(torch.eye(3))
    )


def test_an_op_that_is_handed_to_an_op(fresh: bytes):
    inputs = [
        ("", {"as_bool": True}),
        ("", {"as_operator": "torch.ops.aten.from_file.default"}),
        ("", {"as_string": "hacked"}),
        ("", {"as_bool": True}),
        ("", {"as_int": 3}),
    ]
    target = "torch.ops.higher_order.wrap_with_set_grad_enabled"

    check_refused(with_node(fresh, target, inputs, []), "hands .* to an op")


def test_pickled_inputs_run_nothing(fresh: bytes):
    buffer = io.BytesIO()
    torch.save(((Touch(),), {}), buffer)
    path = with_member(fresh, EXAMPLES, buffer.getvalue())

    check_refused(path, r"sample_inputs/model.pt is pickled and names posix.mkdir")

    load(path, trust=True)
    assert Path("hacked").exists()  # So `trust` is needed.


def test_bytes_that_pytorch_would_unpickle(fresh: bytes):
    """`deserialize` unpickles inputs that are bytes, with no check."""
    content = torch_pickle(bytearray(torch_pickle(Touch())))

    check_refused(
        with_member(fresh, EXAMPLES, content),
        "is pickled and names __builtin__.bytearray",
    )


@pytest.mark.parametrize("value", [[1], torch.ones(2), ((), ()), ({}, {}), "text"])
def test_inputs_that_are_no_arguments(fresh: bytes, value: Any):
    check_refused(
        with_member(fresh, EXAMPLES, torch_pickle(value)),
        "holds no arguments of a call",
    )


def with_pickle(saved: bytes, instructions: bytes) -> Path:
    """The archive with other instructions in the pickle of its inputs."""
    old, data = io.BytesIO(torch_pickle(((), {}))), io.BytesIO()
    with zipfile.ZipFile(old) as members, zipfile.ZipFile(data, "w") as archive:
        for name in members.namelist():
            is_pickle = name.endswith("data.pkl")
            archive.writestr(name, instructions if is_pickle else members.read(name))
    return with_member(saved, EXAMPLES, data.getvalue())


TUPLES = b"".join(bytes([0x68, n, 0x68, n, 0x86, 0x71, n + 1]) for n in range(80))
"""Tuples of two times the one before, whose hash takes ages."""
PICKLES = {
    "bytes": b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\x00\x00\xc0\x00\x85R.",
    "text": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.",
    "counter": b"\x80\x02ccollections\nCounter\n(tR.",
    "storage": b"\x80\x02ctorch\nFloatStorage\nJ\xff\xff\xff\x7f\x85R.",
    "attribute": b"\x80\x02K\x01}b.",
    "append": b"\x80\x02}K\x01a.",
    "key": b"\x80\x02})q\x00" + TUPLES + b"K\x01s.",
    "memo": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "storage key": b"\x80\x02((X\x07\x00\x00\x00storagectorch\nfloat32\n)q\x00"
    + TUPLES
    + b"X\x03\x00\x00\x00cpuK\x04tQt}\x86.",
    "set": b"\x80\x02c__builtin__\nset\n]\x85R\x85}\x86.",
    "tensor": b"\x80\x02ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R.",
    "instance": b"\x80\x02cos\nmkdir\nX\x06\x00\x00\x00hacked\x85\x81.",
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_that_take_memory_or_time(saved: bytes, name: str):
    path = with_pickle(saved, PICKLES[name])
    tracemalloc.start()
    start = time.process_time()

    with pytest.raises(padc.PadcError):
        load(path)

    assert not Path("hacked").exists()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000
    assert time.process_time() - start < 1


def test_a_tensor_that_is_larger_than_its_storage(saved: bytes):
    content = torch_pickle(((torch.ones(4),), {}))
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        (name,) = [each for each in members.namelist() if each.endswith("data.pkl")]
        instructions = members.read(name)
    assert instructions.count(b"K\x04") == 2  # of the storage, and of the tensor
    at = instructions.rindex(b"K\x04")
    changed = instructions[:at] + b"K\x05" + instructions[at + 2 :]
    data = content.replace(instructions, changed)  # The checksum is not right now.

    with pytest.raises(padc.PadcError):
        load(with_member(saved, EXAMPLES, data))

    archive = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(archive, "w") as new,
    ):
        for each in old.namelist():
            new.writestr(each, changed if each == name else old.read(each))
    check_refused(
        with_member(saved, EXAMPLES, archive.getvalue()),
        "a tensor needs 20 bytes of 16",
    )


def test_json_of_very_many_values(saved: bytes):
    text = b"[" + b"[]," * 1_000_000 + b"[]]"

    check_refused(
        with_member(saved, "models/model.json", text), "too many for its size"
    )


def with_node(
    saved: bytes,
    target: str,
    inputs: list[tuple[str, Any]],
    outputs: list[Any],
    **values: Any,
) -> Path:
    """The archive with a node before all others."""

    def change(name: str, content: bytes) -> bytes:
        if name != "models/model.json":
            return content
        tree = json.loads(content)
        graph = tree["graph_module"]["graph"]
        arguments = [{"name": key, "arg": arg, "kind": 1} for key, arg in inputs]
        node = {"target": target, "inputs": arguments, "outputs": outputs}
        graph["nodes"].insert(0, {**node, "metadata": {}, "name": "n0"})
        graph["sym_int_values"].update(values)
        return json.dumps(tree).encode()

    return rewritten(saved, change)


NUMBER = [{"as_sym_int": {"as_name": "n0"}}]
ONES = [("size", {"as_ints": [2**40]})]
NODES: dict[str, tuple[str, list[tuple[str, Any]], list[Any], str]] = {
    "memory": ("torch.ops.aten.ones.default", ONES, [], "missing val"),
    "memory, none": (
        "torch.ops.aten.ones.default", ONES, [{"as_none": True}], "no value"
    ),
    "seed": (
        "torch.ops.aten.manual_seed.default", [("seed", {"as_int": 7})], [], "no tensor"
    ),
    "text": (
        "torch.ops.aten.warn.default",
        [("message", {"as_string": "a"}), ("stacklevel", {"as_int": 2})],
        [],
        "no tensor",
    ),
    "power": (
        "_operator.pow", [("", {"as_int": 10}), ("", {"as_int": 10**8})], NUMBER,
        "exponent",
    ),
    "shift": (
        "_operator.lshift",
        [("", {"as_sym_int": {"as_int": n}}) for n in (1, 2**35)],
        NUMBER,
        "exponent",
    ),
    "call": ("_operator.methodcaller", [("", {"as_string": "a"})], NUMBER, "not an op"),
}  # fmt: skip


@NEEDS_GUARDS
@pytest.mark.parametrize("name", NODES)
def test_nodes_that_take_memory_or_time(fresh: bytes, name: str):
    target, inputs, outputs, message = NODES[name]
    path = with_node(fresh, target, inputs, outputs, n0={"as_int": 1})

    with pytest.raises(padc.PadcError, match=message):
        load(path)


def test_many_inputs_of_a_small_pickle(saved: bytes):
    nested: list[Any] = [1]
    for _ in range(60):
        nested = [nested] * 10
    buffer = io.BytesIO()
    torch.save((nested,), buffer)

    check_refused(
        with_member(saved, EXAMPLES, buffer.getvalue()),
        "more than 100000 values",
    )


@pytest.mark.parametrize("kind", ["weights", "constants"])
def test_pickled_weights(saved: bytes, kind: str):
    # The format of PyTorch 2.8, where weights are pickles.
    path = with_member(saved, f"data/{kind}/model.pt", torch_pickle({"a": Touch()}))

    check_refused(path, f"data/{kind}/model.pt is pickled and names posix.mkdir")


def test_a_weight_that_is_pickled(saved: bytes):
    config = {"path_name": "weight_0", "use_pickle": True, "is_param": False}
    text = json.dumps({"config": {"weight": config}}).encode()
    path = with_member(saved, "data/weights/model_weights_config.json", text)

    check_refused(path, r"the tensor weight is pickled, in weight_0")


def test_a_constant_that_is_an_object(saved: bytes):
    config = {"path_name": "custom_obj_0", "use_pickle": False, "tensor_meta": None}
    text = json.dumps({"config": {"object": config}}).encode()
    path = with_member(saved, "data/constants/model_constants_config.json", text)

    check_refused(path, "object is no tensor, but an object, in custom_obj_0")


def torch_pickle(value: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def test_a_folder(tmp_path: Path):
    (path := tmp_path / "net.pt2").mkdir()

    with pytest.raises(padc.UsageError, match="is a folder, or another thing"):
        padc.load(path)


def test_the_old_format():
    with zipfile.ZipFile("old.pt2", "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", "{}")
        archive.writestr("serialized_state_dict.pt", pickle.dumps(Touch()))

    check_refused(Path("old.pt2"), "2.7, which is pickled")


def test_machine_code(saved: bytes):
    path = with_member(saved, "data/aotinductor/model/model.so", b"\x7fELF")

    check_refused(path, "holds machine code, data/aotinductor/model/model.so")


TEXTS = {
    "a size": (
        r'"expr_str": "[^"]*"',
        '''"expr_str": "__import__('os').mkdir('hacked')"''',
        "__import__",
    ),
    "a huge size": (
        r'"expr_str": "[^"]*"',
        '"expr_str": "Pow(Integer(9), Integer(999999999))"',
        "Pow",
    ),
    "a guard": (
        r'(, "guards_code": \[\])?\}$',
        """, "guards_code": ["__import__('os').mkdir('hacked')"]}""",
        "__import__",
    ),
    "the name of an argument": (
        r'"as_tensor": {"name": "x"}',
        """"as_tensor": {"name": "x=__import__('os').mkdir('hacked')"}""",
        "is not a name",
    ),
    "a name in the signature": (
        r'"forward_arg_names": \["x"\]',
        """"forward_arg_names": ["x=open(0)"]""",
        "is not the name of an argument",
    ),
    "a key": (r'"tensor_values": {', '"tensor_values": {"a\\";b": 1, ', "name"),
    "a class": (
        r'\{\\"type\\": \\"builtins.dict\\", \\"context\\": \\"\[\]\\"',
        r"{\"type\": \"collections.defaultdict\", \"context\": "
        r"{\"default_factory_module\": \"antigravity\"}",
        "import a module",
    ),
    "an op on files": (
        r"torch\.ops\.aten\.conv2d\.default",
        "torch.ops.aten.from_file.default",
        "reads or writes files",
    ),
    "an op that may not end": (
        r"torch\.ops\.aten\.conv2d\.default",
        "torch.ops.aten.choose_qparams_optimized.default",
        "may not end",
    ),
    "an op that checks nothing": (
        r"torch\.ops\.aten\.conv2d\.default",
        "torch.ops.aten._remove_batch_dim.default",
        "may end the process",
    ),
    "a function": (
        r"torch\.ops\.aten\.conv2d\.default",
        "torch.hub.load",
        "not an op of PyTorch",
    ),
    "depth": (
        r'"opset_version": {',
        '"opset_version": {"a": ' + "[" * 300 + "]" * 300 + ", ",
        "200 levels",
    ),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_of_the_graph(saved: bytes, case: str):
    old, new, message = TEXTS[case]

    check_refused(with_graph(saved, (old, new)), message)


@NEEDS_GUARDS
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            r'"forward_arg_names": \["x"\]',
            '"forward_arg_names": 7',
            "names is not list",
        ),
        (r'"as_tensor": {"name": "x"}', '"as_tensor": {"name": 1}', "name is not str"),
        (r'"as_int": 1\b', '"as_int": true', "as_int is not int, but bool"),
        (r'"dtype": 7\b', '"dtype": 7.5', "dtype is not int, but float"),
        (r'"aten": \d+', '"aten": "x"', r"opset_version\['aten'\] is not int"),
        (r'(, "guards_code": \[\])?\}$', ', "guards_code": [1]}', r"_code\[0\] is not"),
    ],
)
def test_types_of_the_graph(saved: bytes, old: str, new: str, message: str):
    with pytest.raises(padc.InvalidProgramError, match=message):
        load(with_graph(saved, (old, new)))


def test_powers_of_sizes(tmp_path: Path):
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.shape[-1] ** -0.5

    x = torch.randn(2, 6)
    sizes = ({1: torch.export.Dim.AUTO(max=64)},)
    program = torch.export.export(Scaled(), (x,), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "model.pt2")

    compiled = padc.compile(padc.load(tmp_path / "model.pt2"))

    for x in (x, torch.randn(2, 9)):
        torch.testing.assert_close(compiled(x), Scaled()(x))


@NEEDS_GUARDS
def test_a_node_that_pytorch_does_not_read(saved: bytes):
    """PyTorch's message is the node and a traceback, twenty lines."""
    path = with_graph(saved, (r'"name": "input"', '"name": "steps"'))

    with pytest.raises(padc.InvalidProgramError) as caught:
        load(path)

    message, hint = str(caught.value).splitlines()
    assert "Failed deserializing node" in message and "KeyError: 'input'" in message
    assert "Traceback" not in message and "hint" in hint


BOMB = 50_000_000


def test_large_inputs_that_are_no_archive(fresh: bytes):
    path = with_member(fresh, EXAMPLES, bytes(BOMB))
    tracemalloc.start()

    with pytest.raises(padc.InvalidProgramError, match="not an archive"):
        load(path)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < BOMB / 10


@pytest.mark.parametrize("place", [0, 26, 28], ids=["mark", "name", "fields"])
def test_inputs_whose_header_is_another(fresh: bytes, place: int):
    data = bytearray(fresh)
    with zipfile.ZipFile(io.BytesIO(fresh)) as archive:
        (member,) = [x for x in archive.infolist() if x.filename.endswith(EXAMPLES)]
    data[member.header_offset + place] ^= 0x7F
    path = Path("changed.pt2")
    path.write_bytes(data)

    with pytest.raises(padc.PadcError):
        load(path)


def test_compressed_members(saved: bytes):
    path = rewritten(
        saved, lambda _, old: old, {"extra/zeros": bytes(BOMB)}, zipfile.ZIP_DEFLATED
    )
    tracemalloc.start()
    start = time.perf_counter()

    check_refused(path, "compressed: .* become .*; PyTorch writes members uncompressed")

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size < BOMB / 100
    assert peak < BOMB / 10
    assert time.perf_counter() - start < 1


def directory_entry(data: bytearray, name: str) -> int:
    """The offset of a member's entry in the list of members."""
    at = data.rindex(b"/" + name.encode()) - len("torch_2.13") - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    return at


def test_sizes_that_are_only_declared(saved: bytes):
    """The list of members says that one has 3.5 GB; the file has 1 KB of them."""
    path = with_member(saved, "data/weights/weight_0", bytes(72))
    data = bytearray(path.read_bytes())
    at = directory_entry(data, "data/weights/weight_0")
    data[at + 20 : at + 28] = struct.pack("<2L", 3_500_000_000, 3_500_000_000)
    path.write_bytes(data)

    check_refused(path, "larger than the file|overlaps")


def test_blobs_of_another_size(saved: bytes):
    check_refused(
        with_member(saved, "data/weights/weight_0", bytes(73)),
        "weight_0 has 73 bytes, more than the 72 of the tensor weight",
    )
    with pytest.raises(padc.InvalidProgramError, match=r"needs 72 bytes, .* has 70"):
        load(with_member(saved, "data/weights/weight_0", bytes(70)))


def test_the_bytes_of_elements():
    known = serialize._SERIALIZE_TO_TORCH_DTYPE.items()

    for number, dtype in known:
        assert ITEM_SIZES[number] == dtype.itemsize


def test_tensors_that_expand(saved: bytes):
    size = {"as_int": 10**6}
    tensor = {
        "dtype": 7, "sizes": [size, size], "strides": [{"as_int": 0}, {"as_int": 0}],
        "storage_offset": {"as_int": 0}, "requires_grad": False,
        "device": {"type": "cpu"},
    }  # fmt: skip
    meta = {"path_name": "w", "use_pickle": False, "is_param": False}
    config = {"config": {"weight": {**meta, "tensor_meta": tensor}}}
    path = with_member(saved, "data/weights/w", bytes(4))
    path = with_member(
        path.read_bytes(),
        "data/weights/model_weights_config.json",
        json.dumps(config).encode(),
    )

    check_refused(path, "4 bytes that become 4000000000000")


@pytest.mark.parametrize(
    "meta, message",
    [
        ({"device": {"type": "meta"}}, "is on the meta device, without data"),
        ({"strides": []}, "has 4 sizes and 0 strides"),
        ({"dtype": 0}, "has an unknown dtype, 0"),
    ],
)
def test_tensors_that_are_not_described(saved: bytes, meta: Any, message: str):
    name = "data/weights/model_weights_config.json"
    with zipfile.ZipFile(io.BytesIO(saved)) as archive:
        (member,) = (each for each in archive.namelist() if each.endswith(name))
        config = json.loads(archive.read(member))
    config["config"]["weight"]["tensor_meta"] |= meta

    with pytest.raises(padc.InvalidProgramError, match=message):
        load(with_member(saved, name, json.dumps(config).encode()))


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/root", "a\\b", "c:x", "a/"])
def test_paths(saved: bytes, name: str):
    path = Path("paths.pt2")
    path.write_bytes(saved)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), b"")

    check_refused(path, "leaves the archive")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name(saved: bytes):
    path = rewritten(saved, lambda _, old: old, {"archive_format": b"pt2"})

    check_refused(path, "several members of one name")


def test_members_that_overlap(saved: bytes):
    path = rewritten(saved, lambda _, old: old)
    data = bytearray(path.read_bytes())
    one = directory_entry(data, "archive_format") + 42
    other = directory_entry(data, "archive_version") + 42
    data[one : one + 4] = data[other : other + 4]
    path.write_bytes(data)

    check_refused(path, "overlaps another")


def test_two_ends(saved: bytes):
    """Readers that look for the end in another way would see other members."""
    Path("two.pt2").write_bytes(saved + saved[-22:] + b"x")

    with pytest.raises(padc.InvalidProgramError, match="does not end as PyTorch's do"):
        load("two.pt2")


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s53', positive=True, integer=True)",
        "Mul(Integer(2), Symbol('s53', positive=True, integer=True))",
        "Pow(Symbol('s0', integer=True), Integer(2))",
        "FloatPow(ToFloat(Symbol('s0')), Float('-0.5', precision=53))",
        "FloorDiv(Add(Symbol('s0'), Integer(-1)), Integer(2))",
        "TruncToInt(FloatTrueDiv(ToFloat(Symbol('s0')), Float('3.0', precision=53)))",
        "Eq(s0, 1)",
        "s0 + 2*u3 >= 5",
    ],
)
def test_sizes_that_are_plain(text: str):
    check_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "Symbol('s0').__class__",
        "open('s0')",
        "Symbol.mro()",
        "(lambda: s0)()",
        "[s0 for s0 in s1]",
        "Symbol('__import__')",
        "eval('s0')",
        "s0[0]",
        "f'{s0}'",
        "9**999999999",
        "((9**60)**60)**60",
        "Pow(Pow(Integer(9), Integer(60)), Integer(60))",
        "Pow(Integer(9), Float('99999999', precision=53))",
        "Pow(Integer(9), Float('1e9', precision=53))",
        "Pow(Add(Symbol('s0'), Symbol('s1')), Float('20', precision=53))",
        "9" * 30,
        "(" * 500 + "1" + ")" * 500,
        "1+" * 10_000 + "1",
        "Max(" + ", ".join(f"Symbol('s{n}')" for n in range(200)) + ")",
        "Pow(Add(Symbol('s0'), Symbol('s1'), Integer(1)), Integer(20))",
        "Pow(Add(Symbol('s0'), Symbol('s1'), Integer(1)), Add(Integer(20)))",
    ],
)
def test_sizes_that_are_code(text: str):
    with pytest.raises(UnsafeError):
        check_size(text)


@pytest.mark.parametrize(
    "text",
    [
        "math.trunc(3.0*torch.sym_float(L['x'].size()[2])) == 30",
        "4*(L['a'][0].size()[0] // 4) >= 2",
        "max(1, L['x'].stride()[0]) != L['y']['k'].size()[1] and L['n'] == 2.5",
        "L['p'].a.size()[0] > L['p'].b[0].c.size()[1]",
    ],
)
def test_guards_that_are_plain(text: str):
    check_guard(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').mkdir('hacked')",
        "torch.hub.load('a', 'b')",
        "torch.load(L['x'])",
        "L['x'].tolist()",
        "L['x'].size().__class__",
        "L['x'].__class__.size()[0] == 1",
        "L['p'].a._b.size()[0] == 1",
        "L['p'].a.b()[0] == 1",
        "L['p'].a > 1",
        "torch.hub.load.size()[0] == 1",
        "math.__loader__",
        "torch.sym_float.__globals__['os']",
        "L[open('a')]",
        "int(L['x'], key=print)",
        "(x := 5)",
        "eval(L['x'])",
        "L['x'].size()[0] == 'a\\'b'",
        "'a' * 2**31 == 1",
        "L['x'].size() * 300000000 == 1",
        "max(L['x'].stride()) == 1",
        "round(2, -100000000) == 0",
        "*".join(["2**64"] * 900) + " == 1",
    ],
)
def test_guards_that_are_code(text: str):
    with pytest.raises(UnsafeError):
        check_guard(text)


@pytest.mark.parametrize(
    ("name", "key", "value", "message"),
    [
        ("conv2d", "sizes", [{"as_int": 2}] * 4, r"conv2d is .* not .*\[2, 2, 2, 2\]"),
        ("conv2d", "dtype", 8, r"conv2d is torch.float32 .* not torch.float64"),
        ("p_weight", "sizes", [{"as_int": 9}] * 4, r"p_weight is .* not .*9, 9"),
        ("x", "sizes", [{"as_int": 2}] * 4, "conv2d"),
        # It is right for the example, of 2.
        ("mul", "sizes", [{"as_int": 2}] * 4, r"mul is .*\[s77, 2, 2, 2\], not"),
    ],
)
@NEEDS_GUARDS
def test_values_that_the_ops_do_not_compute(
    saved: bytes, name: str, key: str, value: Any, message: str
):
    """Machine code would read and write the memory of others."""

    def change(member: str, content: bytes) -> bytes:
        if member != "models/model.json":
            return content
        program = json.loads(content)
        values = program["graph_module"]["graph"]["tensor_values"]
        (found,) = [each for each in values if each.startswith(name)]
        values[found][key] = value
        return json.dumps(program).encode()

    with pytest.raises(padc.InvalidProgramError, match=message):
        load(rewritten(saved, change))


def of_any_size(
    *changes: tuple[str, str],
    function: Callable[..., torch.Tensor] = lambda x, y: x.select(0, 3) + y,
) -> Path:
    """A program of a matrix of at least 4 rows; its file does not say so."""

    class OfTwo(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return function(x, y)

    buffer, auto = io.BytesIO(), torch.export.Dim.AUTO
    program = torch.export.export(
        OfTwo(),
        (torch.ones(6, 3), torch.ones(3)),
        dynamic_shapes=({0: auto, 1: auto}, {0: auto}),
    )
    torch.export.save(program, buffer)
    return with_graph(buffer.getvalue(), (r'"min_val": \d+', '"min_val": 0'), *changes)


NO_GUARDS = r'"guards_code": \[.*\]', '"guards_code": []'


@NEEDS_GUARDS
def test_guards_that_a_file_leaves_out():
    """Without them, machine code reads rows that are not there."""
    program = load(of_any_size(NO_GUARDS))

    model = padc.compile(program)

    assert model.is_native
    torch.testing.assert_close(
        model(torch.ones(4, 5), torch.ones(5)), torch.full((5,), 2.0)
    )
    for rows in (0, 3):
        message = f"is {rows}, but the model was exported where x.shape.0. > 3"
        with pytest.raises(padc.UsageError, match=message):
            model(torch.ones(rows, 5), torch.ones(5))
    with pytest.raises(padc.UsageError, match="is 4, but has to be 5 where"):
        model(torch.ones(4, 5), torch.ones(4))


@NEEDS_GUARDS
def test_a_guard_that_a_size_is_another():
    path = of_any_size(NO_GUARDS, function=lambda x, y: x[3:].squeeze(0) + y)

    model = padc.compile(load(path))

    x, y = torch.randn(5, 3), torch.randn(3)
    torch.testing.assert_close(model(x, y), x[3:] + y)
    with pytest.raises(padc.UsageError, match=r"is 4, but .* -3 . x.shape.0. != 1"):
        model(torch.ones(4, 3), y)


@NEEDS_GUARDS
def test_guards_on_sizes_and_strides():
    """Calls check no strides."""
    size = r"""\{"as_expr": \{"expr_str": "Symbol\('s\d+'"""
    path = of_any_size(
        NO_GUARDS,
        (
            rf'"strides": \[{size}',
            """"strides": [{"as_expr": {"expr_str": "Symbol('s9'""",
        ),
        function=lambda x, y: x.view(-1) + y[0],
    )

    with pytest.raises(padc.UsageError, match="which padc cannot check"):
        load(path)


@NEEDS_GUARDS
def test_guards_that_are_false():
    """PyTorch takes what does not hold for the example as a fact: that it never does."""
    path = of_any_size((r"\] > 3", "] > 8"))

    with pytest.raises(padc.InvalidProgramError, match=r"not fit its guard .* > 8"):
        load(path)


@NEEDS_GUARDS
def test_sizes_of_which_nothing_is_known():
    """Those that are symbols of values, as a file may say of inputs, too."""
    size = r'\{"as_expr": \{"expr_str": "[^"]*", "hint": \{"as_int": 3\}\}\}'

    def unknown(name: str) -> str:
        text = f"Symbol('{name}', integer=True)"
        return f'{{"as_expr": {{"expr_str": "{text}", "hint": null}}}}'

    path = of_any_size(
        NO_GUARDS,
        (
            rf'"y": .{{20,30}}\[{size}\]',
            f'"y": {{"dtype": 7, "sizes": [{unknown("u9")}]',
        ),
        (size, unknown("u8")),
        (
            r'"range_constraints": {',
            '"range_constraints": {"u8": {"min_val": 0, "max_val": null}, '
            '"u9": {"min_val": 0, "max_val": null}, ',
        ),
    )
    model = padc.compile(load(path))

    with pytest.raises(padc.WrongResultError, match="reads outside of its buffer"):
        model(torch.ones(4, 5), torch.ones(3))


def test_strides_that_have_symbols_of_their_own(tmp_path: Path):
    """Files have no ranges for symbols that no size depends on."""

    class Mean(nn.Module):
        def forward(self, *x: torch.Tensor) -> torch.Tensor:
            return x[0].sum(-1) / x[0].shape[-1]

    sizes, strides = (5, 3, 1, 1, 3), (18, 6, 90, 90, 2)
    example = torch.empty_strided(sizes, strides, dtype=torch.float16).normal_()
    program = torch.export.export(
        Mean(), (example,), dynamic_shapes=(({0: torch.export.Dim.AUTO(max=64)},),)
    )
    torch.export.save(program, tmp_path / "mean.pt2")

    loaded = padc.load(tmp_path / "mean.pt2")

    torch.testing.assert_close(loaded.module()(example), Mean()(example))


@NEEDS_GUARDS
@pytest.mark.parametrize("strides", [(18, 6, 1), (1, 10, 40)])
def test_guards_on_strides_alone(strides: tuple[int, ...], tmp_path: Path):
    """PyTorch asks for the order of strides; no size depends on it."""

    class Cloned(nn.Module):
        def forward(self, *x: torch.Tensor) -> torch.Tensor:
            return x[0].clone()

    example = torch.empty_strided((4, 3, 5), strides).normal_()
    program = torch.export.export(
        Cloned(), (example,), dynamic_shapes=(({0: torch.export.Dim.AUTO(max=64)},),)
    )
    torch.export.save(program, tmp_path / "cloned.pt2")

    loaded = padc.load(tmp_path / "cloned.pt2")

    torch.testing.assert_close(loaded.module()(example), example)


@NEEDS_GUARDS
def test_batches_of_any_size(tmp_path: Path):
    """PyTorch chooses a library for less than 16 images; the file does not say so."""

    class Convolved(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.conv1d(x, torch.ones(2, 3, 2))

    program = torch.export.export(
        Convolved(),
        (torch.randn(4, 3, 5),),
        dynamic_shapes=({0: torch.export.Dim.AUTO(max=64)},),
    )
    torch.export.save(program, tmp_path / "convolved.pt2")

    model, x = (
        padc.compile(padc.load(tmp_path / "convolved.pt2")),
        torch.randn(30, 3, 5),
    )

    assert model.is_native
    torch.testing.assert_close(model(x), Convolved()(x))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()),
            *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x.reshape(x.shape[0], 3, 4, 4))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.first = nn.Parameter(torch.randn(1, 1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.reshape(x.shape[0], 3, 16)
        return self.layers(torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1))


@NEEDS_GUARDS
@pytest.mark.parametrize("kind", [Images, Words])
def test_batches_of_one(kind: type[nn.Module], tmp_path: Path):
    """No guard of PyTorch's that says otherwise comes from checking the file."""
    model = kind().eval()
    batch = torch.export.Dim("batch", min=1, max=20)
    program = torch.export.export(
        model, (torch.randn(3, 48),), dynamic_shapes=({0: batch},)
    )
    torch.export.save(program, tmp_path / "model.pt2")

    compiled = padc.compile(padc.load(tmp_path / "model.pt2"))

    assert compiled.is_native
    for size in (1, 2, 20):
        x = torch.randn(size, 48)
        torch.testing.assert_close(compiled(x), model(x), atol=1e-5, rtol=1e-4)


def test_an_op_that_only_data_tells_of(tmp_path: Path):
    """PyTorch would run it on zeros to tell, whatever its operands are."""

    class Factors(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.geqrf(x)[0]

    program = torch.export.export(Factors(), (torch.eye(3),))
    torch.export.save(program, tmp_path / "factors.pt2")

    with pytest.raises(padc.errors.UsageError, match="does not know without data"):
        padc.load(tmp_path / "factors.pt2")
    padc.load(tmp_path / "factors.pt2", trust=True)


def test_kernels_that_do_not_check_what_a_file_says():
    """This one would read far outside of its operand."""

    class Aliased(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.ops.aten._reshape_alias_copy.default(x, [3, 3], [3, 1])
            return torch.linalg.qr(y)[0]

    buffer, x = io.BytesIO(), torch.rand(9)
    torch.export.save(torch.export.export(Aliased(), (x,)), buffer)
    program = load(with_graph(buffer.getvalue(), (r"\[3, ?1\]", "[2147483648, 1]")))

    with pytest.raises(padc.errors.UsageError, match="does not check the operands"):
        padc.compile(program)(x)
    with pytest.raises(padc.errors.UsageError, match="does not check the operands"):
        padc.convert(program).verify([(x,)])


def test_ranges_of_expressions():
    """PyTorch writes some that are no symbols, and evaluates none of them."""
    bounds = {"min_val": 2, "max_val": 3}
    check_texts({"range_constraints": {"s0": bounds, "Min(3, s21)": bounds}})
    with pytest.raises(UnsafeError, match="not arithmetic on sizes"):
        check_texts({"range_constraints": {"exit(3)": bounds}})
    with pytest.raises(UnsafeError, match="not a name"):
        check_texts({"nodes": {"Min(3, s21)": bounds}})


class Checked(nn.Module):
    """Ops that exports have, whose kernels PyTorch does not call for others."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 5, batch_first=True)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        whole = x.to(torch.int32).to(torch.float32)
        return self.layer(x)[0], whole, torch.unique(whole), torch.linalg.qr(x)[0]


@pytest.mark.skipif(
    numbers(torch.__version__) < numbers("2.9"),
    reason="PyTorch 2.8 exports the state of an LSTM with another rank",
)
def test_what_exports_have_is_run(tmp_path: Path):
    model, x = Checked().eval(), torch.randn(2, 3, 4)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")

    compiled = padc.compile(padc.load(tmp_path / "model.pt2"))

    assert not compiled.is_native
    torch.testing.assert_close(compiled(x), model(x))


def test_a_package_of_a_file_is_verified(tmp_path: Path):
    class Whole(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.to(torch.int32).to(torch.float32)

    program = torch.export.export(Whole(), (torch.randn(2, 3),))
    torch.export.save(program, tmp_path / "model.pt2")

    padc.convert(padc.load(tmp_path / "model.pt2")).verify()
