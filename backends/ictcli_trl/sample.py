"""Rollouts of weights that may lie spread over processes, by transformers' `generate`, and the pass
that evaluates them. All processes have to be here, with as many groups each."""

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ictcli_torch import namespace
from ictcli_torch.model import head_logits
from ictcli_torch.stats import StatsRecorder
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

from ictcli.algorithm.objective import token_logp
from ictcli.engine.packing import CHUNK_LOGITS, chunks
from ictcli.engine.sampling import Prompts, Written, draw
from ictcli.types import FloatArray, Rollouts, Sampling


class Draws(LogitsProcessor):
    """Leaves each row the one token that its number (B, T) draws, as the torch engine does."""

    def __init__(self, written: Written, numbers: FloatArray, sampling: Sampling) -> None:
        self.written, self.numbers, self.sampling = written, numbers, sampling
        self.t, self.alive = 0, np.arange(len(numbers))

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if not len(self.alive):  # on a Mac, transformers sees a step late that all have ended
            return scores
        numbers = torch.from_numpy(self.numbers[:, self.t]).to(scores.device)
        parallel = scores.device.type != "cpu"
        tokens, logp = draw(namespace, scores.float(), numbers, self.sampling, parallel=parallel)
        drawn, logps = (x.cpu().numpy()[self.alive] for x in (tokens, logp))
        ended = self.written.add(self.t, self.alive, drawn, logps)
        self.t, self.alive = self.t + 1, self.alive[~ended]
        return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)


def generated(
    model: Any,
    prompts: Prompts,
    group: int,
    sampling: Sampling,
    numbers: FloatArray,
    *,
    synced: bool,
) -> Rollouts:
    """All rows side by side, by transformers. `synced`: other processes have parts of the weights,
    so each runs until all have ended."""
    P, B = max(map(len, prompts)), len(prompts) * group
    ids, mask = (torch.zeros((B, P), dtype=torch.long) for _ in range(2))
    for row in range(B):
        prompt = prompts[row // group]
        ids[row, P - len(prompt) :], mask[row, P - len(prompt) :] = torch.tensor(prompt), 1
    written = Written(B, sampling)
    own, model.generation_config = (
        model.generation_config,
        GenerationConfig(
            max_new_tokens=sampling.max_tokens,
            do_sample=False,
            eos_token_id=list(sampling.stop_ids) or None,
            pad_token_id=0,
            disable_compile=True,
        ),
    )
    try:
        with weights_in_use(model):
            model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                logits_processor=LogitsProcessorList([Draws(written, numbers, sampling)]),
                synced_gpus=synced,
            )
    finally:
        model.generation_config = own
    return written.rollouts(prompts, group, {})


def listed(
    prompts: Prompts,
    group: int,
    sampling: Sampling,
    tokens: list[list[int]],
    logp: list[list[float]],
) -> Rollouts:
    """Rollouts of each row's tokens and log-probabilities, as vLLM gives them."""
    written = Written(len(tokens), sampling)
    for t in range(max(map(len, tokens))):
        rows = np.array([row for row, own in enumerate(tokens) if len(own) > t])
        now, then = (np.array([own[row][t] for row in rows]) for own in (tokens, logp))
        written.add(t, rows, now, then)
    return written.rollouts(prompts, group, {})


def evaluated(
    model: Any, rollouts: Rollouts, temperature: float, wanted: Sequence[str], vocabulary: int
) -> Rollouts:
    """One prompt's rollouts with the model's own log-probabilities and statistics, by a pass over
    the whole group; the sampler's stand beside them."""
    (prompt,), (G, T), valid = rollouts.prompts, rollouts.tokens.shape, rollouts.valid
    recorder = StatsRecorder(wanted, G, T, G, model.device)
    written = Written(G, Sampling(T))

    def at_head(states: Tensor, logits_of: Callable[[Tensor], Tensor]) -> None:
        for part in chunks(T, max(CHUNK_LOGITS // (vocabulary * G), 1)):
            t, row = np.nonzero(valid[:, part].T)
            t += part.start
            values = logits_of(states[row, t + len(prompt) - 1])
            targets = torch.from_numpy(rollouts.tokens[row, t]).to(values.device).long()
            logp = token_logp(namespace, values, targets, temperature or 1.0).cpu().numpy()
            for now in np.unique(t):
                places = slice(*np.searchsorted(t, [now, now + 1]))
                rows, tokens = row[places], rollouts.tokens[row[places], now]
                if wanted:
                    recorder.add(values[places], rows, tokens, written.prefix[rows], int(now))
                written.add(int(now), rows, tokens, logp[places])

    ids = np.concatenate([np.tile(prompt, (G, 1)), rollouts.tokens], axis=1)
    with weights_in_use(model), meeting_head(model, at_head):
        model(input_ids=torch.from_numpy(ids).to(model.device).long(), use_cache=False)
    sampled = np.where(np.isnan(rollouts.logp), written.logp, rollouts.logp)
    return replace(rollouts, logp=written.logp, stats=recorder.arrays(), sampler_logp=sampled)


@contextlib.contextmanager
def weights_in_use(model: Any) -> Generator[None]:
    """Around passes without a gradient. FSDP2 keeps some weights whole behind one, and would not
    see that they change."""
    try:
        with torch.no_grad():
            yield
    finally:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


class _Bare(nn.Module):
    """A head without the hooks of its module, which are for whole passes."""

    def __init__(self, forward: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = forward


@contextlib.contextmanager
def meeting_head(
    model: Any, at_head: Callable[[Tensor, Callable[[Tensor], Tensor]], None]
) -> Generator[None]:
    """Within, a pass calls `at_head` in place of its LM head, with the states (R, L, H) and what
    makes logits (n, V) of some (n, H): so a sharded head is put together once, and its logits of a
    whole pass never are."""
    head: Any = model.get_output_embeddings()
    forward = head.forward

    def meet(states: Tensor) -> Tensor:
        model.set_output_embeddings(_Bare(forward))
        try:
            at_head(states, lambda some: head_logits(model, some, model.forward))
        finally:
            model.set_output_embeddings(head)
        return states[..., :1]

    plain = vars(head).get("forward")
    head.forward = meet
    try:
        yield
    finally:
        del head.forward
        if plain is not None:
            head.forward = plain
