"""How much CPU time padc-opt takes to start, parse a module and print it."""

import resource
import statistics
import subprocess

ROUNDS = 11


def cpu_seconds() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        ["padc-opt"], input=b"builtin.module {}", capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    seconds = [cpu_seconds() for _ in range(ROUNDS)]
    print(f"padc-opt: {statistics.median(seconds):.2f} s of CPU, median of {ROUNDS}")


if __name__ == "__main__":
    main()
