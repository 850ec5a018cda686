"""Sampling: one prefill a prompt, then its G rollouts decode in lock-step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.engine.sampling import Written, draw
from ictcli.types import FloatArray, OnTokens, Rollouts, Sampling

from . import namespace
from .cache import new_cache
from .stats import StatsRecorder


@torch.inference_mode()
def lockstep(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    uniforms: FloatArray,
    wanted: Sequence[str],
    on_tokens: OnTokens | None = None,
) -> Rollouts:
    """Decode all rows of some prompts. `uniforms` (B, T) decide every draw."""
    device = model.device
    B, T, parallel = len(prompts) * group, sampling.max_tokens, device.type != "cpu"
    recorder = StatsRecorder(wanted, B, T, group, device)
    written = Written(B, sampling, on_tokens)
    numbers = torch.from_numpy(uniforms).to(device)
    logits, cache, mask, position = _prefill(model, prompts, group)
    rows = np.arange(B)
    for t in range(T):
        token, logp = draw(namespace, logits, numbers[:, t], sampling, parallel=parallel)
        drawn = token.cpu().numpy()
        if wanted:
            recorder.add(logits, rows, drawn, written.prefix[rows], t)
        ended = written.add(t, rows, drawn, logp.cpu().numpy())
        if ended.any():
            rows = rows[~ended]
            if len(rows) == 0:
                break
            alive = torch.from_numpy(np.flatnonzero(~ended)).to(device)
            token, position, numbers = token[alive], position[alive], numbers[alive]
            mask = None if mask is None else mask[alive]
            cache.reorder_cache(alive)
        if t + 1 < T:
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)
            logits = _forward(model, token[:, None], cache, mask, position[:, None])
            position = position + 1
    return written.rollouts(prompts, group, recorder.arrays())


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
