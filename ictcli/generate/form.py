"""How questions to a model are put and judged."""

from collections.abc import Callable
from dataclasses import dataclass

from ictcli.errors import UserError
from ictcli.evaluation.specs import ModelSpec, judged
from ictcli.recipe import load_recipe
from ictcli.recipe.data import RewardSettings
from ictcli.rewards import Explanation, find_verifier, grade
from ictcli.rewards.verifiers import as_verifier
from ictcli.tasks import BOXED, Domain, Task, builtin_task
from ictcli.tasks.prepare import task_alone
from ictcli.text import cut, one_line

EXAMPLES = 16
SHOWN = 200


@dataclass(frozen=True)
class Form:
    """How a question is put, and an answer judged."""

    domain: Domain
    examples: tuple[str, ...] = ()
    """Questions of the model's task, if it has one."""

    @property
    def hint(self) -> str:
        """What a prompt looks like; empty if that is not known."""
        if not self.examples:
            return ""
        return f"prompts look like {cut(one_line(min(self.examples, key=len)), SHOWN)}"

    def doubt(self, question: str) -> str:
        """A sentence on a question that does not end as all of a task without words do; else
        empty."""
        ends = {example[-1:] for example in self.examples}
        if self.domain.words or len(ends) != 1 or question.endswith(tuple(ends)):
            return ""
        return f"{self.hint}, and this one does not end with {ends.pop()}"

    def judge(
        self, question: str, answers: list[str], gold: str, say: Callable[[str], None]
    ) -> list[Explanation]:
        """The verdict on each answer to a question, with its grounds."""
        verifier = as_verifier(self.domain.verify)
        if not verifier.readable(gold):
            say(
                f"note: the gold cannot be read by the verifier {verifier.name}: only an answer "
                "that is the same letter by letter is correct"
            )
        return grade(
            answers,
            [gold] * len(answers),
            verifier,
            pattern=self.domain.pattern,
            questions=[question] * len(answers),
            limits=self.domain.limits,
            explain=True,
        )


def form_of(
    model: ModelSpec, reward: RewardSettings, say: Callable[[str], None], *, judge: bool
) -> Form:
    """A run's model is asked as its task is, and a built-in one as its own. Others are asked in the
    user's words alone, and for an answer in a box if one is to `judge`."""
    task = _task_of(model, say)
    if task is None:
        suffix = BOXED if judge or model.run else ""
        domain, examples = Domain(find_verifier("math"), suffix, pattern=model.pattern), ()
    else:
        domain, questions = task.domain, task.heldout(EXAMPLES) or task.finite[:EXAMPLES]
        examples = tuple(problem.prompt for problem in questions)
    domain = judged(domain, reward)
    if judge:
        hint = "leave --gold out; ictcli eval judges the problems of the data"
        as_verifier(domain.verify).check_columns("a prompt that is typed", (), hint)
    return Form(domain, examples)


def _task_of(model: ModelSpec, say: Callable[[str], None]) -> Task | None:
    if model.recipe is None:
        return builtin_task(model.model)
    try:
        return task_alone(load_recipe(model.recipe))
    except UserError as error:
        say(f"note: {error.message} {model.run} is asked as a task of mathematics.")
        return None
