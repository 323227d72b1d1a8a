# pyright: basic
"""The cache of `padc.compile`: what it keeps, what entries depend on, what it removes."""

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from affine import Affine
from functions import Function
from torch import nn

import padc
from padc import compiled
from padc.backends.native import cache, compile_model
from padc.common.source_hash import source_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PADC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each program that was compiled rather than read."""
    made: list[int] = []
    module: Any = compile_model
    original = module.compile_program

    def counting(*args: Any) -> Any:
        made.append(len(made))
        return original(*args)

    monkeypatch.setattr(module, "compile_program", counting)
    return made


def entries(folder: Path) -> list[Path]:
    """The entries in a cache."""
    return [path for path in folder.iterdir() if cache.NAME.fullmatch(path.name)]


X = torch.tensor([[1.0, -2.0, 3.0, 4.0]])


class Mixed(Affine):
    """A model with a part that PyTorch runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logcumsumexp(super().forward(x), 0) * self.weight


@pytest.mark.parametrize("kind", [Affine, Mixed])
def test_an_entry_is_used_again(kind: Any, folder: Path, compilations: list[int]):
    first = padc.compile(kind(), (X,))
    again = padc.compile(kind(), (X,))
    other = padc.compile(kind(5.0), (X,))  # other weights, the same code

    assert len(compilations) == 1 and len(entries(folder)) == 1
    assert torch.equal(first(X), again(X)) and first.report() == again.report()
    torch.testing.assert_close(other(X), kind(5.0)(X).detach())


def test_strides_decide_what_a_reshape_shares(folder: Path, compilations: list[int]):
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.reshape(-1).relu_()
        return y

    x = torch.randn(2, 3, 4, 4)
    for x in x, x.contiguous(memory_format=torch.channels_last):
        assert torch.equal(padc.compile(Function(function), (x,))(x), function(x))

    assert len(compilations) == 2


def test_batch_norms_fold_for_other_weights(folder: Path, compilations: list[int]):
    def make() -> nn.Module:
        model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
        for _ in range(2):
            model(torch.randn(2, 1, 5, 5))
        return model.eval()

    x = torch.randn(1, 1, 5, 5)
    for model in (make(), make()):
        actual = padc.compile(model, (x,))(x)
        torch.testing.assert_close(actual, model(x).detach())

    assert len(compilations) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data[:90] + bytes([data[90] ^ 1]) + data[91:],
        lambda data: data + b"x",
        lambda data: b"\n" + data,
        lambda data: b"0" * 64 + data[64:],
    ],
)
def test_a_damaged_entry_is_made_again(
    damage: Callable[[bytes], bytes], folder: Path, compilations: list[int]
):
    expected = padc.compile(Affine(), (X,))(X)
    (entry,) = entries(folder)
    whole = entry.read_bytes()
    entry.write_bytes(damage(whole))

    actual = padc.compile(Affine(), (X,))(X)

    assert torch.equal(actual, expected) and len(compilations) == 2
    padc.compile(Affine(), (X,))
    assert len(compilations) == 2


def test_an_entry_whose_digest_was_made_without_the_key(
    folder: Path, compilations: list[int]
):
    expected = padc.compile(Affine(), (X,))(X)
    (entry,) = entries(folder)
    _, _, contents = entry.read_bytes().partition(b"\n")
    contents = contents[:-100] + bytes(100)
    plain = hashlib.sha256(entry.name.encode() + contents).hexdigest().encode()
    for digest in plain, cache.digest_of(bytes(32), entry.name, contents), b"":
        entry.write_bytes(digest + b"\n" + contents)
        assert cache.read(entry.name) is None

    assert torch.equal(padc.compile(Affine(), (X,))(X), expected)
    assert len(compilations) == 2


@pytest.mark.parametrize("data", [b"", b"x" * 7, bytes(100), b"\xff" * 100])
def test_an_entry_that_is_no_model(data: bytes, folder: Path, compilations: list[int]):
    padc.compile(Affine(), (X,))
    (entry,) = entries(folder)
    cache.write(entry.name, data)

    assert torch.equal(padc.compile(Affine(), (X,))(X), Affine()(X).detach())
    assert len(compilations) == 2


def test_the_key(folder: Path):
    cache.write("0" * 64, b"contents")
    key = folder / "key"
    assert (key.stat().st_mode & 0o777, len(key.read_bytes())) == (0o600, 32)
    assert cache.read("0" * 64) == b"contents"

    for change in (
        lambda: key.chmod(0o644),  # Others may know it.
        lambda: key.write_bytes(b"short"),
        lambda: key.unlink(),
    ):
        before = key.read_bytes()
        change()
        assert cache.read("0" * 64) is None
        assert key.read_bytes() != before
        cache.write("0" * 64, b"contents")
        assert cache.read("0" * 64) == b"contents"


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757])
def test_a_folder_that_others_can_write_to(
    mode: int, folder: Path, compilations: list[int]
):
    padc.compile(Affine(), (X,))
    folder.chmod(mode)

    with pytest.warns(UserWarning, match="others can write to the cache"):
        padc.compile(Affine(), (X,))

    assert len(compilations) == 2
    folder.chmod(0o755)
    padc.compile(Affine(), (X,))
    assert len(compilations) == 2


def test_a_folder_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch):
    cache.write("0" * 64, b"contents")
    monkeypatch.setattr(os, "getuid", lambda: 12345)

    with pytest.warns(UserWarning, match="others can write") as warned:
        assert cache.read("0" * 64) is None
        cache.write("0" * 64, b"contents")

    assert len(warned) == 1
    # Only the owner can change the permissions.
    assert "chmod" not in str(warned[0].message)


@pytest.mark.parametrize("name", ["0" * 64, "key", ".writing-pipe"])
def test_pipes_are_not_waited_for(name: str, folder: Path):
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / name)

    assert cache.read("0" * 64) is None
    cache.write("0" * 64, b"contents")

    assert (folder / name).is_fifo() == (name != "0" * 64)


def test_what_a_killed_writer_left(folder: Path):
    folder.mkdir(mode=0o700)
    killed, running = folder / ".writing-killed", folder / ".writing-running"
    for path in (killed, running):
        path.write_bytes(b"half")

    with running.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        cache.write("0" * 64, b"contents")

    assert not killed.exists() and running.exists()
    cache.write("1" * 64, b"contents")
    assert not running.exists()


def test_writers_lock_what_they_write(folder: Path, monkeypatch: pytest.MonkeyPatch):
    moved: list[bool] = []

    def replace(temporary: str, path: Path) -> None:
        moved.append(cache.is_abandoned(Path(temporary)))
        os.rename(temporary, path)

    monkeypatch.setattr(os, "replace", replace)
    cache.write("0" * 64, b"contents")

    assert moved == [False, False]  # the key and the entry
    assert cache.read("0" * 64) == b"contents"


def test_where_files_cannot_be_locked(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "fcntl", None)
    folder.mkdir(mode=0o700)
    old, new = folder / ".writing-old", folder / ".writing-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))

    cache.write("0" * 64, b"contents")

    assert not old.exists() and new.exists()


def test_the_entry_of_another_model_is_not_used(folder: Path, compilations: list[int]):
    padc.compile(Affine(), (X,))
    (entry,) = entries(folder)
    padc.compile(Function(torch.relu), (X,))
    (other,) = [path for path in entries(folder) if path != entry]
    entry.write_bytes(other.read_bytes())

    actual = padc.compile(Affine(), (X,))(X)

    torch.testing.assert_close(actual, Affine()(X).detach())
    assert len(compilations) == 3


def test_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[int]
):
    monkeypatch.setenv("PADC_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    for _ in range(2):
        padc.compile(Affine(), (X,))

    assert len(compilations) == 2 and not list(tmp_path.iterdir())


def test_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PADC_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.folder() == tmp_path / ".cache" / "padc"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache.folder() == tmp_path / "x" / "padc"


@pytest.mark.parametrize("path", ["/proc/nowhere", os.devnull, f"{os.devnull}/below"])
def test_a_folder_that_cannot_be_written_to(path: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PADC_CACHE_DIR", path)

    torch.testing.assert_close(padc.compile(Affine(), (X,))(X), Affine()(X).detach())


def test_entries_that_were_not_read_for_longest_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cache, "MOST_BYTES", 2500)
    names = [digit * 64 for digit in "0123"]
    folder.mkdir()
    (folder / "notes").write_bytes(bytes(5000))
    for age, name in enumerate(names[:3]):
        cache.write(name, bytes(700))
        os.utime(folder / name, (age, age))

    cache.read(names[0])
    cache.write(names[3], bytes(700))

    kept = [name for name in names if cache.read(name) is not None]
    assert kept == [names[0], names[2], names[3]]
    assert (folder / "notes").exists()

    cache.write(names[1], bytes(9000))
    assert cache.read(names[1]) is not None


def test_what_an_entry_depends_on(
    folder: Path, compilations: list[int], monkeypatch: pytest.MonkeyPatch
):
    padc.compile(Affine(), (X,))
    monkeypatch.setattr(compiled, "source_hash", lambda: "other")
    padc.compile(Affine(), (X,))
    monkeypatch.setattr(compiled, "machine_name", lambda: "another CPU")
    padc.compile(Affine(), (X,))
    monkeypatch.setattr(compiled, "VERSIONS", ["9"])
    padc.compile(Affine(), (X,))
    padc.compile(Affine(), (X.double(),))
    padc.compile(Affine(), (X.repeat(2, 1),))

    assert len(compilations) == len(entries(folder)) == 6


class Numbers(nn.Module):
    """A model with every kind of number that a program may depend on."""

    def __init__(self, step: int = 2, scale: float = 3.0, table: float = 4.0):
        super().__init__()
        self.scale = scale
        self.register_buffer("step", torch.tensor(step))
        self.register_buffer("table", torch.tensor([table]), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * self.scale + torch.tensor([self.scale, 1.0, 2.0, 3.0])
        return (y + self.get_buffer("step")) * self.get_buffer("table")


@pytest.mark.parametrize("other", [{"step": 5}, {"scale": -1.0}, {"table": 7.0}, {}])
def test_other_numbers_make_another_program(
    folder: Path, compilations: list[int], other: Any
):
    for numbers in ({}, other, other):
        model = Numbers(**numbers)
        torch.testing.assert_close(padc.compile(model, (X,))(X), model(X))

    assert len(compilations) == 1 + bool(other)


def test_weights_of_any_layout(folder: Path, compilations: list[int]):
    x = torch.randn(1, 3, 8, 9)
    for _ in range(2):
        first, second = nn.Conv2d(3, 4, 3), nn.Linear(7, 5)
        first.weight.data = first.weight.data.contiguous(
            memory_format=torch.channels_last
        )
        second.weight = nn.Parameter(torch.randn(7, 5).T)
        model = nn.Sequential(first, second).eval()
        torch.testing.assert_close(padc.compile(model, (x,))(x), model(x).detach())

    assert len(compilations) == 1


def test_tied_weights_and_their_names(folder: Path, compilations: list[int]):
    """Two names that are the same in the IR, and one tensor with two names."""

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_parameter("a_b", nn.Parameter(torch.randn(4)))
            self.inner = nn.ParameterDict(
                {"a-b": torch.randn(4), "a_b": torch.randn(4)}
            )
            self.again = self.a_b

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * self.inner["a-b"] + self.inner["a_b"]
            return y * self.a_b - self.again

    for _ in range(2):
        model = Tied()
        torch.testing.assert_close(padc.compile(model, (X,))(X), model(X).detach())

    assert len(compilations) == 1


def test_the_source_of_all_of_padc_counts():
    root = Path(padc.__file__).parent
    names = {path.name for path in source_files()}

    assert {"compiled.py", "cache.py", "plan_buffers.py", "padc_run.py"} <= names
    assert {"aten_schemas.txt", "mil_ops.txt"} <= names
    assert {path.suffix for path in source_files()} == {".py", ".txt"}
    assert (root / "compiled.py") in source_files()
