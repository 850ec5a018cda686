"""The model card: README.md of an export, with its base model, settings and results.

It holds figures and settings, and no text of a model or a data set. Strings of a recipe are
escaped: as JSON in the header, which is valid YAML, and as inline code in the text.
"""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ictcli.algorithm.methods import METHODS
from ictcli.engine.models import BUILTIN, snapshot
from ictcli.errors import UserError
from ictcli.evaluation.record import Evaluation
from ictcli.evaluation.report import interval, markdown_table
from ictcli.files.fingerprint import flat
from ictcli.runs.public import base_of, is_public, public_data, public_name
from ictcli.runs.read import read_environment, read_record
from ictcli.runs.records import DataRecord, Environment, RecipeRecord, Summary
from ictcli.text import markdown_code as code
from ictcli.text import markdown_text, quoted

MAIN = (
    *("steps", "seed", "lr", "prompts", "group", "temperature", "max_tokens", "keep", "warmup"),
    *("kl", "entropy", "update.epochs", "update.minibatch", "clip.low", "clip.high"),
    *("adapter.kind", "adapter.rank", "adapter.alpha"),
)


def card(run: Path, name: str, *, adapter: bool, layout: str, step: int | None = None) -> str:
    """The card of a run's export. `name` is what others load, `layout` hf or mlx, `step` that of a
    checkpoint (None = the last weights).

    Raises UserError where the run's recipe cannot be read.
    """
    record = read_record(run / "recipe.toml", RecipeRecord, strict=False)
    if record is None:
        raise UserError(f"{run / 'recipe.toml'} cannot be read.", "put it back")
    recipe, method = record.to_json(), record.method or "?"
    task = code(public_name(record.task))
    environment = read_environment(run)
    summary = read_record(run / "summary.json", Summary, strict=False)
    if summary and step == summary.steps:
        step = None  # the last weights, measured at the end
    base = base_of(recipe, environment)
    license_name = license_of(base)
    base = base if is_public(base, run) else public_name(base, run)
    parts = [
        _header(base, license_name, environment, method, adapter=adapter, layout=layout),
        f"# {code(run.name)}",
        _opening(base, task, method, adapter=adapter, step=step),
        "## Results",
        _results(run, recipe, summary, step),
        "## Training",
        _training(recipe, None if step else summary, method),
        "## Data",
        _data(task, environment.data),
        "## Use",
        _use(base, name, adapter=adapter, layout=layout),
        "## Limitations",
        _limitations(task),
        "## Versions",
        _versions(environment),
        "## Citation",
        _citation(method),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _citation(method: str) -> str:
    source = METHODS[method].source if method in METHODS else ""
    if not (paper := re.match(r"arXiv (\d{4}\.\d{5})", source)):
        return f"The method is {code(method)}, as implemented by ictcli."
    place = markdown_text(source[paper.end() :])
    link = f"[{paper[0]}](https://arxiv.org/abs/{paper[1]}){place}"
    return f"The method {code(method)} is that of {link}, as implemented by ictcli."


def _header(
    base: str,
    license_name: str | None,
    environment: Environment,
    method: str,
    *,
    adapter: bool,
    layout: str,
) -> str:
    """The YAML header."""
    fields: dict[str, Any] = {}
    if is_public(base):
        fields["base_model"] = base
        fields["base_model_relation"] = "adapter" if adapter else "finetune"
    if license_name:
        fields["license"] = license_name
    fields["library_name"] = "mlx" if layout == "mlx" else "peft" if adapter else "transformers"
    fields["pipeline_tag"] = "text-generation"
    fields["tags"] = ["ictcli", "reinforcement-learning", "rlvr", method]
    path = environment.data.path
    if path and is_public(path):
        fields["datasets"] = [path]
    lines = [f"{key}: {quoted(value)}" for key, value in fields.items()]
    return "\n".join(["---", *lines, "---"])


def license_of(base: str) -> str | None:
    """The licence in the base model's card, if that is on this machine."""
    folder = BUILTIN.get(base.removeprefix("builtin:"))
    if folder is None:
        folder = snapshot(base) if is_public(base) or Path(base).is_dir() else None
    from huggingface_hub import repocard

    try:
        header: Any = cast(Any, repocard).metadata_load(folder / "README.md") if folder else None
    except Exception:  # a file of others, which may be no YAML
        return None
    name = header.get("license") if header else None
    return name if isinstance(name, str) else None


def _opening(base: str, task: str, method: str, *, adapter: bool, step: int | None) -> str:
    what = "Low-rank adapters for " if adapter else ""
    text = (
        f"{what}{code(base)}, trained on {task} by reinforcement learning with verifiable rewards. "
        f"Made with ictcli, method {code(method)}."
    )
    if step is None:
        return text
    return f"{text} The weights are those of the checkpoint of step {step}, not the run's last."


def _results(
    run: Path, recipe: Mapping[str, Any], summary: Summary | None, step: int | None
) -> str:
    """The summary's figures for the last weights; for a checkpoint, the evaluation at its step
    beside that before training."""
    if step is None:
        if summary is None:
            return "The run did not finish, so there are no results."
        before, after, head = summary.before, summary.after, "after"
        problems, samples = summary.problems, summary.samples_per_problem
    else:
        start, here = (
            read_record(run / "eval" / f"{name}.json", Evaluation, strict=False)
            for name in ("before", f"step-{step:06d}")
        )
        if here is None:
            return f"The weights of step {step} were not measured."
        before = start.scores if start and start.problems == here.problems else {}
        after, head, problems, samples = here.scores, f"step {step}", here.problems, here.n
    rows = [["metric", "before", head]]
    rows += [
        [markdown_text(name), interval(before.get(name)), interval(score)]
        for name, score in after.items()
        if score is not None
    ]
    bench = public_name(str(flat(recipe).get("eval.bench") or recipe.get("task", "")))
    return (
        f"{markdown_table(rows)}\n\n{problems} held-out problems of {code(bench)}, {samples} "
        "samples each; 95 % intervals over problems. Another seed may give other figures."
    )


def _training(recipe: Mapping[str, Any], summary: Summary | None, method: str) -> str:
    keys = flat(recipe)
    options = [key for key in keys if key.startswith("method.") and key != "method.name"]
    if keys.get("adapter.kind") in (None, "none"):
        keys = {key: value for key, value in keys.items() if not key.startswith("adapter.")}
    named = [key for key in (*MAIN, *options) if key in keys]
    rows = [["setting", "value"], ["method", code(method)]]
    rows += [[markdown_text(key), code(keys[key])] for key in named]
    kept = ""
    if summary is not None:
        share = summary.tokens_kept_share
        kept = (
            f"\n\n{share:.1%} of the {summary.tokens_sampled:,} sampled tokens were trained, steps "
            "of the dense warm-up included."
        )
    return markdown_table(rows) + kept


def _data(task: str, data: DataRecord) -> str:
    """The problems' source, counts and checksums; never their text."""
    sources = public_data(data)
    parts: list[str] = []
    generated = "train" in data.model_fields_set and data.train is None
    if generated and not {"path", "file"} & {*sources}:
        parts.append(f"The problems of {task} are made by ictcli from the seed.")
    if sources:
        rows = [["source", "value"], *([key, code(value)] for key, value in sources.items())]
        parts.append(markdown_table(rows))
    return "\n\n".join(parts) or f"The run has no record of the problems of {task}."


def _use(base: str, name: str, *, adapter: bool, layout: str) -> str:
    below = base if is_public(base) else "path/to/base-model"
    name = re.sub(r"[^\w./ -]", "_", name)
    if layout == "mlx":
        place = shlex.quote(name)
        model = f"--model {below} --adapter-path {place}" if adapter else f"--model {place}"
        return f"```console\nmlx_lm.generate {model} --prompt '...'\n```"
    lines = ["from transformers import AutoModelForCausalLM, AutoTokenizer", ""]
    quoted, under = json.dumps(name), json.dumps(below)
    if adapter:
        lines[:1] = ["from peft import PeftModel", lines[0]]
        lines += [
            f"model = AutoModelForCausalLM.from_pretrained({under})",
            f"model = PeftModel.from_pretrained(model, {quoted})",
            f"tokenizer = AutoTokenizer.from_pretrained({under})",
        ]
    else:
        lines += [
            f"model = AutoModelForCausalLM.from_pretrained({quoted})",
            f"tokenizer = AutoTokenizer.from_pretrained({quoted})",
        ]
    return "```python\n" + "\n".join(lines) + "\n```"


def _limitations(task: str) -> str:
    return (
        f"- It was trained on {task} alone, with one seed. Other abilities were not measured and "
        "may be worse than the base model's.\n"
        "- The reward judges the final answer only. The reasoning before a right answer may be "
        "wrong.\n"
        "- Safety, bias and truthfulness were neither trained nor measured."
    )


def _versions(environment: Environment) -> str:
    engine = [getattr(environment.engine, name) for name in ("engine", "device", "dtype")]
    rows = [["what", "version"]]
    for name in ("ictcli", "python", "platform"):
        if value := getattr(environment, name):
            rows.append([name, code(value)])
    rows += [[code(name), code(value)] for name, value in environment.libraries.items()]
    if any(engine):
        rows.append(["engine", code(" ".join(str(part) for part in engine if part))])
    return markdown_table(rows) if len(rows) > 1 else ""
