"""Dialects of padc, and the table that registers them."""

from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects import get_all_dialects as get_xdsl_dialects
from xdsl.ir import Dialect


def get_all_dialects() -> dict[str, Callable[[], Dialect]]:
    """
    The dialects that padc adds to those of xDSL, by name.

    Each is imported when its first op or type is parsed: building the table of ATen ops
    takes longer than parsing most files.
    """

    def get_mil() -> Dialect:
        from padc.ir.mil import Mil

        return Mil

    def get_tcp() -> Dialect:
        from padc.ir.tcp import Tcp

        return Tcp

    def get_torch() -> Dialect:
        from padc.ir.torch import Torch

        return Torch

    def get_torch_c() -> Dialect:
        from padc.ir.torch import TorchC

        return TorchC

    return {"mil": get_mil, "tcp": get_tcp, "torch": get_torch, "torch_c": get_torch_c}


def make_context() -> Context:
    """A context with the dialects of xDSL and padc, and a store of weights."""
    from padc.ir.weights import weights_builtin_dialect

    def get_arith() -> Dialect:
        from padc.ir.arith import Arith

        return Arith

    def get_linalg() -> Dialect:
        from padc.ir.linalg import Linalg

        return Linalg

    ctx = Context()
    own = {"linalg": get_linalg, "arith": get_arith, "builtin": weights_builtin_dialect}
    for name, dialect in (get_xdsl_dialects() | get_all_dialects() | own).items():
        ctx.register_dialect(name, dialect)
    return ctx
