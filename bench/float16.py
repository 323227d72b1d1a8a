"""
What float16 costs: the report of each network of the demo, or of a corpus.

    python -m bench.float16 [CORPUS [NAME ...]]

CORPUS is as in `bench.models`. Each network is converted, and its `float16_report`
becomes a row: errors are parts of the range of the expected output.

- float16: the error of the package, all of it in float16.
- PyTorch: the error of PyTorch's own float16; "-" if PyTorch cannot run the network so.
- kept: the error with what the report recommends to keep in float32.

A row is settled if an error of the package is within the bound, or if PyTorch's float16
is as far. Exits with 1 if one is not.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import padc
from examples.demo import NETWORKS, TARGET
from padc.backends.coreml import quiet

Load = Callable[[], padc.Program]


def of_demo(network: Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]) -> Any:
    return padc.convert(*network(), target=TARGET)


def of_corpus(corpus: Any, name: str) -> Any:
    from bench.models import exported_case

    return padc.convert(exported_case(corpus.build(name)), target=TARGET)


def networks(options: argparse.Namespace) -> Mapping[str, Load]:
    """What makes the program of each network, by name."""
    if options.corpus is None:
        return {name: partial(of_demo, network) for name, network in NETWORKS.items()}
    sys.path.insert(0, str(options.corpus))
    corpus = importlib.import_module("corpus")
    names = options.names or list(corpus.MODELS)
    return {name: partial(of_corpus, corpus, name) for name in names}


def is_settled(report: padc.Float16Report) -> bool:
    """Whether the error is within the bound, at worst by the advice, or PyTorch's."""
    best = min(report.error, report.recommended_error)
    return best <= report.bound or report.is_like_pytorch


def row(report: padc.Float16Report) -> str:
    own = report.pytorch["float16"]
    pytorch = "-" if own is None else f"{own:.1e}"
    needs_more = report.error > report.bound
    kept = f"{report.recommended_error:.1e}" if needs_more else ""
    mark = "" if is_settled(report) else "NOT SETTLED "
    return f"{report.error:9.1e}{pytorch:>9}{kept:>9}  {mark}{report.advice}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("names", nargs="*")
    warnings.filterwarnings("ignore")
    torch.set_grad_enabled(False)
    failed = 0
    print(f"{'':40}{'CPU s':>7}{'float16':>9}{'PyTorch':>9}{'kept':>9}")
    for name, load in networks(parser.parse_intermixed_args()).items():
        start = time.process_time()
        try:
            with quiet():
                report = load().float16_report()
        except Exception as error:
            failed += 1
            print(f"{name:40} {type(error).__name__}: {' '.join(str(error).split())}")
            continue
        failed += not is_settled(report)
        seconds = time.process_time() - start
        print(f"{name:40}{seconds:7.0f}{row(report)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
