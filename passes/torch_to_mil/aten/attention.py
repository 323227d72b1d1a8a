"""
Attention: Core ML's op from iOS18 on, otherwise two products and a softmax.

As in PyTorch's eager mode, a row whose keys are all masked is 0, where the formula
would give NaN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, i1, i32

from padc.errors import Obstacle
from padc.ir import mil
from padc.ir.element_types import wide
from padc.ir.mil import MAX_RANK
from padc.passes.aten.refusals import TRAINING
from padc.passes.torch_to_mil.aten.contraction import matmul
from padc.passes.torch_to_mil.aten.mil_call import MilCall, lowers
from padc.passes.torch_to_mil.aten.movement import (
    Size,
    expand_dims,
    reshape,
    size_of,
    sizes_of,
    static,
    vector,
)
from padc.passes.torch_to_mil.aten.tensor import Tensor, as_input, is_constant


@lowers(
    "aten.scaled_dot_product_attention",
    "aten._scaled_dot_product_attention_math",
    "aten._scaled_dot_product_efficient_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu",
)
def lower_attention(call: MilCall) -> list[Tensor]:
    if call.number("dropout_p"):
        raise Obstacle(*TRAINING)
    type = wide(call.result_element_type())
    q, k, v = (call.tensor(name).to(type) for name in ("query", "key", "value"))
    name = "attn_mask" if "attn_mask" in call.op.schema.positions else "attn_bias"
    mask = call.optional(name)
    if mask is not None and mask.type != i1:
        mask = mask.to(type)
    known = None
    if mask is not None and is_constant(mask):
        known = call.array(mask)
        known = known if mask.type == i1 else known > -np.inf
    attention = Attention(
        q,
        k,
        v,
        mask,
        known,
        call.boolean("is_causal"),
        call.number("scale") if call.has("scale") else None,
    )
    gives_weights = call.name == "aten._scaled_dot_product_attention_math"
    used = [result.first_use is not None for result in call.op.results[1:]]
    if any(used) and not gives_weights:
        raise Obstacle(
            "its logarithm of sums is used, which is for training",
            "call torch.nn.functional.scaled_dot_product_attention",
        )
    if "enable_gqa" in call.op.schema.positions and call.boolean("enable_gqa"):
        return [attention.grouped()]
    if any(used):
        return attention.by_products()
    return [attention.result()]


@dataclass(frozen=True)
class Attention:
    """`softmax(query @ key.mT * scale + mask) @ value`."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    known: npt.NDArray[np.bool_] | None
    """Which keys the mask admits; None without a mask, or if it is computed."""
    is_causal: bool
    scale: float | None
    """None stands for 1 / sqrt(number of features)."""

    def result(self) -> Tensor:
        return self.fused() if self.can_be_fused() else self.by_products()[0]

    # --- Core ML's op -----------------------------------------------------------------

    def can_be_fused(self) -> bool:
        """Whether Core ML's op takes these shapes: it broadcasts only the mask."""
        q, k, v = self.query, self.key, self.value
        op = mil.OPS["scaled_dot_product_attention"]
        if op.form(q.build.target) is None or not q.rank == k.rank == v.rank >= 3:
            return False
        fits = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        keys = () if self.mask is None else self.mask.shape[-1:]
        return fits and (self.mask is None or keys == k.shape[-2:-1])

    def fused(self) -> Tensor:
        features, query = self.query.shape[-1], self.query
        if self.scale is not None and features == DYNAMIC_INDEX:
            query = query * (self.features().apply("sqrt") * self.scale)
        elif self.scale is not None and self.scale != features**-0.5:
            query = query * (self.scale * math.sqrt(features))
        y = query.emit(
            "scaled_dot_product_attention",
            [*query.shape[:-1], self.value.shape[-1]],
            query=query,
            key=self.key,
            value=self.value,
            attn_mask=self.whole_mask(),
        )
        return self.without_masked_rows(y)

    def whole_mask(self) -> Tensor | None:
        """The mask and the causal one."""
        if not self.is_causal:
            return self.mask
        causal = self.causal_mask()
        if self.mask is None:
            return causal
        return causal.select(self.mask, False if self.mask.type == i1 else -math.inf)

    # --- products ---------------------------------------------------------------------

    def by_products(self) -> list[Tensor]:
        """The result, and the weights."""
        scores = matmul(self.scaled_query(), self.key, transpose_y=True)
        if self.is_causal:
            scores = self.causal_mask().select(scores, -math.inf)
        if self.mask is not None and self.mask.type == i1:
            scores = self.mask.select(scores, -math.inf)
        elif self.mask is not None:
            scores = scores + self.mask
        weights = scores.unary("softmax", axis=scores.rank - 1)
        y = matmul(weights, self.value)
        return [self.without_masked_rows(x) for x in (y, weights)]

    def scaled_query(self) -> Tensor:
        features = self.query.shape[-1]
        if self.scale is None and features == DYNAMIC_INDEX:
            return self.query / self.features().apply("sqrt")
        scale = features**-0.5 if self.scale is None else self.scale
        return self.query if scale == 1 else self.query * scale

    def features(self) -> Tensor:
        size = size_of(self.query, self.query.rank - 1)
        assert isinstance(size, Tensor)
        return size.to(self.query.type)

    def grouped(self) -> Tensor:
        """The attention where each head of key and value serves a group of queries."""
        q, k, v, mask = self.query, self.key, self.value, self.mask
        heads, groups = q.shape[-3], k.shape[-3]
        if heads == groups == v.shape[-3]:
            return self.result()
        if q.rank + 1 > MAX_RANK or DYNAMIC_INDEX in (heads, groups, v.shape[-3]):
            raise Obstacle(
                f"enable_gqa for a query of rank {q.rank}, {heads} and {groups} heads",
                "give it rank 4 and static numbers of heads",
            )
        query = self.split(q, groups)
        if mask is not None and mask.rank > 2:
            mask = self.split(mask, groups) if mask.shape[-3] != 1 else over_group(mask)
        known = self.known
        if known is not None and mask is not None:
            known = known.reshape(mask.shape)
        new = Attention(
            query,
            over_group(k),
            over_group(v),
            mask,
            known,
            self.is_causal,
            self.scale,
        )
        if v.shape[-3] != groups:
            raise Obstacle("key and value with different numbers of heads")
        y = new.by_products()[0]
        sizes = sizes_of(q)
        return reshape(y, [*sizes[:-1], size_of(v, v.rank - 1)])

    @staticmethod
    def split(x: Tensor, groups: int) -> Tensor:
        """`x` with its heads as two dimensions: the groups, and the heads of each."""
        *batch, heads, rows, columns = sizes_of(x)
        assert isinstance(heads, int)
        return reshape(x, [*batch, groups, heads // groups, rows, columns])

    # --- masks ------------------------------------------------------------------------

    def causal_mask(self) -> Tensor:
        """Booleans: whether a key is not after the query."""
        q, k = self.query, self.key
        sizes: list[Size] = [size_of(q, q.rank - 2), size_of(k, k.rank - 2)]
        shape = static(sizes)
        if DYNAMIC_INDEX not in shape:
            mask = np.tri(*shape, dtype=np.bool_)
            return Tensor(q.build, q.build.constant(mask), i1)
        like = TensorType(i1, ())
        build = q.build
        every = build.emit(
            "fill", like, shape, shape=as_input(vector(build, sizes)), value=True
        )
        ones = Tensor(build, every, i1)
        return ones.emit("band_part", shape, x=ones, lower=-1, upper=0)

    def without_masked_rows(self, y: Tensor) -> Tensor:
        """`y`, but 0 where the mask excludes all keys, as a causal one never does."""
        if self.mask is None or not self.mask.rank:
            return y
        if self.known is not None and not self.is_causal:
            return self.where(np.asarray(self.known.any(-1, keepdims=True)), y)
        mask = self.whole_mask()
        assert mask is not None
        shape = [*mask.shape[:-1], 1]
        reduced = {"axes": [mask.rank - 1], "keep_dims": True}
        if mask.type == i1:
            numbers = mask.to(i32)
            most = numbers.emit("reduce_max", shape, x=numbers, **reduced)
            return most.differs(0).select(y, 0)
        most = mask.emit("reduce_max", shape, x=mask, **reduced)
        return most.equals(-math.inf).select(0, y)

    @staticmethod
    def where(condition: npt.NDArray[np.bool_], y: Tensor) -> Tensor:
        """`y`, but 0 where a known condition is false."""
        if condition.all():
            return y
        return Tensor(y.build, y.build.constant(condition), i1).select(y, 0)


def over_group(x: Tensor) -> Tensor:
    """`x` with a dimension of size 1 for the heads of a group."""
    return expand_dims(x, [x.rank - 2])
