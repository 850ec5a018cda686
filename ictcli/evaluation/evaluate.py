"""Sample n responses a problem, judge them, and say how often one of k is right."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from ictcli.engine import Engine
from ictcli.errors import RunFailedError
from ictcli.evaluation.majority import majority
from ictcli.evaluation.passk import Interval, mean_interval, pass_at_k
from ictcli.evaluation.record import Evaluation, SampleSettings
from ictcli.evaluation.samples import Sample, SampleFile, make_samples
from ictcli.recipe.data import PromptSettings
from ictcli.rewards import Verdict
from ictcli.rewards.verifiers import FAILED, name_of
from ictcli.rows import is_file_name
from ictcli.seeds import seed_of
from ictcli.tasks import Domain, prompts
from ictcli.types import Problem, Sampling

ROWS = 256
"""Samples a call of the engine in `ictcli eval`: what a killed evaluation loses at most."""

FAILURES = 10


def chunk_of(n: int) -> int:
    """Problems a call of the engine in `ictcli eval`, n samples each."""
    return max(1, ROWS // n)


@dataclass(frozen=True)
class Examination:
    """Problems, and how a model is asked, sampled and judged on them."""

    name: str
    problems: Sequence[Problem]
    domain: Domain
    sampling: Sampling
    prompt: PromptSettings
    n: int
    """Samples of each problem."""
    ks: Sequence[int]
    seed: int
    shown: bool = False
    """Whether private questions are written too."""
    others: Mapping[float, int] = field(default_factory=dict[float, int])
    """Other temperatures, and the samples of each problem there."""

    @property
    def samples(self) -> int:
        """In all."""
        return len(self.problems) * (self.n + sum(self.others.values()))

    def at(self, temperature: float) -> "Examination":
        """The same at one of the other temperatures. Its draws have the same seed, so that
        temperatures are paired."""
        n, sampling = self.others[temperature], replace(self.sampling, temperature=temperature)
        ks = [k for k in {1, *self.ks} if k <= n]
        return replace(self, others={}, sampling=sampling, n=n, ks=ks)

    @property
    def private(self) -> bool:
        return self.domain.private and not self.shown


def evaluate(
    engine: Engine,
    asked: Examination,
    file: SampleFile,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
    hint: str = "mend it or take another, and write to another folder (--out)",
) -> Evaluation:
    """pass@k and maj@n of a model, there and at other temperatures; its samples are written to
    files as they come.

    `progress` gets the samples taken and all; `say` each new failure of the verifier; `hint` is
    what to do where it fails on all of the first answers. RunFailedError where it does, or where a
    sample or its verdict is missing; UserError where a file was changed.
    """
    failures: set[str] = set()
    found: list[Evaluation] = []
    problems, domain, done = asked.problems, asked.domain, 0
    name = Path(asked.name).name if is_file_name(asked.name) else asked.name  # wherever it lies
    ids = prompts.encode(engine, problems, domain, asked.prompt, asked.sampling.max_tokens)
    for part, into in [(asked, file), *((asked.at(t), file.at(t)) for t in asked.others)]:
        started, n, private = time.perf_counter(), part.n, part.private
        taken, before = into.recover(problems, n, private=private)
        fresh = len(taken) // n
        progress(done + len(taken), asked.samples)
        for first in range(fresh, len(problems), into.chunk):
            at = time.perf_counter()
            chunk = problems[first : first + into.chunk]
            seed = seed_of(part.seed, "evaluate", name, first)
            rollouts = engine.generate(ids[first : first + into.chunk], n, part.sampling, seed)
            texts = prompts.decode(engine.tokenizer, rollouts)
            verdicts = engine.ranks.share(lambda: domain.judge(chunk, texts))  # noqa: B023
            if part is asked and first == 0:  # a later chunk may be one answer
                check_verdicts(name_of(domain.verify), verdicts, hint, private=private)
            reasons = {each.reason for each in verdicts if each.failed and not private} - failures
            for reason in sorted(reasons)[: FAILURES - len(failures)]:
                failures.add(reason)
                say(f"{asked.name}: {reason}")
            lines = make_samples(part.name, chunk, n, rollouts, texts, verdicts, private=private)
            taken.extend(map(Sample.model_validate, lines))
            into.append(first, time.perf_counter() - at, lines)
            progress(done + len(taken), asked.samples)
        done += len(taken)
        seconds = time.perf_counter() - started + before
        found.append(engine.ranks.share(lambda: score(part, taken, seconds)))  # noqa: B023
    evaluation, *others = found
    curve = tuple(each for other in others for each in other.curve)
    evaluation = evaluation.model_copy(update={"temperatures": curve})
    greedy = evaluation.solved.get(0.0)
    scores = {} if greedy is None else {"greedy": mean_interval(greedy)}
    return evaluation.model_copy(update={"scores": evaluation.scores | scores})


def check_verdicts(
    name: str, verdicts: Sequence[Verdict], hint: str, *, private: bool = False
) -> None:
    """RunFailedError where the verifier of that name failed on every one of some answers, or gave
    no verdict within its limits; without its reason where the answers are private."""
    if verdicts and all(verdict.failed or verdict.status == "timeout" for verdict in verdicts):
        how = "failed on all" if all(each.failed for each in verdicts) else "gave a verdict on none"
        reason = "" if private else f": {verdicts[0].reason.removeprefix(FAILED)}"
        raise RunFailedError(f"The verifier {name} {how} of {len(verdicts)} answers{reason}.", hint)


def score(asked: Examination, samples: Sequence[Sample], seconds: float) -> Evaluation:
    """The figures of n samples of each problem, in their order."""
    n, count = asked.n, len(asked.problems)
    rows = [samples[first : first + n] for first in range(0, n * count, n)]
    correct = np.array([sum(s.status == "correct" for s in row) for row in rows], dtype=np.int64)
    total = n * count
    tokens = sum(sample.tokens for sample in samples)
    most = majority(rows, asked.domain.verify, asked.domain.limits)
    scores: dict[str, Interval | None] = {
        f"pass@{k}": mean_interval(pass_at_k(n, correct, k)) for k in sorted(set(asked.ks))
    }
    scores[f"maj@{n}"] = None if most is None else mean_interval(most)
    statuses = Counter(sample.status for sample in samples)
    return Evaluation(
        benchmark=asked.name,
        problems=count,
        n=n,
        scores=scores,
        accuracy=statuses["correct"] / total,
        truncated=sum(not sample.finished for sample in samples) / total,
        unparsed=statuses["unparsed"] / total,
        timed_out=statuses["timeout"] / total,
        tokens=tokens,
        tokens_per_response=tokens / total,
        seconds=round(seconds, 2),
        tokens_per_second=round(tokens / seconds, 1) if seconds else None,
        settings=SampleSettings(
            **asdict(asked.sampling), prompt=asked.prompt.model_dump(mode="json"), seed=asked.seed
        ),
        correct=tuple(correct.tolist()),
        majority=None if most is None else tuple(most.tolist()),
    )
