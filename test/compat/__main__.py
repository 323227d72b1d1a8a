"""
The tests with the oldest and with the newest packages that padc supports.

    python test/compat                       # both, and the wheel
    python test/compat newest                # one: oldest, newest or wheel
    python test/compat oldest -k pad         # options of pytest

The ranges are those of pyproject.toml; an environment stays in build/compat until they
change. `wheel` installs padc's wheel in an empty environment, and runs `installed.py`
there, away from the repository; its PyTorch is the one that `--torch` names. Another
environment gets the wheel without extras, which runs and checks the package.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "compat"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = ("coreml", "native")


def main() -> int:
    """Run what the command line asks for; 0 if all of it passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("oldest", "newest", "wheel"))
    parser.add_argument("--torch", default="torch", help="what pip installs for wheel")
    options, rest = parser.parse_known_args()
    failed: list[str] = []
    for what in ("oldest", "newest", "wheel"):
        if options.what in (None, what):
            passed = test_wheel(options.torch) if what == "wheel" else test(what, rest)
            print(f"compat: {what} {'passed' if passed else 'FAILED'}", flush=True)
            failed += [] if passed else [what]
    return 1 if failed else 0


def test(which: str, options: Sequence[str]) -> bool:
    """Run the tests with the `oldest` or `newest` packages."""
    python = environment(which)
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    print(f"--- {which}", flush=True)
    run(python, "-m", "padc", "--version")
    pytest = [python, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]
    commands = [[*pytest, *options]]
    if not options:
        commands.insert(0, [python.with_name("lit"), "-s", "test"])
    codes = [subprocess.run(command, cwd=ROOT, env=env) for command in commands]
    return all(done.returncode == 0 for done in codes)


def environment(which: str) -> Path:
    """The Python of an environment, which is made if it is not there."""
    folder = FOLDER / which
    wanted = "\n".join(constraints(which))
    if (ready := folder / "ready").exists() and ready.read_text() == wanted:
        return folder / "bin" / "python"
    python = empty_environment(interpreter(which), folder)
    file = folder / "constraints.txt"
    file.write_text(wanted)
    what = f".[{','.join((*EXTRAS, 'dev'))}]"
    run(python, "-m", "pip", "install", "-q", "-c", file, "-e", what)
    ready.write_text(wanted)
    return python


def empty_environment(interpreter: str, folder: Path) -> Path:
    """Make a virtual environment; returns its Python."""
    run(interpreter, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def constraints(which: str) -> list[str]:
    """What pip is told: ranges of pyproject.toml, or the versions at which they begin."""
    extras = PROJECT["optional-dependencies"]
    asked = [*PROJECT["dependencies"], *(each for e in EXTRAS for each in extras[e])]
    if which == "newest":
        return sorted(set(asked))
    pairs = [re.match(r"([\w-]+)>=([\d.]+)", each) for each in asked]
    return sorted({f"{pair[1]}=={pair[2]}.*" for pair in pairs if pair})


def interpreter(which: str) -> str:
    """The oldest or the newest Python that padc supports, on PATH or from pyenv."""
    minors = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", PROJECT["requires-python"])
    assert minors is not None
    minor = int(minors[1]) if which == "oldest" else int(minors[2]) - 1
    name = f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for found in (shutil.which(name), *pyenv.glob(f"3.{minor}.*/bin/{name}")):
        # pyenv's shims are there for versions that are not selected, and fail.
        if found and not subprocess.run([found, "-V"], capture_output=True).returncode:
            return str(found)
    sys.exit(f"make compat needs {name}: install it, or put it on PATH")


def test_wheel(torch: str) -> bool:
    """Install padc's wheel in an empty environment, and use it there."""
    print("--- wheel", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = empty_environment(sys.executable, folder / "venv")
        # setuptools packs what is left in build/lib, also of files that were renamed.
        shutil.rmtree(ROOT / "build" / "lib", ignore_errors=True)
        run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, ROOT)
        (wheel,) = folder.glob("padc-*.whl")
        what = f"{wheel}[{','.join(EXTRAS)}]"
        run(python, "-m", "pip", "install", "-q", torch, what)
        work = folder / "work"
        work.mkdir()
        script = shutil.copy(Path(__file__).with_name("installed.py"), work)
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        env |= {"PADC_CACHE_DIR": str(folder / "cache")}
        done = subprocess.run([python, script, ROOT], cwd=work, env=env)
        return done.returncode == 0 and test_without_extras(wheel, work, env)


def test_without_extras(wheel: Path, work: Path, env: Mapping[str, str]) -> bool:
    """Install the wheel alone; run and check the package that is in `work`."""
    python = empty_environment(sys.executable, work.parent / "without_extras")
    run(python, "-m", "pip", "install", "-q", wheel)
    listed = [python, "-m", "pip", "list", "--format=freeze"]
    packages = subprocess.run(listed, capture_output=True, text=True).stdout
    if re.search("^(torch|coremltools)==", packages, re.MULTILINE):
        sys.exit(f"the wheel without extras installs\n{packages}")
    package = ["model.mlpackage"]
    for arguments in (
        ["--version"],
        ["check", *package],
        ["run", *package, "--inputs", "random:0"],
    ):
        command = [python, "-m", "padc", *arguments]
        if subprocess.run(command, cwd=work, env=env).returncode:
            return False
    return True


def run(*command: object) -> None:
    """Run a command in the repository; exit if it fails."""
    done = subprocess.run(list(map(str, command)), cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
