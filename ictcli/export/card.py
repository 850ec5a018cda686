"""Writes the model card, an export's README.md, with its base model, settings and results.

The card contains no text of a model or a data set. Strings of a recipe are escaped: in the header
as JSON, which is valid YAML, and in the text as inline code.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ictcli.algorithm.methods import METHODS
from ictcli.errors import UnknownCodeError, UserError
from ictcli.evaluation.passk import Difference
from ictcli.evaluation.record import Evaluation, unanswered
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.export.base import chats, license_of, names_of
from ictcli.files.origin import flat
from ictcli.recipe import Recipe, load_recipe, table_to_toml
from ictcli.recipe.data import TASK
from ictcli.recipe.generator import is_gym
from ictcli.rewards import find_verifier
from ictcli.runs.model import settings_of
from ictcli.runs.public import base_of, is_public, place_of, public_data, public_name, public_recipe
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import RecipeRecord, Summary
from ictcli.runs.trained import is_trained
from ictcli.tables import Column, Table
from ictcli.tables.numbers import points, shown_share
from ictcli.tables.pages import render
from ictcli.tasks import BOXED, Domain, builtin_task
from ictcli.tasks.chats import as_messages
from ictcli.tasks.prepare import task_alone
from ictcli.tasks.prompts import render as prompt_text
from ictcli.tasks.prompts import template_of
from ictcli.types import Problem

QUESTION = "What is 17 + 25?"
MAX_TOKENS = 512


@dataclass(frozen=True)
class Asked:
    """How the run prompts and samples its model."""

    settings: EvaluationSettings
    domain: Domain
    question: str
    """An example question: of the run's task if its problems are generated, else of the built-in
    model's task, else `QUESTION`. Never text of a data set."""

    @property
    def suffix(self) -> str:
        """The text that a chat prompt has after the question."""
        suffix = self.settings.prompt.suffix
        return self.domain.suffix if suffix is None else suffix

    @property
    def max_tokens(self) -> int:
        return self.settings.max_tokens or MAX_TOKENS

    def shown(self, *, chats: bool) -> str | list[dict[str, str]]:
        """Return the prompt for the question: messages if the model `chats`, else text. The
        recipe's few-shot examples are left out, as they may be text of a data set."""
        prompt = self.settings.prompt.model_copy(update={"examples": ()})
        chats = chats or bool(prompt.template_arguments)
        tokenizer = SimpleNamespace(chat_template=chats, bos_token=None)
        if template_of(tokenizer, self.domain, prompt) != "chat":
            return prompt_text(tokenizer, Problem("shown", self.question, ""), self.domain, prompt)
        content = f"{self.question}\n{self.suffix}" if self.suffix else self.question
        system = [("system", prompt.system)] if prompt.system else []
        return as_messages([*system, ("user", content)])


def asked_by(run: Path) -> Asked:
    """Return how a run prompts its model; if the recipe or data is gone, how a maths task would."""
    settings, domain, question = EvaluationSettings(), None, QUESTION
    try:
        file, settings, _ = settings_of(run)
        recipe = load_recipe(file)
        task = task_alone(recipe)
        domain = task.domain
        is_generated = is_gym(recipe.task) or task.draw is not None
        example = task if is_generated else builtin_task(recipe.model)
        if example is not None:
            question = example.heldout(1)[0].prompt
    except UnknownCodeError:
        raise
    except UserError:
        domain = domain or Domain(find_verifier("math"), BOXED)
    return Asked(settings, domain, question)


def _measured(run: Path, step: int | None, summary: Summary | None) -> dict[str, Any] | None:
    """Return the results of the run's own evaluation of its last weights (`step` None), or of the
    weights at `step`, for the card: the table of scores, the numbers of problems and samples, and
    whether the change is paired by problem. None if that evaluation does not exist."""
    change: Mapping[str, Difference] = {}
    if step is not None:
        paths = (run / "eval" / f"{label}.json" for label in ("before", f"step-{step:06d}"))
        earlier, later = (read_record(path, Evaluation, strict=False) for path in paths)
        if later is None:
            return None
        if earlier and earlier.problems != later.problems:
            earlier = None
        before, after, head = earlier.scores if earlier else {}, later.scores, f"step {step}"
        lost, n = unanswered(earlier, later) if earlier else None, later.n
    elif summary:
        later, before, after, head = summary, summary.before, summary.after, "after"
        lost, n, change = summary.unanswered, summary.samples_per_problem, summary.change
    else:
        return None
    columns = [
        Column[str]("metric", lambda name: name, str),
        Column[str]("before", before.get, shown_share, bounded=True),
        Column[str](head, after.get, shown_share, bounded=True),
    ]
    if change:
        columns.append(Column[str]("change, points", change.get, points, bounded=True))
    return {
        "scores": Table(columns, [name for name, score in after.items() if score is not None]),
        "problems": later.problems,
        "n": n,
        "paired": bool(change),
        "unanswered": lost.sentence if lost else "",
    }


def _changed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe's tables without the keys that have their default values."""
    least: dict[str, Any] = {"model": "-", "task": "-", "method": {}, "steps": -1}
    usual = Recipe.model_construct(**least).model_dump(mode="json", exclude_none=True)

    def differing(value: Any, default: Any) -> Any:
        if not (isinstance(value, dict) and isinstance(default, dict)):
            return cast(Any, value)
        table, defaults = cast(dict[str, Any], value), cast(dict[str, Any], default)
        keys = [key for key in table if table[key] != defaults.get(key)]
        return {key: differing(table[key], defaults.get(key)) for key in keys}

    return differing(recipe, usual)


def ollama_name(run: str, step: int | None = None) -> str:
    """Return a run's name with only the characters that Ollama allows in a model's name."""
    name = re.sub(r"[^a-z0-9_.-]+", "-", run.lower()).strip("-.") or "model"
    return name if step is None else f"{name}-step-{step}"


def card(
    run: Path,
    name: str,
    title: str,
    *,
    adapter: bool,
    layout: str,
    step: int | None = None,
    kept: str = "",
) -> str:
    """Return the text of the card of a run's export. `name` is the name to load it by, `layout` the
    layout of its files, `step` the step of a checkpoint (None = the last weights), and `kept` the
    sentence of `Kept`. UserError if the run's recipe cannot be read."""
    record = read_record(run / "recipe.toml", RecipeRecord, strict=False)
    if record is None:
        raise UserError(f"{run / 'recipe.toml'} cannot be read.", "restore the file")
    keys, method = flat(record.to_json()), record.method or "?"
    taught = record.data_name if keys.get("sft.data") == TASK else str(keys.get("sft.data") or "")
    environment = read_environment(run)
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and step == summary.steps:
        step = None  # the last weights, measured at the end
    reinforced = bool(keys.get("steps")) and step != 0
    original = base_of(record.to_json(), environment)
    base, origin = names_of(original, run)
    parent = base if adapter or is_public(base) else origin
    asked = asked_by(run)
    data, source = environment.data, METHODS[method].source if method in METHODS else ""
    paper = re.match(r"arXiv (\d{4}\.\d{5})", source)
    sources = public_data(data)
    is_generated = "train" in data.model_fields_set and data.train is None
    engine = [getattr(environment.engine, key) for key in ("engine", "device", "dtype")]
    versions = {key: getattr(environment, key) for key in ("ictcli", "python", "platform")}
    versions |= {**environment.libraries, "engine": " ".join(str(part) for part in engine if part)}
    return render(
        Path(__file__).with_name("card.md.jinja"),
        "md",
        title=title,
        base=base,
        public=is_public(base),
        origin=origin,
        examples=public_name(taught) if taught else None,
        parent=parent if parent and is_public(parent) else None,
        license=license_of(original, run),
        again=is_trained(str(place_of(original, run) or original)),
        reinforced=reinforced,
        dataset=data.path if reinforced and data.path and is_public(data.path) else None,
        task=public_name(record.data_name),
        method=method,
        adapter=adapter,
        layout=layout,
        step=step,
        kept=kept,
        measured=_measured(run, step, summary),
        bench=public_name(str(keys.get("eval.bench") or record.data_name)),
        parameters=environment.engine.parameters,
        settings=table_to_toml(
            _changed({**public_recipe(record.to_json()), "model": base})
        ).strip(),
        warmup=keys.get("warmup"),
        trained=None if step is not None else summary,
        ended=(run / "summary.json").exists(),
        apart=any(keys.get(key) for key in ("reward.verifier", "eval.verifier", "eval.bench")),
        sources={key: of for key, of in sources.items() if reinforced or key[:6] != "train."},
        generated=is_generated and not {"path", "file"} & {*sources},
        named="".join(sign if sign.isprintable() else "_" for sign in name),
        ollama=ollama_name(run.name, step),
        word=shlex.quote,
        asked=asked,
        arguments=asked.settings.prompt.template_arguments,
        prompt=asked.shown(chats=chats(original, run)),
        versions={key: version for key, version in versions.items() if version},
        paper=paper,
        cited=source[paper.end() :] if paper else "",
    )
