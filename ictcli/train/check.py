"""`ictcli check`: try out a recipe for a minute, to find out whether to train for hours.

The model answers problems of the first steps as in training, one group after the other, until the
verdict is certain or the time is up. Part of an update is timed. Nothing is written.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np

from ictcli.engine import Engine, build_engine
from ictcli.evaluation.evaluate import check_verdicts
from ictcli.planning.advice import check_memory
from ictcli.planning.machine import memory_limit
from ictcli.planning.preflight import check_trackers, recipe_notes
from ictcli.recipe import Recipe
from ictcli.rewards import Verdict, Verifier
from ictcli.rewards.shaping import mean_reward
from ictcli.runs.rollouts import Batch
from ictcli.runs.trained import base_notes
from ictcli.seeds import seed_of
from ictcli.tasks import Task
from ictcli.tasks.prepare import advised_holdout, heldout, task_of, try_functions
from ictcli.tasks.prompts import encode, tokens_of
from ictcli.tasks.unread import can_be_examples, usable
from ictcli.train.checked import Answer, Checked, Groups, ShownPrompt, Training, Tried
from ictcli.train.health import judged
from ictcli.train.launch import check_prompts, set_budget
from ictcli.train.sample import judge, training_sampling
from ictcli.train.timing import Clock, estimate, time_update
from ictcli.train.verdict import is_certain, verdict_of
from ictcli.types import IntArray, Problem

SAMPLING, ALONE = 0.7, 0.9
"""Shares of the time limit after which sampling stops: `SAMPLING`, or `ALONE` if no group of
answers has ended yet. An update is timed in the rest of the time."""
SHOWN = 3
"""Number of prompts that are shown."""
PACED, PAIR = 4, 2
"""If a group is too slow after `PACED` tokens to end in time, it and later groups are sampled with
`PAIR` responses only: a decoding step with fewer rows takes less time."""

Show = Callable[[Training | ShownPrompt | Answer], None]


class TimeUpError(KeyboardInterrupt):
    """Raised to end the sampling of a group. It is not an `Exception`, because engines may treat
    any `Exception` as a lack of memory."""


def check(
    recipe: Recipe,
    seconds: float,
    say: Callable[[str], None],
    show: Show = lambda part: None,
    most: int | None = None,
) -> Checked:
    """Try a recipe for at most `seconds` seconds and `most` problems, and return the results;
    Ctrl-C ends the sampling early. `say` gets a sentence before each slow part, and `show` each
    result as soon as it is known. UserError if `train` would refuse the recipe."""
    began = time.perf_counter()
    say(f"loading {recipe.data_name}")
    task = task_of(recipe)
    try_functions(recipe, task)
    held = heldout(recipe, task)
    check_trackers(recipe)
    memory, tried, teachable = check_memory(recipe), None, False
    names = recipe.data_name, recipe.label, recipe.lr

    def training() -> Training:
        notes = (*recipe_notes(recipe), *task.notes, *base_notes(recipe.model, held))
        return Training(*names, len(task.train), len(held), notes, memory)

    if memory.fits is False:
        show(training())
    else:
        say(f"loading {recipe.model}")
        started = time.perf_counter()
        engine = build_engine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
        load_s = time.perf_counter() - started
        task = usable(engine, task, recipe)
        held = heldout(recipe, task)
        show(training())
        longest = check_prompts(recipe, engine, task, held)
        limit = memory_limit(recipe.with_engine(device="cpu").engine)
        set_budget(recipe, engine, longest, limit, say)
        if recipe.kl > 0:
            engine.keep_reference()
        trial = _Trial(recipe, engine, task, began, seconds, show)
        tried = trial.run(most or math.inf, len(held), longest, load_s)
        teachable = not recipe.sft_steps and can_be_examples(engine, task, recipe)
    # solutions can be shown as examples, unless prompts have a limit that these may exceed
    worked = any(problem.solution for problem in task.train[:1]) and not recipe.prompt.max_tokens
    ready, verdict, changes = verdict_of(recipe, memory, tried, worked=worked, teachable=teachable)
    typed = "holdout" in recipe.eval.model_fields_set
    if (ready or changes) and not typed and (holdout := advised_holdout(recipe, task)):
        changes = (*changes, f"eval.holdout={holdout}")
    return Checked(**vars(training()), tried=tried, ready=ready, verdict=verdict, changes=changes)


class _Trial:
    """Samples groups of responses one after the other, and counts their verdicts."""

    def __init__(
        self, recipe: Recipe, engine: Engine, task: Task, began: float, limit: float, show: Show
    ) -> None:
        self.recipe, self.engine, self.task = recipe, engine, task
        self.began, self.limit, self.show = began, limit, show
        self.clock, self.rows = Clock(), recipe.group
        self.batches: list[Batch] = []
        self.shown: list[ShownPrompt] = []
        self.answers: list[Answer] = []
        self.unended = 0

    def _left(self) -> float:
        """Return the seconds left for sampling."""
        share = SAMPLING if self._groups().total else ALONE
        return share * self.limit - (time.perf_counter() - self.began)

    def run(self, most: float, held: int, longest: int, load_s: float) -> Tried:
        """Sample groups, time an update, and return the results."""
        finite, estimated, interrupted = None, None, False
        try:
            self._sample(most)
            if self.batches:
                end = self.began + self.limit
                rate, finite = time_update(self.recipe, self.engine, self.batches[0], end)
                shared = self.recipe, self.engine, self.task, self.batches, self.clock
                estimated = estimate(*shared, held, rate, end)
        except KeyboardInterrupt:
            interrupted = True
        parts: dict[str, list[Verdict]] = {}
        for batch in self.batches:
            for name, verdicts in batch.parts.items():
                parts.setdefault(name, []).extend(verdicts)
        lost = [a.reason for a in self.answers if a.status in ("unparsed", "timeout")]
        return Tried(
            shown=tuple(self.shown),
            sampled=self._counts(),
            groups=self._groups(),
            rewards={name: mean_reward(verdicts) for name, verdicts in parts.items()},
            reasons=dict(Counter(lost).most_common()),
            room=self.engine.context - longest,
            finite=finite,
            load_s=load_s,
            limit=self.limit,
            time=estimated,
            interrupted=interrupted,
        )

    def _problems(self) -> Iterator[Problem]:
        for step in count(1):
            yield from self.task.batch(self.recipe.seed, step, self.recipe.prompts)

    def _sample(self, most: float) -> None:
        """Sample the first step's groups, and more until the verdict is certain."""
        for number, problem in enumerate(self._problems()):
            enough = number >= min(self.recipe.prompts, most)
            unread = sum(answer.status == "unparsed" for answer in self.answers)
            if number >= most or self._left() <= 0:
                return
            if enough and is_certain(self._groups(), len(self.answers), unread):
                return
            try:
                self._answer(number, problem)
            except TimeUpError:
                return
            if number == 0:
                for name, verdicts in judged(self.batches[0], self.task.domain).items():
                    check_verdicts(name, verdicts, "fix the verifier")

    def _answer(self, number: int, problem: Problem) -> None:
        """Sample a group, and show each answer as it ends. TimeUpError if the time is up."""
        recipe, engine, task = self.recipe, self.engine, self.task
        text, ids = tokens_of(engine.tokenizer, problem, task.domain, task.prompt)
        prompt = ShownPrompt(problem.id, text, len(ids), problem.gold)
        if prompt not in self.shown:  # else this is the second attempt, with `PAIR` responses
            self.shown += [prompt] * (number < SHOWN)
            self.show(prompt)
        sampling = training_sampling(recipe, engine)
        rows: list[list[int]] = [[] for _ in range(self.rows)]
        verifier, ended, answering = task.domain.verify, set[int](), set(range(self.rows))
        alone = not (isinstance(verifier, Verifier) and verifier.in_groups)

        def text_of(row: int) -> str:
            return engine.tokenizer.decode(
                rows[row], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )

        def add_answer(row: int, verdict: Verdict | None = None) -> None:
            tokens = rows[row]
            answer = text_of(row)
            verdict = verdict or task.domain.judge([problem], [answer])[0]
            cut = tokens[-1] not in sampling.stop_ids
            parts = verdict.status, verdict.extracted, problem.gold, verdict.reason
            self.answers.append(Answer(answer, len(tokens), cut, *parts))
            self.show(self.answers[-1])
            ended.add(row)

        def on_tokens(t: int, decoded: IntArray, tokens: IntArray) -> None:
            self.clock.tick(t, decoded, tokens)
            for row, token in zip(map(int, decoded), map(int, tokens), strict=True):
                if t == len(rows[row]):  # else sampling was repeated after memory ran out
                    rows[row].append(token)
                    if token in sampling.stop_ids or len(rows[row]) == sampling.max_tokens:
                        answering.discard(row)
                        if alone:
                            add_answer(row)
            if answering and self._left() <= 0:
                raise TimeUpError
            if t == PACED and self.rows > PAIR and not self.answers:
                pace = float(np.median([seconds for _, seconds in self.clock.steps]))
                if pace * (recipe.max_tokens / 2 - t) > self._left():
                    self.clock, self.rows = Clock(), PAIR
                    raise TimeUpError
            self.clock.start()

        encoded = encode(engine, [problem], task.domain, task.prompt, recipe.max_tokens)
        seed = seed_of(recipe.seed, "sample", "check", number)
        self.clock.start()
        try:
            rollouts = engine.generate(
                encoded, self.rows, sampling, seed, recipe.wanted_stats, on_tokens=on_tokens
            )
        except KeyboardInterrupt:
            if self.rows < len(rows):
                self._answer(number, problem)
                return
            # finished responses that a verifier of whole groups has not judged yet
            waiting = sorted({*range(self.rows)} - answering - ended)
            if waiting:
                verdicts = task.domain.judge([problem], list(map(text_of, waiting)))
                for row, verdict in zip(waiting, verdicts, strict=True):
                    add_answer(row, verdict)
            self.unended = len(answering)
            for row in sorted(answering):
                parts = "unended", "", problem.gold, "it was cut before its end"
                self.show(Answer(text_of(row), len(rows[row]), False, *parts))
            raise
        recipe = recipe.model_copy(update={"group": self.rows})
        batch = judge(recipe, engine, task, [problem], rollouts, "check", number)
        self.batches.append(batch)
        for row, length in enumerate(rollouts.lengths):
            if row not in ended:  # judged as a group, or the sampler did not call `on_tokens`
                rows[row] = rollouts.tokens[row, :length].tolist()
                add_answer(row, batch.verdicts[row])

    def _counts(self) -> dict[str, int]:
        statuses = Counter(answer.status for answer in self.answers)
        cut = Counter(answer.status for answer in self.answers if answer.cut)
        counts = {name: statuses[name] for name in ("correct", "wrong", "unparsed", "timeout")}
        return counts | {
            "truncated": cut.total(),
            "cut_unread": cut["unparsed"],
            "cut_wrong": cut["wrong"],
            "unended": self.unended,
        }

    def _groups(self) -> Groups:
        whole = [batch for batch in self.batches if batch.rollouts.group == self.recipe.group]
        signals = [bool(batch.has_signal.any()) for batch in whole]
        equal = [b.correct for b, signal in zip(whole, signals, strict=True) if not signal]
        return Groups(
            total=len(signals),
            with_signal=sum(signals),
            all_right=sum(bool(right.all()) for right in equal),
            all_wrong=sum(not right.any() for right in equal),
        )
