"""A finding of the checker, with the source of its rule."""

from __future__ import annotations

from dataclasses import dataclass

from padc.errors import SourceLocation


@dataclass(frozen=True)
class Finding:
    """
    A place where a package breaks a rule.

    Example:
        >>> import padc
        >>> print(padc.coreml.Finding("rank", "add", "y", "has rank 6", "Core ML"))
        rank: add 'y': has rank 6
          source: Core ML
    """

    rule: str
    """The name of the rule."""
    op_type: str
    """The type of the op; "function" or "model" if the finding is not about one op."""
    output: str
    """The op's first output; the name of the function, input or output otherwise."""
    message: str
    """What breaks the rule."""
    source: str
    """The documentation, issue or measurement that the rule comes from."""
    location: SourceLocation | None = None
    """The line of Python that the op comes from, if padc wrote the package."""

    def __str__(self) -> str:
        lines = [f"{self.rule}: {self.op_type} '{self.output}': {self.message}"]
        if self.location is not None:
            lines.append(f"  at {self.location}")
        lines.append(f"  source: {self.source}")
        return "\n".join(lines)
