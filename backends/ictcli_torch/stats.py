"""Token statistics from logits that are already there: no extra forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ictcli.algorithm.quantities import GROUP_QUANTITY, entropy, purity

PENDING_ELEMENTS = 1 << 21
"""Logits whose statistics are taken in one go (8 MB): a small vocabulary's steps are pooled, since
there the calls would cost more than the arithmetic; a large one's are taken group by group."""


GPU_ELEMENTS = 1 << 26
"""The same where there is no cache to fit and every call costs a launch: 256 MB."""


class StatsRecorder:
    """Collects the logits of decoding steps and turns them into statistics (B, T).

    `wanted` are names of `TokenStats`; nothing else is computed.
    """

    def __init__(self, wanted: Sequence[str], B: int, T: int, group: int, device: torch.device):
        self.wanted = wanted
        self.group = group
        self._rows = B
        self.values = {name: torch.zeros((B, T), device=device) for name in wanted}
        self._pending: list[tuple[Tensor, ...]] = []
        self._elements = 0

    def add(self, logits: Tensor, rows: Tensor, tokens: Tensor, prefix: Tensor, t: int) -> None:
        """One step: logits (R, V) float32 of the rows alive (R,), in ascending order, the tokens
        they drew (R,), and a hash of what each wrote before (R,).
        """
        if not self.wanted:
            return
        self._pending.append((logits, rows, tokens, prefix, torch.full_like(rows, t)))
        self._elements += logits.numel()
        if self._elements >= PENDING_ELEMENTS:
            self.flush()

    def flush(self) -> None:
        """Take the statistics of everything pending, some whole groups at a time."""
        if not self._pending:
            return
        logits, rows, tokens, prefix, position = (
            torch.cat(parts) for parts in zip(*self._pending, strict=True)
        )
        self._pending, self._elements = [], 0
        segment = position * self._rows + rows // self.group
        elements = PENDING_ELEMENTS if logits.device.type == "cpu" else GPU_ELEMENTS
        limit = max(elements // logits.shape[1], 1)
        for part in _whole_segments(segment, limit):
            found = self._take(logits[part], tokens[part], segment[part], prefix[part])
            for name, values in found.items():
                self.values[name][rows[part], position[part]] = values

    def _take(
        self, logits: Tensor, tokens: Tensor, segment: Tensor, prefix: Tensor
    ) -> dict[str, Tensor]:
        p = torch.softmax(logits, dim=-1)
        found: dict[str, Tensor] = {}
        if "entropy" in self.wanted:
            found["entropy"] = entropy(torch, p)
        if "purity" in self.wanted:
            found["purity"] = purity(torch, p)
        if "prob" in self.wanted:
            found["prob"] = p.gather(1, tokens[:, None])[:, 0]
        divergences = [name for name in self.wanted if name in GROUP_QUANTITY]
        if divergences:
            found.update(_divergences(p, segment, prefix, divergences))
        return found


def _whole_segments(segment: Tensor, limit: int) -> Iterator[slice]:
    """Cut N neighbours into slices of whole segments, of `limit` rows at most or one segment: the
    temporaries of a 152k vocabulary are many times its logits."""
    if len(segment) <= limit:
        yield slice(0, len(segment))
        return
    first = last = 0
    for count in torch.unique_consecutive(segment, return_counts=True)[1].tolist():
        if last > first and last + count - first > limit:
            yield slice(first, last)
            first = last
        last += count
    yield slice(first, last)


def _divergences(
    p: Tensor, segment: Tensor, prefix: Tensor, names: Sequence[str]
) -> dict[str, Tensor]:
    """Divergence of each row p (N, V) from the mean of its segment: a prompt's rows at one step.

    A segment whose rows all share one prefix has one distribution; its divergences are exactly 0,
    not the rounding of a batched matrix product. That covers t = 1 and a row left alone.
    """
    _, member, counts = torch.unique_consecutive(segment, return_inverse=True, return_counts=True)
    first = counts.cumsum(0) - counts
    split = torch.zeros_like(counts, dtype=torch.bool)  # MPS has no amin or amax of int64
    split[member[prefix != prefix[first][member]]] = True
    apart = torch.nonzero(split[member])[:, 0]
    found = {name: torch.zeros(len(p), device=p.device) for name in names}
    if len(apart) == 0:
        return found
    mean = torch.zeros((len(counts), p.shape[1]), device=p.device).index_add_(0, member, p)
    mean /= counts[:, None]
    mine = p if len(apart) == len(p) else p[apart]
    mean = mean[member[apart]]
    for name in names:
        found[name][apart] = GROUP_QUANTITY[name](torch, mine, mean)
    return found
