"""Whether a training is worth its hours: what `ictcli check` finds out by a part of its first step.

The data are read, the base answers a few of the problems greedily and as training samples, one
update is timed, and nothing is written.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence

from ictcli.engine import Engine, build_engine
from ictcli.evaluation.evaluate import check_verdicts
from ictcli.planning.advice import check_memory
from ictcli.planning.machine import memory_limit
from ictcli.planning.preflight import check_trackers, recipe_notes
from ictcli.planning.time_estimate import estimate_time
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict
from ictcli.rewards.shaping import mean_reward
from ictcli.runs.rollouts import Batch
from ictcli.runs.trained import base_notes
from ictcli.seeds import seed_of
from ictcli.tasks import Task
from ictcli.tasks.prepare import advised_holdout, heldout, task_of, try_functions
from ictcli.tasks.prompts import decode, encode, tokens_of
from ictcli.tasks.unread import usable
from ictcli.train.checked import Checked, Groups, ShownPrompt, Tried
from ictcli.train.diagnosis import verdict_of
from ictcli.train.evaluations import samples_of
from ictcli.train.health import judged
from ictcli.train.launch import check_prompts, set_budget
from ictcli.train.sample import sample_batch, sampling_of
from ictcli.train.step import is_finite, optimise, select
from ictcli.types import Rollouts

SHOWN = 3
"""Prompts that are shown."""
LONG_S = 10.0
"""Seconds of an update that is not timed again."""


def check(recipe: Recipe, prompts: int, say: Callable[[str], None]) -> Checked:
    """Try a recipe on `prompts` problems of its first step at most. UserError for what `train`
    would refuse; `say` tells what takes long."""
    say(f"loading {recipe.data_name}")
    task = task_of(recipe)
    try_functions(recipe, task)
    held = heldout(recipe, task)
    check_trackers(recipe)
    notes = [*recipe_notes(recipe), *task.notes]
    memory, tried = check_memory(recipe), None
    if memory.fits is not False:
        say(f"loading {recipe.model}")
        started = time.perf_counter()
        engine = build_engine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
        load_s = time.perf_counter() - started
        task = usable(engine, task, recipe)
        held = heldout(recipe, task)
        notes = [*recipe_notes(recipe), *task.notes, *base_notes(recipe.model, held)]
        longest = check_prompts(recipe, engine, task, held)
        tried = _try(recipe, engine, task, prompts, longest, load_s, say)
    worked = any(problem.solution for problem in task.train[:1])
    ready, verdict, changes = verdict_of(recipe, memory, tried, worked=worked)
    if ready and (holdout := advised_holdout(recipe, task)):
        changes = (f"eval.holdout={holdout}",)
    return Checked(
        *(recipe.data_name, recipe.label, recipe.lr),
        *(len(task.train), len(held), tuple(notes), memory, tried, ready, verdict, changes),
    )


def _try(
    recipe: Recipe,
    engine: Engine,
    task: Task,
    prompts: int,
    longest: int,
    load_s: float,
    say: Callable[[str], None],
) -> Tried:
    part = recipe.model_copy(update={"prompts": min(prompts, recipe.prompts)})
    limit = memory_limit(recipe.with_engine(device="cpu").engine)
    problems = task.batch(recipe.seed, 1, part.prompts)
    set_budget(recipe, engine, longest, limit, say)
    if recipe.kl > 0:
        engine.keep_reference()
    say(f"{part.prompts} greedy answers, then {part.prompts} x {part.group} sampled ones")
    ids = encode(engine, problems, task.domain, task.prompt, recipe.max_tokens)
    sampling, seed = sampling_of(recipe, engine, 0.0), seed_of(recipe.seed, "check")
    greedy = engine.generate(ids, 1, sampling, seed)  # libraries warm up too
    texts = decode(engine.tokenizer, greedy)
    verdicts = task.domain.judge(problems, texts)
    started = time.perf_counter()
    batch = sample_batch(part, engine, task, 1)
    sample_s = time.perf_counter() - started
    first = batch.own
    for name, judgements in judged(batch, task.domain).items():
        check_verdicts(name, judgements, "mend it")
    say("timing an update")
    selection, update_s, finite = select(part, batch, 1), 0.0, True
    for again in (False, True):  # the first warms up; one that took long is taken as it is
        if update_s < LONG_S:
            started = time.perf_counter()
            reports = optimise(part, engine, batch, selection, 1)
            finite = finite if again else is_finite(reports)  # of the model as it is
            update_s = time.perf_counter() - started
    asked = [tokens_of(engine.tokenizer, p, task.domain, task.prompt) for p in problems[:SHOWN]]
    shown = tuple(
        ShownPrompt(problem.id, prompt, len(ids), problem.gold, text, verdict.status)
        for (prompt, ids), problem, text, verdict in zip(
            asked, problems, texts, verdicts, strict=False
        )
    )
    lost = [v.reason for v in (*first.verdicts, *verdicts) if v.status in ("unparsed", "timeout")]
    # as if the whole run took as long as the first step of fewer prompts
    step = (sample_s + update_s) * recipe.prompts / part.prompts
    samples = (samples_of(recipe, "before") + samples_of(recipe, "after")) / 2
    evaluation = samples * sample_s / (len(first.texts) + len(batch.redrawn))
    return Tried(
        shown=shown,
        greedy=_answers(verdicts, greedy),
        sampled=_answers(first.verdicts, first.rollouts),
        groups=_groups(first),
        rewards={name: mean_reward(rewards) for name, rewards in first.parts.items()},
        reasons=dict(Counter(lost).most_common()),
        room=engine.context - longest,
        finite=finite,
        load_s=load_s,
        time=estimate_time(recipe, step, evaluation),
    )


def _answers(verdicts: Sequence[Verdict], rollouts: Rollouts) -> dict[str, int]:
    statuses = [verdict.status for verdict in verdicts]
    counts = {name: statuses.count(name) for name in ("correct", "wrong", "unparsed", "timeout")}
    return counts | {"truncated": int((~rollouts.finished).sum())}


def _groups(batch: Batch) -> Groups:
    right = batch.correct.reshape(-1, batch.rollouts.group)
    level = right[~batch.has_signal]
    return Groups(
        total=len(right),
        with_signal=len(right) - len(level),
        all_right=int(level.all(axis=1).sum()),
        all_wrong=int((~level.any(axis=1)).sum()),
    )
