"""The verdict of `ictcli check`: whether to train, and what to change first."""

import shlex

from ictcli.planning.advice import MemoryCheck
from ictcli.recipe import Recipe
from ictcli.train.checked import Groups, Tried
from ictcli.train.diagnosis import Signal, diagnose, share_interval, share_of

FEW = 0.2
"""If fewer groups than this share have a signal (unequal rewards), most sampling is wasted."""
MOST = 0.5
"""A fault counts as the cause if it affects at least this share of responses or groups."""

Verdict = tuple[bool, str, tuple[str, ...]]
"""Whether to train, the reason, and advised settings (KEY=VALUE)."""


def is_certain(groups: Groups, answers: int, unread: int) -> bool:
    """Return whether the verdict is certain: by its 95 % interval the share of groups with a signal
    is above or below `FEW`; or it is 0, and the share of a cause is above `MOST`. The causes are
    unread answers, all wrong and all right groups."""
    interval = share_interval(groups.with_signal, groups.total)
    if interval.low >= FEW or interval.high < FEW:
        return True
    causes = (unread, answers), (groups.all_wrong, groups.total), (groups.all_right, groups.total)
    return not groups.with_signal and any(share_interval(*of).low >= MOST for of in causes)


def verdict_of(
    recipe: Recipe, memory: MemoryCheck, tried: Tried | None, *, worked: bool, teachable: bool
) -> Verdict:
    """Return the verdict of `ictcli check`. If the verdict is not certain, one right answer is
    enough to train. `worked`: whether the data has solutions to show as examples; `teachable`:
    whether training accepts `sft.data=task`."""
    if tried is None:
        return False, memory.sentence, memory.settings
    if tried.finite is False:
        numbers = "its log-probabilities, loss or gradient are not finite"
        return False, f"This model cannot be trained: {numbers}, before any step.", ()
    groups, sampled = tried.groups, tried.sampled
    longer = f"--seconds={4 * tried.limit:g}"
    certain = is_certain(groups, tried.answers, sampled["unparsed"])
    if not tried.answers:
        begin = "Not known: no response ended in time"
        return False, f"{begin}. {longer} allows more time; shorter responses need less.", (longer,)
    rewards = "a correct response" if recipe.rule.of_correct else "unequal rewards"
    total = max(groups.total, 1)
    share = groups.with_signal / total
    having = "has" if groups.total == 1 else "have"
    counts = f"{share_of(share, 'groups', groups.total)} {having} {rewards}"
    if not groups.total:
        right = share_of(sampled["correct"] / tried.answers, "responses", tried.answers)
        counts = f"no group was completed in time, and {right} are right"
    if certain and share >= FEW:
        cut = share_of(sampled["truncated"] / tried.answers, "responses", tried.answers)
        more = f" But {cut} are cut at max_tokens={recipe.max_tokens}."
        more *= 2 * sampled["truncated"] >= tried.answers
        return True, f"Train: {counts}, so there is something to learn.{more}", ()
    signal = Signal(
        (sampled["unparsed"] - sampled["cut_unread"]) / tried.answers,
        sampled["cut_unread"] / tried.answers,
        sampled["wrong"] / tried.answers,
        groups.all_right / total,
        groups.all_wrong / total,
    )
    shots = worked and not (recipe.prompt.examples or recipe.prompt.shots)
    words = signal.words(tried.answers, groups.total)
    cause = "unread" if 2 * sampled["unparsed"] >= tried.answers else "wrong"
    if cut := sampled[f"cut_{cause}"]:
        words["cut"] = f", {cut} of them cut at max_tokens={recipe.max_tokens}"
    name, cause = diagnose(
        recipe, signal, room=tried.room, shots=shots, teachable=teachable, **words
    )
    if recipe.sft_steps and share < FEW and name not in ("all_right", "equal"):
        now = f"Before them, {cause.sentence}; the evaluation step-000000 shows what they change."
        return True, f"Train: the supervised steps come first. {now}", ()
    if not certain and (groups.with_signal or sampled["correct"]):
        return True, f"Train, though this is not certain: {counts}. {longer} samples more.", ()
    if not certain and cause.setting.startswith("group="):
        more = f"{counts}. {longer} samples more."
        return False, f"Probably not yet: {cause.sentence}; {more}", (longer,)
    way = cause.next if cause.setting else cause.next[:1].upper() + cause.next[1:]
    if cause.setting.startswith("sft.data"):
        sentence = f"Train with supervised steps first: {cause.sentence}; {counts}. {way}."
        return True, sentence, tuple(shlex.split(cause.setting))
    begin = "Not yet" if certain else "Probably not yet"
    sentence = f"{begin}: {cause.sentence}; {counts}." + f" {way}." * bool(way)
    return False, sentence, tuple(shlex.split(cause.setting))
