"""The problems of a recipe (to train on, held out, left out) and the examples in its prompt."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ictcli.errors import UserError
from ictcli.recipe import Recipe, data_name
from ictcli.recipe.data import HOLDOUT, TASK, Example
from ictcli.recipe.generator import is_gym
from ictcli.rewards import Judge, Limits, Verifier, find_verifier
from ictcli.rewards.grading import NOT_PASSED
from ictcli.rewards.verifiers import FAILED, OPTIONAL, name_of
from ictcli.seeds import generator
from ictcli.tables.numbers import counted, listed
from ictcli.tasks.custom import is_custom
from ictcli.tasks.registry import find_benchmark, find_task
from ictcli.tasks.sft import in_form, own_examples, read_examples
from ictcli.tasks.split import digest_of, key_of
from ictcli.tasks.task import GENERATED, Domain, Task
from ictcli.text import middle_cut, one_line
from ictcli.types import Problem

SHOWN = 40
"""Number of characters of a gold that a note shows."""
PRECISE = 100
"""With fewer held-out problems than this, a note says how more can be held out."""


def task_of(recipe: Recipe) -> Task:
    """Return the task of a recipe, with its verifier, held-out problems and examples of the prompt;
    held-out problems and examples are not trained on. The task depends only on the recipe and the
    data. UserError if the recipe and the data do not fit together."""
    task = task_alone(recipe)
    if recipe.eval.bench is not None:
        task = _with_benchmark(recipe, task)
    if recipe.eval.verifier is not None:
        name, domain = task.exam
        domain = replace(domain, verify=find_verifier(recipe.eval.verifier))
        task = replace(task, examined=(name, domain))
    held: set[str] = set()
    if task.held or recipe.prompt.examples or recipe.sft.data:
        asked = recipe.eval.skip + recipe.eval.problems
        held = {key_of(p.prompt) for p in task.held or task.heldout(max(asked, GENERATED))}
    task = _without(task, held, "held_out", "held-out problems (ignoring case and white space)")
    if task.train and (is_custom(recipe.task) or recipe.data):
        verify = task.domain.verify
        judged = f", judged by the verifier {verify.name}" if isinstance(verify, Verifier) else ""
        note = f"{recipe.data_name}: {len(task.train):,} problems to train on{judged}; the first "
        golds = [middle_cut(problem.gold, SHOWN) for problem in task.train[:3]]
        note += f"golds are read as {listed(golds)}."
        task = replace(task, notes=(note, *task.notes))
    if left := recipe.left_out:
        note = f"{listed(left)} of the recipe are for its own task and are ignored; to keep one, "
        task = replace(task, notes=(f"{note}set it on the command line.", *task.notes))
    examples = _examples(recipe, task, held)
    task = replace(task, prompt=recipe.prompt.model_copy(update={"examples": examples}))
    shown = {key_of(example.prompt) for example in examples}
    task = _without(task, shown, "examples", "examples of the prompt")
    task = replace(task, notes=(*task.notes, *_heldout_notes(recipe, task)))
    task = _with_sft(recipe, task, held)
    verifiers = [find_verifier(name) for name, _ in recipe.reward.added.values()]
    check_columns(task.name, [task.domain.verify, *verifiers], task.train[:1])
    name, domain = task.exam
    if isinstance(domain.verify, Verifier) and domain.verify.needs:
        check_columns(name, [domain.verify], task.heldout(1))
    return task


def _with_sft(recipe: Recipe, task: Task, held: Collection[str]) -> Task:
    settings = recipe.sft
    if not settings.data or not settings.steps:
        return task
    if settings.data == TASK:
        name, notes = recipe.data_name, tuple[str, ...]()
        examples = own_examples(task, recipe.seed, settings.steps * settings.batch)
    else:
        name, from_task = data_name(settings.data, None), recipe.columns
        examples, notes = read_examples(settings.data, settings.columns, settings.hub, from_task)
    allowed = [example for example in examples if key_of(example.prompt) not in held]
    kept = in_form(allowed, task.domain)
    if allowed and not kept:
        raise UserError(
            f"The verifier reads no answer of {name} as an example, neither in a box nor alone.",
            "sft.data=FILE takes responses in the form that it reads",
        )
    if not kept:
        raise UserError(
            f"Every example of {name} is a held-out problem, so none is left to train on.",
            "set eval.bench to other problems, or use other examples",
        )
    note = f"{name}: {counted(len(kept), 'example')} for supervised steps"
    if not task.domain.private:
        note += f'; the first response is "{middle_cut(one_line(kept[0].solution), SHOWN)}"'
    if out := len(examples) - len(allowed):
        note += f"; {out:,} more are held-out problems, and are left out"
    return replace(task, sft=kept, notes=(*task.notes, *notes, f"{note}."))


def check_columns(
    name: str, verifiers: Sequence[Verifier | Judge], problems: Sequence[Problem]
) -> None:
    """Raise UserError if a verifier needs a column that the problems do not have."""
    columns = [c for c in (problems[0].columns if problems else ()) if c not in NOT_PASSED]
    hint = "use another verifier, or rename the parameter or give it a default"
    for verifier in verifiers:
        if isinstance(verifier, Verifier):
            verifier.check_columns(f"the data of {name}", columns, hint)


def try_functions(recipe: Recipe, task: Task) -> None:
    """Let each function that the user wrote judge a first problem, before a model is loaded.
    UserError if a function fails on all of the gold, the gold in a box and the solution."""
    name, domain = task.exam
    problems = task.train[:1] or task.batch(recipe.seed, 1, 1)
    functions = [task.domain.verify, *map(find_verifier, recipe.reward.functions)]
    tries = [(function, problems[0]) for function in functions]
    if domain.verify is not task.domain.verify:
        tries += [(domain.verify, problem) for problem in task.heldout(1)]
    for function, problem in tries:
        if not isinstance(function, Verifier) or function.named or function.name in OPTIONAL:
            continue
        answers = dict.fromkeys((problem.gold, f"\\boxed{{{problem.gold}}}", problem.solution))
        verdicts = [
            task.domain.judge([problem], [text], by=function)[0] for text in answers if text
        ]
        if verdicts and all(verdict.failed for verdict in verdicts):
            reason = "" if domain.private else f": {verdicts[0].reason.removeprefix(FAILED)}"
            raise UserError(
                f"The function {name_of(function)} fails on the first problem of {name}{reason}.",
                "fix the function, then repeat the command",
            )


def _with_benchmark(recipe: Recipe, task: Task) -> Task:
    """Return the task with the problems of `eval.bench` held out. If `eval.bench` is the user's own
    data, its prompts have the form of the task's, and the recipe's verifier, if any, judges."""
    settings, name = recipe.eval, recipe.eval.bench or ""
    judge = (settings.verifier or recipe.reward.verifier) if is_custom(name) else None
    columns = settings.columns, settings.hub, recipe.columns
    bench = find_benchmark(name, settings.data, *columns, judge)
    domain = _judged(bench.domain, recipe)
    if is_custom(name):
        domain = replace(domain, suffix=task.domain.suffix, words=task.domain.words)
    held, notes = tuple(bench.problems(None)), (*task.notes, *bench.notes)
    return replace(task, held=held, examined=(bench.name, domain), notes=notes)


def task_alone(recipe: Recipe) -> Task:
    """Return the task that a recipe names, with its verifier. A part of the user's own data is held
    out, unless `eval.bench` is set."""
    splits, holdout = holds_out(recipe), recipe.eval.holdout
    if not splits and holdout != HOLDOUT:
        raise UserError(
            "eval.holdout is only for a data set of your own, used without eval.bench.",
            "leave eval.holdout out",
        )
    task = find_task(
        recipe.task,
        recipe.reward.verifier,
        recipe.data,
        recipe.columns,
        recipe.hub,
        holdout if splits else None,
    )
    if splits and not (task.train and task.held):
        raise UserError(
            f"The data set {recipe.data_name} is too small for eval.holdout: "
            f"{len(task.train) + len(task.held)} problems.",
            "a smaller eval.holdout holds out more; or eval.bench=FILE evaluates on a file",
        )
    return replace(task, domain=_judged(task.domain, recipe))


def holds_out(recipe: Recipe) -> bool:
    """Return whether a part of the user's data set is held out."""
    return recipe.eval.bench is None and (is_custom(recipe.task) or bool(recipe.data))


def exam_of(recipe: Recipe, task: Task) -> tuple[str, Domain]:
    """Return the name of the data from which the held-out problems come, and their domain."""
    name, domain = task.exam
    return recipe.data_name if holds_out(recipe) else name, domain


def _judged(domain: Domain, recipe: Recipe) -> Domain:
    limits = Limits(recipe.reward.timeout, recipe.reward.memory)
    return replace(domain, pattern=recipe.reward.pattern or domain.pattern, limits=limits)


def described(task: Task, heldout: Sequence[Problem]) -> dict[str, Any]:
    """Return the data as recorded in environment.json: its source, the checksums of the training
    and of the evaluation problems, the verifier, the numbers of problems left out, and the examples
    of `sft.data` and those drawn for the prompt."""
    train = {"problems": len(task.train), "sha256": digest_of(task.train)} if task.train else None
    drawn = [example.model_dump() for example in task.prompt.examples] * bool(task.prompt.shots)
    return {
        **task.source,
        "train": train,
        "heldout": {"problems": len(heldout), "sha256": digest_of(heldout)},
        "verifier": name_of(task.exam[1].verify),
        "left_out": dict(task.left_out),
        **examples_of(task),
        **({"examples": drawn} if drawn else {}),
    }


def examples_of(task: Task) -> dict[str, Any]:
    """Return the number and checksum of the examples of `sft.data`; empty if there are none."""
    if not task.sft:
        return {}
    return {"sft": {"problems": len(task.sft), "sha256": digest_of(task.sft, solutions=True)}}


def _without(task: Task, keys: Collection[str], reason: str, words: str) -> Task:
    """Return the task without the training problems that have these keys. A note gives their
    number; `words` says what they are."""
    if not keys:
        return task
    left = tuple(p for p in task.train if key_of(p.prompt) not in keys)
    out = len(task.train) - len(left)
    if not out:
        return task
    if not left:
        raise UserError(
            f"Every problem of {task.name} is one of the {words}, so none is left to train on.",
            "set eval.bench to another benchmark",
        )
    note = (
        f"{out:,} of {len(task.train):,} problems of {task.name} left out of training: "
        f"{'it is' if out == 1 else 'they are'} among the {words}."
    )
    left_out = {**task.left_out, reason: out}
    return replace(task, train=left, notes=(*task.notes, note), left_out=left_out)


def _heldout_notes(recipe: Recipe, task: Task) -> Iterator[str]:
    """Yield notes if the held-out problems have another verifier than the task, or if there are
    more or fewer than `eval.problems`."""
    wanted = recipe.eval.problems
    held = len(task.held) - recipe.eval.skip
    name, domain = exam_of(recipe, task)
    listed = recipe.eval.bench and is_custom(name)
    judges = name_of(domain.verify), name_of(task.domain.verify)
    if listed and judges[0] != judges[1] and not recipe.eval.verifier:
        note = f"{name} is judged by the verifier {judges[0]}, and {recipe.data_name} by "
        yield note + f"{judges[1]}; eval.verifier=NAME sets it for {name}."
    if held > wanted and (listed or holds_out(recipe)):
        note = f"{wanted:,} of the {held:,} held-out problems of {name} are evaluated on; "
        yield note + f"eval.problems={held} evaluates on all."
    if 0 < held < wanted:
        note = f"{name} has {held:,} held-out problem{'s' * (held > 1)} to evaluate on, not the "
        note += f"{wanted:,} that eval.problems asks for."
        if more := advised_holdout(recipe, task):
            note += f" eval.holdout={more} holds out one in {more}, and"
        elif recipe.eval.bench:
            note += f" eval.problems={held} asks for all."
        yield note + " eval.bench=FILE evaluates on a file of yours." * (
            held < PRECISE and not recipe.eval.bench and not is_gym(recipe.task)
        )


def advised_holdout(recipe: Recipe, task: Task) -> int | None:
    """Return an `eval.holdout` that holds out more problems; None if no more are needed or left."""
    held = len(task.held) - recipe.eval.skip
    more = max(2, (len(task.train) + len(task.held)) // PRECISE)
    enough = held >= min(recipe.eval.problems, PRECISE)
    return more if holds_out(recipe) and not enough and more < recipe.eval.holdout else None


def _examples(recipe: Recipe, task: Task, held: Collection[str]) -> tuple[Example, ...]:
    """Return the examples of the prompt, drawn at random if `prompt.shots` is set. UserError if an
    example is a held-out problem."""
    prompt = recipe.prompt
    examples = _draw_examples(task, prompt.shots, recipe.seed) if prompt.shots else prompt.examples
    for number, example in enumerate(examples, 1):
        if key_of(example.prompt) in held:
            raise UserError(
                f"Example {number} of prompt.examples is a held-out problem.", "use another"
            )
    return examples


def _draw_examples(task: Task, n: int, seed: int) -> tuple[Example, ...]:
    """Return n training problems with their worked responses, always the same for a seed. UserError
    if too few have a worked response."""
    solved = [problem for problem in task.train if problem.solution]
    if not solved:
        raise UserError(
            f"The task {task.name} has no worked responses to show as examples.",
            "set prompt.examples to a file with a prompt and a response in each row",
        )
    if len(solved) <= n:
        raise UserError(
            f"The task {task.name} has {len(solved)} problems with a worked response, and "
            f"prompt.shots = {n} would use them all.",
            "lower prompt.shots",
        )
    order = generator(seed, "shots").permutation(len(solved))[:n]
    drawn = [solved[int(place)] for place in order]
    return tuple(Example(prompt=p.prompt, response=p.solution) for p in drawn)


def heldout(recipe: Recipe, task: Task) -> list[Problem]:
    """Return the problems to evaluate on. UserError if none is left after `eval.skip`."""
    skip = recipe.eval.skip
    problems = task.heldout(skip + recipe.eval.problems)[skip:]
    if not problems:
        raise UserError(
            f"{recipe.eval.bench or recipe.task} has no held-out problems after the first {skip}.",
            "lower eval.problems and eval.skip",
        )
    return problems
