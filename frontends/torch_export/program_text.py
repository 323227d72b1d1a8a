"""
The checks of the graph in a `.pt2` file, which is JSON.

PyTorch writes names from it into Python that it compiles, evaluates its symbolic sizes,
imports modules that it names, and looks up ops by name. So each text is checked by the
key that it stands under; a key without a rule of its own holds a name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from padc.common.archive import UnsafeError
from padc.frontends.torch_export.expressions import check_guard, check_size
from padc.ir.torch.calls import danger_of

MOST_DEPTH = 200
NAME = re.compile(r"""[^"'\\()=;:,\x00-\x1f]*""")
"""A name that stays one name inside of Python code."""
IDENTIFIER = re.compile(r"[^\W\d]\w*")
TEXT = re.compile(r"""[^"'\\\x00-\x1f]*""")
"""A text that stays one text between quotes."""
OP = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed|torchvision)\.\w+(\.\w+)?"
    r"|torch\.ops\.higher_order\.(cond|while_loop|map_impl|scan|associative_scan"
    r"|wrap_with_set_grad_enabled|wrap_with_autocast)"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|abs|lshift|rshift"
    r"|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|math\.(ceil|floor|trunc)|torch\.sym_\w+|torch\._sym_\w+"
)


def check_texts(
    data: Any, key: str = "", *, in_call: bool = False, depth: int = 0
) -> None:
    """
    Check a part of the parsed JSON that stands under `key`, perhaps in an op's call.

    Raises UnsafeError if loading it could do more than build a graph.
    """
    if depth > MOST_DEPTH:
        raise UnsafeError(f"its graph is nested more than {MOST_DEPTH} levels deep")
    match data:
        case str() if in_call and key in ("as_string", "as_strings"):
            pass  # PyTorch writes it with `repr`.
        case str():
            TEXTS.get(key, check_name)(data)
        case list():
            for each in cast(list[Any], data):
                check_texts(each, key, in_call=in_call, depth=depth + 1)
        case dict():
            parts = cast(Mapping[str, Any], data)
            if key == "metadata" and all(isinstance(v, str) for v in parts.values()):
                return  # Stack traces and the like, which are only printed.
            if key == "custom_obj_values" and parts:
                raise UnsafeError("it has objects of TorchScript classes")
            in_call = (in_call or key == "arg") and key != "as_graph"
            # PyTorch compares the keys of ranges with symbols, and evaluates none.
            check_key = check_size if key == "range_constraints" else check_name
            for name, value in parts.items():
                check_key(name)
                check_texts(value, name, in_call=in_call, depth=depth + 1)
        case _:
            pass


def check_name(text: str) -> None:
    if not NAME.fullmatch(text):
        raise UnsafeError(f"{text[:80]!r} is not a name, and PyTorch would compile it")


def check_identifier(text: str) -> None:
    if not IDENTIFIER.fullmatch(text):
        raise UnsafeError(f"{text[:80]!r} is not the name of an argument")


def check_text(text: str) -> None:
    if not TEXT.fullmatch(text):
        raise UnsafeError(f"the text {text[:80]!r} has quotes or control characters")


def check_op(text: str) -> None:
    if (danger := danger_of(text.removeprefix("torch.ops."))) is not None:
        raise UnsafeError(f"it calls {text}, which {danger}")
    if not OP.fullmatch(text):
        raise UnsafeError(f"it calls {text[:80]!r}, which is not an op of PyTorch's")


def refuse_operator(text: str) -> None:
    raise UnsafeError(f"it hands {text[:80]!r} to an op, which may call it")


def check_spec(text: str) -> None:
    """Check the structure of inputs or outputs, which is JSON in a text."""
    protocol, spec = json.loads(text)
    if protocol != 1:
        raise UnsafeError(f"{text[:80]!r} is not a structure of inputs")
    check_container(spec)


def check_container(spec: Mapping[str, Any], depth: int = 0) -> None:
    """Check that a structure has plain keys, and names no module to be imported."""
    if depth > MOST_DEPTH:
        raise UnsafeError(f"its inputs are nested more than {MOST_DEPTH} levels deep")
    match spec["context"]:
        case None:
            pass
        case str() as context:
            check_keys(context)
        case other:  # PyTorch imports the module of a defaultdict's factory.
            raise UnsafeError(
                f"its inputs or outputs hold a {str(spec['type'])[:80]} of "
                f"{str(other)[:80]}, and PyTorch may import a module for it"
            )
    for child in spec["children_spec"]:
        check_container(child, depth + 1)


def check_keys(context: str) -> None:
    """Check the keys of a container, or the name of a registered class."""
    try:
        keys: Any = json.loads(context)
    except ValueError:
        keys = context
    for each in cast(list[Any], keys) if isinstance(keys, list) else [keys]:
        if not isinstance(each, str | int | float | None):
            raise UnsafeError(f"{str(each)[:80]!r} is not a key of inputs")
        check_name(str(each))


TEXTS: Mapping[str, Callable[[str], None]] = {
    "as_operator": refuse_operator,
    "as_string": check_text,
    "as_strings": check_text,
    "expr_str": check_size,
    "forward_arg_names": check_identifier,
    "guards_code": check_guard,
    "in_spec": check_spec,
    "out_spec": check_spec,
    "target": check_op,
}
