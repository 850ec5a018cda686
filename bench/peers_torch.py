"""The PyTorch engine against TRL's GRPOTrainer, on the same work, in one run.

    python -m venv peer && peer/bin/pip install torch trl peft
    python bench/peers_torch.py --trl peer/bin/python [--rounds 5] [--prompt 100] [--json FILE]

A random model of Qwen2.5-0.5B's shape, stored in bfloat16 as that is and run in float32, LoRA of
rank 16 on all linear layers of its blocks (`--full`: all weights); a step is 2 prompts x 4 rollouts
x 64 tokens, none of which ends early: sampling, then one update. Ours takes ICT's statistics while
it samples, and trains the 10 % it selects, or all (`--dense`).
TRL trains all, without a reference (beta = 0). `--beside` runs ours of another checkout too,
`--generate` the sampling of transformers, without adapters or statistics, and `--model` takes a
model's folder in place of a random one; its prompts have `--prompt` characters. Each program is a
process of its own with one thread; they take turns, and the first turn warms up. Wall and CPU
seconds of all turns: on a busy machine go by the latter, on a GPU (`bench/gpu.py`) by the former.
Compare ratios, never the seconds of two machines.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from peer_trl import RANK, Clock, prompts_of

SMALL = {"hidden": 128, "layers": 4, "heads": 4, "intermediate": 512, "vocabulary": 1024}
"""A model of which little is matrix products."""
PASSED_ON = ("prompt", "tokens", "rounds", "prompts", "group", "device", "dtype", "trl-rows")
"""Options that each program gets."""


def ours(folder: str, a: argparse.Namespace) -> None:
    import numpy as np
    from harness import STATISTICS

    from ictcli.algorithm.objective import Objective
    from ictcli.algorithm.selection import top_share
    from ictcli.algorithm.weights import normalise
    from ictcli.engine import build_engine
    from ictcli.engine.update import Update
    from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
    from ictcli.types import Sampling

    engine = build_engine(
        folder,
        EngineSettings(backend="torch", device=a.device, dtype=a.dtype, threads=1),
        OptimizerSettings(),
        None if a.full else NewAdapters(kind="lora", rank=RANK, alpha=2 * RANK),
    )
    prompts = [engine.tokenizer(text)["input_ids"] for text in prompts_of(a)]
    rewards, seeds = np.tile([1.0, -1.0], a.prompts * a.group // 2), iter(range(10**9))
    clock = Clock(a.device)

    for _ in sys.stdin:
        clock.start()
        began = clock.now()
        rollouts = engine.generate(prompts, a.group, Sampling(a.tokens), next(seeds), STATISTICS)
        clock.sampling = clock.now() - began
        kept = rollouts.valid
        if a.keep < 1:
            kept = top_share(rollouts.stats["uniqueness"], kept, a.keep)
        weights = normalise(kept, rollouts.valid, "sequence", a.tokens)
        engine.update(Update(rollouts, weights, rewards, Objective()), 1e-4)
        clock.stop()


def generate(folder: str, a: argparse.Namespace) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(1)
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, a.dtype))
    model.to(a.device).generation_config.pad_token_id = 0
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left", pad_token="0")
    inputs = tokenizer(prompts_of(a), return_tensors="pt", padding=True).to(a.device)
    inputs.pop("token_type_ids", None)
    sizes = {"min_new_tokens": a.tokens, "max_new_tokens": a.tokens}
    sampling = {"do_sample": True, "top_k": 0, "num_return_sequences": a.group}
    clock = Clock(a.device)
    for _ in sys.stdin:
        clock.start()
        began = clock.now()
        model.generate(**inputs, **sizes, **sampling)
        clock.sampling = clock.now() - began
        clock.stop()


class Program:
    """One of the programs, in a process of its own."""

    def __init__(
        self,
        python: str,
        role: str,
        folder: str,
        a: argparse.Namespace,
        *more: str,
        checkout: Path | None = None,
    ) -> None:
        own = [__file__, role] if role != "trl" else [str(Path(__file__).with_name("peer_trl.py"))]
        command = [python, *own, "--folder", folder, *more]
        for option in PASSED_ON:
            command += [f"--{option}", str(getattr(a, option.replace("-", "_")))]
        command += ["--full"] if a.full else []
        self.log = Path(folder) / f"{role}{len(list(Path(folder).glob('*.log')))}.log"
        path = {"PYTHONPATH": f"{checkout}:{checkout / 'backends'}"} if checkout else {}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **path},
            )

    def turn(self) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("turn "):
                print(f"{self.log.stem}: {line.rstrip()}", file=sys.stderr)
                return json.loads(line.removeprefix("turn "))
        raise RuntimeError(self.log.read_text()[-2000:])


def compare(folder: str, a: argparse.Namespace) -> dict[str, list[dict[str, float]]]:
    """What each program took in each round."""
    from harness import take_turns

    own = partial(Program, sys.executable, "ours", folder, a, "--keep")
    programs = {"ours": own(str(a.keep))}
    if a.beside:
        programs["beside"] = own(str(a.keep), checkout=a.beside.resolve())
    if a.generate:
        programs["generate"] = Program(sys.executable, "generate", folder, a)
    if a.trl:
        programs["trl"] = Program(a.trl, "trl", folder, a)
    if a.dense:
        programs["ours, dense"] = own("1")
    if a.vllm:
        programs["trl, vllm"] = Program(a.vllm, "trl", folder, a, "--vllm")
    turns = take_turns({name: program.turn for name, program in programs.items()}, a.rounds)
    for program in programs.values():
        program.process.communicate()  # ends it, and frees what it holds of a GPU
    return turns


def show(turns: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Print what a step takes, and ours as a ratio to another's; returns both."""
    means = {
        name: {key: fmean(turn[key] for turn in its) for key in its[0]}
        for name, its in turns.items()
    }
    for name, mean in means.items():
        mean["peak"] = max(turn["peak"] for turn in turns[name])
    heads = ("wall s", "CPU s", "sampling", "update", "peak GB")
    print(f"{'a step':14s} " + " ".join(f"{head:>8s}" for head in heads))
    for name, mean in means.items():
        print(f"{name:14s} {' '.join(f'{value:8.2f}' for value in mean.values())}")
    own = [name for name in turns if name.startswith("ours")]
    ratios = dict[str, Any]()
    for name, other in product(own, [name for name in turns if name not in own]):
        pairs = zip(turns[name], turns[other], strict=True)
        spread = [ours["cpu"] / theirs["cpu"] for ours, theirs in pairs]
        of = {
            key: value / (means[other][key] or float("nan")) for key, value in means[name].items()
        }
        ratios[f"{name} / {other}"] = of | {"cpu, turn by turn": spread}
        print(
            f"{name} / {other}: wall {of['wall']:.2f}, CPU {of['cpu']:.2f} "
            f"(turn by turn {min(spread):.2f} to {max(spread):.2f}), sampling "
            f"{of['sampling']:.2f}, update {of['update']:.2f}, memory {of['peak']:.2f}"
        )
    return {"a step": means, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("role", nargs="?", choices=["all", "ours", "generate"], default="all")
    parser.add_argument("--trl", help="the Python of the environment that TRL is installed in")
    parser.add_argument("--model", help="a model's folder, in place of a random one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=6, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a response")
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--trl-rows", type=int, default=0, help="rows TRL trains at once, 0: all")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--full", action="store_true", help="train all weights")
    parser.add_argument("--vllm", help="the Python of an environment with TRL and vLLM, both timed")
    parser.add_argument("--small", action="store_true", help="a model of 1M parameters")
    parser.add_argument("--generate", action="store_true", help="time transformers' sampling")
    parser.add_argument("--beside", type=Path, help="a checkout whose ours is timed too")
    parser.add_argument("--json", type=Path, help="write what was found")
    parser.add_argument("--keep", type=float, default=0.1, help="share of tokens that ICT trains")
    parser.add_argument("--dense", action="store_true", help="ours too with all tokens trained")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.role != "all":
        (ours if a.role == "ours" else generate)(a.folder, a)
        return
    from harness import QWEN, in_fresh_process, make_model, record

    sizes = SMALL if a.small else QWEN
    with tempfile.TemporaryDirectory() as folder:
        if a.model:
            shutil.copytree(Path(a.model).resolve(), folder, dirs_exist_ok=True)
        else:
            in_fresh_process(partial(make_model, Path(folder), "torch", dtype="bfloat16", **sizes))
        found = show(compare(folder, a))
    if a.json:
        ask = "import trl, transformers as t; print(trl.__version__, 'transformers', t.__version__)"
        asked = a.trl or a.vllm
        peer = subprocess.check_output([asked, "-c", ask], text=True).strip() if asked else None
        record(a.json, ("torch", "transformers"), trl=peer, model=a.model or sizes, **found)


if __name__ == "__main__":
    main()
