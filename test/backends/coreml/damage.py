# pyright: basic, reportMissingTypeStubs=false
"""Damage packages at random, and read each: only errors of padc may be raised.

    python damage.py PACKAGE FIRST LAST

damages PACKAGE in the ways of these numbers, one at a time, in a process with bounded
memory and time. It prints every exception that is not padc's, and exits with 1 if there
was one. The process ends early if one damage crashes it or takes 30 seconds.
"""

import contextlib
import faulthandler
import json
import os
import random
import resource
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from padc.backends.coreml.evaluator.package import Package
from padc.coreml import Limits, check, load
from padc.errors import PadcError
from padc.tools.padc_run import random_inputs

MODEL = "Data/com.apple.CoreML/model.mlmodel"
WEIGHTS = "Data/com.apple.CoreML/weights/weight.bin"
HEADERS = 64
"""Bytes of a weight file's header, and of the one of each blob in it."""
MEMORY = 3 * 2**30
"""The bytes that a process may use in addition to those of torch and Python."""
SECONDS = 30
LIMITS = Limits(elements=2**22, total=2**25, iterations=200)
NUMBERS = (0, 1, 2, 3, 5, 7, 64, 255, 2**15, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
Random = random.Random


def main(package: Path, first: int, last: int) -> int:
    """Make the damages; returns the exit code."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    read(package)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf(
        "SC_PAGE_SIZE"
    )
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    faulthandler.enable()
    failures, outcomes = 0, {"error": 0, "success": 0}
    for number in range(first, last):
        # It exits, too, where Python itself waits for torch.
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        print(number, end=" ", flush=True)
        with damaged(package, number) as copy:
            try:
                read(copy)
                outcomes["success"] += 1
            except PadcError:
                outcomes["error"] += 1
            except Exception:
                failures += 1
                print(f"\nthe damage {number} to {package.name}:", file=sys.stderr)
                traceback.print_exc()
    faulthandler.cancel_dump_traceback_later()
    print(f"\n{json.dumps(outcomes)}")
    return 1 if failures else 0


def read(package: Path) -> None:
    """All that is done with a package; raises what comes first of it."""
    errors: list[PadcError] = []
    try:
        check(package)
    except PadcError as error:
        errors.append(error)
    model = load(package, limits=LIMITS)
    state = model.make_state()
    model.predict(random_inputs(0, model.inputs), state)
    for error in errors:
        raise error


@contextlib.contextmanager
def damaged(package: Path, number: int) -> Iterator[Path]:
    """A copy of the package with the damage `number`."""
    rng = Random(number)
    names = [MODEL] * 7 + [WEIGHTS] * 2 + ["Manifest.json"]
    name = rng.choice([name for name in names if (package / name).exists()])
    content = (package / name).read_bytes()
    if name == MODEL and rng.random() < 0.8:
        content = change_message(Package(package).spec, rng)
    elif name == WEIGHTS:
        content = change_headers(content, rng)
    else:
        content = change_bytes(content, rng)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "m.mlpackage")
        for file in package.rglob("*"):
            target = copy / file.relative_to(package)
            if file.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                if str(file.relative_to(package)) == name:
                    target.write_bytes(content)
                else:
                    os.link(file, target)
        yield copy


def change_bytes(content: bytes, rng: Random) -> bytes:
    """Another byte, run of bytes, end, or order of blocks."""
    data = bytearray(content)
    at, size = rng.randrange(len(data)), rng.randint(1, 16)
    match rng.randrange(7):
        case 0:
            data[at] ^= 1 << rng.randrange(8)
        case 1:
            data[at] = rng.randrange(256)
        case 2:
            data[at : at + size] = bytes([rng.choice((0, 0x7F, 0xFF))]) * size
        case 3:
            del data[at:]
        case 4:
            data[at:at] = rng.randbytes(size)
        case 5:
            del data[at : at + size]
        case _:
            low, middle, high = sorted(rng.choices(range(len(data)), k=3))
            data[low:high] = data[middle:high] + data[low:middle]
    return bytes(data)


def change_headers(content: bytes, rng: Random) -> bytes:
    """`change_bytes` of one header of a weight file."""
    mark = b"\xef\xbe\xad\xde"
    starts = [at for at in range(0, len(content), 64) if content[at : at + 4] == mark]
    start = rng.choice([0, *starts])
    end = start + HEADERS
    return content[:start] + change_bytes(content[start:end], rng) + content[end:]


def change_message(spec: Any, rng: Random) -> bytes:
    """Other values in one to three fields of the protobuf, which can still be read."""
    for _ in range(rng.randint(1, 3)):
        fields = list(walk(spec))
        # By type first: most fields are messages, few hold a number or a name.
        kind = rng.choice(sorted({type(value).__name__ for *_, value in fields}))
        same = [entry for entry in fields if type(entry[2]).__name__ == kind]
        message, field, value = rng.choice(same)
        with contextlib.suppress(ValueError, TypeError, OverflowError):
            change_field(message, field, value, rng, same)
    return spec.SerializeToString()


def walk(message: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every field that is set, as (its message, its descriptor, its value)."""
    for field, value in message.ListFields():
        yield message, field, value
        if field.type != field.TYPE_MESSAGE:
            continue
        if field.is_repeated:
            is_map = hasattr(value, "keys")
            items = [value[key] for key in sorted(value)] if is_map else value
            for item in items:
                if hasattr(item, "ListFields"):
                    yield from walk(item)
        else:
            yield from walk(value)


def change_field(message: Any, field: Any, value: Any, rng: Random, same: Any) -> None:
    """Set, clear, duplicate or reorder; raises where the field takes no such value."""
    if rng.random() < 0.1:
        message.ClearField(field.name)
    elif hasattr(value, "keys"):
        del value[rng.choice(sorted(value))]
    elif field.is_repeated:
        items = list(value)
        at, other = rng.randrange(len(items)), rng.randrange(len(items))
        match rng.randrange(4):
            case 0:
                del items[at]
            case 1:
                items.append(items[at])
            case 2:
                items[at], items[other] = items[other], items[at]
            case _:
                items[at] = scalar(items[at], rng)
        # Their messages would go with the list.
        copies = (
            [type(it).FromString(it.SerializeToString()) for it in items]
            if (field.type == field.TYPE_MESSAGE)
            else items
        )
        del value[:]
        value.extend(copies)
    elif field.type == field.TYPE_MESSAGE:
        value.CopyFrom(rng.choice(same)[2])
    elif field.type == field.TYPE_STRING:
        strings = [entry[2] for entry in same]
        setattr(message, field.name, rng.choice([*strings, scalar(value, rng)]))
    else:
        setattr(message, field.name, scalar(value, rng))


def scalar(value: Any, rng: Random) -> Any:
    """Another value of the same Python type; messages stay."""
    match value:
        case bool():
            return not value
        case int():
            small = (value + 1, value - 1, -value, value * 2, rng.randrange(70))
            return rng.choice([*NUMBERS, *small, -1, -(2**31)])
        case float():
            return rng.choice([0.0, -1.0, 1e30, float("nan"), float("inf"), 0.3])
        case str():
            return rng.choice(
                ["", "x", "main", "CoreML5", "valid", "\0", "../x", "fp16"]
            )
        case bytes():
            return change_bytes(value, rng) if value else b"\xff" * 4
        case _:
            return value


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
