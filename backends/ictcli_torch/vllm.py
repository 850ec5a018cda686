"""Sampling by vLLM in this process (docs/scale.md).

Before every call all weights are sent to vLLM by its `reload_weights`, with adapters merged. A tied
head is sent as a separate weight, and vLLM's config says so: on a CPU vLLM copies the head to
another layout, but a tied head only once. Inputs and outputs are token ids. Each prompt has a seed;
vLLM's draws differ from ictcli's, and a batch's other rows may change a logit's rounding.

The processes of a launch each start a vLLM at the same time. Each vLLM makes groups of one process
inside the launch's process group (vLLM's "external_launcher").
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.core_model_loading import revert_weight_conversion

from ictcli.engine import remote
from ictcli.engine.models import Source, snapshot
from ictcli.engine.registry import FLOAT32_GAP, ROUNDED_GAP
from ictcli.engine.sampling import Written
from ictcli.engine.shape import read_shape
from ictcli.errors import EngineMissingError, RunFailedError, UserError, install, reason_of
from ictcli.seeds import uniforms
from ictcli.types import LOGP, FloatArray, Rollouts, Sampling

OWN_HEAD = {"tie_word_embeddings": False}
"""Change to the model's config.json for vLLM: the head is a separate weight."""
ENVIRONMENT = {  # set unless the user has
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
BLOCK = 128
"""Number of positions in the largest block of vLLM's cache."""

Responses = list[tuple[Sequence[int], Sequence[float]]]
"""Tokens and their log-probabilities, row by row."""


def whole_weights(model: Any) -> dict[str, Tensor]:
    """Return a model's weights by their names in a Hugging Face folder, including a tied head."""
    return revert_weight_conversion(model, model.state_dict())


def sample(
    engine: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    seed: int,
    wanted: Sequence[str] = (),
    on_tokens: Any = None,
) -> Rollouts:
    """Sample as `Engine.generate` does, but without `on_tokens`. vLLM returns no distributions, so
    a pass of the model itself computes the statistics."""
    numbers = uniforms(seed, len(prompts) * group, sampling.max_tokens)
    drawn = numbers[::group, [0, min(1, numbers.shape[1] - 1)]].tolist()
    seeds = [int(high * 2**24) * 2**7 + int(low * 2**7) for high, low in drawn]
    rollouts = engine.draw(prompts, group, sampling, seeds)
    stats = engine.score(rollouts, (*wanted, LOGP), sampling.temperature or 1.0)
    check_near(engine, rollouts, stats.pop(LOGP))
    return replace(rollouts, stats=stats)


def draw(
    vllm: "InProcess",
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    seeds: Sequence[int],
) -> Rollouts:
    """Return rollouts without statistics. Row g of a prompt uses the prompt's seed + g."""
    options = {
        "n": group,
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "logprobs": 0,  # only the drawn token's
        "stop_token_ids": list(sampling.stop_ids),
        "ignore_eos": True,
    }
    written = Written(len(prompts) * group, sampling)
    for row, (tokens, logp) in enumerate(vllm.complete(prompts, options, seeds)):
        length = len(tokens)
        written.tokens[row, :length], written.logp[row, :length] = tokens, logp
        written.lengths[row] = length
        written.finished[row] = tokens[-1] in sampling.stop_ids
    return written.rollouts(prompts, group, {})


def check_near(engine: Any, rollouts: Rollouts, logp: FloatArray) -> None:
    """Raise RunFailedError if vLLM's log-probabilities differ from the model's log pi (B, T) by
    more than rounding: vLLM then has other weights, or defines log pi differently."""
    gap = np.abs(rollouts.logp - logp)[rollouts.valid].mean()
    if not gap <= (FLOAT32_GAP if engine.model.dtype == torch.float32 else ROUNDED_GAP):  # or NaN
        raise RunFailedError(
            "vLLM's log-probabilities differ from those of the trained model by "
            f"{gap:.2g} nats per token.",
            "set engine.sampler=own",
        )


def logprobs_mode(sampling: Sampling) -> str:
    """Return vLLM's name for log pi at the sampling temperature before any top-p or top-k cut. vLLM
    has no name for a cut combined with a temperature other than 1, which recipes may not have."""
    cut = sampling.top_k or sampling.top_p < 1
    return "raw_logprobs" if cut else "processed_logprobs"


def start(
    engine: Any, prompts: Sequence[Sequence[int]], group: int, sampling: Sampling
) -> "InProcess":
    """Return a vLLM with room for these prompts' rows, each of the run's maximum length."""
    rows = min(max(len(prompts), 1) * group, max(engine.settings.rows, group))
    longest = max(map(len, prompts), default=0) + sampling.max_tokens  # if nothing was planned
    return InProcess(engine, rows, engine.budget.longest or longest, sampling)


class InProcess:
    """vLLM's `LLM`, to which `load` sends weights. All ranks must create theirs together."""

    def __init__(self, engine: Any, rows: int, longest: int, sampling: Sampling) -> None:
        """Start vLLM for `rows` simultaneous rows of `longest` tokens each, prompts included."""
        settings, on_cpu = engine.settings, engine.device.type == "cpu"
        eager = settings.compile == "off" or (settings.compile == "auto" and on_cpu)
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # run in this process
        if eager:
            os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
        shape, width = read_shape(engine.source.path), engine.model.dtype.itemsize
        several = engine.ranks.size > 1
        positions = max(rows * -(-longest // BLOCK), -(-engine.context // BLOCK) + 1) * BLOCK
        try:
            from vllm import SamplingParams  # pyright: ignore[reportMissingImports]

            self.params: Any = SamplingParams
            self.llm = _build(
                engine.source,
                dtype=str(engine.model.dtype).removeprefix("torch."),
                trust_remote_code=settings.trust_remote_code,
                max_model_len=engine.context,
                max_num_seqs=rows,
                kv_cache_memory_bytes=2 * positions * shape.layers * shape.keys * width,
                logprobs_mode=logprobs_mode(sampling),
                enforce_eager=eager,
                distributed_executor_backend="external_launcher" if several else "uni",
            )
            if several:
                from vllm.distributed import (  # pyright: ignore[reportMissingImports]
                    cleanup_dist_env_and_memory,
                )

                engine.ranks.leave = cleanup_dist_env_and_memory
        except ImportError as error:
            raise EngineMissingError(
                f"engine.sampler=vllm needs vLLM, which cannot be imported: {reason_of(error)}.",
                install("vllm"),
            ) from error
        except Exception as error:  # vLLM raises errors of many types
            raise UserError(
                f"vLLM cannot load {engine.source.path}: {reason_of(error)}.",
                "engine.sampler=own samples any model that the torch engine trains",
            ) from error

    def load(self, engine: Any) -> None:
        with engine.merged():
            named = {"weights_iterator": iter(whole_weights(engine.model).items())}
            self.llm.collective_rpc("reload_weights", kwargs=named)
        self.llm.reset_prefix_cache()

    def complete(
        self, prompts: Sequence[Sequence[int]], options: dict[str, Any], seeds: Sequence[int]
    ) -> Responses:
        tokens = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        params = [self.params(**options, seed=seed, detokenize=False) for seed in seeds]
        requests = self.llm.generate(tokens, params, use_tqdm=False) if prompts else []
        return [
            (
                row.token_ids,
                [at[n].logprob for at, n in zip(row.logprobs, row.token_ids, strict=True)],
            )
            for request in requests
            for row in sorted(request.outputs, key=lambda row: row.index)
        ]


@lru_cache(maxsize=1)
def _build(source: Source, **options: Any) -> Any:
    """Return vLLM's `LLM`, one for all engines of a process: `load` replaces all its weights, and a
    discarded vLLM would not free all its memory."""
    from vllm import LLM  # pyright: ignore[reportMissingImports]

    options |= {"load_format": "dummy", "skip_tokenizer_init": True}
    with remote.asking(source.path, source.named):
        return LLM(str(snapshot(source.path)), hf_overrides=OWN_HEAD, **options)
