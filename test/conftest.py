"""Helpers shared by the Python tests."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from padc.ir import make_context


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
