"""Sample n responses a problem, judge them, and say how often one of k is right."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from ictcli.engine import Engine
from ictcli.errors import RunFailedError
from ictcli.evaluation.majority import majority
from ictcli.evaluation.passk import Interval, mean_interval, pass_at_k
from ictcli.evaluation.record import Evaluation, SampleSettings
from ictcli.evaluation.samples import Sample, SampleFile, make_samples
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec
from ictcli.recipe.data import PromptSettings
from ictcli.rewards import LIMITS, Verdict, Verifier
from ictcli.rewards.verifiers import FAILED, name_of
from ictcli.rows import is_file_name
from ictcli.seeds import seed_of
from ictcli.tables.numbers import shown_share
from ictcli.tasks import Domain, prompts
from ictcli.text import command, one_line
from ictcli.types import IntArray, Sampling

ROWS = 256
"""Samples a call of the engine in `ictcli eval`: what a killed evaluation loses at most."""

FAILURES = 10
UNREAD = 0.9
"""A share of answers that cannot be read which no model should have."""


def chunk_of(n: int) -> int:
    """Return how many problems, with n samples, a call of the engine takes in `ictcli eval`."""
    return max(1, ROWS // n)


def evaluate(
    engine: Engine,
    spec: BenchmarkSpec,
    settings: EvaluationSettings,
    prompt: PromptSettings,
    sampling: Sampling,
    file: SampleFile,
    progress: Callable[[int, int], None] = lambda done, total: None,
    say: Callable[[str], None] = lambda text: None,
    hint: str = "fix it or take another, and write to another folder (--out)",
    warn: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Return pass@k and maj@n of a model that is asked and sampled like this, and its figures at
    the other temperatures of the settings; write its samples to files as they come.

    `progress` gets the samples taken and all; `say` each new failure of the verifier; `warn` what
    helps where hardly an answer can be read; `hint` is what to do where the verifier fails on all
    of the first answers. RunFailedError where it does, or where a sample or its verdict is missing;
    UserError where a file was changed.
    """
    failures: set[str] = set()
    evaluations: list[Evaluation] = []
    problems, domain, done = spec.problems, spec.benchmark.domain, 0
    private = domain.private and not settings.show_private
    name = Path(spec.name).name if is_file_name(spec.name) else spec.name  # wherever it lies
    ids = prompts.encode(engine, problems, domain, prompt, sampling.max_tokens)
    others = [t for t in settings.temperatures if t != sampling.temperature]
    parts = [(settings.n, sampling, file)]  # the draws of all have one seed, and so are paired
    parts += [
        (settings.n if t else 1, replace(sampling, temperature=t), file.at(t)) for t in others
    ]
    total = len(problems) * sum(n for n, _, _ in parts)
    ended, alone = 0, engine.ranks.size == 1  # else each process hears of its rows only

    def hear(t: int, rows: IntArray, tokens: IntArray) -> None:
        nonlocal ended
        ends = np.isin(tokens, sampling.stop_ids) | (t + 1 == sampling.max_tokens)
        ended += int(ends.sum())
        progress(min(ended, total), total)  # rows are drawn again where memory runs out

    for n, drawn, into in parts:
        ks = set(settings.k) if into is file else {k for k in {1, *settings.k} if k <= n}
        started, taken = time.perf_counter(), into.recover(problems, n, private=private)
        kept = len(taken)
        progress(done + kept, total)
        for first in range(kept // n, len(problems), into.chunk):
            chunk = problems[first : first + into.chunk]
            seed = seed_of(settings.seed, "evaluate", name, first)
            ended, asked = done + len(taken), ids[first : first + into.chunk]
            rollouts = engine.generate(asked, n, drawn, seed, on_tokens=hear if alone else None)
            texts = prompts.decode(engine.tokenizer, rollouts)
            verdicts = engine.ranks.share(lambda: domain.judge(chunk, texts))  # noqa: B023
            if into is file and first == 0:  # a later chunk may be one answer
                check_verdicts(name_of(domain.verify), verdicts, hint, private=private)
            reasons = {v.reason for v in verdicts if v.failed and not private} - failures
            for reason in sorted(reasons)[: FAILURES - len(failures)]:
                failures.add(reason)
                say(f"{spec.name}: {reason}")
            lines = make_samples(spec.name, chunk, n, rollouts, texts, verdicts, private=private)
            taken.extend(map(Sample.model_validate, lines))
            into.append(lines)
            progress(done + len(taken), total)
        done += len(taken)
        how = SampleSettings(
            **asdict(drawn), prompt=prompt.model_dump(mode="json"), seed=settings.seed
        )
        figures = spec, how, sorted(ks), taken, kept, time.perf_counter() - started
        evaluations.append(engine.ranks.share(lambda: score(*figures)))  # noqa: B023
    evaluation, *further = evaluations
    if evaluation.unparsed >= UNREAD:
        grade = None if private else grade_command(file.path, domain, settings.plugins)
        warn(unread_warning(name, evaluation, grade))
    curve = tuple(at for each in further for at in each.curve)
    evaluation = evaluation.model_copy(update={"temperatures": curve})
    greedy = evaluation.solved.get(0.0)
    scores = {} if greedy is None else {"greedy": mean_interval(greedy)}
    return evaluation.model_copy(update={"scores": evaluation.scores | scores})


def check_verdicts(
    name: str, verdicts: Sequence[Verdict], hint: str, *, private: bool = False
) -> None:
    """Raise RunFailedError where the verifier of that name failed on every one of some answers, or
    gave no verdict within its limits; without its reason where the answers are private."""
    if verdicts and all(verdict.failed or verdict.status == "timeout" for verdict in verdicts):
        how = "failed on all" if all(each.failed for each in verdicts) else "gave a verdict on none"
        reason = "" if private else f": {verdicts[0].reason.removeprefix(FAILED)}"
        raise RunFailedError(f"The verifier {name} {how} of {len(verdicts)} answers{reason}.", hint)


def unread_warning(name: str, evaluation: Evaluation, grade: str | None) -> str:
    """Return that hardly an answer can be read and what helps, and on a second line the command
    that shows how they are read."""
    share, cut = evaluation.unparsed, evaluation.truncated
    how = "prompt.suffix says how to answer, and reward.pattern reads another form"
    if cut >= 0.5:
        room = 2 * evaluation.settings.max_tokens
        how = f"max_tokens={room} gives room to those that are cut ({shown_share(cut)}), {how}"
    sentence = f"{shown_share(share)} of the answers to {one_line(name)} cannot be read; {how}."
    return sentence + (f"\nnext: {grade}" if grade else "")


def grade_command(file: Path, domain: Domain, plugins: Sequence[str]) -> str | None:
    """Return `ictcli grade` on a file of samples, judged as they were; None for a verifier that
    reads more columns than samples have, or has no name."""
    verify, limits = domain.verify, domain.limits
    if not isinstance(verify, Verifier) or verify.needs:
        return None
    return command(
        "grade",
        file,
        kind=verify.name,
        plugin=plugins,
        pattern=domain.pattern,
        timeout=None if limits.seconds == LIMITS.seconds else limits.seconds,
        memory=None if limits.memory == LIMITS.memory else limits.memory,
        explain=True,
    )


def score(
    spec: BenchmarkSpec,
    how: SampleSettings,
    ks: Sequence[int],
    samples: Sequence[Sample],
    kept: int,
    seconds: float,
) -> Evaluation:
    """Return the figures of as many samples of each problem, in their order; all but the `kept`
    first were sampled within the seconds."""
    total, count = len(samples), len(spec.problems)
    n, domain = total // count, spec.benchmark.domain
    rows = [samples[first : first + n] for first in range(0, total, n)]
    correct = np.array([sum(s.status == "correct" for s in row) for row in rows], dtype=np.int64)
    tokens, fresh = (sum(s.tokens for s in part) for part in (samples, samples[kept:]))
    most = majority(rows, domain.verify, domain.limits)
    scores: dict[str, Interval | None] = {
        f"pass@{k}": mean_interval(pass_at_k(n, correct, k)) for k in ks
    }
    scores[f"maj@{n}"] = None if most is None else mean_interval(most)
    statuses = Counter(sample.status for sample in samples)
    return Evaluation(
        benchmark=spec.name,
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
        tokens_per_second=round(fresh / seconds, 1) if fresh else None,
        settings=how,
        correct=tuple(correct.tolist()),
        majority=None if most is None else tuple(most.tolist()),
    )
