"""Sampling: one prefill a prompt, then its G rollouts decode in lock-step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.engine.sampling import Recorder, Written, draw
from ictcli.types import FloatArray, IntArray, OnTokens, Rollouts, Sampling

from . import namespace
from .decode import FixedDecoder, GrowingDecoder, read
from .plan import GPU_ELEMENTS, PENDING_ELEMENTS


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
    decoder: type[GrowingDecoder | FixedDecoder] = GrowingDecoder,
) -> Rollouts:
    """Decode all rows of some prompts. `uniforms` (B, T) decide every draw."""
    device = model.device
    B, T, parallel = len(prompts) * group, sampling.max_tokens, device.type != "cpu"
    recorder = StatsRecorder(wanted, B, T, group, device)
    written = Written(B, sampling, on_tokens)
    numbers = torch.from_numpy(uniforms).to(device)
    prefix = read(model, prompts)
    of_row = torch.arange(len(prompts), device=device).repeat_interleave(group)
    logits, decoding = prefix.logits[of_row], decoder(model, prefix, of_row, T - 1)
    del prefix  # or its cache would stay beside the rows' own
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
            token, numbers = token[alive], numbers[alive]
            decoding.keep(alive)
        if t + 1 < T:
            logits = decoding.step(token)
    return written.rollouts(prompts, group, recorder.arrays())


class StatsRecorder(Recorder):
    """`ictcli.engine.sampling.Recorder` of logits."""

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, device: torch.device):
        at_once = PENDING_ELEMENTS if device.type == "cpu" else GPU_ELEMENTS
        super().__init__(namespace, wanted, B, T, group, PENDING_ELEMENTS, at_once)
        self.device = device

    def means(self, p: Tensor, counts: IntArray) -> tuple[Tensor, Tensor]:
        lengths, member = map(self.on_device, (counts, np.repeat(np.arange(len(counts)), counts)))
        if self.device.type == "cuda":  # where index_add_ adds in an order of its own each time
            total = torch.segment_reduce(p, "sum", lengths=lengths, axis=0, unsafe=True)
        else:
            total = p.new_zeros((len(counts), p.shape[1])).index_add_(0, member, p)
        return p, (total / lengths[:, None])[member]

    def on_device(self, places: IntArray) -> Tensor:
        return torch.from_numpy(places).to(self.device, torch.long)

    def to_host(self, values: Tensor) -> FloatArray:
        return values.cpu().numpy()
