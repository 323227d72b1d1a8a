"""The lines that `padc convert --verify` and `padc verify` print of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from padc.verification import Comparison


def print_agreement(
    model: Any, comparisons: Sequence[Comparison], compression: str | None = None
) -> None:
    """Print the errors of outputs; those of compressed weights are not judged."""
    from padc.models.mlir_model import MlirModel

    what = "the text" if isinstance(model, MlirModel) else "PyTorch"
    verdict = f"agrees with {what}"
    if compression is not None:
        verdict = f"differs from {what} by {compression}"
    for comparison in comparisons:
        name = comparison.name
        what = name if name.startswith("buffer ") else f"output '{name}'"
        print(
            f"{what} {verdict}: max error "
            f"{comparison.max_error:.2e}, {comparison.relative_error:.2e} of its range"
        )
