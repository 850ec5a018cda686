"""Sample n responses per problem, judge them, and compute pass@k and maj@n."""

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
"""Samples per call of the engine in `ictcli eval`. A killed evaluation loses at most this many."""

FAILURES = 10
UNREAD = 0.9
"""A warning is shown if at least this share of the answers cannot be parsed."""


def chunk_of(n: int) -> int:
    """Return the number of problems, with n samples each, per engine call in `ictcli eval`."""
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
    hint: str = "fix the verifier or use another, and write to another folder (--out)",
    warn: Callable[[str], None] = lambda text: None,
) -> Evaluation:
    """Sample and judge answers to a benchmark, and return the scores at all temperatures of the
    settings. Samples are appended in chunks to `file`, or to `file.at(t)` at a further temperature.

    `progress` is called with the number of samples so far and in all, `say` with each new failure
    of the verifier, and `warn` if hardly any answer can be parsed. RunFailedError, with `hint`, if
    the verifier fails on all of the first answers, and if a sample or its verdict is missing;
    UserError if a file of samples was changed."""
    failures: set[str] = set()
    evaluations: list[Evaluation] = []
    problems, domain, done = spec.problems, spec.benchmark.domain, 0
    private = domain.private and not settings.show_private
    # the seed must not depend on the folder of a data file
    name = Path(spec.name).name if is_file_name(spec.name) else spec.name
    ids = prompts.encode(engine, problems, domain, prompt, sampling.max_tokens)
    others = [t for t in settings.temperatures if t != sampling.temperature]
    parts = [(settings.n, sampling, file)]  # draws have the same seed at all temperatures
    parts += [
        (settings.n if t else 1, replace(sampling, temperature=t), file.at(t)) for t in others
    ]
    total = len(problems) * sum(n for n, _, _ in parts)
    ended, alone = 0, engine.ranks.size == 1  # else this process sees only a part of the rows

    def count_ended(t: int, rows: IntArray, tokens: IntArray) -> None:
        nonlocal ended
        ends = np.isin(tokens, sampling.stop_ids) | (t + 1 == sampling.max_tokens)
        ended += int(ends.sum())
        progress(min(ended, total), total)  # rows are drawn again after memory ran out

    for n, sampling_at, target in parts:
        ks = set(settings.k) if target is file else {k for k in {1, *settings.k} if k <= n}
        started, samples = time.perf_counter(), target.recover(problems, n, private=private)
        kept = len(samples)
        progress(done + kept, total)
        for first in range(kept // n, len(problems), target.chunk):
            chunk = problems[first : first + target.chunk]
            seed = seed_of(settings.seed, "evaluate", name, first)
            ended, chunk_ids = done + len(samples), ids[first : first + target.chunk]
            on_tokens = count_ended if alone else None
            rollouts = engine.generate(chunk_ids, n, sampling_at, seed, on_tokens=on_tokens)
            texts = prompts.decode(engine.tokenizer, rollouts)
            verdicts = engine.ranks.share(lambda: domain.judge(chunk, texts))  # noqa: B023
            if target is file and first == 0:  # a later chunk may have a single answer
                check_verdicts(name_of(domain.verify), verdicts, hint, private=private)
            reasons = {v.reason for v in verdicts if v.failed and not private} - failures
            for reason in sorted(reasons)[: FAILURES - len(failures)]:
                failures.add(reason)
                say(f"{spec.name}: {reason}")
            lines = make_samples(spec.name, chunk, n, rollouts, texts, verdicts, private=private)
            samples.extend(map(Sample.model_validate, lines))
            target.append(lines)
            progress(done + len(samples), total)
        done += len(samples)
        sample_settings = SampleSettings(
            **asdict(sampling_at), prompt=prompt.model_dump(mode="json"), seed=settings.seed
        )
        arguments = spec, sample_settings, sorted(ks), samples, kept, time.perf_counter() - started
        evaluations.append(engine.ranks.share(lambda: score(*arguments)))  # noqa: B023
    evaluation, *further = evaluations
    if evaluation.unparsed >= UNREAD:
        grade = None if private else grade_command(file.path, domain, settings.plugins)
        warn(unread_warning(name, evaluation, grade))
    curve = tuple(at for evaluated in further for at in evaluated.curve)
    evaluation = evaluation.model_copy(update={"temperatures": curve})
    greedy = evaluation.solved.get(0.0)
    scores = {} if greedy is None else {"greedy": mean_interval(greedy)}
    return evaluation.model_copy(update={"scores": evaluation.scores | scores})


def check_verdicts(
    name: str, verdicts: Sequence[Verdict], hint: str, *, private: bool = False
) -> None:
    """Raise RunFailedError if the verifier called `name` failed or timed out on every answer. If
    answers are `private`, the message does not quote the verifier's reason."""
    if verdicts and all(verdict.failed or verdict.status == "timeout" for verdict in verdicts):
        how = "failed on all" if all(v.failed for v in verdicts) else "gave a verdict on none"
        reason = "" if private else f": {verdicts[0].reason.removeprefix(FAILED)}"
        raise RunFailedError(f"The verifier {name} {how} of {len(verdicts)} answers{reason}.", hint)


def unread_warning(name: str, evaluation: Evaluation, grade: str | None) -> str:
    """Return a warning that most answers cannot be parsed, with settings that may help. `grade`, if
    given, is a command that shows how answers are parsed: the warning's second line."""
    share, cut = evaluation.unparsed, evaluation.truncated
    how = "prompt.suffix tells the model how to answer, reward.pattern reads other forms"
    if cut >= 0.5:
        room = 2 * evaluation.settings.max_tokens
        how = f"max_tokens={room} allows longer answers ({shown_share(cut)} were cut), {how}"
    sentence = f"{shown_share(share)} of the answers to {one_line(name)} cannot be read; {how}."
    return sentence + (f"\nnext: {grade}" if grade else "")


def grade_command(file: Path, domain: Domain, plugins: Sequence[str]) -> str | None:
    """Return the `ictcli grade` command that judges a file of samples with the same verifier and
    settings; None if the verifier has no name, or needs columns that samples do not have."""
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
    """Return the scores of `samples`, which are in the order of the problems, the same number for
    each. The first `kept` were in the file before; the others took `seconds`."""
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
