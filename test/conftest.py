"""Helpers shared by the Python tests."""

from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from padc.ir import make_context


@pytest.fixture(autouse=True, scope="session")
def cache_folder() -> Generator[Path]:
    """Where the tests keep machine code: not where the user does."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PADC_CACHE_DIR", folder)
        yield Path(folder)


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
