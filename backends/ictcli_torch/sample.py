"""Sampling: each prompt is prefilled once, then its G rollouts decode in lock-step."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.algorithm.quantities import entropy, js, kl, kl_reversed, purity
from ictcli.engine.packing import chunks
from ictcli.engine.sampling import Recorder, Written, draw
from ictcli.types import FloatArray, IntArray, OnTokens, Rollouts, Sampling

from . import namespace
from .decode import FixedDecoder, GrowingDecoder, SharedDecoder, read, read_once
from .plan import GPU_ELEMENTS, PART_ELEMENTS, PENDING_ELEMENTS

SUMS = (entropy, purity, js, kl, kl_reversed)
"""Formulas that are sums over the vocabulary."""


@torch.inference_mode()
def lockstep(
    model: Any,
    prompts: Sequence[Sequence[int]],
    group: int,
    sampling: Sampling,
    uniforms: FloatArray,
    wanted: Sequence[str],
    on_tokens: OnTokens | None = None,
    *,
    decoder: type[GrowingDecoder | SharedDecoder | FixedDecoder] = GrowingDecoder,
) -> Rollouts:
    """Decode `group` rows for each prompt. The numbers `uniforms` (B, T) decide every draw."""
    device = model.device
    B, T, parallel = len(prompts) * group, sampling.max_tokens, device.type != "cpu"
    recorder = StatsRecorder(wanted, B, T, group, device)
    written = Written(B, sampling, on_tokens)
    numbers = torch.from_numpy(uniforms).to(device)
    if group == 1 and decoder is SharedDecoder:
        decoder = GrowingDecoder
    prefix = (read_once if decoder is SharedDecoder else read)(model, prompts)
    of_row = torch.arange(len(prompts), device=device).repeat_interleave(group)
    logits, decoding = prefix.logits[of_row], decoder(model, prefix, of_row, T - 1)
    del prefix  # frees what the decoder has copied
    rows = np.arange(B)
    at_once = B if parallel else max(PENDING_ELEMENTS // logits.shape[1], 1)  # fits a core's cache
    for t in range(T):
        parts = [
            draw(namespace, logits[part], numbers[part, t], sampling, parallel=parallel)
            for part in chunks(len(logits), at_once)
        ]
        token, logp = map(torch.cat, zip(*parts, strict=True))
        drawn = token.cpu().numpy()
        if wanted:
            recorder.add(logits, rows, drawn, written.prefix[rows], t)
        ended = written.add(t, rows, drawn, logp.cpu().numpy())
        if ended.any():
            rows = rows[~ended]
            if len(rows) == 0:
                break
            alive = torch.from_numpy(np.flatnonzero(~ended)).to(device)
            token, numbers = token[alive], numbers[alive]
            decoding.keep(alive)
        if t + 1 < T:
            logits = decoding.step(token)
    return written.rollouts(prompts, group, recorder.arrays())


class StatsRecorder(Recorder):
    """Computes token statistics of the sampled logits in PyTorch."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, device: torch.device):
        at_once = PENDING_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
        super().__init__(namespace, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self.device = device

    def means(self, p: Tensor, counts: IntArray) -> tuple[Tensor, Tensor]:
        lengths, member = map(self.on_device, (counts, np.repeat(np.arange(len(counts)), counts)))
        if len(counts) == 1:
            return p, p.mean(dim=0, keepdim=True)
        if self.device.type == "cuda":  # where index_add_ adds in random order
            total = torch.segment_reduce(p, "sum", lengths=lengths, axis=0, unsafe=True)
        else:
            total = p.new_zeros((len(counts), p.shape[1])).index_add_(0, member, p)
        return p, (total / lengths[:, None])[member]

    def formula(self, name: str) -> Callable[..., Tensor]:
        """Return a statistic's formula; on a CPU it sums parts that fit a core's cache."""
        plain = super().formula(name)

        def in_parts(*arrays: Tensor) -> Tensor:
            parts = chunks(arrays[0].shape[1], max(PART_ELEMENTS // len(arrays[0]), 1))
            return torch.stack([plain(*(x[:, part] for x in arrays)) for part in parts]).sum(0)

        sums = self.wanted[name].formula in SUMS and self.device.type == "cpu"
        return in_parts if sums else plain

    def on_device(self, places: IntArray) -> Tensor:
        return torch.from_numpy(places).to(self.device, torch.long)

    def to_host(self, values: Tensor) -> FloatArray:
        return values.cpu().numpy()
