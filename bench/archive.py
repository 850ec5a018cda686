"""Pack what a study's pages are made of, and make the pages again from it.

    python bench/archive.py pack docs/study/three-models.toml runs/compare-three-models OUT.tar.xz
    python bench/archive.py make OUT.tar.xz docs/study

An archive holds the study's file, figures and recipes of its runs, and the base models
that it names by a folder: not samples, rollouts, checkpoints and trained models, nor runs that are
not finished. So the pages lack the section on gradients, which is made from rollouts, and
`ictcli compare` in an unpacked archive goes on with the runs that are missing. `make` unpacks it
into a temporary folder, has `ictcli compare` read every run, and copies reports and runs.csv.
"""

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from ictcli.compare.plan import read_study
from ictcli.errors import UserError

FIGURES = ("*.json", "*.jsonl", "*.toml")
SAMPLES = "eval"
"""Folder whose .jsonl files hold samples."""
PAGES = ("report.html", "report.md", "comparison.json", "runs.csv")


def is_figure(path: Path) -> bool:
    if not any(path.match(pattern) for pattern in FIGURES) or path.parent.name == "model":
        return False
    return not (path.parent.name == SAMPLES and path.suffix == ".jsonl")


def is_unfinished(path: Path) -> bool:
    """Whether a file is of a run without a summary, which goes on from checkpoints alone."""
    runs = [folder for folder in path.parents if (folder / "recipe.toml").exists()]
    return any(not (run / "summary.json").exists() for run in runs)


def pack(study: Path, runs: Path, archive: Path) -> None:
    """UserError if `study` is no file of a study."""
    found = read_study(str(study))
    if found is None:
        raise UserError(f"{study} is no study.", "give the file that was compared")
    named = {Path(model) for recipe in found.recipes for model in found.models_of(recipe)}
    figures = [path for path in runs.rglob("*") if path.is_file() and is_figure(path)]
    figures = [path for path in figures if not is_unfinished(path)]
    weights = [path for model in named if model.is_dir() for path in model.iterdir()]
    with tarfile.open(archive, "w:xz") as out:
        out.add(study, "study.toml")
        for path in sorted(figures):
            out.add(path, Path("runs") / path.relative_to(runs))
        for path in sorted(weights):
            out.add(path)


def make(archive: Path, to: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        command = [sys.executable, "-m", "ictcli", "compare", "study.toml", "--out", "runs", "-q"]
        subprocess.run(command, cwd=folder, check=True)
        for page in PAGES:
            for path in (folder / "runs").rglob(page):
                own = to / path.relative_to(folder / "runs")
                own.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, own)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack")
    packing.add_argument("study", type=Path)
    packing.add_argument("runs", type=Path)
    packing.add_argument("archive", type=Path)
    making = verbs.add_parser("make")
    making.add_argument("archive", type=Path)
    making.add_argument("to", type=Path)
    options = vars(parser.parse_args())
    {"pack": pack, "make": make}[options.pop("verb")](**options)


if __name__ == "__main__":
    main()
