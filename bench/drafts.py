"""Rollouts of the epoch before as drafts: what share of them is accepted, and what sampling costs.

    python bench/drafts.py [--recipe quickstart] [--problems 200] [--epochs 4] [key=value ...]

Trains on a few problems for some epochs. From the second on the rollouts y of a problem's last
visit, drawn from q, are read by the policy of now, p, in one pass, and kept up to the first token
that is refused; the engine decodes the rest. Two rules:

- `fresh`: y_t stays if a fresh number draws it from p. What comes out is what sampling with these
  numbers gives, token for token, which is checked here: exact, whatever y is. Nothing of q is
  needed, and a token stays with probability p(y_t).
- `speculative` (arXiv 2211.17192): y_t stays with probability min(1, p/q), else a token is drawn
  from max(0, p - q), normalised. That needs all of q at the refused place: distributions that were
  kept, as here, or a second pass, of the old weights. (With q(y_t) alone only a rule that ignores q
  is exact for every q; drawing from p there gives min(p, q) + (1 - sum min(p, q)) p.) It is exact
  where y is a draw of q that p does not depend on. But p was trained on y: given its weights, what
  stays is more often what the update has raised. And rollouts repeat those of the epoch before.

Each of a group has a draft of its own. Programs take turns, in CPU seconds, without statistics.
`steps` are a batch's decoding steps, which a GPU waits for; the pass counts as one.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import record
from ictcli_torch import namespace
from scipy.special import softmax

from ictcli.engine import build_engine
from ictcli.engine.sampling import draw, join
from ictcli.recipe import load_recipe
from ictcli.seeds import generator, seed_of, uniforms
from ictcli.tasks.prepare import task_of
from ictcli.train.sample import sample_batch, sampling_of
from ictcli.train.step import optimise, select
from ictcli.types import BoolArray, FloatArray, IntArray, Rollouts


def spread(values: FloatArray, where: BoolArray) -> FloatArray:
    """(B, T, V) of the rows (N, V) at `where` (B, T)."""
    whole = np.zeros((*where.shape, values.shape[-1]), dtype=np.float32)
    whole[where] = values
    return whole


def drawn(logits: FloatArray, numbers: FloatArray, sampling: Any) -> IntArray:
    """The tokens (N,) that the numbers (N,) draw, as the engine draws them."""
    both = torch.from_numpy(logits), torch.from_numpy(numbers)
    return draw(namespace, *both, sampling, parallel=False)[0].numpy()


def first_refused(kept: BoolArray, lengths: IntArray) -> IntArray:
    """(B,) tokens before the first that is not kept; all of a row where there is none."""
    refused = ~kept & (np.arange(kept.shape[1]) < lengths[:, None])
    return np.where(refused.any(axis=1), refused.argmax(axis=1), lengths)


class Drafts:
    """Programs over one engine, and what they took."""

    def __init__(self, engine: Any, sampling: Any) -> None:
        self.engine, self.sampling = engine, sampling
        self.found: dict[str, float] = defaultdict(float)

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = work()
        self.found[f"{name} s"] += time.process_time() - began
        return result

    def rest(
        self, name: str, old: Rollouts, n: IntArray, tokens: IntArray, numbers: FloatArray
    ) -> list[list[int]]:
        """Rows of the first n (B,) tokens of `old`, then `tokens` (B,) and what the engine decodes
        after them by the numbers (B, T)."""
        T, made = self.sampling.max_tokens, [old.tokens[i, : n[i]].tolist() for i in range(len(n))]
        going = list[int]()
        for i in np.flatnonzero(n < old.lengths):
            made[i].append(int(tokens[i]))
            if tokens[i] not in self.sampling.stop_ids and len(made[i]) < T:
                going.append(int(i))
        self.found[f"{name} whole rows"] += np.mean(n == old.lengths)
        if going:
            asked, begun = [old.prompt_of(i) for i in going], [made[i] for i in going]
            self.decode(name, asked, begun, numbers[going])
        self.found[f"{name} steps"] += 1
        self.found[f"{name} accepted"] += n.sum() / sum(map(len, made))
        return made

    def sample(self, prompts: Any, group: int, sampling: Any, numbers: FloatArray) -> Rollouts:
        """What the engine samples by the numbers (B, T)."""
        with self.engine.for_sampling(sampling.max_tokens):
            return self.engine.lockstep(prompts, group, sampling, numbers, ())

    def decode(self, name: str, asked: Any, made: list[list[int]], numbers: FloatArray) -> None:
        """Add to the rows of `made`, each after its prompt, what follows them."""
        T = self.sampling.max_tokens
        prompts = [(*prompt, *row) for prompt, row in zip(asked, made, strict=True)]
        longest = max(T - len(row) for row in made)
        rolled = [np.roll(u, -len(row)) for u, row in zip(numbers, made, strict=True)]
        shifted, cut = np.stack(rolled)[:, :longest], replace(self.sampling, max_tokens=longest)
        tails = self.timed(name, lambda: self.sample(prompts, 1, cut, shifted))
        for row, tokens, length in zip(made, tails.tokens, tails.lengths, strict=True):
            row += tokens[:length].tolist()[: T - len(row)]
        self.found[f"{name} steps"] += tails.tokens.shape[1]

    def compare(self, old: Rollouts, q: FloatArray, seed: int) -> None:
        """A batch of drafts, plainly and by both rules. `q` (B, T, V) are the old logits."""
        T, valid, x = old.tokens.shape[1], old.valid, self.sampling.temperature
        rows, found = np.arange(len(old)), self.found
        numbers = uniforms(seed, len(old), self.sampling.max_tokens)
        asked = old.prompts, old.group, self.sampling
        plain = self.timed("plain", lambda: self.sample(*asked, numbers))
        found["plain steps"] += plain.tokens.shape[1]
        logits = self.timed("pass", lambda: self.engine.logits(old, valid))
        p, own = spread(logits, valid), np.zeros_like(old.tokens)
        own[valid] = drawn(logits, numbers[:, :T][valid], self.sampling)
        n = first_refused(own == old.tokens, old.lengths)
        made = self.rest("fresh", old, n, own[rows, np.minimum(n, T - 1)], numbers)
        wanted = [plain.tokens[i, : plain.lengths[i]].tolist() for i in rows]
        found["other rows"] += float(np.mean([a != b for a, b in zip(made, wanted, strict=True)]))

        p, q, rng = softmax(p / x, axis=-1), softmax(q / x, axis=-1), generator(seed, "drafts")
        one, other = (each[rows[:, None], np.arange(T), old.tokens] for each in (p, q))
        n = first_refused(rng.random(one.shape) * other < one, old.lengths)
        at = np.minimum(n, T - 1)
        left, u = np.maximum(p[rows, at] - q[rows, at], 0), rng.random(len(old), np.float32)
        tokens = drawn(np.log(left + 1e-30), u, replace(self.sampling, temperature=1.0))
        self.rest("speculative", old, n, tokens, numbers)
        found["batches"] += 1


def figures(found: dict[str, float]) -> dict[str, float]:
    """Of an epoch: shares, and ratios to plain sampling."""
    n = found["batches"]
    shown = {"plain s": found["plain s"], "pass": found["pass s"] / found["plain s"]}
    shown["other rows"] = found["other rows"] / n
    for name in ("fresh", "speculative"):
        shown[f"{name} accepted"] = found[f"{name} accepted"] / n
        shown[f"{name} whole rows"] = found[f"{name} whole rows"] / n
        shown[f"{name} time"] = (found["pass s"] + found[f"{name} s"]) / found["plain s"]
        shown[f"{name} steps"] = found[f"{name} steps"] / found["plain steps"]
    return {name: round(float(value), 3) for name, value in shown.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--recipe", default="quickstart")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--every", type=int, default=5, help="compare every so many steps")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    recipe = load_recipe(options.recipe, options.overrides)
    steps = options.problems // recipe.prompts
    recipe = recipe.model_copy(update={"steps": steps * options.epochs})
    engine = build_engine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
    task = task_of(recipe)
    problems = tuple(task.batch(recipe.seed, 1, options.problems))
    task = replace(task, train=problems, draw=None)
    known, epochs = dict[str, tuple[Rollouts, FloatArray]](), list[dict[str, float]]()
    for epoch in range(options.epochs):
        drafts, rewards = Drafts(engine, sampling_of(recipe, engine)), list[float]()
        for number in range(epoch * steps + 1, (epoch + 1) * steps + 1):
            batch = sample_batch(recipe, engine, task, number)
            rewards.append(float(batch.rewards.mean()))
            asked = [problem.id for problem in batch.problems]
            if epoch and number % options.every == 0:
                parts = [known[name] for name in asked]
                old = join([part for part, _ in parts])
                q = spread(np.concatenate([logits for _, logits in parts]), old.valid)
                drafts.compare(old, q, seed_of(recipe.seed, "drafts", number))
            own = batch.rollouts
            logits = spread(engine.logits(own, own.valid), own.valid)
            for n, name in enumerate(asked):
                part = own.groups(n, n + 1)
                rows = logits[n * own.group : (n + 1) * own.group, : part.tokens.shape[1]]
                known[name] = part, rows[part.valid]
            optimise(recipe, engine, batch, select(recipe, batch, number), number)
        shown = {"reward": round(float(np.mean(rewards)), 3)}
        shown |= figures(drafts.found) if epoch else {}
        epochs.append(shown)
        print(epoch + 1, shown, flush=True)
    if options.json:
        record(options.json, ("torch", "transformers"), epochs=epochs)


if __name__ == "__main__":
    main()
