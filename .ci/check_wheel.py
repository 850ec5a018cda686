"""Checks a wheel that is installed in this interpreter, alone: contents, start-up, imports."""

import resource
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

TOP = {"ictcli", "ictcli_torch", "ictcli_mlx"}
HEAVY = ("torch", "mlx", "transformers", "numpy")


def main(wheel: str) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    packages = {n.split("/")[0] for n in names if ".dist-info/" not in n}
    assert packages == TOP, f"the wheel holds {sorted(packages)}, not {sorted(TOP)}"
    sources = {str(p) for p in Path("ictcli").rglob("*.py")}
    sources |= {str(p.relative_to("backends")) for p in Path("backends").rglob("*.py")}
    recipes = {f"ictcli/{p}" for p in Path("recipes").rglob("*.*")}  # their data too
    models = {str(p) for p in Path("ictcli/tasks").glob("*/model/*")}
    typed = {f"{package}/py.typed" for package in TOP}
    missing = (sources | recipes | models | typed) - set(names)
    assert not missing, f"the wheel lacks {sorted(missing)}"
    junk = [n for n in names if "__pycache__" in n or n.startswith(("tests/", "bench/"))]
    assert not junk, f"the wheel holds {junk}"

    command = Path(sys.executable).with_name("ictcli")
    subprocess.run([command, "--help"], check=True, capture_output=True)  # compiles once
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    shown = subprocess.run([command, "--help"], check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert "train" in shown.stdout
    code = (
        "import sys; sys.argv = ['ictcli', '--help']\n"
        "from ictcli.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert asked.stderr.strip() == "[]", f"ictcli --help imports {asked.stderr}"
    listed = subprocess.run([command, "recipes", "ls"], check=True, capture_output=True, text=True)
    assert all(p.stem in listed.stdout for p in Path("recipes").rglob("*.toml"))
    alone = subprocess.run(
        [command, "train", "quickstart"], capture_output=True, text=True, cwd=Path(wheel).parent
    )
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    assert alone.returncode == 3 and "ictcli[torch]" in alone.stderr, alone.stderr
    print(f"wheel {version}: {len(names)} files, --help in {cpu:.2f} s CPU")


if __name__ == "__main__":
    main(sys.argv[1])
