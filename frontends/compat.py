# pyright: basic, reportPrivateUsage=false
"""The differences between the versions of PyTorch that padc supports."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from torch._ops import OpOverload
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import Module
from torch.utils._pytree import TreeSpec

from padc.ir.torch import Schema


def children(spec: TreeSpec) -> Sequence[TreeSpec]:
    """The parts of a container."""
    if not hasattr(spec, "children"):  # up to 2.9
        return cast(Any, spec).children_specs
    return spec.children()


def copy_of(module: Module) -> Module:
    """A deep copy of what `ExportedProgram.module()` returned, with its checks."""
    copied = copy.deepcopy(module)
    if not copied._forward_pre_hooks:  # 2.8 does not copy these, nor what they read
        missing = module.__dict__.keys() - copied.__dict__.keys()
        copied.__dict__.update({name: module.__dict__[name] for name in missing})
        for hook in module._forward_pre_hooks.values():
            copied.register_forward_pre_hook(cast(Any, hook), with_kwargs=True)
    return copied


def unknown_arguments(node: Node, schema: Schema) -> Sequence[str]:
    """
    The arguments of a call that `schema` does not have, or has at another position.

    `aten_schemas.txt` is of one version of PyTorch; another may give an op more
    arguments. These may be left out where they have their defaults.
    """
    target = cast(OpOverload, node.target)
    unknown: list[str] = []
    for index, argument in enumerate(target._schema.arguments):
        position = schema.positions.get(argument.name)
        default = argument.default_value
        if index < len(node.args):
            is_known = position == index or (
                position is None and node.args[index] == default
            )
        else:
            given = node.kwargs.get(argument.name, default)
            is_known = position is not None or given == default
        if not is_known:
            unknown.append(argument.name)
    return unknown


def error_on_new_guards(env: ShapeEnv) -> AbstractContextManager[Any]:
    """Raise where a decision would fix dynamic sizes to those of the example."""
    if hasattr(env, "error_on_new_guards"):
        return env.error_on_new_guards()
    return _no_decisions(env)


@contextlib.contextmanager
def _no_decisions(env: ShapeEnv) -> Generator[None]:
    """The same for versions without that option: a decision is noticed at the end."""
    guards, replacements = len(env.guards), len(env.replacements)
    yield
    if (len(env.guards), len(env.replacements)) != (guards, replacements):
        del env.guards[guards:]  # What was computed is not used.
        raise ValueError("a decision on dynamic sizes")
