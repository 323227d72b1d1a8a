# pyright: basic, reportPrivateUsage=false
"""
Which ops of a program PyTorch decomposes, and how.

An op that the path has no row for is decomposed if that leads to ops which the path
has. Otherwise it stays whole: an error then names the op that the user wrote, and
`padc.compile` leaves that op to PyTorch.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Any, TypeAlias

import torch
import torch.utils._pytree as pytree
from torch._decomp import decomposition_table
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses import FakeTensor
from torch.export import ExportedProgram, default_decompositions
from torch.fx import Node
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from padc.errors import Obstacle
from padc.frontends.compat import error_on_new_guards
from padc.frontends.torch_export import (
    chunked_losses,
    fake_quantized,
    fractional_pools,
    quantized,
    strided,
)
from padc.frontends.torch_export.calls import with_numbers
from padc.frontends.torch_export.dropouts import DROPOUTS
from padc.frontends.torch_export.functional import may_be_view
from padc.frontends.torch_export.nodes import (
    functional_name,
    is_composite,
    is_mutable,
    nodes_of,
    schema_name,
)
from padc.frontends.torch_export.scalars import SCALAR_OPS
from padc.ir.mil_forms import MAX_RANK
from padc.ir.torch import schema_of
from padc.ir.torch.calls import function_named
from padc.ir.torch.schemas import NOT_ON_HIGH_RANK, ON_COMPLEX

Decompositions: TypeAlias = Mapping[OpOverload, Callable[..., Any]]

MOST_OPS = 64
"""An op that becomes more is a loop, such as a recurrent net, written out."""
NO_LOOPS = frozenset(
    (
        "aten.fractional_max_pool3d",
        "aten.gradient.tensorarray",
        "aten.gradient.tensorarrayint",
    )
)
"""Ops that become more for many dimensions, not for large ones."""
MOST_ELEMENTS = 32
"""How many times the elements of an operand or result a decomposition may compute."""
FEW_ELEMENTS = 2**14
"""It may always compute as many. More is a loop made a matrix, such as `cumprod`."""

UNPREDICTABLE = frozenset(
    (
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.nondeterministic_seeded,
    )
)
"""Marks of ops with random results, or with shapes that depend on values."""

WRONG = frozenset(("aten.multilabel_margin_loss_forward",))
"""
Ops whose decomposition computes something else in PyTorch 2.13.

That loss of [5] elements with the target [1, 3, -1, 2, 0] comes out twice as large.
"""

IMPORTED = DROPOUTS | {"aten._native_batch_norm_legit_no_training"}
"""The importer has other ops for these."""


def decompositions_of(ep: ExportedProgram, legal: Collection[str]) -> Decompositions:
    """The decompositions that turn ops of `ep` into `legal` ones, by the op."""
    nodes: dict[OpOverload, list[Node]] = {}
    for node in nodes_of(ep.graph_module):
        if (target := functional_target(node)) is not None:
            nodes.setdefault(target, []).append(node)
    calls = {
        target: illegal
        for target, each in nodes.items()
        if (illegal := [n for n in each if is_illegal(target, n, legal)])
    }
    # The table is the same for all of the program: an op that is decomposed for complex
    # tensors, or those of high rank, has to be decomposed for all.
    always: frozenset[OpOverload] = frozenset()
    while True:
        rules = rules_of(calls, legal, always)
        legal_too = {op for op in rules if schema_name(op) in legal} - always
        if not legal_too:
            break
        always |= legal_too
        calls |= {op: nodes[op] for op in legal_too & nodes.keys()}
    # PyTorch writes one of these ops as others of them, where it replaces ops in place.
    is_strided = rules.keys() & strided.RULES.keys() or any(
        schema_name(node.target) in strided.WRITES for node in nodes_of(ep.graph_module)
    )
    return {**rules, **strided.RULES} if is_strided else rules


def rules_of(
    calls: Mapping[OpOverload, Collection[Node]],
    legal: Collection[str],
    always: Collection[OpOverload],
) -> Decompositions:
    """The decompositions that `calls` use, those of `always` wherever they occur."""
    trials = {
        target: trial
        for target, nodes in calls.items()
        if (trial := tried(target, nodes, legal, always)) is not None
    }
    # An op that has to stay whole may not be part of the decomposition of another one.
    whole = calls.keys() - trials.keys()
    while worse := {t for t, trial in trials.items() if trial.keys() & whole}:
        trials = {t: trial for t, trial in trials.items() if t not in worse}
        whole |= worse
    return {op: rule for trial in trials.values() for op, rule in trial.items()}


def unmarked_views(ep: ExportedProgram) -> Decompositions:
    """
    The composites of `ep` that return views although their schemas do not say so.

    PyTorch keeps them whole unless they are in the table, and then loses what ops in
    place change through such a view: `einsum("ij->ji", y)[0] = 0`.
    """
    nodes = list(nodes_of(ep.graph_module))
    if not any(is_mutable(node) for node in nodes):
        return {}
    targets: set[Any] = {node.target for node in nodes if is_unmarked(node)}
    table = default_table()
    return {op: table[op] for op in targets & table.keys()}


def is_unmarked(node: Node) -> bool:
    """Whether a composite returns a view although its schema does not say so."""
    op = node.target
    if not isinstance(op, OpOverload) or is_always_decomposed(op):
        return False
    if not (is_composite(op) and may_be_view(node)):
        return False
    values = pytree.tree_map_only(
        Node, lambda each: each.meta["val"], (node.args, node.kwargs)
    )
    memory = {StorageWeakRef(each.untyped_storage()) for each in tensors_of(values)}
    with tracing(values):
        try:
            results = tensors_of(op(*values[0], **values[1]))
        except Exception:
            return True  # A view, for all that is known.
    return any(StorageWeakRef(each.untyped_storage()) in memory for each in results)


def functional_target(node: Node) -> OpOverload | None:
    """The ATen op that `node` calls, not in place; None if it calls none."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, OpOverload):
        return None
    if not target._schema.is_mutable:
        return target
    try:
        return function_named(functional_name(schema_name(target)))
    except AttributeError:
        return None


def is_illegal(op: OpOverload, node: Node, legal: Collection[str]) -> bool:
    """Whether `node`, a call of `op`, has to be decomposed, and can be."""
    args, kwargs = pytree.tree_map_only(
        Node, lambda each: each.meta.get("val"), (node.args, node.kwargs)
    )
    return is_decomposed(op, args, kwargs, legal)


def is_decomposed(
    op: OpOverload, args: Any, kwargs: Any, legal: Collection[str]
) -> bool:
    """Whether a call of `op` has to be decomposed, and can be."""
    if schema_name(op) in IMPORTED or op in SCALAR_OPS:
        return False
    if is_always_decomposed(op) or decomposition(op) is None:
        return False
    return not is_legal(op, args, kwargs, legal)


def is_legal(op: OpOverload, args: Any, kwargs: Any, legal: Collection[str]) -> bool:
    """Whether the path has a lowering of a call of `op`."""
    if (name := imported_name(op, args)) is None:
        return False
    arguments = pytree.tree_leaves((args, kwargs))
    if any(map(is_complex_argument, arguments)):
        return ON_COMPLEX + name in legal
    if NOT_ON_HIGH_RANK + name in legal and any(map(is_of_high_rank, arguments)):
        return False
    return name in legal


def is_of_high_rank(x: Any) -> bool:
    """Whether an argument is a tensor of more dimensions than Core ML has."""
    return isinstance(x, torch.Tensor) and x.dim() > MAX_RANK


def is_complex_argument(x: Any) -> bool:
    """Whether an argument is a complex tensor, number or dtype."""
    if isinstance(x, torch.Tensor):
        return x.is_complex()
    return x.is_complex if isinstance(x, torch.dtype) else isinstance(x, complex)


def imported_name(op: OpOverload, args: Any) -> str | None:
    """The schema that a call of `op` is imported as; None if it cannot be."""
    name = schema_name(op)
    if op._schema.is_mutable:
        name = functional_name(name)
    schema = schema_of(name)
    try:
        return None if schema is None else with_numbers(schema, args)[0].name
    except Obstacle:
        return None


@functools.cache
def is_always_decomposed(op: OpOverload) -> bool:
    """Whether `op` is a composite that returns views: PyTorch never keeps those."""
    arguments = op._schema.arguments
    return any(each.alias_info is not None for each in arguments) and is_composite(op)


@functools.cache
def decomposition(op: OpOverload) -> Callable[..., Any] | None:
    """PyTorch's decomposition of `op`, or None; that of a prim is an ATen op."""
    if schema_name(op) in WRONG:
        return None
    return (
        REPLACEMENTS.get(op)
        or quantized.RULES.get(schema_name(op))
        or fake_quantized.RULES.get(schema_name(op))
        or chunked_losses.RULES.get(schema_name(op))
        or default_table().get(op)
        or decomposition_table.get(op)
        or getattr(op, "impl_aten", None)
    )


def converted(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    # PyTorch's own fills an empty tensor.
    return torch.ops.aten._to_copy.default(x, dtype=dtype)


def linspace(start: Any, end: Any, steps: int, **options: Any) -> torch.Tensor:
    # PyTorch's own does not convert the bounds to the result type.
    dtype = options.get("dtype") or torch.get_default_dtype()
    if not dtype.is_floating_point:
        raise TypeError("integers depend on how each step is rounded")
    bounds = (
        x.to(dtype) if isinstance(x, torch.Tensor) else torch.full((), x, dtype=dtype)
        for x in (start, end)
    )
    return decomposition_table[torch.ops.aten.linspace.Tensor_Tensor](
        *bounds, steps, **options
    )


def is_number_in(element: Any, test_elements: torch.Tensor, **options: Any) -> Any:
    # PyTorch's own compares an int64: -1 is not in uint8.
    dtype = torch.result_type(test_elements, element)
    own = torch.int64 if isinstance(element, int) else dtype
    elements = torch.ops.aten.scalar_tensor.default(element, dtype=own).to(dtype)
    return torch.ops.aten.isin.Tensor_Tensor(elements, test_elements, **options)


REPLACEMENTS: Decompositions = {
    **strided.RULES,
    **fractional_pools.RULES,
    torch.ops.prims.convert_element_type.default: converted,
    torch.ops.aten.linspace.Tensor_Tensor: linspace,
    torch.ops.aten.linspace.Tensor_Scalar: linspace,
    torch.ops.aten.linspace.Scalar_Tensor: linspace,
    torch.ops.aten.isin.Scalar_Tensor: is_number_in,
}
"""Decompositions of padc's own, in place of PyTorch's."""


@functools.cache
def default_table() -> Decompositions:
    return dict(default_decompositions().items())  # pyright: ignore[reportReturnType]


def tried(
    op: OpOverload,
    calls: Collection[Node],
    legal: Collection[str],
    always: Collection[OpOverload],
) -> Decompositions | None:
    """The decompositions that all of `calls` use; None if one of them fails."""
    used: dict[OpOverload, Callable[..., Any]] = {}
    seen: set[str] = set()
    for node in calls:
        if (signature := signature_of(node)) in seen:
            continue
        seen.add(signature)
        trial = Trial(legal, always)
        try:
            trial.run(op, node)
        except Exception:
            # Whatever stops a decomposition: the op stays as it is.
            return None
        used |= trial.used
    return used


def signature_of(node: Node) -> str:
    """The arguments of a call, with the types of tensors in place of their names."""

    def described(argument: Node) -> str:
        value = argument.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return str(value)
        return f"{value.dtype}{list(value.shape)}{list(value.stride())}"

    return str(pytree.tree_map_only(Node, described, (node.args, node.kwargs)))


class Failure(Exception):
    """Why a decomposition is not used: the message says it."""


class Trial(TorchDispatchMode):
    """Decomposes one call, on tensors without data, and records what that takes."""

    def __init__(self, legal: Collection[str], always: Collection[OpOverload]):
        super().__init__()
        self.legal = legal
        self.always = always
        self.used: dict[OpOverload, Callable[..., Any]] = {}
        self.count = 0
        self.most: float = MOST_OPS
        """The number of ops that the decomposition may take."""
        self.largest = 0
        """The number of elements that no result may exceed."""
        self.pending: list[OpOverload] = []
        """The ops that are being decomposed."""

    def run(self, op: OpOverload, node: Node) -> None:
        """Raise if `op`, called as `node` is, does not become legal ops."""
        args, kwargs = pytree.tree_map_only(
            Node, lambda each: each.meta["val"], (node.args, node.kwargs)
        )
        tensors = tensors_of((args, kwargs, node.meta["val"]))
        self.largest = MOST_ELEMENTS * max(map(elements, tensors), default=1)
        self.largest = max(self.largest, FEW_ELEMENTS)
        self.most = math.inf if schema_name(op) in NO_LOOPS else MOST_OPS
        with tracing(tensors), below_autograd(), self:
            op(*args, **kwargs)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":  # a question: prim.device
            return func(*args, **kwargs)
        if func in self.always or is_decomposed(func, args, kwargs, self.legal):
            rule = decomposition(func)
            if func in self.pending or rule is None:
                raise Failure(f"{func} becomes itself")
            self.used[func] = rule
            self.pending.append(func)
            with self:
                result = rule(*args, **kwargs)
            self.pending.pop()
            return result
        if is_always_decomposed(func):
            with self:
                return func.decompose(*args, **kwargs)
        if UNPREDICTABLE & set(func.tags):
            raise Failure(f"{func} is not predictable")
        if not is_legal(func, args, kwargs, self.legal):
            raise Failure(f"{func} is not legal")
        result = func(*args, **kwargs)
        self.check_size(result)
        return result

    def check_size(self, result: Any) -> None:
        """Raise if the program becomes too large."""
        self.count += 1
        if self.count > self.most:
            raise Failure("too many ops")
        for tensor in tensors_of(result):
            if elements(tensor) > self.largest:
                raise Failure("a tensor that is too large")


def tensors_of(values: Any) -> list[FakeTensor]:
    return [each for each in pytree.tree_leaves(values) if isinstance(each, FakeTensor)]


def elements(tensor: torch.Tensor) -> int:
    """The number of elements; of dynamic sizes, in the example."""
    sizes: list[Any] = list(tensor.shape)
    return math.prod(n if isinstance(n, int) else n.node.hint for n in sizes)


@contextlib.contextmanager
def below_autograd() -> Generator[None]:
    """Pass composites to modes whole, instead of letting autograd decompose them."""
    with enable_python_dispatcher(), torch._C._AutoDispatchBelowAutograd():
        yield


@contextlib.contextmanager
def tracing(values: Any) -> Generator[None]:
    """
    Enter the mode of the fake tensors in `values`.

    Raises where code depends on the example's sizes among the dynamic ones.
    """
    with contextlib.ExitStack() as stack:
        for tensor in tensors_of(values)[:1]:
            stack.enter_context(tensor.fake_mode)
            env: Any = tensor.fake_mode.shape_env
            if env is not None:
                stack.enter_context(error_on_new_guards(env))
                stack.enter_context(env.ignore_fresh_unbacked_symbols())
        yield
