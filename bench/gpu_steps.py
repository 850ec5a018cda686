"""Parts of `bench/gpu.py` that time a step beside TRL's, vLLM's rate, the update and its memory."""

import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gpu_work import (
    KEEP,
    Report,
    limits,
    make_engine,
    operations,
    prompts_of,
    recipe_of,
    rows_of,
    seconds,
    shaped,
)
from harness import (
    STATISTICS,
    cuda_context,
    in_fresh_process,
    peak_of,
    random_weights,
    take_turns,
)
from peers_torch import compare, show

from ictcli.types import Sampling


def beside_trl(a: Namespace, report: Report, size: str, trained: str) -> None:
    """Turns of ours, of ours that trains all tokens, and of TRL: seconds and memory of a step."""
    size = "tiny" if a.tiny else size
    options = {
        "trl": a.trl,
        "trl_rows": a.trl_rows,
        "rounds": 1,
        "device": a.device,
        "dtype": "bfloat16",
        "full": trained == "full",
        "dense": trained == "lora",  # of all weights a card may not hold three trainings
        "keep": KEEP,
        "vllm": None,
        "beside": None,
    }
    work = a.work | {"tokens": a.work["tokens"] // 2}  # TRL has four shapes to get through
    with tempfile.TemporaryDirectory() as folder:
        in_fresh_process(shaped, folder, a.device, size)
        found = show(compare(folder, Namespace(**options, **work)))
    clock = "cpu" if a.device == "cpu" else "wall"
    for name, mean in found["a step"].items():
        ratio = found["ratios"].get(f"{name} / trl", {})
        report(
            f"a step of {rows_of(work)} rows x {work['tokens']} tokens",
            shape=size,
            trained=trained,
            program=name,
            seconds=mean[clock],
            **{"sampling s": mean["sampling"], "update s": mean["update"], "GB": mean["peak"]},
            **{"time / TRL": ratio.get(clock), "memory / TRL": ratio.get("peak")},
        )


def updates(a: Namespace, report: Report, size: str, trained: str) -> None:
    """The update beside the rate of a product, and peaks of memory beside the plan's."""
    from ictcli_torch.plan import CUDA_CONTEXT

    from ictcli.algorithm.objective import Objective
    from ictcli.engine.shape import read_shape
    from ictcli.engine.update import Update
    from ictcli.planning.estimate import estimate_memory

    size = "tiny" if a.tiny else size
    rate = in_fresh_process(limits, a.device, a.tiny)["operations/s"]
    with tempfile.TemporaryDirectory() as folder:
        in_fresh_process(shaped, folder, a.device, size)
        engine, shape = make_engine(folder, a.device, trained, a.work), read_shape(folder)
        planned = estimate_memory(
            recipe_of(folder, a.device, trained, a.work), shape, a.work["prompt"]
        )
        request = prompts_of(a.work), a.work["group"], Sampling(a.work["tokens"]), 0, STATISTICS
        rollouts = engine.generate(*request)
        tokens: dict[float, int] = {}

        def update(keep: float) -> float:
            given = Update(rollouts, *random_weights(rollouts, keep), Objective())
            took, result = seconds(a.device, lambda: engine.update(given, 1e-6))
            tokens[keep] = result.tokens
            return took

        turns = take_turns({str(keep): partial(update, keep) for keep in (KEEP, 1.0)}, 3)
        for keep, took in zip((KEEP, 1.0), map(statistics.median, turns.values()), strict=True):
            done = operations(shape, tokens[keep], keep, trained, a.work)
            cells = {"seconds": took, "of a product's rate": done / took / rate}
            report("update", shape=size, trained=trained, keep=keep, **cells)
        phases: dict[str, Callable[[], object]] = {
            "sampling": lambda: engine.generate(*request),
            "updating": lambda: update(KEEP),
        }
        peaks = {
            phase: (peak_of(engine, work), planned.peak(phase)) for phase, work in phases.items()
        }
    if a.device == "cuda":
        peaks["CUDA itself"] = cuda_context(), CUDA_CONTEXT
    for phase, (measured, plan) in peaks.items():
        sizes = {"GiB at its peak": measured / 2**30, "planned": plan / 2**30}
        report("memory", shape=size, trained=trained, phase=phase, **sizes, ratio=plan / measured)


def vllm(a: Namespace, report: Report, rows: Sequence[int]) -> None:
    """vLLM's rate on the same shape, without adapters and statistics, where it imports."""
    try:
        from vllm import LLM, SamplingParams  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        report("vllm", failed=f"not importable: {error}")
        return
    with tempfile.TemporaryDirectory() as folder:
        shaped(folder, a.device, "tiny" if a.tiny else "0.5b")
        llm: Any = LLM(
            folder,
            dtype="bfloat16",
            skip_tokenizer_init=True,
            max_model_len=2 * sum(a.work[name] for name in ("prompt", "tokens")),
            max_num_seqs=max(rows),
            gpu_memory_utilization=0.5,
        )
        options = {"n": a.work["group"], "max_tokens": a.work["tokens"], "ignore_eos": True}
        params: Any = SamplingParams(temperature=1.0, detokenize=False, **options)
        for count in rows:
            work = a.work | {"prompts": count // a.work["group"]}
            prompts = [{"prompt_token_ids": prompt} for prompt in prompts_of(work)]
            llm.generate(prompts, params, use_tqdm=False)  # warms up
            began = time.perf_counter()
            llm.generate(prompts, params, use_tqdm=False)
            rate = count * a.work["tokens"] / (time.perf_counter() - began)
            report("vllm", rows=count, **{"tokens/s": rate})
