"""Sample n responses a problem, judge them, and say how often one of k is right."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ictcli import prompts
from ictcli.engine import Engine
from ictcli.evaluation.passk import Interval, bootstrap_mean, pass_at_k
from ictcli.files import write_text
from ictcli.rewards import grade
from ictcli.seeds import seed_of
from ictcli.settings import PromptSettings
from ictcli.tasks import Domain
from ictcli.types import IntArray, Problem, Sampling

CHUNK = 64
"""Problems a call of the engine. Fixed: each chunk's seed comes from its place."""


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation found. Shares are of all samples."""

    benchmark: str
    problems: int
    n: int
    pass_at: dict[int, Interval]
    correct: IntArray
    """(problems,) correct samples of n."""
    truncated: float
    unparsed: float
    tokens: int
    seconds: float
    settings: dict[str, Any]

    def json(self) -> dict[str, Any]:
        """As the summary of a run and `eval --json` give it."""
        return {
            "benchmark": self.benchmark,
            "problems": self.problems,
            "n": self.n,
            **{f"pass@{k}": interval.json() for k, interval in self.pass_at.items()},
            "truncated": self.truncated,
            "unparsed": self.unparsed,
            "tokens": self.tokens,
            "tokens_per_response": self.tokens / (self.problems * self.n),
            "seconds": round(self.seconds, 2),
            "settings": self.settings,
            "correct": self.correct.tolist(),
        }


def evaluate(
    engine: Engine,
    name: str,
    problems: Sequence[Problem],
    domain: Domain,
    sampling: Sampling,
    settings: PromptSettings,
    *,
    n: int,
    ks: Sequence[int],
    seed: int,
    samples: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """pass@k for each k in `ks` over `problems`, n samples each; samples written as JSONL."""
    started = time.perf_counter()
    ids = prompts.encode(engine, problems, domain, settings, sampling.max_tokens)
    correct: list[int] = []
    lines: list[str] = []
    truncated = unparsed = tokens = 0
    for first in range(0, len(problems), CHUNK):
        chunk = problems[first : first + CHUNK]
        seed_here = seed_of(seed, "evaluate", name, first)
        rollouts = engine.generate(ids[first : first + CHUNK], n, sampling, seed_here)
        texts = prompts.decode(engine.tokenizer, rollouts)
        golds = [problem.gold for problem in chunk for _ in range(n)]
        verdicts = grade(domain.verify, texts, golds)
        right = np.array([v.status == "correct" for v in verdicts]).reshape(-1, n)
        correct.extend(int(c) for c in right.sum(axis=1))
        truncated += int((~rollouts.finished).sum())
        unparsed += sum(v.status == "unparsed" for v in verdicts)
        tokens += int(rollouts.lengths.sum())
        if samples is not None:
            lines.extend(
                _sample_line(chunk[i // n], texts[i], verdicts[i]) for i in range(len(texts))
            )
        progress(min(first + CHUNK, len(problems)), len(problems))
    if samples is not None:
        write_text(samples, "".join(lines))
    counts = np.array(correct)
    total = len(problems) * n
    return Evaluation(
        benchmark=name,
        problems=len(problems),
        n=n,
        pass_at={k: bootstrap_mean(pass_at_k(n, counts, k), seed) for k in sorted(set(ks))},
        correct=counts,
        truncated=truncated / total,
        unparsed=unparsed / total,
        tokens=tokens,
        seconds=time.perf_counter() - started,
        settings={**asdict(sampling), "prompt": settings.model_dump(), "seed": seed},
    )


def _sample_line(problem: Problem, response: str, verdict: Any) -> str:
    return (
        json.dumps(
            {
                "id": problem.id,
                "prompt": problem.prompt,
                "gold": problem.gold,
                "response": response,
                "status": verdict.status,
                "extracted": verdict.extracted,
            },
            ensure_ascii=False,
        )
        + "\n"
    )
