"""What is to be measured on a CUDA GPU, as three commands of at most four minutes each.

    python bench/gpu.py kernels
    python bench/gpu.py trl --trl python3 --trl-rows 16
    python bench/gpu.py learn --model FOLDER --data gsm8k/test.jsonl

    python bench/gpu.py kernels --device cpu --tiny

`kernels`: sampling at 64 and 256 rows x 256 tokens of Qwen2.5-0.5B's shape, LoRA 16, bfloat16:
tokens/s and kernels a step of the engine and of variants with fewer (`gpu_decode.py`); vLLM's rate.
`trl`: seconds and memory of a step beside TRL's, of the shapes of 0.5B and 1.5B, LoRA and all
weights (`gpu_steps.py`). `learn`: SmolLM2-135M-Instruct, in FOLDER, by the recipe
smollm2-135m-invoices with four methods; its branches on 128 prompts; the laws of `pytest -m gpu
tests/contract`; a kill and a resume (`gpu_runs.py`); the update's rate, and peaks of memory beside
the plan's.

Prints tables last, and writes them to --out (by default $OUT, or gpu-results) as COMMAND.txt and
COMMAND.json. Each part is a process with a limit; what one measured is kept whatever becomes of it.
Parts whose seconds say little run at once. A part's name in place of a command runs it alone. The
bound of a decoding step is the bandwidth of a large copy: it reads the weights and the filled cache
once.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module, util
from pathlib import Path
from typing import Any

import torch
from gpu_work import TINY, WORK, Report
from harness import in_fresh_process, record

PACKAGES = ("torch", "transformers", "peft", "trl", "triton", "vllm")


@dataclass(frozen=True)
class Part:
    name: str
    function: str
    """MODULE.FUNCTION, of the options, a `Report` and the arguments."""
    limit: int
    """Seconds, of the 240 of a command."""
    arguments: tuple[Any, ...] = ()

    def work(self) -> Callable[..., None]:
        module, _, name = self.function.partition(".")
        return getattr(import_module(module), name)


def _decoding(rows: int) -> tuple[Part]:
    return (Part(f"decode-{rows}", "gpu_decode.decoding", 120, (rows,)),)


def _beside_trl(size: str, trained: str) -> tuple[Part]:
    name = f"trl-{size}-{trained}"
    return (Part(name, "gpu_steps.beside_trl", 90, (size, trained)),)


def _training(method: str) -> Part:
    return Part(method, "gpu_runs.training", 80, (method,))


COMMANDS: dict[str, tuple[tuple[Part, ...], ...]] = {
    "kernels": (
        _decoding(64),
        _decoding(256),
        (Part("vllm", "gpu_steps.vllm", 110, ((64, 256),)),),
    ),
    "trl": (
        _beside_trl("0.5b", "lora"),
        _beside_trl("1.5b", "full"),
        _beside_trl("1.5b", "lora"),
        _beside_trl("0.5b", "full"),
    ),
    "learn": (
        (_training("grpo"),),
        tuple(map(_training, ("ict", "random", "entropy20"))),
        (
            Part("branches", "gpu_runs.branches", 90),
            Part("laws", "gpu_runs.laws", 90),
            Part("kills", "gpu_runs.kills", 110),
        ),
        (Part("memory", "gpu_steps.updates", 60, ("0.5b", "lora")),),
    ),
}
"""Parts that run at once stand in one tuple: those whose times say little."""
PARTS = {part.name: part for waves in COMMANDS.values() for wave in waves for part in wave}


def run_wave(wave: Sequence[Part], a: argparse.Namespace, rows: Path, deadline: float) -> None:
    """Run parts at once, each in a process group that its limit ends."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        began, running = time.monotonic(), dict[str, subprocess.Popen[bytes]]()
        logs = {part.name: Path(place, f"{part.name}.log") for part in wave}
        try:
            for part in wave:
                running[part.name] = start(part, Path(place, part.name), logs[part.name])
            for part in wave:
                limit = min(began + part.limit * a.minutes / 4, deadline) - time.monotonic()
                ended = end(running[part.name], max(limit, 0.1), logs[part.name])
                took = time.monotonic() - began
                Report(rows, part.name)("parts", part=part.name, seconds=took, ended=ended)
                print(f"{part.name}: {took:.0f} s, {ended}", flush=True)
        finally:
            for process in running.values():
                stop(process)
        with rows.with_suffix(".log").open("ab") as log:
            for name, file in logs.items():
                log.write(f"--- {name}\n".encode() + file.read_bytes())


def start(part: Part, temporary: Path, log: Path) -> subprocess.Popen[bytes]:
    temporary.mkdir()  # for what a process that is killed leaves
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, __file__, "--part", part.name, *sys.argv[1:]],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )


def end(process: subprocess.Popen[bytes], limit: float, log: Path) -> str:
    """Wait for a part; say how it ended."""
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        stop(process)
        return "stopped at its limit"
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    return "done" if code == 0 else f"exit {code}: {lines[-1][:300]}"


def stop(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a part's process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def tables(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as plain text, a table of each name."""
    by_name = dict[str, list[dict[str, Any]]]()
    for row in rows:
        by_name.setdefault(row["table"], []).append(row["cells"])
    last = {"parts": by_name.pop("parts", [])}
    return "\n".join(f"{name}\n{table(its)}\n" for name, its in {**by_name, **last}.items())


def table(rows: Sequence[dict[str, Any]]) -> str:
    heads = list(dict.fromkeys(head for row in rows for head in row))
    heads = [head for head in heads if any(row.get(head) is not None for row in rows)]
    lines = [heads, *([text(row.get(head)) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = [all(isinstance(row.get(head, ""), str) for row in rows) for head in heads]
    aligned = list(zip(widths, texts, strict=True))
    return "\n".join(
        "  ".join(
            cell.ljust(width) if left else cell.rjust(width)
            for cell, (width, left) in zip(line, aligned, strict=True)
        ).rstrip()
        for line in lines
    )


def text(value: Any) -> str:
    if not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def save(a: argparse.Namespace, rows: Path) -> str:
    """Write the tables and the rows so far, with the machine; return the tables."""
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    packages = [name for name in PACKAGES if util.find_spec(name)]
    record(rows.with_suffix(".json"), packages, gpu=a.gpu, work=a.work, rows=found)
    shown = f"{a.gpu or 'on a CPU'}\n\n{tables(found)}"
    rows.with_suffix(".txt").write_text(shown)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=[*COMMANDS, *PARTS], metavar="COMMAND")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a tiny model and little work")
    parser.add_argument(
        "--minutes", type=float, default=4.0, help="at most; parts have shares of it"
    )
    parser.add_argument("--trl", help="the Python of the environment that TRL is installed in")
    parser.add_argument("--trl-rows", type=int, default=0, help="rows TRL trains at once, 0: all")
    parser.add_argument("--model", help="the folder of SmolLM2-135M-Instruct")
    parser.add_argument("--data", help="a file of questions, for the branches")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "gpu-results")))
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    a = parser.parse_args()
    a.work = TINY if a.tiny else WORK
    rows: Path = a.out.resolve() / f"{a.what}.jsonl"
    if a.part:
        part = PARTS[a.part]
        part.work()(a, Report(rows, part.name), *part.arguments)
        return
    deadline = time.monotonic() + 60 * a.minutes
    if a.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA GPU; --device cpu --tiny runs the same code")
    a.gpu = in_fresh_process(torch.cuda.get_device_name) if a.device == "cuda" else None
    rows.parent.mkdir(parents=True, exist_ok=True)
    rows.write_text("")
    rows.with_suffix(".log").write_text("")
    for wave in COMMANDS.get(a.what, ((PARTS.get(a.what),),)):
        run_wave([part for part in wave if part], a, rows, deadline)
        save(a, rows)  # whatever ends the next
    print(f"\n{save(a, rows)}")


if __name__ == "__main__":
    main()
