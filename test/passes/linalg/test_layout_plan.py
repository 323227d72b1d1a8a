# pyright: basic
"""Which ops take packed tensors, and how their results are packed then."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation

from padc.ir.dominance import verify
from padc.ir.main_function import body_of
from padc.passes.linalg import layout_plan
from padc.passes.linalg.layout_plan import LayoutPlan
from padc.passes.linalg.pack_layouts import PackLayoutsPass
from padc.passes.linalg.packing import loop_of

Parse = Callable[[str], ModuleOp]

SOURCE = """
func.func @main(%x: tensor<1x32x6x6xf32>, %k: tensor<32x32x3x3xf32> {{padc.weight = "k"}},
    %s: tensor<1x32x4x4xf32>, %v: tensor<32xf32>, %m: tensor<32x32xf32>, %u: tensor<?xf32>,
    %w: tensor<48x4xf32>, %n: tensor<32x4xf32>, %j: tensor<1xf32>,
    %k24: tensor<24x32x3x3xf32> {{padc.weight = "k24"}}, %t8: tensor<1x8x4x4xf32>, %b: memref<1x32x4x4xf32>,
    %e: tensor<1x?x4x4xf32>, %s5: tensor<1x5x4x4xf32>, %z0: tensor<f32>, %p4: tensor<4xf32>,
    %bias: tensor<32xf32> {{padc.weight = "bias"}}, %z: f32, %o: index) -> TYPE {{
  %c = linalg.conv_2d_nchw_fchw {{strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
    ins(%x, %k : tensor<1x32x6x6xf32>, tensor<32x32x3x3xf32>) outs(%s : C) -> C
  {ops}
  return RESULT : TYPE
}}
"""
"""The result %c of the convolution is packed: it is a `tensor<1x2x4x4x16xf32>`."""

CHANNELS_BY_TWO = "[[0], [1, 2], [3], [4]]"


def pad(low: str, high: str, fill: str = "tensor.yield %z : f32") -> str:
    return (
        f"%y = tensor.pad %c low[{low}] high[{high}] {{\n"
        f"^bb0(%p0: index, %p1: index, %p2: index, %p3: index):\n{fill}\n}} : C to TYPE"
    )


def border(low: str, high: str) -> str:
    return (
        f"%y = tcp.replication_pad %c lowerExpansion [{low}] upperExpansion [{high}] "
        ": C -> TYPE"
    )


def channels(offset: object, size: object, stride: object = 1) -> str:
    return (
        f"%y = tensor.extract_slice %c[0, {offset}, 0, 0] [1, {size}, 4, 4] "
        f"[1, {stride}, 1, 1] : C to TYPE"
    )


def inserted(offset: str, size: str, shape: str) -> str:
    return (
        f"%d = tensor.extract_slice %c[0, 0, 0, 0] [{size}] [1, 1, 1, 1] : C to {shape}\n"
        f"%y = tensor.insert_slice %d into %c[{offset}] [{size}] [1, 1, 1, 1] : {shape} into C"
    )


def expanded(sizes: str) -> str:
    return f"%y = tensor.expand_shape %c {CHANNELS_BY_TWO} output_shape [{sizes}] : C into TYPE"


def collapsed(groups: str, x: str = "%c : C") -> str:
    x, type = x.split(" : ")
    return f"%y = tensor.collapse_shape {x} {groups} : {type} into TYPE"


MOVED: dict[str, tuple[str, str, str | None]] = {
    "rows padded": (pad("0, 0, 1, 0", "0, 0, 0, 2"), "1x32x5x6", "1x2x5x6x16"),
    "rows padded by a computed amount": (
        pad("0, 0, %o, 0", "0, 0, 0, 0"),
        "1x32x?x4",
        "1x2x?x4x16",
    ),
    "rows from a computed one": (
        "%y = tensor.extract_slice %c[0, 0, %o, 0] [1, 32, 2, 4] [1, 1, 1, 1] : C to TYPE",
        "1x32x2x4",
        "1x2x2x4x16",
    ),
    "channels padded below": (pad("0, 16, 0, 0", "0, 0, 0, 0"), "1x48x4x4", None),
    "channels padded above": (pad("0, 0, 0, 0", "0, 16, 0, 0"), "1x48x4x4", None),
    "fill computed inside": (
        pad(
            "0, 0, 1, 0",
            "0, 0, 0, 2",
            "%f = arith.addf %z, %z : f32\ntensor.yield %f : f32",
        ),
        "1x32x5x6",
        None,
    ),
    "border of rows": (border("0, 0, 1, 0", "0, 0, 0, 2"), "1x32x5x6", "1x2x5x6x16"),
    "border below channels": (border("0, 16, 0, 0", "0, 0, 0, 0"), "1x48x4x4", None),
    "border above channels": (border("0, 0, 0, 0", "0, 16, 0, 0"), "1x48x4x4", None),
    "rows cast": ("%y = tensor.cast %c : C to TYPE", "1x32x?x4", "1x2x?x4x16"),
    "channels cast": ("%y = tensor.cast %c : C to TYPE", "1x?x4x4", None),
    "a tile": (channels(16, 16), "1x16x4x4", "1x1x4x4x16"),
    "parts of tiles": (channels(8, 16), "1x16x4x4", None),
    "half a tile": (channels(16, 8), "1x8x4x4", None),
    "every other channel": (channels(0, 16, 2), "1x16x4x4", None),
    "a tile somewhere": (channels("%o", 16), "1x16x4x4", None),
    "some channels": (channels(0, "%o"), "1x?x4x4", None),
    "rows inserted": (
        inserted("0, 0, 1, 0", "1, 32, 2, 4", "tensor<1x32x2x4xf32>"),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "channels inserted": (
        inserted("0, 16, 0, 0", "1, 16, 4, 4", "tensor<1x16x4x4xf32>"),
        "1x32x4x4",
        None,
    ),
    "channels split": (expanded("1, 2, 16, 4, 4"), "1x2x16x4x4", "1x2x1x4x4x16"),
    "tiles split": (expanded("1, 4, 8, 4, 4"), "1x4x8x4x4", None),
    "one after channels": (expanded("1, 32, 1, 4, 4"), "1x32x1x4x4", "1x2x1x4x4x16"),
    "images merged with channels": (
        collapsed("[[0, 1], [2], [3]]"),
        "32x4x4",
        "2x4x4x16",
    ),
    "channels merged with rows": (collapsed("[[0], [1, 2], [3]]"), "1x128x4", None),
    "channels merged with a row": (
        "%d = tensor.extract_slice %c[0, 0, 0, 0] [1, 32, 1, 4] [1, 1, 1, 1] : C to tensor<1x32x1x4xf32>\n"
        + collapsed("[[0], [1, 2], [3]]", "%d : tensor<1x32x1x4xf32>"),
        "1x32x4",
        "1x2x4x16",
    ),
    "some images merged with channels": (
        "%d = tensor.cast %c : C to tensor<?x32x4x4xf32>\n"
        + collapsed("[[0, 1], [2], [3]]", "%d : tensor<?x32x4x4xf32>"),
        "?x4x4",
        None,
    ),
    "as many channels from another tensor": (
        "%y = tensor.concat dim(2) %e, %c : (tensor<1x?x4x4xf32>, C) -> TYPE",
        "1x32x8x4",
        None,
    ),
}  # fmt: skip
"""Ops that compute %y; its shape if it is not packed, and else, or None."""


def emptied(shape: str) -> str:
    return f"%t : tensor<{shape}xf32>"


def loops(
    maps: str,
    ins: str,
    *body: str,
    out: str = "%s : C",
    kinds: str = "pppp",
    value: str = "%a0",
) -> str:
    """`linalg.generic`, with the results of `maps` and the letters of iterator types."""
    numbers = ", ".join(n for n in "nchwi" if n in maps)
    words = {"p": '"parallel"', "r": '"reduction"'}
    indexing = ", ".join(f"affine_map<({numbers}) -> ({m})>" for m in maps.split("; "))
    args = "".join(f"%a{i}: f32, " for i in range(len(maps.split("; ")) - 1))
    empty = out.replace(":", "= tensor.empty() :") if out[:2] == "%t" else ""
    return f"""{empty}
      %y = linalg.generic {{
        indexing_maps = [{indexing}],
        iterator_types = [{", ".join(words[kind] for kind in kinds)}]
      }} {f"ins({ins})" if ins else ""} outs({out}) {{
      ^bb0({args}%out: f32):
        {chr(10).join(body)}
        linalg.yield {value} : f32
      }} -> TYPE"""


ALL = "n, c, h, w"
BY_CHANNEL = "%ic = linalg.index 1 : index"
BY_ROW = "%ih = linalg.index 2 : index"


def convolution(
    inputs: int, outputs: int, ones: str = "dense<1> : tensor<2xi64>"
) -> str:
    x, k = f"tensor<1x{inputs}x6x6xf32>", f"tensor<{outputs}x{inputs}x3x3xf32>"
    y = f"tensor<1x{outputs}x4x4xf32>"
    return (
        f"%in = tensor.empty() : {x}\n%kernel = tensor.empty() : {k}\n%t = tensor.empty() : {y}\n"
        f"%y = linalg.conv_2d_nchw_fchw {{strides = {ones}, dilations = {ones}}} "
        f"ins(%in, %kernel : {x}, {k}) outs(%t : {y}) -> {y}"
    )


def gathered(element: str, **options: str) -> str:
    """Loops that extract an element of places such as %t, a computed one."""
    options = {"out": emptied("1x32x4x4")} | options
    return loops(
        options.pop("maps", ALL),
        options.pop("ins", ""),
        "%in = linalg.index 0 : index",
        BY_CHANNEL,
        BY_ROW,
        "%i64 = arith.index_cast %ih : index to i64",
        "%at = arith.index_cast %i64 : i64 to index",
        f"%g = tensor.extract {element}",
        value="%g",
        **options,
    )


LOOPS: dict[str, tuple[str, str, str | None]] = {
    "convolution": (convolution(16, 16), "1x16x4x4", "1x1x4x4x16"),
    "convolution by 8 channels": (convolution(8, 24), "1x24x4x4", "1x3x4x4x8"),
    "convolution of 5 channels": (convolution(5, 32), "1x32x4x4", "1x2x4x4x16"),
    "convolution of some channels": (
        convolution(7, 32)
        .replace("x7x", "x?x")
        .replace("%in = tensor.empty()", "%in = tensor.empty(%o)")
        .replace("%kernel = tensor.empty()", "%kernel = tensor.empty(%o)"),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "convolution to 5 channels": (convolution(32, 5), "1x5x4x4", None),
    "elementwise": (loops(f"{ALL}; {ALL}", "%c : C"), "1x32x4x4", "1x2x4x4x16"),
    "with a vector": (
        loops(f"{ALL}; c; {ALL}", "%c, %v : C, tensor<32xf32>"),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "channels moved to the end": (
        loops("n, w, c, h; n, c, h, w", "%c : C", out=emptied("1x4x4x32")),
        "1x4x4x32",
        "1x4x4x2x16",
    ),
    "channels next to each other": (
        loops(f"{ALL}; c + h, w; {ALL}", "%c, %w : C, tensor<48x4xf32>"),
        "1x32x4x4",
        None,
    ),
    "channels at sums of loops": (
        loops("n, c + i, h, w; i; n, c, h, w", "%c, %v : C, tensor<32xf32>",
              kinds="ppppr", out=emptied("1x1x4x4")),
        "1x1x4x4",
        None,
    ),
    "sum over channels": (
        loops(f"{ALL}; n, h, w", "%c : C", kinds="prpp", out=emptied("1x4x4")),
        "1x4x4",
        None,
    ),
    "as many channels": (
        loops(f"{ALL}; {ALL}; {ALL}", "%c, %e : C, tensor<1x?x4x4xf32>"),
        "1x32x4x4",
        None,
    ),
    "number of the row": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_ROW,
            "%g = tensor.extract %w[%ih, %ih] : tensor<48x4xf32>",
            value="%g",
        ),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "number of the channel": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            "%g0 = arith.index_cast %ic : index to i64",
            "%g = arith.sitofp %g0 : i64 to f32",
            value="%g",
        ),
        "1x32x4x4",
        None,
    ),
    "element of the channel": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            "%g = tensor.extract %v[%ic] : tensor<32xf32>",
            value="%g",
        ),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "elements in a row of the channel": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            "%g = tensor.extract %m[%ic, %o] : tensor<32x32xf32>",
            value="%g",
        ),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "elements of as many channels": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            "%g = tensor.extract %u[%ic] : tensor<?xf32>",
            value="%g",
        ),
        "1x32x4x4",
        None,
    ),
    "diagonal": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            "%g = tensor.extract %m[%ic, %ic] : tensor<32x32xf32>",
            value="%g",
        ),
        "1x32x4x4",
        None,
    ),
    "elements of channels and of rows": (
        loops(
            f"{ALL}; {ALL}",
            "%c : C",
            BY_CHANNEL,
            BY_ROW,
            "%g0 = tensor.extract %v[%ic] : tensor<32xf32>",
            "%g1 = tensor.extract %v[%ih] : tensor<32xf32>",
            "%g = arith.addf %g0, %g1 : f32",
            value="%g",
        ),
        "1x32x4x4",
        None,
    ),
    "gather of a packed tensor": (
        loops(
            "n, c, h, w",
            "",
            "%in = linalg.index 0 : index",
            BY_CHANNEL,
            BY_ROW,
            "%g = tensor.extract %c[%in, %ic, %ih, %ih] : C",
            value="%g",
        ),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "sum of elements of a packed tensor": (
        loops(
            "c; n, h, w",
            "%v : tensor<32xf32>",
            "%in = linalg.index 0 : index",
            BY_CHANNEL,
            BY_ROW,
            "%g0 = tensor.extract %c[%in, %ic, %ih, %ih] : C",
            "%g = arith.addf %g0, %out : f32",
            value="%g",
            kinds="prpp",
            out=emptied("1x4x4"),
        ),
        "1x4x4",
        None,
    ),
    "gather": (gathered("%s[%in, %ic, %at, %at] : C"), "1x32x4x4", "1x2x4x4x16"),
    "gather by rows": (gathered("%s[%in, %o, %ih, %at] : C"), "1x32x4x4", None),
    "gather of one element": (gathered("%s[%o, %o, %o, %at] : C"), "1x32x4x4", None),
    "gather of few channels": (
        gathered("%s5[%in, %ic, %at, %at] : tensor<1x5x4x4xf32>", out=emptied("1x5x4x4")),
        "1x5x4x4",
        None,
    ),
    "gather from some channels": (
        gathered("%e[%in, %ic, %at, %at] : tensor<1x?x4x4xf32>"),
        "1x32x4x4",
        None,
    ),
    "sum of a gather": (
        gathered(
            "%s[%in, %ic, %at, %at] : C", out=emptied("1x4x4"), kinds="prpp",
            maps="c; n, h, w", ins="%v : tensor<32xf32>",
        ),
        "1x4x4",
        None,
    ),
    "element at a place of the loops": (
        gathered("%s[%in, %ic, %ih, %ih] : C"),
        "1x32x4x4",
        None,
    ),
    "element of a channel at one place": (
        gathered("%s[%in, %ic, %o, %o] : C"),
        "1x32x4x4",
        None,
    ),
    "diagonal of an operand": (
        loops(f"{ALL}; c, c; {ALL}", "%c, %m : C, tensor<32x32xf32>"),
        "1x32x4x4",
        None,
    ),
    "element of a scalar": (
        gathered("%z0[] : tensor<f32>"),
        "1x32x4x4",
        None,
    ),
    "a channel of a packed tensor": (
        loops(
            ALL,
            "",
            "%in = linalg.index 0 : index",
            BY_ROW,
            "%g = tensor.extract %c[%in, %o, %ih, %ih] : C",
            value="%g",
        ),
        "1x32x4x4",
        None,
    ),
}  # fmt: skip
"""Loops that compute %y; its shape if it is not packed, and else, or None."""


START = """%p = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
  ins(%x, %k : tensor<1x32x6x6xf32>, tensor<32x32x3x3xf32>) outs(%y : C) -> C"""
"""A convolution whose sums start at %y."""
NARROW = """%t24 = tensor.empty() : tensor<1x24x4x4xf32>
%c24 = linalg.conv_2d_nchw_fchw {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
  ins(%x, %k24 : tensor<1x32x6x6xf32>, tensor<24x32x3x3xf32>) outs(%t24 : tensor<1x24x4x4xf32>) -> tensor<1x24x4x4xf32>
%d = tensor.concat dim(1) %c24, %t8 : (tensor<1x24x4x4xf32>, tensor<1x8x4x4xf32>) -> C
"""
"""A tensor %d that is packed by tiles of 8."""
DIM = "tensor<{}xf32>"

STARTS: dict[str, tuple[str, str, str | None]] = {
    "biases": (
        loops(f"c; {ALL}", "%v : tensor<32xf32>", out=emptied("1x32x4x4")),
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "biases by sums of loops": (
        loops("c + h, w; n, c, h, w", "%w : tensor<48x4xf32>", out=emptied("1x32x4x4")),
        "1x32x4x4",
        None,
    ),
    "as many biases": (
        loops(f"{ALL}; {ALL}", "%e : tensor<1x?x4x4xf32>", out=emptied("1x32x4x4")),
        "1x32x4x4",
        None,
    ),
    "biases at sums of loops": (
        loops("c, h; i; n, c + i, h, w", "%n, %j : tensor<32x4xf32>, tensor<1xf32>",
              kinds="ppppr", out=emptied("1x32x4x4")),
        "1x32x4x4",
        None,
    ),
    "biases by numbers of channels": (
        loops(
            ALL,
            "",
            BY_CHANNEL,
            "%g0 = arith.index_cast %ic : index to i64",
            "%g = arith.sitofp %g0 : i64 to f32",
            value="%g",
            out=emptied("1x32x4x4"),
        ),
        "1x32x4x4",
        None,
    ),
    "one of two results": (
        loops(f"c; {ALL}; {ALL}", "%v : tensor<32xf32>", out="%t, %t : C, C")
        .replace("%t, %t = tensor.empty() : C, C", "%t = tensor.empty() : C")
        .replace("%a1: f32, %out", "%a1: f32, %out").replace("yield %a0 : f32", "yield %a0, %a0 : f32, f32")
        .replace("%y =", "%y, %y2 =").replace("-> TYPE", "-> (TYPE, TYPE)"),
        "1x32x4x4",
        None,
    ),
    "images of biases": (
        loops("c; c, h, w", "%v : tensor<32xf32>", kinds="ppp", out=emptied("32x4x4"))
        .replace("%y", "%d").replace("TYPE", DIM.format("32x4x4"))
        + "\n%y = tensor.expand_shape %d [[0, 1], [2], [3]] output_shape [1, 32, 4, 4] : tensor<32x4x4xf32> into C",
        "1x32x4x4",
        "1x2x4x4x16",
    ),
    "channels of rows": (
        loops("c; c, h", "%v : tensor<32xf32>", kinds="pp", out=emptied("32x16"))
        .replace("%y", "%d0").replace("TYPE", DIM.format("32x16"))
        + "\n%d = tensor.collapse_shape %d0 [[0, 1]] : tensor<32x16xf32> into tensor<512xf32>"
        "\n%y = tensor.expand_shape %d [[0, 1, 2, 3]] output_shape [1, 32, 4, 4] : tensor<512xf32> into C",
        "1x32x4x4",
        None,
    ),
    "packed by 8 already": (
        NARROW + loops(f"{ALL}; {ALL}", "%d : C", out=emptied("1x32x4x4")),
        "1x32x4x4",
        "1x4x4x4x8",
    ),
}  # fmt: skip
"""Ops that compute the initial values %y of a convolution's sums."""


@pytest.fixture(autouse=True)
def conversions_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_plan, "COST", 0.0)


def source(parse: Parse, ops: str, shape: str, returned: str = "%y") -> ModuleOp:
    """The function of %c and `ops`."""
    text = SOURCE.format(ops=ops).replace("RESULT", returned)
    text = text.replace("TYPE", f"tensor<{shape}xf32>")
    text = text.replace("(C", "( C")
    return parse(text.replace(" C", " tensor<1x32x4x4xf32>"))


def function_of(parse: Parse, ops: str, shape: str) -> func.FuncOp:
    function = source(parse, ops, shape).body.block.first_op
    assert isinstance(function, func.FuncOp)
    return function


def pack(parse: Parse, ops: str, shape: str, returned: str = "%y") -> ModuleOp:
    """The function of %c and `ops` after pack-layouts."""
    module = source(parse, ops, shape, returned)
    PackLayoutsPass(64).apply(Context(), module)
    verify(module)
    return module


def type_of(module: ModuleOp, name: str) -> str:
    """The type of the value `name`, which one op computes; another may unpack it."""
    named = [x for op in module.walk() for x in op.results if x.name_hint == name]
    assert sum(isinstance(x.owner, LinalgStructuredOperation) for x in named) <= 1
    return str(named[0].type)


@pytest.mark.parametrize("name", [*MOVED, *LOOPS])
def test_what_is_packed(parse: Parse, name: str):
    ops, shape, packed = (MOVED | LOOPS)[name]

    actual = type_of(pack(parse, ops, shape), "y")

    assert actual == f"tensor<{packed or shape}xf32>"


@pytest.mark.parametrize("name", STARTS)
def test_which_initial_values_are_packed(parse: Parse, name: str):
    ops, shape, packed = STARTS[name]

    actual = type_of(pack(parse, f"{ops}\n{START}", shape, "%p"), "y")

    assert actual == f"tensor<{packed or shape}xf32>"


def test_initial_values_of_two_uses_stay(parse: Parse):
    ops, shape, _ = STARTS["biases"]

    actual = type_of(pack(parse, f"{ops}\n{START}", shape), "y")

    assert actual == f"tensor<{shape}xf32>"


def test_ops_on_buffers_stay(parse: Parse):
    ops = loops(
        ALL,
        "",
        "%in = linalg.index 0 : index",
        BY_CHANNEL,
        BY_ROW,
        "%g = tensor.extract %c[%in, %ic, %ih, %ih] : C",
        value="%g",
        out="%b : memref<1x32x4x4xf32>",
    )
    ops = ops.replace("%y = ", "").replace("-> TYPE", "")

    actual = type_of(pack(parse, ops, "1x32x4x4", "%c"), "c")

    assert actual == "tensor<1x2x4x4x16xf32>"


def test_the_result_is_unpacked_for_ops_that_cannot_be_packed(
    parse: Parse, monkeypatch: pytest.MonkeyPatch
):
    """Packing the operands costs less than the convolution gains; all together more."""
    for cost, shape in ((0.25, "1x32x4x4"), (0.2, "1x2x4x4x16")):
        monkeypatch.setattr(layout_plan, "COST", cost)
        ops, type, _ = LOOPS["sum over channels"]

        assert type_of(pack(parse, ops, type), "c") == f"tensor<{shape}xf32>"


@pytest.mark.parametrize(
    "name, source, loops",
    [
        ("element of the channel", "2x16", [1, 4]),
        ("elements in a row of the channel", "2x32x16", [1, None, 4]),
        ("gather of a packed tensor", "1x2x4x4x16", [0, 1, 2, 2, 4]),
        # Sums keep their order.
        ("sum of elements of a packed tensor", "1x32x4x4", [0, 1, 2, 2]),
        ("sum of a gather", "1x32x4x4", [0, 1, None, None]),
    ],
)
def test_elements_that_are_read_in_the_body(
    parse: Parse, name: str, source: str, loops: list[int | None]
):
    ops, shape, _ = LOOPS[name]

    module = pack(parse, ops, shape)

    (extract,) = (op for op in module.walk() if isinstance(op, tensor.ExtractOp))
    assert str(extract.tensor.type) == f"tensor<{source}xf32>"
    assert [*map(loop_of, extract.indices)] == loops


def test_tensors_without_values_are_not_packed_from_others(parse: Parse):
    ops = loops(f"{ALL}; {ALL}", "%c : C", out=emptied("1x32x4x4"))

    module = pack(parse, ops, "1x32x4x4")

    made = {
        str(op.tensor.type) for op in module.walk() if isinstance(op, tensor.EmptyOp)
    }
    assert "tensor<1x2x4x4x16xf32>" in made
    assert "tensor<1x32x4x4xf32>" not in made


def test_only_functions_with_a_body_are_rewritten(parse: Parse):
    module = parse("builtin.module {}\nfunc.func private @f(f32) -> f32")
    before = str(module)

    PackLayoutsPass(64).apply(Context(), module)

    assert str(module) == before


@pytest.mark.parametrize(
    "ops, shape, names",
    [
        (LOOPS["elementwise"][0], "1x32x4x4", "x s s y"),
        (LOOPS["convolution"][0], "1x16x4x4", "x s y"),
        (LOOPS["with a vector"][0], "1x32x4x4", "x s v s y"),
        (LOOPS["element of the channel"][0], "1x32x4x4", "x s s v y"),
        (
            loops(f"{ALL}; w; {ALL}", "%c, %p4 : C, tensor<4xf32>"),
            "1x32x4x4",
            "x s s y",
        ),
        (
            LOOPS["element of the channel"][0].replace("%v", "%bias"),
            "1x32x4x4",
            "x s s y",
        ),
        (
            "%d = tensor.expand_shape %bias [[0, 1, 2]] output_shape [32, 1, 1] : "
            "tensor<32xf32> into tensor<32x1x1xf32>\n"
            + loops(
                f"{ALL}; c, i, i; {ALL}",
                "%c, %d : C, tensor<32x1x1xf32>",
                kinds="ppppr",
            ),
            "1x32x4x4",
            "x s s y",
        ),
        (MOVED["rows padded by a computed amount"][0], "1x32x?x4", "x s y"),
        ("%y = tensor.concat dim(2) %c, %s : (C, C) -> TYPE", "1x32x8x4", "x s s y"),
        (LOOPS["sum over channels"][0], "1x4x4", "x s c"),
        (
            LOOPS["sum over channels"][0].replace("%y", "%d").replace("TYPE", "tensor<1x4x4xf32>")
            + loops(f"{ALL}; {ALL}", "%c : C").replace("%t", "%t2"),
            "1x32x4x4",
            "x s c s y",
        ),
    ],
)  # fmt: skip
def test_what_is_packed_or_unpacked(parse: Parse, ops: str, shape: str, names: str):
    function = function_of(parse, ops, shape)

    plan = LayoutPlan.of(function, 64)

    members = [
        op for op in body_of(function).ops if op in plan.loops or op in plan.tiles
    ]
    converted = [x.name_hint for op in members for x in plan.conversions(op)]
    assert " ".join(map(str, converted)) == names


def test_a_tensor_is_packed_once(parse: Parse, monkeypatch: pytest.MonkeyPatch):
    """Two convolutions share their input; each would not gain enough to pack it."""
    again = START.replace("%p", "%c2").replace("%y", "%s")
    ops = f"{again}\n" + loops(f"{ALL}; {ALL}; {ALL}", "%c, %c2 : C, C")
    monkeypatch.setattr(layout_plan, "COST", 0.3)

    module = pack(parse, ops, "1x32x4x4")

    assert type_of(module, "y") == "tensor<1x2x4x4x16xf32>"
    alone = pack(parse, LOOPS["elementwise"][0], "1x32x4x4")
    assert type_of(alone, "y") == "tensor<1x32x4x4xf32>"
