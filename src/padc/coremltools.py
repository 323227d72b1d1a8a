"""
padc's operators inside coremltools: importing this module makes `coremltools.convert`
lower PyTorch's operators as padc does.

    >>> import coremltools as ct, torch
    >>> import padc.coremltools
    >>> model = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular").eval()
    >>> traced = torch.jit.trace(model, torch.randn(1, 3, 8, 8))
    >>> inputs = [ct.ImageType("image", (1, 3, 8, 8), scale=1 / 255)]
    >>> converted = ct.convert(traced, inputs=inputs, skip_model_load=True)

All that `coremltools.convert` offers stays: images, states, classifiers, compression.
An operator that padc refuses is converted by coremltools, unless coremltools is known
to convert it wrong: then the conversion stops with padc's `UnsupportedError`.

Operators that you register in coremltools yourself stay yours, before the import (with
`override=True`) and after it.

`disable` gives coremltools its own operators back, `operators` is for one conversion.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from padc.versions import require

__all__ = ["disable", "enable", "is_enabled", "operators"]

_registration: ExitStack | None = None


def enable() -> None:
    """
    Register padc's operators in coremltools; the import of this module does so.

    Raises:
        MissingEnvironmentError: coremltools is missing, or of a version that padc does
            not know.

    Example:
        >>> import padc.coremltools
        >>> padc.coremltools.disable()
        >>> padc.coremltools.enable()
        >>> padc.coremltools.is_enabled()
        True
    """
    global _registration
    require("coreml")
    if _registration is None:
        # This needs the packages that `require` asks for.
        from padc.backends.coreml.torch_ops.operators import registered

        _registration = ExitStack()
        _registration.enter_context(registered())


def disable() -> None:
    """
    Give coremltools its own operators and passes back.

    Operators and passes that you have registered stay.

    Example:
        >>> import padc.coremltools
        >>> padc.coremltools.disable()
        >>> padc.coremltools.is_enabled()
        False
        >>> padc.coremltools.enable()
    """
    global _registration
    if _registration is not None:
        _registration.close()
        _registration = None


def is_enabled() -> bool:
    """
    Ask whether `coremltools.convert` uses padc's operators.

    Returns:
        True after `enable` or the import of this module, False after `disable`.

    Example:
        >>> import padc.coremltools
        >>> with padc.coremltools.operators():
        ...     padc.coremltools.is_enabled()
        True
    """
    return _registration is not None


@contextmanager
def operators(enabled: bool = True) -> Generator[None]:
    """
    Use padc's operators in a block, or coremltools' own; then as before.

    Args:
        enabled: Whether `coremltools.convert` uses padc's operators in the block.

    Returns:
        A context manager.

    Raises:
        MissingEnvironmentError: As `enable` does.

    Example:
        >>> import padc.coremltools
        >>> padc.coremltools.disable()
        >>> with padc.coremltools.operators():
        ...     padc.coremltools.is_enabled()
        True
        >>> padc.coremltools.is_enabled()
        False
        >>> padc.coremltools.enable()
    """
    before = is_enabled()
    (enable if enabled else disable)()
    try:
        yield
    finally:
        (enable if before else disable)()


enable()
