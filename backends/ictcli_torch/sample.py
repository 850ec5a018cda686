"""Sampling: one prefill a prompt, then its G rollouts decode in lock-step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.seeds import uniforms
from ictcli.types import Rollouts, Sampling

from .cache import new_cache
from .stats import StatsRecorder


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    seed: int,
    wanted: Sequence[str],
    rows_at_once: int,
) -> Rollouts:
    """`Engine.generate`: whole groups, at most `rows_at_once` rows side by side."""
    B, T = len(prompts) * group, sampling.max_tokens
    numbers = uniforms(seed, B, T)
    per_pass = max(1, rows_at_once // group)
    parts = [
        _lockstep(
            model,
            prompts[first : first + per_pass],
            group,
            sampling,
            numbers[first * group : (first + per_pass) * group],
            wanted,
        )
        for first in range(0, len(prompts), per_pass)
    ]
    lengths = np.concatenate([part[1] for part in parts])
    T = int(lengths.max(initial=1))
    names = ("tokens", "logp", *wanted)
    whole = {name: np.concatenate([part[0][name][:, :T] for part in parts]) for name in names}
    return Rollouts(
        prompts=tuple(tuple(prompt) for prompt in prompts),
        group=group,
        tokens=whole["tokens"],
        lengths=lengths,
        finished=np.concatenate([part[2] for part in parts]),
        logp=whole["logp"],
        stats={name: whole[name] for name in wanted},
    )


def _lockstep(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    numbers: np.ndarray,
    wanted: Sequence[str],
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Decode all rows of some prompts: arrays (B, T) by name, lengths (B,), finished (B,)."""
    device = model.device
    B, T = len(prompts) * group, sampling.max_tokens
    recorder = StatsRecorder(wanted, B, T, group, device)
    draws = torch.from_numpy(numbers).to(device)
    tokens = torch.zeros((B, T), dtype=torch.int32, device=device)
    logp = torch.zeros((B, T), device=device)
    lengths = np.full(B, T, dtype=np.int32)
    finished = np.zeros(B, dtype=bool)
    stops = torch.tensor(sampling.stop_ids, dtype=torch.long, device=device)

    logits, cache, mask, position = _prefill(model, prompts, group)
    rows = torch.arange(B, device=device)
    prefix = torch.zeros(B, dtype=torch.long, device=device)  # a hash of each row's tokens so far
    for t in range(T):
        token, token_logp = draw(logits, draws[rows, t], sampling)
        tokens[rows, t] = token.to(torch.int32)
        logp[rows, t] = token_logp
        recorder.add(logits, rows, token, prefix, t)
        prefix = prefix * 6364136223846793005 + token + 1442695040888963407
        ended = torch.isin(token, stops)
        if bool(ended.any()):
            gone = rows[ended].cpu().numpy()
            lengths[gone], finished[gone] = t + 1, True
            alive = torch.nonzero(~ended)[:, 0]
            if len(alive) == 0:
                break
            rows, token, position, prefix = (x[alive] for x in (rows, token, position, prefix))
            mask = None if mask is None else mask[alive]
            cache.reorder_cache(alive)
        if t + 1 < T:
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
            logits = _forward(model, token[:, None], cache, mask, position[:, None])
            position = position + 1
    recorder.flush()
    arrays = {"tokens": tokens, "logp": logp, **recorder.values}
    return {name: x.cpu().numpy() for name, x in arrays.items()}, lengths, finished


def _prefill(
    model: Any, prompts: Sequence[Sequence[int]], group: int
) -> tuple[Tensor, Any, Tensor | None, Tensor]:
    """Run each prompt once and repeat its state for its rows: logits (B, V), cache, mask, (B,)
    next positions. Prompts of several lengths are padded on the left; equal ones need no mask."""
    device = model.device
    lengths = [len(prompt) for prompt in prompts]
    longest = max(lengths)
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros((len(prompts), longest), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    padded = min(lengths) < longest
    positions = (mask.cumsum(1) - 1).clamp(min=0).to(device)
    mask_used = mask.to(device) if padded else None
    cache: Any = new_cache(model.config)
    logits = _forward(model, ids.to(device), cache, mask_used, positions)
    # Every kind of cache layer knows this one verb; recurrent layers lack batch_repeat_interleave.
    rows = torch.arange(len(prompts), device=device).repeat_interleave(group)
    cache.reorder_cache(rows)
    return (
        logits[rows],
        cache,
        None if mask_used is None else mask_used[rows],
        torch.tensor(lengths, device=device)[rows],
    )


def _forward(model: Any, ids: Tensor, cache: Any, mask: Tensor | None, positions: Tensor) -> Tensor:
    """Logits (R, V) float32 of the last position."""
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def draw(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Draw one token a row by inverting the CDF at `uniform` (R,): tokens (R,) and their log p.

    One number decides a row, whatever rows stand beside it. log p is of softmax(L / temperature)
    before top-p and top-k, which is what an update evaluates.
    """
    if sampling.temperature == 0:
        token = logits.argmax(-1)
        return token, torch.log_softmax(logits, -1).gather(1, token[:, None])[:, 0]
    scaled = logits if sampling.temperature == 1 else logits / sampling.temperature
    scaled = scaled - scaled.amax(-1, keepdim=True)
    weight = torch.exp(scaled)  # softmax before its division
    total = weight.sum(-1)
    cut = weight
    if sampling.top_k or sampling.top_p < 1:
        cut = torch.where(_nucleus(weight / total[:, None], sampling), weight, 0.0)
    cdf = cut.cumsum(-1)
    target = uniform.clamp(max=1 - 2**-23) * cdf[:, -1]
    token = torch.searchsorted(cdf, target[:, None], right=True)[:, 0]
    token = token.clamp(max=logits.shape[-1] - 1)
    if cut is not weight:  # a parallel cumsum may fall by a rounding, and a cut token be drawn
        token = torch.where(cut.gather(1, token[:, None])[:, 0] > 0, token, cut.argmax(-1))
    return token, scaled.gather(1, token[:, None])[:, 0] - torch.log(total)


def _nucleus(p: Tensor, sampling: Sampling) -> Tensor:
    """(R, V) mask of the top-k and of the smallest set whose mass reaches top-p."""
    ordered, index = p.sort(dim=-1, descending=True)
    keep = (ordered.cumsum(-1) - ordered) < sampling.top_p
    if sampling.top_k:
        keep[:, sampling.top_k :] = False
    return torch.zeros_like(keep).scatter(1, index, keep)
