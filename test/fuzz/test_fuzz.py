# pyright: basic
"""What the fuzzer found stays mended, and it would find each kind of fault again."""

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from fuzz.archives import Archives
from fuzz.campaign import campaign, replay
from fuzz.changes import changed_tree
from fuzz.mlir import spaced
from fuzz.target import Refused, Target
from fuzz.targets import FINDS, TARGETS, finds

from padc.ir import make_context
from padc.ir.text import Parser

FUZZ = Path(__file__).parent


def run(*arguments: str) -> str:
    """What `python test/fuzz` prints; it must find nothing."""
    done = subprocess.run(
        [sys.executable, FUZZ, *arguments], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def test_finds_are_mended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """In children of this process, which has imported PyTorch and coremltools."""
    monkeypatch.setenv("PADC_CACHE_DIR", "that of the replay")
    monkeypatch.setattr(sys, "argv", ["fuzz", "--replay"])

    code = importlib.import_module("fuzz.__main__").main()

    printed = capsys.readouterr().out
    assert code == 0, printed[-4000:]
    for name in TARGETS:
        assert f"{name}: {len(finds(name))} finds replayed" in printed
    assert sum(len(finds(name)) for name in TARGETS) == len(list(FINDS.glob("*/*")))


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases(name: str, tmp_path: Path):
    printed = run("--count", "60", "--seed", "0", "--finds", str(tmp_path), name)

    assert f"{name}: 60 cases" in printed and " 0 finds" in printed
    assert not (tmp_path / name).exists()


def spin() -> None:
    while True:
        pass


class Faulty(Target):
    """A case is the name of a fault."""

    suffix = ".txt"
    faults: dict[bytes, Callable[[], object]] = {  # noqa: RUF012
        b"none": lambda: None,
        b"refused": lambda: refuse(),
        b"traceback": lambda: {}["key"],
        b"exit": lambda: sys.exit(2),
        b"signal": lambda: os.kill(os.getpid(), signal.SIGSEGV),
        b"end": lambda: os._exit(0),
        b"memory": lambda: bytearray(3 * 2**30),
        b"hidden memory": lambda: hide(lambda: bytearray(3 * 2**30)),
        b"hang": spin,
        b"wait": lambda: time.sleep(60),
    }

    def prepare(self) -> None: ...

    def case(self, rng: Random) -> bytes:
        return rng.choice([b"none", b"refused", b"signal"])

    def run(self, case: bytes) -> None:
        self.faults[case]()


def test_code_in_a_replayed_file_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "fuzz.archives.load", lambda _: pickle.loads(b"cposix\nmkdir\n(VhackedtR.")
    )

    (outcome,) = replay(Archives(), [b""])

    assert outcome.kind == "find" and "RanCodeError: " in outcome.text


def refuse() -> None:
    raise Refused("damaged")


def hide(function: Callable[[], object]) -> None:
    try:
        function()
    except MemoryError as error:
        raise Refused("damaged") from error


def test_every_kind_of_fault_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Faulty, "seconds", 0.1)
    monkeypatch.setattr("fuzz.campaign.WAITING", 50)
    cases = list(Faulty.faults)

    outcomes = replay(Faulty(), cases)

    kinds = {case: outcome.kind for case, outcome in zip(cases, outcomes, strict=True)}
    assert kinds.pop(b"none") == "accepted" and kinds.pop(b"refused") == "refused"
    assert set(kinds.values()) == {"find"}
    texts = {case: outcome.text for case, outcome in zip(cases, outcomes, strict=True)}
    assert "KeyError: 'key'" in texts[b"traceback"]
    assert "signal SIGSEGV" in texts[b"signal"]
    assert (
        "MemoryError" in texts[b"memory"] and "MemoryError" in texts[b"hidden memory"]
    )
    assert "in spin" in texts[b"hang"] and "signal SIGPROF" in texts[b"hang"]
    assert "in run" in texts[b"wait"] and "Timeout" in texts[b"wait"]
    assert len({outcome.signature for outcome in outcomes[2:]}) >= 6


def test_a_campaign_goes_on_after_a_crash():
    numbers = range(40, 80)

    once, again = (list(campaign(Faulty(), "x", 3, numbers)) for _ in range(2))

    assert [outcome.number for outcome, _ in once] == list(numbers)
    kinds = [(outcome.kind, case) for outcome, case in once]
    assert kinds == [(outcome.kind, case) for outcome, case in again]
    assert set(kinds) == {
        ("accepted", None),
        ("refused", None),
        ("find", b"signal"),
    }


def test_changes_of_trees():
    tree = {"a": [1, 2, {"b": "x"}], "c": {"d": None, "e": 2.5}, "f": True}
    text = repr(tree)

    made = {repr(changed_tree(tree, Random(seed))) for seed in range(300)}

    assert repr(tree) == text and len(made) > 100


def test_spaces_and_comments_mean_nothing():
    text = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %c = arith.constant dense<-1.0e+00> : tensor<2x3xf32>
      %y = arith.addf %x, %c {a = "// \\" {"} : tensor<2x3xf32>
      func.return %y : tensor<2x3xf32>
    }"""
    made = {spaced(text, Random(seed)) for seed in range(100)}

    assert any("// x" in each for each in made) and len(made) > 50
    parsed = {str(Parser(make_context(), each).parse_module()) for each in made}
    assert len(parsed) == 1
