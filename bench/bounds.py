"""Are the bounds of pyproject.toml true? `python bench/bounds.py lowest|newest [--keep FOLDER]`.

Makes an environment with every direct dependency at its lower bound, or at its newest release, and
in it trains the quickstart for two steps with each engine and runs tests/contract, those of two
processes in every case. Makes one more for each engine without the other, and trains there. Takes
`uv` from the PATH and its settings from the environment (`UV_TORCH_BACKEND=cpu`, `UV_OVERRIDE`).
Ends with 1 if anything fails; what fails is printed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = {
    "torch": (["torch"], ["torch"]),
    "mlx": (["mlx"], ["mlx"]),
    "both": (["torch", "mlx", "dev"], ["torch", "mlx"]),
}
"""Extras that are installed and engines that train, by the environment's folder."""
SHORT = ["steps=2", "prompts=2", "group=4", "eval.problems=4", "eval.n=2", "eval.k=[1]"]
TWO_PROCESSES = ["tests/contract/test_ranks.py", "tests/contract/test_distributed.py"]


def lower_bounds(project: dict[str, Any]) -> list[str]:
    """Each direct dependency of the environments at its bound: `numpy==2.0`.

    Pinned: a resolver that prefers the lowest passes over a bound that no solution meets.
    """
    extras = project["optional-dependencies"]
    listed = [*project["dependencies"]]
    for name in ENVIRONMENTS["both"][0]:
        listed += extras[name]
    pins: list[str] = []
    for requirement in map(Requirement, listed):
        (bound,) = (s.version for s in requirement.specifier if s.operator == ">=")
        marker = f"; {requirement.marker}" if requirement.marker else ""
        pins.append(f"{requirement.name}=={bound}{marker}")
    return pins


def succeeds(what: str, command: list[str], **variables: str) -> bool:
    """Whether a command ends with 0 in the project's folder; else its output is printed."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(f"{what}: {f'FAILED ({done.returncode})' if done.returncode else 'ok'}", flush=True)
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode == 0


def check(which: str, folder: Path) -> bool:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = folder / "pins.txt"
    pins.write_text("\n".join(lower_bounds(project) if which == "lowest" else []), encoding="utf-8")
    passed = True
    for name, (extras, engines) in ENVIRONMENTS.items():
        place = folder / name
        python = str(place / "bin" / "python")
        if not place.exists():
            make = ["uv", "venv", "-q", "--python", sys.executable, str(place)]
            subprocess.run(make, check=True)
        install = ["uv", "pip", "install", "-q", "--python", python, "-c", str(pins)]
        if not succeeds(f"{name}: install", [*install, "-e", f".[{','.join(extras)}]"]):
            passed = False
            continue
        for engine in engines:
            runs = tempfile.mkdtemp(dir=folder)
            train = [python, "-m", "ictcli", "train", "quickstart", "--backend", engine]
            short = [*SHORT, "--run", f"{runs}/run"]
            passed &= succeeds(f"{name}: quickstart with {engine}", [*train, *short])
    tests = [str(folder / "both" / "bin" / "python"), "-m", "pytest", "-m", "not gpu"]
    passed &= succeeds(
        "two processes", [*tests, "-n", "0", *TWO_PROCESSES], HYPOTHESIS_PROFILE="thorough"
    )
    others = [f"--ignore={file}" for file in TWO_PROCESSES]
    return passed & succeeds("contract", [*tests, "tests/contract", *others])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=("lowest", "newest"))
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the environments stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bounds-") as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        passed = check(options.which, folder.resolve())
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
