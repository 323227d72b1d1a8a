"""Where the elements of rows are, as formulas of `padc.ir.arithmetic`."""

from __future__ import annotations

from dataclasses import dataclass

from padc.ir.arithmetic import Whole, ceil_div


def rest_of(count: Whole, lanes: int) -> Whole:
    """
    The first element of the second vector of a row, if the first vector overlaps it.

    The vectors from there on are whole. It is 0 if nothing overlaps.
    """
    return count % lanes


@dataclass(frozen=True)
class Phases:
    """
    The columns of a row of windows, in groups of a window's `stride`.

    Those at one place of their groups, a phase, are stored one after the other.
    """

    columns: Whole
    stride: int

    @property
    def groups(self) -> Whole:
        """The number of whole groups."""
        return self.columns // self.stride

    @property
    def left(self) -> Whole:
        """The number of columns of the last group, if it is not whole."""
        return self.columns % self.stride

    @property
    def pitch(self) -> Whole:
        """The distance of phases in memory."""
        return ceil_div(self.columns, self.stride)

    @property
    def elements(self) -> Whole:
        return self.stride * self.pitch

    def column(self, group: Whole, phase: int) -> Whole:
        return group * self.stride + phase

    def place(self, group: Whole, phase: Whole) -> Whole:
        """Where a column is stored."""
        return phase * self.pitch + group

    def of_tap(self, distance: int) -> tuple[int, int]:
        """The group after the window's own, and the phase, of a column of it."""
        return divmod(distance, self.stride)


def columns_of(windows: Whole, stride: int, taps: int, step: int) -> Whole:
    """The columns of so many windows, each with `taps` columns `step` apart."""
    return 1 + (windows - 1) * stride + (taps - 1) * step
