"""Speed and memory as ratios taken in one run: what statistics cost, what sparsity saves.

    python bench/bench.py [statistics | update | passes]

`statistics` times a whole step (sampling and a 10 % update) with and without ICT's statistics, at
a vocabulary of 100 and of 151,936. `update` times a dense update against one of 10 % of the tokens
at 151,936 and takes the peak memory of each one's passes in a process of its own. `passes` does the
same of updates below LoRA, by the tokens up to which a pass joins rows. Variants take turns,
one thread, medians of CPU seconds are shown; compare ratios, never the seconds of two machines.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from harness import (
    QWEN,
    STATISTICS,
    Sizes,
    in_fresh_process,
    make_model,
    medians,
    random_weights,
)
from ictcli_torch.engine import TorchEngine

from ictcli.algorithm.objective import Objective
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import Rollouts, Sampling

PROMPT = tuple(range(2, 18))
SMALL = {"hidden": 128, "layers": 4, "heads": 4, "intermediate": 512, "vocabulary": 100}
LARGE: Sizes = QWEN | {"layers": 4}
"""Of `statistics`, and of the others without --layers."""
LORA = NewAdapters(kind="lora", rank=16, alpha=32)


def load(folder: Path, adapters: NewAdapters | None = None) -> TorchEngine:
    settings = EngineSettings(backend="torch", device="cpu", dtype="float32", threads=1)
    return TorchEngine(str(folder), settings, OptimizerSettings(), adapters)


def bench_statistics(sizes: Sizes, prompts: int, group: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = load(make_model(Path(folder), "torch", **sizes))

    def sample(wanted: tuple[str, ...] = ()) -> Rollouts:
        """Rollouts that never end early, so that every variant does the same work."""
        return engine.generate([list(PROMPT)] * prompts, group, Sampling(64), 0, wanted)

    rollouts = sample()
    weights = random_weights(rollouts, 0.1)
    seconds = medians(
        {
            "sampling": sample,
            "sampling with statistics": lambda: sample(STATISTICS),
            "update of 10 %": lambda: engine.update(Update(rollouts, *weights, Objective()), 1e-6),
        },
        rounds,
    )
    step = seconds["sampling"] + seconds["update of 10 %"]
    extra = seconds["sampling with statistics"] - seconds["sampling"]
    print(f"vocabulary {sizes['vocabulary']:,}:")
    for name, value in seconds.items():
        print(f"  {name:26s} {value:8.3f} s")
    print(f"  statistics cost {extra / step:+.1%} of a step\n")


def bench_update(rounds: int, layers: int) -> None:
    shares, rollouts = {"dense": 1.0, "10 %": 0.1}, random_rollouts()
    with tempfile.TemporaryDirectory() as name:
        sizes: Sizes = {**LARGE, "layers": layers}
        folder = make_model(Path(name), "torch", **sizes)
        peaks = {
            name: in_fresh_process(peak, folder, rollouts, keep) for name, keep in shares.items()
        }
        engine = load(folder)

    def update(keep: float) -> None:
        engine.update(Update(rollouts, *random_weights(rollouts, keep), Objective()), 1e-6)

    seconds = medians({name: partial(update, keep) for name, keep in shares.items()}, rounds)
    print(f"update of {len(rollouts)} x {rollouts.tokens.shape[1]} tokens, ", end="")
    print(f"vocabulary {LARGE['vocabulary']:,};")
    print("peak is that of the forward and backward passes:")
    for name, value in seconds.items():
        print(f"  {name:6s} {value:8.3f} s  peak {peaks[name] / 2**20:7.0f} MB")
    print(f"  time 10 % / dense    {seconds['10 %'] / seconds['dense']:.2f}")
    print(f"  memory 10 % / dense  {peaks['10 %'] / peaks['dense']:.2f}")


def peak(
    folder: Path,
    rollouts: Rollouts,
    keep: float,
    adapters: NewAdapters | None = None,
    joined: int = 0,
) -> int:
    """Peak resident bytes of the passes of one update, forward and backward."""
    engine = load(folder, adapters)
    engine.joined = joined
    engine.gradient(Update(rollouts, *random_weights(rollouts, keep), Objective()))
    return engine.peak_memory()


def bench_passes(rounds: int, layers: int) -> None:
    rollouts, sizes = random_rollouts(16, 4, 24), (100, 200, 300, 600, 1100)
    with tempfile.TemporaryDirectory() as name:
        folder = make_model(Path(name), "torch", **{**LARGE, "layers": layers, "dtype": "bfloat16"})
        peaks = [in_fresh_process(peak, folder, rollouts, 0.1, LORA, size) for size in sizes]
        engine = load(folder, LORA)

    def update(joined: int) -> None:
        engine.joined = joined
        engine.update(Update(rollouts, *random_weights(rollouts, 0.1), Objective()), 1e-6)

    seconds = medians({str(joined): partial(update, joined) for joined in sizes}, rounds)
    print(f"update of 10 % of {len(rollouts)} x {rollouts.tokens.shape[1]} tokens below LoRA;")
    print("a pass joins rows up to so many tokens:")
    for (joined, taken), peaked in zip(seconds.items(), peaks, strict=True):
        print(f"  {joined:>6s} {taken:8.3f} s  peak {peaked / 2**20:7.0f} MB")


def random_rollouts(prompts: int = 2, group: int = 4, T: int = 128) -> Rollouts:
    """Rollouts of random tokens of the large vocabulary: an update does not care who wrote them."""
    B = prompts * group
    rng = np.random.default_rng(0)
    return Rollouts(
        prompts=(PROMPT,) * prompts,
        group=group,
        tokens=rng.integers(0, LARGE["vocabulary"], (B, T)).astype(np.int32),
        lengths=np.full(B, T, dtype=np.int32),
        finished=np.zeros(B, dtype=bool),
        logp=np.zeros((B, T), dtype=np.float32),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=["statistics", "update", "passes"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=4, help="of the model of the others")
    options = parser.parse_args()
    if options.what in (None, "statistics"):
        bench_statistics(SMALL, 16, 8, options.rounds)
        bench_statistics(LARGE, 2, 4, options.rounds)
    if options.what in (None, "update"):
        bench_update(options.rounds, options.layers)
    if options.what in (None, "passes"):
        bench_passes(options.rounds, options.layers)


if __name__ == "__main__":
    main()
