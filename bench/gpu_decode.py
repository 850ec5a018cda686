"""Parts of `bench/gpu.py` that decode: what the engine does, and variants with fewer kernels.

Those that the engine lacks live here until a GPU shows what they are worth. `kept mask`: the mask
is what attention adds to its scores and stays on the device, so nothing builds it in each step or
converts it in each block. `folded`: sampling with adapters merged into a copy of the weights; `gap`
is how far the log-probabilities are then from those that an update computes. `compiled`: the step
by `torch.compile(fullgraph=True)`, inside the engine's CUDA graph. `fused`: ICT's statistics
compiled too, in place of some forty calls.
"""

import contextlib
import statistics
import tempfile
import time
import traceback
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from gpu_work import Report, bytes_of_step, limits, make_engine, prompts_of, seconds, shaped
from harness import STATISTICS
from ictcli_torch import decode, sample
from ictcli_torch.decode import FixedDecoder
from ictcli_torch.model import cache_argument
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from transformers import AttentionInterface

from ictcli.algorithm.quantities import entropy, js, purity
from ictcli.engine.shape import read_shape
from ictcli.types import LOGP, IntArray, Rollouts, Sampling

GROUPED = "grouped"


class KeptMask(FixedDecoder):
    """Its mask (R, 1, 1, L) is 0 at filled positions and -inf at free ones."""

    def _extend(self) -> None:
        super()._extend()
        free = ~self._mask[:, None, None]
        added = torch.zeros(free.shape, dtype=self._model.dtype, device=free.device)
        self._added = added.masked_fill_(free, float("-inf"))

    def _work(self) -> None:
        self._mask.index_fill_(1, self._place, True)  # a longer cache begins with it
        self._added.index_fill_(3, self._place, 0.0)
        self._logits.copy_(self._next())
        self._position.add_(1)
        self._place.add_(1)

    def _next(self) -> Tensor:
        return decode._forward(self._model, self._token, self._cache, self._added, self._position)


class Compiled(KeptMask):
    def _next(self) -> Tensor:
        config = self._model.config
        kept = config._attn_implementation
        config._attn_implementation = GROUPED
        try:
            name = cache_argument(type(self._model))
            given = self._token, self._added, self._position, name, self._cache
            return _compiled_step(self._model, *given)
        finally:
            config._attn_implementation = kept


def _step(model: Any, ids: Tensor, mask: Tensor, positions: Tensor, name: str, cache: Any):
    options = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, name: cache}
    return model(**options, use_cache=True, logits_to_keep=1).logits[:, -1]


_compiled_step: Callable[..., Tensor] = torch.compile(_step, fullgraph=True, dynamic=False)


def _grouped(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of one token a row, the heads that share keys side by side: transformers does so
    too, but repeats keys and values when it is compiled."""
    rows, heads, length, width = query.shape
    assert length == 1
    packed = query.reshape(rows, key.shape[1], -1, width)
    result = nn.functional.scaled_dot_product_attention(
        packed, key, value, attn_mask=attention_mask, scale=scaling
    )
    return result.reshape(rows, 1, heads, width), None


AttentionInterface.register(GROUPED, _grouped)


@partial(torch.compile, fullgraph=True, dynamic=False)
def _fused(logits: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
    """Entropy, purity, p of the token and uniqueness (K, G) of logits (K, G, V), tokens (K, G)."""
    p = torch.softmax(logits, -1)
    mean = p.mean(1, keepdim=True)
    prob = p.gather(-1, tokens[..., None])[..., 0]
    return entropy(torch, p), purity(torch, p), prob, js(torch, p, mean)


class FusedRecorder(sample.StatsRecorder):
    """Takes ICT's statistics of whole groups by one compiled function."""

    def measure(
        self, values: Any, tokens: IntArray, apart: IntArray, counts: IntArray
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if len(apart) < len(values) or (counts != self.group).any():
            return super().measure(values, tokens, apart, counts)
        logits = values.view(-1, self.group, values.shape[-1])
        found = _fused(logits, self.on_device(tokens).view(-1, self.group))
        *rows, uniqueness = (x.reshape(-1) for x in found)
        names = ("entropy", "purity", "prob")
        return dict(zip(names, rows, strict=True)), {"uniqueness": uniqueness}


@dataclass(frozen=True)
class Variant:
    name: str
    decoder: type[FixedDecoder] = FixedDecoder
    folded: bool = False
    recorder: type[sample.StatsRecorder] | None = None
    """What takes statistics; None: nothing does."""


AS_IS, LEAST = "engine, statistics", "folded, compiled, fused statistics"
VARIANTS = (
    Variant(AS_IS, recorder=sample.StatsRecorder),
    Variant("engine"),
    Variant("kept mask", KeptMask),
    Variant("folded, kept mask", KeptMask, folded=True),
    Variant("folded, compiled", Compiled, folded=True),
    Variant("folded, compiled, statistics", Compiled, folded=True, recorder=sample.StatsRecorder),
    Variant(LEAST, Compiled, folded=True, recorder=FusedRecorder),
    Variant("engine, fused statistics", recorder=FusedRecorder),
    Variant("compiled", Compiled),
)
"""What matters most comes first: a limit may cut the rest."""


class Decoding:
    """An engine, some prompts, and how their rollouts are sampled."""

    def __init__(self, a: Namespace, folder: str, rows: int) -> None:
        self.device, self.work = a.device, a.work | {"prompts": rows // a.work["group"]}
        self.engine = make_engine(folder, a.device, "lora", self.work, rows=rows)
        for name, weight in self.engine.model.named_parameters():
            if "lora_B" in name:
                weight.data.normal_(std=2e-3)  # as after some steps: folding 0 would show nothing
        self.lockstep = self.engine.lockstep

    def sample(self, variant: Variant, tokens: int) -> Rollouts:
        """A cache of one length, whatever the tokens: one compilation for all."""
        full = self.work["tokens"] - 1

        def roomy(model: Any, prefix: Any, of_row: Tensor, steps: int) -> FixedDecoder:
            return variant.decoder(model, prefix, of_row, full)

        self.engine.lockstep = partial(self.lockstep, decoder=roomy)
        recorder = variant.recorder or sample.StatsRecorder
        with mock.patch.object(sample, "StatsRecorder", recorder):
            return self.engine.generate(
                prompts_of(self.work),
                self.work["group"],
                Sampling(tokens),
                0,
                STATISTICS if variant.recorder else (),
            )

    @contextlib.contextmanager
    def weights(self, variant: Variant) -> Generator[float]:
        """Within, adapters are folded where the variant says so; gives the seconds it took."""
        began = time.perf_counter()
        with self.engine.merged() if variant.folded else contextlib.nullcontext():
            if self.device == "cuda":
                torch.cuda.synchronize()
            yield time.perf_counter() - began

    def kernels(self, variant: Variant) -> dict[str, tuple[float, float]]:
        """By name, how many run in a step and their microseconds: the difference of a long and a
        short sampling, each of which reads the prompts and captures a graph. (On a CPU operators.)
        """
        short = max(2, self.work["tokens"] // 32)
        long = 2 * short
        counts, times = Counter[str](), Counter[str]()
        kind = "CUDA" if self.device == "cuda" else "CPU"
        for tokens, sign in ((short, -1), (long, 1)):
            with profile(activities=[getattr(ProfilerActivity, kind)]) as result:
                self.sample(variant, tokens)
            for event in result.key_averages():
                if event.device_type.name != kind or getattr(event, "is_user_annotation", False):
                    continue
                took = event.self_device_time_total if kind == "CUDA" else event.self_cpu_time_total
                counts[event.key] += sign * event.count
                times[event.key] += sign * took
        steps = long - short
        return {name: (counts[name] / steps, times[name] / steps) for name in counts}


def decoding(a: Namespace, report: Report, rows: int) -> None:
    """The variants at one number of rows."""
    rate = limits(a.device, a.tiny)["bytes/s"]
    with tempfile.TemporaryDirectory() as folder:
        shaped(folder, a.device, "tiny" if a.tiny else "0.5b")
        runs, shape = Decoding(a, folder, rows), read_shape(folder)
        bound = bytes_of_step(shape, runs.work) / rate
        statistics_as_is: dict[str, Any] = {}
        for variant in VARIANTS:
            try:
                _measure(runs, variant, rows, bound, statistics_as_is, report)
            except Exception as error:  # the next may do
                traceback.print_exc()
                text = f"{type(error).__name__}: {error}".splitlines()[0][:90]
                report("sampling", rows=rows, variant=variant.name, failed=text)


def _measure(
    runs: Decoding,
    variant: Variant,
    rows: int,
    bound: float,
    statistics_as_is: dict[str, Any],
    report: Report,
) -> None:
    tokens, rounds = runs.work["tokens"], 2
    with runs.weights(variant) as folding:
        sampling = partial(runs.sample, variant, tokens)
        first, rollouts = seconds(runs.device, sampling)
        took = statistics.median(seconds(runs.device, sampling)[0] for _ in range(rounds))
        kernels = runs.kernels(variant)
    logp = runs.engine.score(rollouts, (LOGP,))[LOGP]
    gap = abs(rollouts.logp - logp)[rollouts.valid].mean()
    step = took / tokens
    busy = sum(time for _, time in kernels.values()) / 1e6
    row = {
        "tokens/s": rows * tokens / took,
        "ms a step": 1e3 * step,
        "of bandwidth": bound / step,
        "kernels a step": sum(count for count, _ in kernels.values()),
        "their ms": 1e3 * busy,
        "first time, s": first - took,
        "folding, s": folding if variant.folded else None,
        "gap, nats": float(gap),
        "statistics differ by": _apart(rollouts, variant, statistics_as_is),
    }
    report("sampling", rows=rows, variant=variant.name, **row)
    if variant.name in (AS_IS, LEAST):
        _most(kernels, report, rows=rows, variant=variant.name)


def _apart(rollouts: Rollouts, variant: Variant, as_is: dict[str, Any]) -> float | None:
    """Largest difference of fused statistics to the engine's, where the tokens are the same."""
    if variant.recorder is sample.StatsRecorder and not variant.folded:
        as_is |= {"tokens": rollouts.tokens, **rollouts.stats}
    if variant.recorder is not FusedRecorder or variant.folded or not as_is:
        return None
    same = (rollouts.tokens == as_is["tokens"]).cumprod(1).astype(bool)
    return max(float(abs(rollouts.stats[name] - as_is[name])[same].max()) for name in STATISTICS)


def _most(kernels: dict[str, tuple[float, float]], report: Report, **about: Any) -> None:
    """The kernels that run most often, and those that take longest."""
    often = sorted(kernels, key=lambda name: -kernels[name][0])[:10]
    long = sorted(kernels, key=lambda name: -kernels[name][1])[:6]
    for name in dict.fromkeys(often + long):
        count, took = kernels[name]
        report("kernels", **about, count=count, ms=took / 1e3, kernel=name[:80])
