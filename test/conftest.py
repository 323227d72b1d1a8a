"""Settings and fixtures shared by the Python tests."""

import gc
import importlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import quicker_torch
from hypothesis import HealthCheck, settings
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from padc.ir import make_context
from padc.ir.text import Parser

# The same examples in every run, so that a test that passes keeps passing; whoever
# asks for more examples also gets other ones. Slow examples mean a busy machine.
settings.register_profile(
    "padc",
    database=None,
    deadline=None,
    derandomize="PADC_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("padc")
quicker_torch.install()


TESTS_PER_COLLECTION = 10
tests = 0
"""How many have run in this process."""


def pytest_collection_finish() -> None:
    """Let the garbage collector run rarely."""
    collect_garbage()
    gc.set_threshold(1_000_000, 10, 10)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Collect garbage after some tests, when the programs of a test are gone."""
    result = yield
    global tests
    tests += 1
    if tests % TESTS_PER_COLLECTION == 0:
        collect_garbage()
    return result


def collect_garbage() -> None:
    """
    Collect garbage, and never visit again what is left.

    PyTorch, xDSL and coremltools make millions of objects that live until the end, and
    `coremltools.convert` ends with a full collection.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def cache_folder() -> Generator[Path]:
    """Where the tests keep machine code: not where the user does."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PADC_CACHE_DIR", folder)
        yield Path(folder)


@pytest.fixture(autouse=True)
def coremltools_alone() -> Generator[None]:
    """Each test starts as if nobody had imported padc's operators in coremltools."""
    forget_operators()
    yield
    forget_operators()


@pytest.fixture
def plugin(coremltools_alone: None) -> None:
    """The test runs with padc's operators in coremltools."""
    importlib.import_module("padc.coremltools")


def forget_operators() -> None:
    """Let the next import of `padc.coremltools` be the first."""
    if (module := sys.modules.pop("padc.coremltools", None)) is not None:
        module.disable()


@pytest.fixture
def ctx() -> Context:
    """A context that knows the dialects of xDSL and padc."""
    return make_context()


@pytest.fixture
def parse(ctx: Context) -> Callable[[str], ModuleOp]:
    """Parse and verify a module."""

    def parse(source: str) -> ModuleOp:
        module = Parser(ctx, source).parse_module()
        module.verify()
        return module

    return parse
