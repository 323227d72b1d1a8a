"""
Rows that several moves write: put together in registers, and stored as vectors.

The moves of a pad write the interior of a row, and fill the borders or copy parts of it
to them. One by one, they would load elements that have just been stored, partly or in
other pieces, and the CPU waits for such stores to end. So each element is traced to
where it was first read, see `row_pieces`. Rows that are copies of such rows are, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import VectorType, i1, i8
from xdsl.ir import SSAValue

from padc.passes.buffers_to_llvm.buffer_descriptor import (
    BufferDescriptor,
    Value,
    scalar,
    stored_bytes,
)
from padc.passes.buffers_to_llvm.llvm_builder import LlvmBuilder, Size, stored_type
from padc.passes.buffers_to_llvm.looped_ops import Move, copies
from padc.passes.buffers_to_llvm.row_pieces import Element, Piece, pieces_of
from padc.passes.buffers_to_llvm.vectors import AnyVector, shuffled

MOST_PIECES = 16
"""The most vectors of a row; in longer rows the CPU's waiting counts little."""
MOST_COPIES = 8
"""The most rows that are traced copies of others: each has code of its own."""


@dataclass(frozen=True)
class Row:
    """Elements of moves that make a contiguous row, at each step of a shared loop."""

    first: int
    """The number of the move that writes the first element."""
    elements: Sequence[Element]
    """For each element the move that reads it, and the step of its innermost loop."""
    pieces: Sequence[Piece]


@dataclass(frozen=True)
class RowCopy:
    """A copy of a row to another one, by a move of its own."""

    step: int
    """The step of the shared loop that writes the row that is copied."""
    move: int
    row: int
    """The step of the move's loop over rows."""


def row_of(moves: Mapping[int, Move], main: LlvmBuilder) -> Row | None:
    """
    The row that moves write in their innermost loops; None if it is not one.

    They follow each other in the order of their numbers.
    """
    output = next(iter(moves.values())).output
    longest = main.vector_bytes // stored_bytes(output.element_type)
    written: dict[int, Element] = {}
    starts: dict[int, int] = {}
    for number, move in moves.items():
        first, count = move.output.places[-1], move.loops[-1].count
        if not isinstance(first, int) or not isinstance(count, int):
            return None
        if not is_contiguous(move):
            return None
        if len(written) + count > MOST_PIECES * main.vector_bytes:
            return None
        if (found := sources_of(move, number, count, written)) is None:
            return None
        written.update(enumerate(found, first))
        starts[first] = number
    if not written:
        return None
    low, size = min(written), len(written)
    if max(written) - low >= size or size > MOST_PIECES * longest:
        return None
    elements = tuple(written[low + i] for i in range(size))
    constants = [
        number
        for number, move in moves.items()
        if not isinstance(move.source, BufferDescriptor)
    ]
    pieces = pieces_of(elements, longest, constants)
    return None if pieces is None else Row(starts[low], elements, tuple(pieces))


def is_contiguous(move: Move) -> bool:
    """Whether a move copies or fills runs of elements."""
    if not copies(move.op):
        return False
    steps = (1, 1) if isinstance(move.source, BufferDescriptor) else (0, 1)
    return tuple(move.loops[-1].steps) == steps


def sources_of(
    move: Move, number: int, count: int, written: Mapping[int, Element]
) -> list[Element] | None:
    """The origin of each element that a move writes; None if one is unknown."""
    source = move.source
    if not isinstance(source, BufferDescriptor):
        return [(number, 0)] * count
    if source.memory is not move.output.memory:
        return [(number, i) for i in range(count)]
    start = source.places[-1]
    if not isinstance(start, int):
        return None
    found = [written[start + i] for i in range(count) if start + i in written]
    return found if len(found) == count else None


def copies_of(
    row: Row, moves: Mapping[int, Move], dim: int, number: int
) -> list[RowCopy] | None:
    """
    Move `number` as copies of rows that are steps of the loop along `dim`.

    None if it copies anything else. `moves` has the move of the row's first element.
    """
    first, move = moves[row.first], moves[number]
    place, count = first.output.places[dim], first.loops[dim].count
    if not is_contiguous(move):
        return None
    if not isinstance(source := move.source, BufferDescriptor):
        return None
    start, rows = source.places[dim], move.loops[dim].count
    target, end = move.output.places[dim], first.output.places[-1]
    if not all(isinstance(x, int) for x in (place, count, start, rows, target)):
        return None
    assert isinstance(place, int) and isinstance(count, int)
    assert isinstance(start, int) and isinstance(rows, int)
    assert isinstance(target, int)
    is_whole = (
        len(move.own) == 2
        and move.loops[-1].count == len(row.elements)
        and all(x.places[-1] == end for x in move.own)
        and all(x.spacing[dim] == 1 for x in (*move.own, first.output))
    )
    is_inside = place <= start and start + rows <= place + count
    is_apart = target + rows <= place or place + count <= target
    if not (is_whole and is_inside and is_apart) or rows > MOST_COPIES:
        return None
    return [RowCopy(start - place + i, number, i) for i in range(rows)]


def emit_row(
    build: LlvmBuilder,
    row: Row,
    sources: Mapping[int, tuple[Value, Size]],
    target: BufferDescriptor,
    offset: Size,
) -> None:
    """
    Store the row in `target`, from `offset` on.

    For each move that has elements of the row, `sources` has the buffer that it reads
    and the offset of the first element, or a scalar.
    """
    element_type = target.element_type
    start = build.address(target.pointer, offset, element_type)

    def vector(element: Element, width: int) -> SSAValue:
        number, place = element
        source, offset = sources[number]
        if not isinstance(source, BufferDescriptor):
            type = VectorType(stored_type(element_type), [width])
            return repeated(build, scalar(build, source), type)
        address = build.address(source.pointer, build.add(offset, place), element_type)
        return source.load_vector(build, address, width)

    for piece in row.pieces:
        vectors = [vector(element, piece.width) for element in piece.loads]
        width = piece.width
        while len(vectors) > 2:
            width *= 2
            pairs = zip(vectors[::2], [*vectors[1::2], vectors[-1]], strict=False)
            vectors = [shuffled(build, a, b, range(width)) for a, b in pairs]
        value = vectors[0]
        if not piece.is_copy:
            value = shuffled(build, vectors[0], vectors[-1], piece.lanes)
        address = build.address(start, piece.first, element_type)
        target.store_vector(build, value, address, len(piece.lanes))


def repeated(build: LlvmBuilder, x: SSAValue, type: AnyVector) -> SSAValue:
    """The vector whose elements are all `x`, as it is stored."""
    if x.type == i1:
        x = build.insert(llvm.ZExtOp(x, i8))
    undefined = build.insert(llvm.UndefOp(type))
    first = build.insert(llvm.InsertElementOp(undefined, x, build.value(0)))
    (width,) = type.get_shape()
    return shuffled(build, first, first, [0] * width)
