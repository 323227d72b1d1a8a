# pyright: basic, reportMissingTypeStubs=false
"""
Apple's tests of each Core ML op, run against padc's evaluator.

    python test/conformance                        # all
    python test/conformance --sample 3             # at most 3 cases of each test
    python test/conformance --shard 1/4            # the first of four parts
    python test/conformance iOS17/test_conv.py     # files of the suite
    python test/conformance -k pad                 # any option of pytest
    python test/conformance --kernels numpy        # or torch: for arrays of all sizes

The tests are those in coremltools' wheel (coremltools/converters/mil/mil/ops/tests),
for mlprogram, in fp16 and fp32, each for its own opset and all later ones.
`--jobs N` (2 by default) is how many processes share them. Some compute what they
expect with TensorFlow, which `make conformance` installs into .venv/tensorflow, for
this alone; without it they are skipped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# coremltools' test modules read these when they are imported: which tests there are,
# and how many threads each process has.
os.environ.update(
    PYMIL_TEST_TARGETS="mlprogram",
    INCLUDE_MIL_FP32_UNIT_TESTS="1",
    RUN_BACKWARD_COMPATIBILITY="1",
    TQDM_DISABLE="1",
    OMP_NUM_THREADS="1",
    TF_CPP_MIN_LOG_LEVEL="3",
    TF_ENABLE_ONEDNN_OPTS="0",
)
# Last: a package that is in both folders comes from padc's environment.
sys.path.append(str(Path(__file__).parents[2] / ".venv/tensorflow"))


def main() -> int:
    """Run the suite, print the tally; 0 if nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=False)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shard", default="1/1")
    options, rest = parser.parse_known_args()
    part, parts = map(int, options.shard.split("/"))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(number)) for number in range(options.jobs)]
        children: list[subprocess.Popen[bytes]] = []
        for number, file in enumerate(files):
            shard = f"{part + parts * number}/{parts * options.jobs}"
            flags = [f"--tally={file}", f"--shard={shard}"]
            command = [sys.executable, __file__, *rest, *flags]
            children.append(subprocess.Popen(command))
        codes = [child.wait() for child in children]
        from plugin import Tally

        tally = Tally()
        for file, code in zip(files, codes, strict=True):
            if file.exists():
                tally.add(file.read_text())
            else:
                print(f"a part of the tests did not end, but with code {code}")
    print(tally)
    # 5 is pytest's for a part that none of the tests asked for are in.
    return 0 if tally.run and all(code in (0, 5) for code in codes) else 1


def run_part(arguments: list[str]) -> int:
    """Run pytest on the suite, or on the files of it that are named."""
    import plugin
    import pytest

    from padc.backends.coreml import quiet

    with quiet():
        import coremltools

    tests = Path(coremltools.__file__).parent / "converters/mil/mil/ops/tests"
    files = [name for name in arguments if name.partition("::")[0].endswith(".py")]
    options = [name for name in arguments if name not in files]
    plugin.stand_in()
    return pytest.main(
        [
            *("-c", str(Path(__file__).with_name("pytest.ini"))),
            *("--rootdir", str(tests), *options),
            *(str(tests / name) for name in files or [""]),
        ],
        plugins=[plugin],
    )


if __name__ == "__main__":
    is_part = any(argument.startswith("--tally") for argument in sys.argv)
    sys.exit(run_part(sys.argv[1:]) if is_part else main())
