"""How the time and the memory of a step grow: with the group, the prompt, the response, the words.

    pip install -e ".[torch,mlx]"
    python bench/growth.py [--engine mlx] [--json FILE] [--plot FILE.svg]

A step of two prompts, none of whose responses ends early: sampling with ICT's statistics, then an
update of 10 % of the tokens. One size is varied and the others stay as they are, on a random model
of 4 blocks of 128. Each point is a process of its own with one thread; its first step warms up.
Seconds are CPU seconds; memory is what the step needs beyond the model, at its highest. The power
is the slope between two neighbours on logarithmic axes: 1 where twice the size takes twice as much.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psutil
from harness import STATISTICS, Sizes, in_fresh_process, make_model, peak_of, random_weights, record

T = TypeVar("T")

MODEL: Sizes = {"hidden": 128, "layers": 4, "heads": 4, "intermediate": 512}
BASE = {"group": 8, "prompt": 64, "response": 64, "vocabulary": 1024}
AXES: dict[str, tuple[int, ...]] = {
    "group": (4, 8, 16, 32, 64),
    "prompt": (32, 64, 128, 256, 512, 1024),
    "response": (64, 128, 256, 512, 1024, 2048),
    "vocabulary": (1024, 4096, 16_384, 65_536, 151_936),
}
PROMPTS = 2


@dataclass(frozen=True)
class Took:
    """What a step took: CPU seconds, and bytes above what the loaded model holds."""

    sampling_s: float
    update_s: float
    sampling_bytes: int
    update_bytes: int


def step(folder: str, engine_name: str, group: int, prompt: int, response: int) -> Took:
    """One step after another that warms up."""
    from ictcli.algorithm.objective import Objective
    from ictcli.engine import build_engine
    from ictcli.engine.update import Update
    from ictcli.recipe.tables import EngineSettings, OptimizerSettings
    from ictcli.types import Sampling

    given = {"backend": engine_name, "device": "cpu", "dtype": "float32", "threads": 1}
    engine = build_engine(folder, EngineSettings(**given), OptimizerSettings())
    prompts = [[2 + (i + number) % 14 for i in range(prompt)] for number in range(PROMPTS)]
    model_bytes = held(engine)
    seconds: dict[str, float] = {}
    peaks: dict[str, int] = {}

    def timed(phase: str, work: Callable[[], T]) -> T:
        begun, made = time.process_time(), list[T]()
        peaks[phase] = peak_of(engine, lambda: made.append(work())) - model_bytes
        seconds[phase] = time.process_time() - begun
        return made[0]

    for seed in range(2):
        sample = partial(engine.generate, prompts, group, Sampling(response), seed, STATISTICS)
        rollouts = timed("sampling", sample)
        weights = random_weights(rollouts, 0.1)
        timed("update", partial(engine.update, Update(rollouts, *weights, Objective()), 1e-6))
    return Took(seconds["sampling"], seconds["update"], peaks["sampling"], peaks["update"])


def held(engine: Any) -> int:
    """Bytes in use now: MLX's, or of the process."""
    if engine.settings.backend == "torch":
        return psutil.Process().memory_info().rss
    import mlx.core as mx

    return mx.get_active_memory()


def measure(engine_name: str, axis: str) -> dict[int, Took]:
    """A step for each size on an axis."""
    points: dict[int, Took] = {}
    for size in AXES[axis]:
        sizes = BASE | {axis: size}
        with tempfile.TemporaryDirectory() as name:
            model: Sizes = MODEL | {"vocabulary": sizes.pop("vocabulary")}
            folder = make_model(Path(name), engine_name, **model)
            points[size] = in_fresh_process(step, str(folder), engine_name, *sizes.values())
    return points


def power(sizes: tuple[int, int], values: tuple[float, float]) -> float:
    """The slope between two points on logarithmic axes; NaN where nothing was measured."""
    if min(values) <= 0:
        return math.nan
    return float(np.diff(np.log(values))[0] / np.diff(np.log(sizes))[0])


def table(axis: str, points: dict[int, Took]) -> None:
    """Each size with what it took, and the power from the size before."""
    print(
        f"{axis:>12}   sampling s  power   update s  power   sampling MB  power   update MB  power"
    )
    last: tuple[int, Took] | None = None
    for size, took in points.items():
        line = f"{size:>12,}"
        for (name, value), width in zip(asdict(took).items(), (13, 11, 14, 12), strict=True):
            unit = 2**20 if name.endswith("bytes") else 1
            slope = power((last[0], size), (getattr(last[1], name), value)) if last else math.nan
            text = "" if math.isnan(slope) else f"{slope:.2f}"
            line += f"{value / unit:>{width}.{3 if unit == 1 else 0}f}{text:>7}"
        print(line, flush=True)
        last = size, took
    print()


def plot(found: dict[str, dict[int, Took]], path: Path) -> None:
    """Seconds and bytes against each size, on logarithmic axes."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(found), figsize=(3.2 * len(found), 5.6), squeeze=False)
    for column, (axis, points) in enumerate(found.items()):
        for row, (unit, scale) in enumerate((("s", 1), ("bytes", 2**20))):
            place = axes[row][column]
            for phase in ("sampling", "update"):
                values = [getattr(took, f"{phase}_{unit}") / scale for took in points.values()]
                place.loglog(list(points), values, marker="o", label=phase)
            place.set_xlabel(axis)
            place.minorticks_off()
            place.set_xticks(list(points), [f"{size:,}" for size in points], rotation=45)
            place.set_ylabel("CPU seconds" if unit == "s" else "MB beyond the model")
    axes[0][0].legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--engine", choices=["torch", "mlx"], default="torch")
    parser.add_argument("--axes", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--json", type=Path, help="Write what was measured.")
    parser.add_argument("--plot", type=Path, help="Draw it.")
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "MLX_DISABLE_COMPILE": "1"}
    found: dict[str, dict[int, Took]] = {}
    for axis in options.axes:
        found[axis] = measure(options.engine, axis)
        table(axis, found[axis])
    if options.json:
        points = {a: {n: asdict(took) for n, took in one.items()} for a, one in found.items()}
        record(options.json, (options.engine,), base=BASE, model=MODEL, points=points)
    if options.plot:
        plot(found, options.plot)


if __name__ == "__main__":
    main()
