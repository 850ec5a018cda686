"""How a run's model is asked, for the code in the card."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from ictcli.errors import UnknownCodeError, UserError
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.recipe import load_recipe
from ictcli.recipe.generator import is_gym
from ictcli.rewards import find_verifier
from ictcli.runs.model import bench_of, settings_of
from ictcli.tasks import BOXED, Domain, builtin_task
from ictcli.tasks.chats import as_messages
from ictcli.tasks.prepare import task_alone
from ictcli.tasks.prompts import render, template_of
from ictcli.types import Problem

QUESTION = "What is 17 + 25?"
MAX_TOKENS = 512


@dataclass(frozen=True)
class Asked:
    """What the run's recipe says of prompts and sampling."""

    settings: EvaluationSettings
    domain: Domain
    question: str
    """Of a task that makes its problems one of them, or of the built-in model's own task, else one
    of ours: no text of a data set."""
    bench: str = ""
    """What it was evaluated on, where others have that too; else empty."""

    @property
    def max_tokens(self) -> int:
        return self.settings.max_tokens or MAX_TOKENS

    def shown(self, *, chats: bool) -> str | list[dict[str, str]]:
        """Return the question as a prompt, or as messages where the model `chats`; the examples of
        the recipe are left out, which may be text of a data set."""
        prompt = self.settings.prompt.model_copy(update={"examples": ()})
        tokenizer = SimpleNamespace(chat_template=chats, bos_token=None)
        if template_of(tokenizer, self.domain, prompt) != "chat":
            return render(tokenizer, Problem("shown", self.question, ""), self.domain, prompt)
        suffix = self.domain.suffix if prompt.suffix is None else prompt.suffix
        asked = f"{self.question}\n{suffix}" if suffix else self.question
        system = [("system", prompt.system)] if prompt.system else []
        return as_messages([*system, ("user", asked)])


def asked_by(run: Path) -> Asked:
    """Return how the run's model is asked; as in mathematics where its recipe or its data is
    gone."""
    settings, domain, question, bench = EvaluationSettings(), None, QUESTION, ""
    try:
        file, settings, _, _ = settings_of(run)
        recipe = load_recipe(file)
        bench = bench_of(recipe)
        task = task_alone(recipe)
        domain = task.domain
        made = is_gym(recipe.task) or not (task.train or task.finite or task.source.get("path"))
        shown = task if made else builtin_task(recipe.model)  # which reads little else
        if shown is not None:
            question = shown.heldout(1)[0].prompt
    except UnknownCodeError:
        raise
    except UserError:
        domain = domain or Domain(find_verifier("math"), BOXED)
    return Asked(settings, domain, question, bench)
