# pyright: reportUnknownMemberType=false, reportPrivateImportUsage=false
"""
One ATen op, called in PyTorch: on operands, or on fake tensors, which have no data.

Programs that are text may hold any op with any operands, which PyTorch refuses with
any exception, or, seldom, by ending the process.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from padc.errors import UsageError, first_line
from padc.ir.torch.aten import AtenOp
from padc.ir.torch.constants import NotConstantError, constant_value
from padc.ir.torch.containers import ListConstructOp, ListUnpackOp, is_subtype
from padc.ir.torch.describe import describe_type
from padc.ir.torch.tensors import torch_dtype
from padc.ir.torch.types import NumberType, VTensorType

UNSAFE = {
    re.compile(r"aten\.(from_file|save)(\.\w+)?"): "reads or writes files",
    re.compile(r"aten\.choose_qparams_optimized(\.\w+)?"): "may not end",
    re.compile(
        r"aten\.(_stack|_(add|remove)_batch_dim|_new_zeros_with_same_feature_meta"
        r"|__interpolate|__upsample\w*|range)(\.\w+)?"
    ): "may end the process",
}
"""Ops that programs that are not trusted must not call, and what they do."""
UNCHECKED = re.compile(
    r"aten\.(.*backward|lu_unpack|(linalg_)?(lu|ldl)_solve|.*native_batch_norm|mkldnn_"
    r"|fbgemm_|_(?!_|assert_|unique|adaptive_avg_pool\dd$|cast_|cdist_forward|conj"
    r"|convolution|embedding_bag|euclidean_dist|fft_|histogramdd|int_mm|linalg_|log_softmax"
    r"|lu_with_info|neg_view|pad_circular|pdist_forward|prelu_kernel|reshape_(?!alias)"
    r"|safe_softmax|scaled_dot_product_attention_math|shape_as_tensor|softmax|to_copy"
    r"|trilinear|unsafe_|upsample|weight_norm(?!_interface)))"
)
"""
Ops whose kernels are not called: they rely on what PyTorch makes itself.

For other operands, they read or write other memory. They are those that take pivots,
and most of those that PyTorch calls for other ops, but not those that exported programs
have.
"""
TERMS = ("polynomial", "mvlgamma", "multigammaln", "matrix_power")
"""Parts of the names of ops whose arguments `n` or `p` are numbers of terms."""
MOST_TERMS = 10_000
"""The most terms that are computed, which takes less than a second for few elements."""
DIVISION = re.compile(
    r"aten\.(__round_to_zero_floordiv|divmod|floordiv|gcd|remainder)(\.int)?"
)
"""Ops that end the process for integers whose quotient is not defined, or too large."""
QUOTIENTS = re.compile(r"aten\.(floor_divide|fmod|remainder)_?\.")
"""
Ops on tensors that end the process for such integers in some versions of PyTorch.

Divisions that have a rounding mode do so, too.
"""
LEAST = -(2**63)
"""The least integer of 64 bits."""
HERE = {"device": torch.device("cpu"), "pin_memory": None}
"""What arguments of these names are, whatever the program has."""
NEED_DATA = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
NO_DATA = ("NYI", "data is not allocated")
"""Parts of messages of PyTorch's that mean the same as `NEED_DATA`."""
SIZES = 1, 16, 840
"""Sizes that are tried out in place of unknown ones; the last has many divisors."""
MOST_BYTES = 2**24
"""The most bytes of operands and of results that are tried out."""


class TorchRefusalError(Exception):
    """PyTorch does not take the operands of an op, or does not have the op."""


class NeedsDataError(TorchRefusalError):
    """What an op makes is not known without data."""


def danger_of(name: str) -> str | None:
    """What an op does that programs that are not trusted must not call."""
    return next((what for names, what in UNSAFE.items() if names.fullmatch(name)), None)


def function_named(name: str) -> Any:
    """
    PyTorch's function for the name of a schema.

    Raises AttributeError if PyTorch has no such function.
    """
    namespace, _, op = name.partition(".")
    packet, _, overload = op.partition(".")
    return getattr(
        getattr(getattr(torch.ops, namespace), packet), overload or "default"
    )


def applied(function: Any, op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """
    The results of a function of PyTorch on the operands of an op.

    Raises TorchRefusalError for a division of numbers that would end the process.
    """
    check_divisor(op, operands)
    made = called_with(function, [each.name for each in op.schema.arguments], operands)
    return [made] if len(op.results) == 1 else list(made or ())


def called_with(function: Any, names: Sequence[str], operands: Sequence[Any]) -> Any:
    """What a function of PyTorch returns for operands that are called `names`."""
    # PyTorch takes the arguments after the "*" of a schema by name only, and those of
    # functions of TorchScript by position only.
    keywords = {each.name for each in function._schema.arguments if each.kwarg_only}
    by_position, by_name = list[Any](), dict[str, Any]()
    for name, value in zip(names, operands, strict=True):
        if name in keywords:
            by_name[name] = value
        else:
            by_position.append(value)
    return function(*by_position, **by_name)


def function_of(op: AtenOp) -> Any:
    """
    PyTorch's function for an op.

    Raises TorchRefusalError if PyTorch lacks it, or if calling it is not safe.
    """
    if (danger := danger_of(op.schema.name)) is not None:
        raise TorchRefusalError(f"it is not called, since it {danger}")
    try:
        return function_named(op.schema.name)
    except AttributeError as error:
        raise TorchRefusalError("this version of PyTorch does not have it") from error


def call(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """
    The results of an op on the CPU, in place of the device that the program names.

    Raises TorchRefusalError if PyTorch raises anything, would take long, or would not
    check the operands.
    """
    try:
        with checked_kernels():
            return called(op, operands)
    except UsageError as error:
        raise NeedsDataError(str(error)) from error


def call_fake(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """
    The same on fake tensors, which are made of the real ones among the operands.

    Raises TorchRefusalError if PyTorch raises anything, NeedsDataError if that is
    because the tensors have no data.
    """
    with quiet(), fake_mode() as mode:

        def as_fake(x: torch.Tensor) -> torch.Tensor:
            return x if isinstance(x, FakeTensor) else mode.from_tensor(x)

        try:
            return called(op, tree_map_only(torch.Tensor, as_fake, list(operands)))
        except TorchRefusalError as error:
            if needs_data(error):
                raise NeedsDataError(str(error)) from error
            raise


def needs_data(error: TorchRefusalError) -> bool:
    """Whether fake tensors are the reason for a refusal."""
    return isinstance(error.__cause__, NEED_DATA) or any(
        part in str(error) for part in NO_DATA
    )


def call_checked(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """
    The results of an op of a program that nobody trusts, on the CPU.

    Raises TorchRefusalError if PyTorch raises anything, and UsageError if it would not
    check the operands.
    """
    if not UNCHECKED.match(op.schema.name):
        with suppress(NeedsDataError):
            call_fake(op, operands)
    check_terms(op, operands)
    with checked_kernels():  # Composites call others.
        return refusing(op, operands)


class CheckedKernels(TorchDispatchMode):
    """
    Replaces kernels that do not check their operands by PyTorch's decompositions.

    Raises UsageError for a kernel that has no decomposition.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if QUOTIENTS.match(str(func)) or kwargs.get("rounding_mode") is not None:
            check_quotients(*args[:2])
        if not UNCHECKED.match(str(func)):
            return func(*args, **kwargs)
        import torch._decomp as decompositions  # Loading it takes half a second.

        table = cast(Mapping[Any, Any], decompositions.decomposition_table)
        if func not in table:
            raise UsageError(
                f"PyTorch does not check the operands of {func}",
                hint="if it is of a .pt2 file that you trust, load it with trust=True "
                "(--trust)",
            )
        with self:  # A decomposition may call others.
            return table[func](*args, **kwargs)


@contextmanager
def checked_kernels() -> Generator[None]:
    """Run PyTorch with `CheckedKernels`."""
    with PLAIN_KERNELS, CheckedKernels():
        yield


class PlainKernels:
    """
    Turns MKL-DNN and NNPACK off, for all threads, while any of them is in this context.

    A recurrent layer is one of MKL-DNN's kernels otherwise, which does not check
    operands. To choose these libraries, PyTorch also asks for sizes: whether a batch
    has fewer than 16 images.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._threads = 0
        self._were_enabled = False, False

    def __enter__(self) -> None:
        with self._lock:
            if not self._threads:
                self._were_enabled = (
                    SETTINGS._get_mkldnn_enabled(),
                    SETTINGS._get_nnpack_enabled(),
                )
                self._enable(False, False)
            self._threads += 1

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                self._enable(*self._were_enabled)

    def _enable(self, mkldnn: bool, nnpack: bool) -> None:
        SETTINGS._set_mkldnn_enabled(mkldnn)
        SETTINGS._set_nnpack_enabled(nnpack)


SETTINGS: Any = cast(Any, torch)._C
"""`torch.backends.mkldnn.set_flags` would reset others."""
PLAIN_KERNELS = PlainKernels()


def called(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """`refusing`, but also TorchRefusalError for an op that would take long."""
    check_terms(op, operands)
    return refusing(op, operands)


def refusing(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """The results of PyTorch's function; TorchRefusalError for all that it raises."""
    function = function_of(op)
    arguments = zip(op.schema.arguments, operands, strict=True)
    here = [HERE.get(argument.name, value) for argument, value in arguments]
    try:
        with torch.no_grad():
            return tree_map_only(torch.Tensor, resolved, applied(function, op, here))
    except (UsageError, TorchRefusalError):
        raise
    except Exception as error:  # Among others AssertionError, KeyError, MemoryError.
        reason = first_line(error).partition(". This could be because")[0]
        message = f"PyTorch does not take its operands: {reason}"
        raise TorchRefusalError(message) from error


def check_divisor(op: AtenOp, operands: Sequence[Any]) -> None:
    """Raise TorchRefusalError for divisions that PyTorch does not check."""
    if not DIVISION.fullmatch(op.schema.name):
        return
    pair, is_gcd = tuple(operands), op.schema.name == "aten.gcd.int"
    if not all(isinstance(number, int) for number in pair):
        return
    if pair[1] == 0 and not is_gcd:
        raise TorchRefusalError("it divides by zero")
    if pair == (LEAST, -1) or (is_gcd and pair == (-1, LEAST)):
        raise TorchRefusalError(f"{LEAST} divided by -1 is no 64-bit integer")


def check_quotients(a: Any, b: Any) -> None:
    """Raise UsageError for a quotient of integers in tensors that is too large."""
    dtype = torch.result_type(a, b)
    if not dtype.is_signed or dtype.is_floating_point or dtype.is_complex:
        return
    least = torch.iinfo(dtype).min
    if bool(((torch.as_tensor(a) == least) & (torch.as_tensor(b) == -1)).any()):
        raise UsageError(f"{least} divided by -1 is no {dtype}, and may end PyTorch")


def check_terms(op: AtenOp, operands: Sequence[Any]) -> None:
    """Raise TorchRefusalError if an op computes more than `MOST_TERMS` terms."""
    if not any(part in op.schema.name for part in TERMS):
        return
    for argument, value in zip(op.schema.arguments, operands, strict=True):
        if argument.name not in ("n", "p") or isinstance(value, FakeTensor):
            continue
        numbers = cast(Any, value).tolist() if torch.is_tensor(value) else value
        for number in tree_leaves(numbers):
            if abs(number) > MOST_TERMS:
                raise TorchRefusalError(f"{argument.name} is beyond {MOST_TERMS}")


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose elements are in memory as they are."""
    return tensor.resolve_conj().resolve_neg()


def fake_mode() -> FakeTensorMode:
    """What makes tensors fake; it has a state, so each thread has its own."""
    return _fake_mode_of(threading.get_ident())


@functools.lru_cache(maxsize=16)
def _fake_mode_of(thread: int) -> FakeTensorMode:
    # Real kernels in place of fake ones would compute.
    return FakeTensorMode(allow_fallback_kernels=False)


@contextmanager
def quiet() -> Generator[None]:
    """Hide the tracebacks that PyTorch prints for what fake tensors do not take."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def bytes_of(values: Any) -> int:
    """The bytes of the tensors in values."""
    tensors = [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# --- programs that PyTorch did not make -----------------------------------------------


def why_invalid(op: AtenOp, size: int | None = None) -> str | None:
    """
    Why PyTorch would refuse an op, or give its results other types than it declares.

    None if PyTorch would not, or if that depends on data, or on sizes that are known
    only at run time and are not taken to be `size`.
    """
    try:
        function_of(op)
        operands = operands_of(op, size)
        return why_other_types(op, call_fake(op, operands))
    except (NotConstantError, NeedsDataError):
        return None
    except TorchRefusalError as error:
        return str(error)


def why_invalid_before(op: Operation) -> tuple[AtenOp, str] | None:
    """
    The first op of a program, up to one that could not be lowered, that is invalid.

    Returns it with the reason; None if padc is at fault, as far as PyTorch can tell.
    """
    root = op.get_toplevel_object()
    assert isinstance(root, Operation)
    for each in root.walk():
        if isinstance(each, AtenOp):
            # The dtypes that a kernel has are not known without real tensors.
            judges = [why_invalid, why_refused_here] if each is op else [why_invalid]
            for judge in judges:
                if (reason := for_all_sizes(each, judge)) is not None:
                    return each, reason
        if each is op:
            break
    return None


def for_all_sizes(
    op: AtenOp, judge: Callable[[AtenOp, int | None], str | None]
) -> str | None:
    """What `judge` finds for each of `SIZES` in place of unknown ones, or None."""
    try:
        operands_of(op)
    except NotConstantError:
        reasons = [judge(op, size) for size in SIZES]
        if None in reasons:
            return None
        return f"{reasons[0]}, and so for other sizes than {SIZES[0]}"
    return judge(op, None)


def why_refused_here(op: AtenOp, size: int | None) -> str | None:
    """The same for PyTorch's kernel on zeros, if these and the results are small."""
    try:
        operands = operands_of(op, size)
        if bytes_of([operands, fake_results(op, operands)]) > MOST_BYTES:
            return None
        real = tree_map_only(torch.Tensor, real_zeros, operands)
        return why_other_types(op, call(op, real))
    except (NotConstantError, NeedsDataError):
        return None
    except TorchRefusalError as error:
        # Zeros are no matrix that has an inverse.
        is_of_data = isinstance(error.__cause__, torch.linalg.LinAlgError)
        return None if is_of_data else str(error)


def fake_results(op: AtenOp, operands: Sequence[Any]) -> Sequence[Any]:
    """Fake results; none if they depend on data, but not on large numbers."""
    try:
        return call_fake(op, operands)
    except NeedsDataError as error:
        numbers = [x for x in tree_leaves(operands) if isinstance(x, int)]
        if any(abs(x) > MOST_TERMS for x in numbers):
            raise NotConstantError("a number is large") from error
        return []


def operands_of(op: AtenOp, size: int | None = None) -> list[Any]:
    """
    Fake tensors, and the other operands of an op.

    Dynamic sizes, and numbers that are computed, are `size`, if that is given.
    Raises NotConstantError for other values that are known only at run time.
    """

    def value(x: SSAValue) -> Any:
        if isinstance(type := x.type, VTensorType):
            return fake(type, size)
        if isinstance(x.owner, ListConstructOp):
            return [value(element) for element in x.owner.elements]
        try:
            return constant_value(x)
        except NotConstantError:
            if size is None or not is_subtype(type, NumberType()):
                raise
            return size

    return [value(x) for x in op.operands]


def fake(type: VTensorType, size: int | None) -> torch.Tensor:
    """A fake tensor; NotConstantError if its rank, dtype or sizes are unknown."""
    try:
        shape, dtype = type.get_shape(), torch_dtype(type.element_type)
        if size is not None:
            shape = [size if dim == DYNAMIC_INDEX else dim for dim in shape]
        with fake_mode():
            return torch.zeros(shape, dtype=dtype)
    # PyTorch raises RuntimeError for sizes below 0, as unknown ones are, and for more
    # bytes than 64 bits count.
    except (VerifyException, ValueError, RuntimeError) as error:
        raise NotConstantError(first_line(error)) from error


def real_zeros(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros in place of a fake tensor."""
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def elements_of(op: AtenOp, made: Sequence[Any]) -> Iterator[tuple[SSAValue, Any]]:
    """The results of an op, and the elements of lists, with what PyTorch makes."""
    for result, value in zip(op.results, made, strict=False):
        yield result, value
        for use in result.uses:
            if isinstance(unpack := use.operation, ListUnpackOp):
                if len(value) != len(unpack.elements):
                    raise TorchRefusalError(
                        f"the program unpacks {len(unpack.elements)} tensors, and "
                        f"PyTorch makes {len(value)}"
                    )
                yield from zip(unpack.elements, value, strict=True)


def why_other_types(op: AtenOp, made: Sequence[Any]) -> str | None:
    """Which result does not have the type that the program declares; None if all do."""
    for result, tensor in elements_of(op, made):
        if not has_type(result.type, tensor):
            dtype = str(tensor.dtype).removeprefix("torch.")
            sizes = ",".join(map(str, tensor.shape))
            return (
                f"the program declares {describe_type(result.type)}, and PyTorch makes "
                f"{dtype}[{sizes}]"
            )
    return None


def has_type(type: Attribute, tensor: object) -> bool:
    """Whether a value, if it is a tensor, has a type, as far as that is known."""
    if not isinstance(type, VTensorType) or not isinstance(tensor, torch.Tensor):
        return True
    try:
        shape, dtype = type.get_shape(), torch_dtype(type.element_type)
    except (VerifyException, ValueError):
        return True
    return (
        dtype == tensor.dtype
        and len(shape) == tensor.dim()
        and all(
            declared in (DYNAMIC_INDEX, size)
            for declared, size in zip(shape, tensor.shape, strict=True)
        )
    )
