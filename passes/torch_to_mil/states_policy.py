"""The policy: which changed buffers become states of Core ML."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from padc.errors import resolve

StatesPolicy: TypeAlias = Literal["auto", "native", "inputs"]
"""
Which buffers that the model changes become states of Core ML, which iOS18 has.

auto: those that a state holds exactly, or float32 ones of a float16 program. native:
all; an error for the others. inputs: none. Each of the rest is an input and an output.
"""

DEFAULT_STATES_POLICY: StatesPolicy = "auto"


def resolve_states_policy(name: str) -> str:
    """The policy of this name; UsageError for another name."""
    return resolve("states policy", name, get_args(StatesPolicy))
