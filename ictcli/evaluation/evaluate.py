"""Sample n responses a problem, judge them, and say how often one of k is right."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.evaluation import samples as files
from ictcli.evaluation.majority import majority
from ictcli.evaluation.passk import Interval, bootstrap_mean, pass_at_k
from ictcli.evaluation.samples import Sample
from ictcli.recipe.settings import PromptSettings
from ictcli.seeds import seed_of
from ictcli.tasks import Domain, prompts
from ictcli.types import FloatArray, IntArray, Problem, Sampling

CHUNK = 64
"""Problems a call of the engine in training. Fixed: each chunk's seed comes from its place."""
ROWS = 256
"""Samples a call of the engine in `ictcli eval`: what a killed evaluation loses at most."""

FAILURES = 10
"""Ways in which a verifier fails that are told."""


def chunk_of(n: int) -> int:
    """Problems a call of the engine in `ictcli eval`, n samples each."""
    return max(1, ROWS // n)


@dataclass(frozen=True)
class Evaluation:
    """What one evaluation found. Shares are of all samples."""

    benchmark: str
    problems: int
    n: int
    pass_at: dict[int, Interval]
    majority: FloatArray | None
    """(problems,) share of the largest groups of answers that is right; None where the verifier
    extracts no answers."""
    majority_mean: Interval | None
    correct: IntArray
    """(problems,) correct samples of n."""
    truncated: float
    unparsed: float
    timed_out: float
    tokens: int
    seconds: float
    settings: dict[str, Any]

    def json(self) -> dict[str, Any]:
        """As the summary of a run and `eval --json` give it."""
        total = self.problems * self.n
        most = self.majority_mean
        return {
            "benchmark": self.benchmark,
            "problems": self.problems,
            "n": self.n,
            **{f"pass@{k}": interval.json() for k, interval in self.pass_at.items()},
            f"maj@{self.n}": None if most is None else most.json(),
            "accuracy": int(self.correct.sum()) / total,
            "truncated": self.truncated,
            "unparsed": self.unparsed,
            "timed_out": self.timed_out,
            "tokens": self.tokens,
            "tokens_per_response": self.tokens / total,
            "seconds": round(self.seconds, 2),
            "tokens_per_second": round(self.tokens / self.seconds, 1) if self.seconds else None,
            "settings": self.settings,
            "correct": self.correct.tolist(),
            "majority": None if self.majority is None else self.majority.tolist(),
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
    chunk: int = CHUNK,
    resume: bool = False,
    shown: bool = False,
    say: Callable[[str], None] = lambda text: None,
    timed: Callable[[int, float], None] = lambda first, seconds: None,
    earlier: Sequence[tuple[int, float]] = (),
) -> Evaluation:
    """pass@k for each k in `ks` and maj@n over `problems`, n samples each.

    `samples` takes them as JSONL, synced behind every `chunk` problems; with `resume` those that
    it holds already are kept. `shown`: also what is private. `say` is told of each new way in which
    the verifier fails, `timed` the first problem and the seconds of each chunk; `earlier` are those
    of the sittings before. Raises RunFailedError where a sample or its verdict is missing, and
    UserError where `samples` was changed.
    """
    started, written = time.perf_counter(), 0.0
    ids = prompts.encode(engine, problems, domain, settings, sampling.max_tokens)
    found: list[Sample] = []
    failures: set[str] = set()
    private = domain.private and not shown
    if samples is not None:
        if resume:
            found = files.recover(samples, problems, n, chunk, private=private)
        else:
            files.start(samples)
    begun = len(found) // n
    written = sum(dict(earlier).get(first, 0.0) for first in range(0, begun, chunk))
    if resume:
        progress(begun, len(problems))
    for first in range(begun, len(problems), chunk):
        at = time.perf_counter()
        part = problems[first : first + chunk]
        seed_here = seed_of(seed, "evaluate", name, first)
        rollouts = engine.generate(ids[first : first + chunk], n, sampling, seed_here)
        texts = prompts.decode(engine.tokenizer, rollouts)
        verdicts = domain.judge(part, texts)
        news = {verdict.reason for verdict in verdicts if verdict.failed and not private}
        for reason in sorted(news - failures)[: FAILURES - len(failures)]:
            failures.add(reason)
            say(f"{name}: {reason}")
        lines = files.make_samples(name, part, n, rollouts, texts, verdicts, private=private)
        found.extend(files.sample_of(line) for line in lines)
        timed(first, time.perf_counter() - at)  # first: a chunk that is kept has its seconds
        if samples is not None:
            files.append(samples, lines)
        progress(min(first + chunk, len(problems)), len(problems))
    about = {**asdict(sampling), "prompt": settings.model_dump(mode="json"), "seed": seed}
    seconds = time.perf_counter() - started + written
    return score(name, found, len(problems), domain, about, n=n, ks=ks, seed=seed, seconds=seconds)


def score(
    name: str,
    samples: Sequence[Sample],
    problems: int,
    domain: Domain,
    settings: dict[str, Any],
    *,
    n: int,
    ks: Sequence[int],
    seed: int,
    seconds: float,
) -> Evaluation:
    """The figures of n samples of each of `problems`, in their order."""
    rows = files.by_problem(name, samples, n, problems)
    correct, total = files.counts(rows), n * problems
    most = majority(rows, domain.verify, domain.limits)
    return Evaluation(
        benchmark=name,
        problems=problems,
        n=n,
        pass_at={k: bootstrap_mean(pass_at_k(n, correct, k), seed) for k in sorted(set(ks))},
        majority=most,
        majority_mean=None if most is None else bootstrap_mean(most, seed),
        correct=correct,
        truncated=sum(not s.finished for s in samples) / total,
        unparsed=sum(s.status == "unparsed" for s in samples) / total,
        timed_out=sum(s.status == "timeout" for s in samples) / total,
        tokens=sum(s.tokens for s in samples),
        seconds=seconds,
        settings=settings,
    )
