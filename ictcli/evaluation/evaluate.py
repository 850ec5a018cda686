"""Sample n responses a problem, judge them, and say how often one of k is right."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ictcli.engine import Engine
from ictcli.evaluation import samples as files
from ictcli.evaluation.majority import majority
from ictcli.evaluation.passk import Interval, mean_interval, pass_at_k
from ictcli.evaluation.record import Evaluation, SampleSettings
from ictcli.evaluation.samples import Sample, Timings
from ictcli.recipe.tables import PromptSettings
from ictcli.seeds import seed_of
from ictcli.tasks import Domain, prompts
from ictcli.types import Problem, Sampling

CHUNK = 64
"""Problems a call of the engine in training. Fixed: each chunk's seed comes from its place."""
ROWS = 256
"""Samples a call of the engine in `ictcli eval`: what a killed evaluation loses at most."""

FAILURES = 10
"""Maximum number of verifier failures to show."""


def chunk_of(n: int) -> int:
    """Problems a call of the engine in `ictcli eval`, n samples each."""
    return max(1, ROWS // n)


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
    samples: Path,
    progress: Callable[[int, int], None] = lambda done, total: None,
    chunk: int = CHUNK,
    resume: bool = False,
    shown: bool = False,
    say: Callable[[str], None] = lambda text: None,
    timings: Timings | None = None,
) -> Evaluation:
    """pass@k for each k in `ks` and maj@n over `problems`, n samples each.

    The samples are written to the file `samples` after every `chunk` problems, and the seconds
    they took to `timings`; `resume` keeps the samples that the file holds. `shown` writes private
    questions too. `say` gets each new failure of the verifier. RunFailedError where a sample or its
    verdict is missing, UserError where `samples` was changed.
    """
    started = time.perf_counter()
    ids = prompts.encode(engine, problems, domain, settings, sampling.max_tokens)
    failures: set[str] = set()
    private = domain.private and not shown
    if not resume:
        samples.unlink(missing_ok=True)
    taken = files.recover(samples, problems, n, chunk, private=private)
    done = len(taken) // n
    earlier = timings.read() if timings else {}
    before = sum(earlier.get(first, 0.0) for first in range(0, done, chunk))
    if resume:
        progress(done, len(problems))
    for first in range(done, len(problems), chunk):
        at = time.perf_counter()
        part = problems[first : first + chunk]
        chunk_seed = seed_of(seed, "evaluate", name, first)
        rollouts = engine.generate(ids[first : first + chunk], n, sampling, chunk_seed)
        texts = prompts.decode(engine.tokenizer, rollouts)
        verdicts = domain.judge(part, texts)
        reasons = {verdict.reason for verdict in verdicts if verdict.failed and not private}
        for reason in sorted(reasons - failures)[: FAILURES - len(failures)]:
            failures.add(reason)
            say(f"{name}: {reason}")
        lines = files.make_samples(name, part, n, rollouts, texts, verdicts, private=private)
        taken.extend(map(Sample.model_validate, lines))
        if timings:  # before the samples: a chunk that is kept has its seconds
            timings.add(first, time.perf_counter() - at)
        files.append(samples, lines)
        progress(min(first + chunk, len(problems)), len(problems))
    about = SampleSettings(**asdict(sampling), prompt=settings.model_dump(mode="json"), seed=seed)
    seconds = time.perf_counter() - started + before
    return score(name, taken, len(problems), domain, about, n=n, ks=ks, seconds=seconds)


def score(
    name: str,
    samples: Sequence[Sample],
    problems: int,
    domain: Domain,
    settings: SampleSettings,
    *,
    n: int,
    ks: Sequence[int],
    seconds: float,
) -> Evaluation:
    """The figures of n samples of each of `problems`, in their order."""
    rows = files.by_problem(name, samples, n, problems)
    correct = np.array([sum(s.status == "correct" for s in row) for row in rows], dtype=np.int64)
    total = n * problems
    tokens = sum(sample.tokens for sample in samples)
    most = majority(rows, domain.verify, domain.limits)
    scores: dict[str, Interval | None] = {
        f"pass@{k}": mean_interval(pass_at_k(n, correct, k)) for k in sorted(set(ks))
    }
    scores[f"maj@{n}"] = None if most is None else mean_interval(most)
    return Evaluation(
        benchmark=name,
        problems=problems,
        n=n,
        scores=scores,
        accuracy=int(correct.sum()) / total,
        truncated=sum(not sample.finished for sample in samples) / total,
        unparsed=sum(sample.status == "unparsed" for sample in samples) / total,
        timed_out=sum(sample.status == "timeout" for sample in samples) / total,
        tokens=tokens,
        tokens_per_response=tokens / total,
        seconds=round(seconds, 2),
        tokens_per_second=round(tokens / seconds, 1) if seconds else None,
        settings=settings,
        correct=tuple(correct.tolist()),
        majority=None if most is None else tuple(most.tolist()),
    )
