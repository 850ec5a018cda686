"""The PyTorch engine against TRL's GRPOTrainer, on the same work, in one run.

    python -m venv peer && peer/bin/pip install torch trl peft
    python bench/peers_torch.py --trl peer/bin/python [--rounds 5] [--prompt 100] [--layers 24]

A random model of Qwen2.5-0.5B's shape in float32, LoRA of rank 16 on all linear layers of its
blocks; a step is 2 prompts x 4 rollouts x 64 tokens, none of which ends early: sampling, then one
update. Ours takes ICT's statistics while it samples, and trains the 10 % it selects, or all
(`dense`). TRL trains all, without a reference (beta = 0). Each program is a process of its own with
one thread; they take turns, and the first turn warms up. Wall and CPU seconds of all turns: on a
busy machine go by the latter. Compare ratios, never the seconds of two machines.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import string
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

GROUP, PROMPTS, RANK = 4, 2, 16


def make_model(folder: str, a: argparse.Namespace) -> None:
    """Qwen2.5-0.5B's shape, and a tokenizer of one character a token."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    words = ["<pad>", "<eos>", "<unk>", *string.printable[:97]]
    ids = {word: i for i, word in enumerate(words)}
    characters: Any = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    characters.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    characters.decoder = decoders.Fuse()
    config = Qwen2Config(
        vocab_size=a.vocab,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=a.layers,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    torch.manual_seed(0)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    ).save_pretrained(folder)


def prompts_of(length: int) -> list[str]:
    return [(f"{n}+{n * 7 % 83}=" * length)[:length] for n in range(11, 11 + PROMPTS)]


class Clock:
    """Says what a turn took: wall and CPU seconds, those of sampling, and the peak of memory."""

    def __init__(self) -> None:
        self.sampling = 0.0
        self.began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rss = peak * (1 if sys.platform == "darwin" else 1024) / 1e9
        found = {"wall": wall, "cpu": cpu, "sampling": self.sampling, "rss": rss}
        print("turn " + json.dumps(found), flush=True)


def ours(folder: str, a: argparse.Namespace) -> None:
    import numpy as np

    from ictcli.algorithm.objective import Objective
    from ictcli.algorithm.selection import top_share
    from ictcli.algorithm.weights import normalise
    from ictcli.engine import build_engine
    from ictcli.recipe.settings import AdapterSettings, EngineSettings, OptimizerSettings
    from ictcli.types import ROW_STATS, Sampling

    engine = build_engine(
        folder,
        EngineSettings(backend="torch", device="cpu", dtype="float32", threads=1),
        OptimizerSettings(),
        AdapterSettings(kind="lora", rank=RANK, alpha=2 * RANK),
    )
    prompts = [engine.tokenizer(text)["input_ids"] for text in prompts_of(a.prompt)]
    rewards, seeds = np.tile([1.0, -1.0], PROMPTS * GROUP // 2), iter(range(10**9))
    wanted = (*ROW_STATS, "uniqueness")

    for _ in sys.stdin:
        clock = Clock()
        rollouts = engine.generate(prompts, GROUP, Sampling(a.tokens), next(seeds), wanted)
        clock.sampling = time.process_time() - clock.began[1]
        kept = rollouts.valid
        if a.keep < 1:
            kept = top_share(rollouts.stats["uniqueness"], kept, a.keep)
        weights = normalise(kept, rollouts.valid, "sequence", a.tokens)
        engine.update(rollouts, weights, rewards, Objective(), 1e-4)
        clock.stop()


def trl(folder: str, a: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore")
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    total = PROMPTS * GROUP
    config = GRPOConfig(
        output_dir=folder + "/trl",
        use_cpu=True,
        per_device_train_batch_size=total,
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=a.tokens,
        max_steps=a.rounds + 1,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        beta=0.0,
        temperature=1.0,
        bf16=False,
        gradient_checkpointing=False,
        generation_kwargs={"suppress_tokens": [1]},
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )

    clock = Clock()

    class Timed(GRPOTrainer):
        def _generate(self, *args: Any, **given: Any) -> Any:
            began = time.process_time()
            made = super()._generate(*args, **given)
            clock.sampling += time.process_time() - began
            return made

    class Turns(TrainerCallback):
        def on_step_begin(self, *args: Any, **given: Any) -> None:
            sys.stdin.readline()
            clock.__init__()

        def on_step_end(self, *args: Any, **given: Any) -> None:
            clock.stop()

    rows = [{"prompt": text} for text in prompts_of(a.prompt)] * (a.rounds + 2)
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        args=config,
        reward_funcs=lambda completions, **given: [float(len(c) % 2) for c in completions],
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(folder),
        callbacks=[Turns()],
        peft_config=LoraConfig(
            r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


class Program:
    """One of the programs, in a process of its own."""

    def __init__(self, python: str, role: str, folder: str, a: argparse.Namespace) -> None:
        command = [python, __file__, role, "--folder", folder, "--keep", str(a.keep)]
        command += ["--prompt", str(a.prompt), "--tokens", str(a.tokens), "--rounds", str(a.rounds)]
        self.log = Path(folder) / f"{role}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            )

    def turn(self) -> dict[str, float]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("turn "):
                return json.loads(line.removeprefix("turn "))
        raise RuntimeError(self.log.read_text()[-2000:])


def show(found: dict[str, list[dict[str, float]]]) -> None:
    def total(name: str, key: str) -> float:
        return sum(turn[key] for turn in found[name])

    print(f"{'':14s} {'wall s':>8s} {'CPU s':>8s} {'sampling':>9s} {'peak GB':>8s}   a step")
    for name, turns in found.items():
        means = [total(name, key) / len(turns) for key in ("wall", "cpu", "sampling")]
        peak = max(turn["rss"] for turn in turns)
        print(f"{name:14s} {means[0]:8.2f} {means[1]:8.2f} {means[2]:9.2f} {peak:8.2f}")
    for name in [name for name in found if name != "trl"]:
        pairs = list(zip(found[name], found["trl"], strict=True))
        spread = [mine["cpu"] / its["cpu"] for mine, its in pairs]
        print(
            f"{name} / trl: wall {total(name, 'wall') / total('trl', 'wall'):.2f}, "
            f"CPU {total(name, 'cpu') / total('trl', 'cpu'):.2f} "
            f"(turn by turn {min(spread):.2f} to {max(spread):.2f}), "
            f"sampling {total(name, 'sampling') / total('trl', 'sampling'):.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("role", nargs="?", choices=["all", "make", "ours", "trl"], default="all")
    parser.add_argument("--trl", help="the Python of the environment that TRL is installed in")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=6, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of a response")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("--keep", type=float, default=0.1, help="share of tokens that ICT trains")
    parser.add_argument("--dense", action="store_true", help="ours too with all tokens trained")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.role != "all":
        {"make": make_model, "ours": ours, "trl": trl}[a.role](a.folder, a)
        return
    with tempfile.TemporaryDirectory() as folder:
        shape = ["--layers", str(a.layers), "--vocab", str(a.vocab)]
        made = [sys.executable, __file__, "make", "--folder", folder, *shape]
        subprocess.run(made, check=True, capture_output=True)  # this process stays a small one
        dense = argparse.Namespace(**{**vars(a), "keep": 1.0})
        programs = {
            "ours": Program(sys.executable, "ours", folder, a),
            "trl": Program(a.trl, "trl", folder, a),
        }
        if a.dense:
            programs["ours, dense"] = Program(sys.executable, "ours", folder, dense)
        found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
        for turn in range(a.rounds + 1):
            for name, program in programs.items():
                took = program.turn()
                print(f"turn {turn} of {name}: {json.dumps(took)}", file=sys.stderr)
                if turn:
                    found[name].append(took)
        print(f"prompts of {a.prompt} tokens; load of the machine {os.getloadavg()[0]:.1f}")
        show(found)


if __name__ == "__main__":
    main()
