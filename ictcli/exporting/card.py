"""The model card: README.md of an export, which says what it is, from what, how, and how well.

Figures and settings alone; no text of a model or a data set is in it, and every string of a recipe
is escaped: as JSON in the header, which YAML reads, and as inline code in the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.history.detail import flat
from ictcli.history.reading import Table, table, within
from ictcli.models import BUILTIN, snapshot

PAPER = "https://arxiv.org/abs/2606.19771"
MAIN = (
    *("steps", "seed", "lr", "prompts", "group", "temperature", "max_tokens", "keep", "warmup"),
    *("kl", "entropy", "update.epochs", "update.minibatch", "clip.low", "clip.high"),
    *("adapter.kind", "adapter.rank", "adapter.alpha"),
)


def public_name(model: str) -> str:
    """A model's name for others: of a folder on this machine its last part alone."""
    local = model.startswith(("/", "~", ".")) or Path(model).is_dir()
    return Path(model).name if local else model


def is_public(model: str) -> bool:
    """Whether a model's name is one of the hub's, as far as the name tells."""
    return re.fullmatch(r"[\w.-]+/[\w.-]+", model) is not None and not Path(model).is_dir()


def card(run: Path, name: str, *, adapter: bool, layout: str) -> str:
    """The card of a run's export; `name` is what others load, `layout` is hf or mlx.

    Raises UserError where the run has no recipe that can be read.
    """
    recipe = table(run / "recipe.toml")
    if recipe is None:
        raise UserError(f"{run / 'recipe.toml'} cannot be read.", "put it back")
    environment = table(run / "environment.json") or {}
    summary = table(run / "summary.json") or {}
    base = str(recipe.get("model", ""))
    method = within(recipe, "method", "name") or recipe.get("method") or "?"
    parts = [
        _header(base, recipe, environment, adapter=adapter, layout=layout),
        f"# {code(run.name)}",
        _opening(base, recipe, str(method), adapter=adapter),
        "## Results",
        _results(recipe, summary),
        "## Training",
        _training(recipe, summary, str(method)),
        "## Data",
        _data(recipe, environment),
        "## Use",
        _use(base, name, adapter=adapter, layout=layout),
        "## Limitations",
        _limitations(recipe),
        "## Versions",
        _versions(environment),
        "## Citation",
        f"The method of token selection is that of [arXiv 2606.19771]({PAPER}), "
        '"Beyond Entropy: Learning from Token-Level Distributional Deviations for LLM Reasoning", '
        "as implemented by ictcli.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def code(value: object) -> str:
    """A value as inline code of one line, whatever is in it."""
    text = " ".join("".join(c if c.isprintable() else " " for c in str(value)).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    text = text.replace("|", "\\|")
    return f"{fence}{pad}{text}{pad}{fence}" if text else "-"


def _header(
    base: str,
    recipe: Mapping[str, Any],
    environment: Mapping[str, Any],
    *,
    adapter: bool,
    layout: str,
) -> str:
    """The YAML header. A JSON value is a YAML value."""
    fields: dict[str, Any] = {}
    if is_public(base):
        fields["base_model"] = base
        fields["base_model_relation"] = "adapter" if adapter else "finetune"
    if known := license_of(base):
        fields["license"] = known
    fields["library_name"] = "mlx" if layout == "mlx" else "peft" if adapter else "transformers"
    fields["pipeline_tag"] = "text-generation"
    method = within(recipe, "method", "name") or recipe.get("method")
    fields["tags"] = ["ictcli", "reinforcement-learning", "rlvr", str(method)]
    path = within(environment, "data", "path")
    if isinstance(path, str) and is_public(path):
        fields["datasets"] = [path]
    lines = [f"{key}: {json.dumps(value)}" for key, value in fields.items()]
    return "\n".join(["---", *lines, "---"])


def license_of(base: str) -> str | None:
    """The licence that the model below states in its own card, if it is here."""
    folder = BUILTIN.get(base.removeprefix("builtin:"))
    if folder is None:
        folder = snapshot(base) if is_public(base) or Path(base).is_dir() else None
    try:
        text = (folder / "README.md").read_text(encoding="utf-8") if folder else ""
    except (OSError, ValueError):
        return None
    header = re.match(r"---\n(.*?)\n---", text, re.S)
    found = re.search(r"^license:\s*[\"']?([\w.-]+)[\"']?\s*$", header[1] if header else "", re.M)
    return found[1] if found else None


def _opening(base: str, recipe: Mapping[str, Any], method: str, *, adapter: bool) -> str:
    what = "Low-rank adapters for" if adapter else "A model trained from"
    task = public_name(str(recipe.get("task", "")))
    return (
        f"{what} {code(public_name(base))}, trained by reinforcement learning with verifiable "
        f"rewards on {code(task)} with ictcli, method {code(method)}."
    )


def _grid(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body])


def _results(recipe: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    before, after = (cast(Table, within(summary, name) or {}) for name in ("before", "after"))
    rows = [["metric", "before", "after"]]
    rows += [[name, _interval(before.get(name)), _interval(after.get(name))] for name in after]
    if len(rows) == 1:
        return "The run did not finish, so there are none."
    bench = public_name(str(within(recipe, "eval", "bench") or recipe.get("task", "")))
    return (
        f"{_grid(rows)}\n\n{summary.get('problems', '?')} held-out problems of {code(bench)}, "
        f"{summary.get('samples_per_problem', '?')} samples each; 95 % intervals by bootstrap "
        "over problems. They say nothing of other seeds."
    )


def _interval(found: Any) -> str:
    try:
        return "{value:.3f} [{low:.3f}, {high:.3f}]".format(**found)
    except (KeyError, TypeError, ValueError):
        return "-"


def _training(recipe: Mapping[str, Any], summary: Mapping[str, Any], method: str) -> str:
    keys = flat(recipe)
    options = [key for key in keys if key.startswith("method.") and key != "method.name"]
    if keys.get("adapter.kind") in (None, "none"):
        keys = {key: value for key, value in keys.items() if not key.startswith("adapter.")}
    named = [key for key in (*MAIN, *options) if key in keys]
    rows = [["setting", "value"], ["method", code(method)]]
    rows += [[key, code(keys[key])] for key in named]
    share = within(summary, "tokens_kept_share")
    told = ""
    if isinstance(share, int | float):
        told = (
            f"\n\nOf {summary.get('tokens_sampled', 0):,} sampled tokens {share:.1%} were trained "
            "(the dense warm-up, where there is one, included)."
        )
    return _grid(rows) + told


def _data(recipe: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    found = flat(cast(Mapping[str, Any], within(environment, "data") or {}))
    if not found:
        task = public_name(str(recipe.get("task", "")))
        return f"The task {code(task)}, whose problems are made by ictcli from the seed."
    return _grid([["source", "value"], *([key, code(value)] for key, value in found.items())])


def _use(base: str, name: str, *, adapter: bool, layout: str) -> str:
    below = base if is_public(base) else "the-model-below"
    name = re.sub(r"[^\w./-]", "_", name)
    if layout == "mlx":
        model = f"--model {below} --adapter-path {name}" if adapter else f"--model {name}"
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


def _limitations(recipe: Mapping[str, Any]) -> str:
    task = public_name(str(recipe.get("task", "")))
    return (
        f"- Trained to be judged right on {code(task)} alone, from one seed; other abilities of "
        "the model below were not measured afterwards and may have suffered.\n"
        "- The reward is an automatic verdict on the final answer: the reasoning before it was "
        "never judged, and may be wrong where the answer is right.\n"
        "- Nothing was done about safety, bias or truthfulness beyond what the model below has."
    )


def _versions(environment: Mapping[str, Any]) -> str:
    libraries = cast(Mapping[str, Any], within(environment, "libraries") or {})
    engine = [within(environment, "engine", name) for name in ("engine", "device", "dtype")]
    rows = [["what", "version"]]
    for name in ("ictcli", "python", "platform"):
        if name in environment:
            rows.append([name, code(environment[name])])
    rows += [[code(name), code(value)] for name, value in libraries.items()]
    if any(engine):
        rows.append(["engine", code(" ".join(str(part) for part in engine if part))])
    return _grid(rows) if len(rows) > 1 else ""
