"""Ollama's Modelfile: the model beside it, asked and sampled as its run does."""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ictcli.engine.model_files import change_tokenizer, tokenizer_config
from ictcli.engine.models import stop_ids
from ictcli.engine.shape import read_lengths
from ictcli.errors import UserError
from ictcli.export.asked import Asked, asked_by, tokenizer_in
from ictcli.files.reading import parse_json, read_text
from ictcli.tasks.chats import as_messages, rendered
from ictcli.tasks.prompts import render, template_of, tokens_of
from ictcli.types import Problem

LEFT_OUT = (
    "The model's template cannot be written for Ollama: the Modelfile has no TEMPLATE, and Ollama "
    "takes the nearest that it knows."
)
QUOTES = '"""'
UNQUOTED = "The Modelfile has no {}: its text has three double quotes, which end one there."
ROOM = 2048
"""Tokens of the context for the prompt."""


def ollama_name(run: str, step: int | None = None) -> str:
    """The name that a run's model may have in Ollama."""
    name = re.sub(r"[^a-z0-9_.-]+", "-", run.lower()).strip("-.") or "model"
    return name if step is None else f"{name}-step-{step}"


def write_modelfile(run: Path, folder: Path) -> str:
    """Write the Modelfile of a run's model into the folder of that; returns `modelfile`'s note."""
    asked = asked_by(run)
    tokenizer = tokenizer_in(folder)
    ends: list[Any] = []
    config: dict[str, Any] = {}
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file():
            config = parse_json(read_text(folder / name))
            ends.append(config.get("eos_token_id"))
    stops = [tokenizer.decode([stop]) for stop in stop_ids(tokenizer, *ends)]
    first = _first(tokenizer, asked)
    if tokenizer_config(folder).get("add_bos_token") is True:  # Ollama puts it there then alone
        if not first:
            change_tokenizer(folder, add_bos_token=False)
        first = ""
    text, note = modelfile(tokenizer, asked, stops, read_lengths(config, 0).longest, first)
    (folder / "Modelfile").write_text(text, encoding="utf-8")
    return note


def _first(tokenizer: Any, asked: Asked) -> str:
    """The beginning-of-text token, where the run's prompts begin with it."""
    problem = Problem("shown", asked.question, "")
    ids = tokens_of(tokenizer, problem, asked.domain, asked.settings.prompt)[1]
    bos = str(tokenizer.bos_token or "")
    return bos if bos and ids[:1] == [tokenizer.bos_token_id] else ""


def modelfile(
    tokenizer: Any, asked: Asked, stops: Sequence[str], context: int, first: str = ""
) -> tuple[str, str]:
    """The file's text, and a sentence on what it has not. `stops` are the texts of the tokens that
    end an answer, `context` the most tokens that the model takes, `first` the token that the
    template puts first."""
    prompt, note = asked.settings.prompt, ""
    chats = template_of(tokenizer, asked.domain, prompt) == "chat"
    lines = ["FROM ."]
    template = _chat(tokenizer, asked.suffix, first) if chats else _text(tokenizer, asked, first)
    blocks: list[tuple[str, str]] = []
    if template is not None and QUOTES not in template:
        blocks.append(("TEMPLATE", template))
        for example in prompt.examples if chats else ():
            blocks += [("MESSAGE user", example.prompt), ("MESSAGE assistant", example.response)]
    else:
        note = LEFT_OUT
    if chats and prompt.system:
        blocks.append(("SYSTEM", prompt.system))
    if quoted := dict.fromkeys(name.split()[0] for name, text in blocks if QUOTES in text):
        blocks = [(name, text) for name, text in blocks if name.split()[0] not in quoted]
        note = f"{note} {UNQUOTED.format(' and no '.join(quoted))}".strip()
    lines += [f"{name} {QUOTES}{text}{QUOTES}" for name, text in blocks]
    sampling = asked.settings.sampling
    heat = asked.settings.temperature
    values = {
        "temperature": 1.0 if heat is None else heat,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": 0,
        "repeat_penalty": 1,
        "num_predict": asked.max_tokens,
        "num_ctx": min(ROOM + asked.max_tokens, context),
    }
    lines += [f"PARAMETER {name} {value}" for name, value in values.items()]
    lines += [f'PARAMETER stop "{text}"' for text in stops if text.strip() and '"' not in text]
    return "\n".join(lines) + "\n", note


def _text(tokenizer: Any, asked: Asked, first: str) -> str | None:
    """The template of a model without a chat template: the prompt as text around the question, None
    where the question does not stand in it once."""
    mark = "zq0z"
    problem = Problem("shown", mark, "")
    parts = render(tokenizer, problem, asked.domain, asked.settings.prompt).split(mark)
    if len(parts) != 2:
        return None
    before, after = parts
    return f"{_literal(first + _begun(tokenizer, before))}{{{{ .Prompt }}}}{_literal(after)}"


def _chat(tokenizer: Any, suffix: str, bos: str) -> str | None:
    """The tokenizer's chat template in Go's language, None where it is no chain of turns.

    It is found by what the template makes of conversations: the texts between their messages are
    the same in a longer one, or it is not translated.
    """
    if "strftime" in str(tokenizer.chat_template):
        return None  # it writes today's date
    begin = _between(tokenizer, "user")
    longer = _between(tokenizer, "user", "assistant", "user", "assistant", "user")
    if begin is None or longer is None:
        return None
    first, end = begin
    reply, turn = longer[1:3]
    if longer != [first, reply, turn, reply, turn, end]:
        return None
    opening = _literal(bos + _begun(tokenizer, first))
    if ordered := _between(tokenizer, "system", "user", "assistant", "user"):
        if ordered[2:] != [reply, turn, end]:
            return None
        before, below = _literal(bos + _begun(tokenizer, ordered[0])), _literal(ordered[1])
        with_system = f"{before}{{{{ .System }}}}{below}"
        opening = f"{{{{ if .System }}}}{with_system}{{{{ else }}}}{opening}{{{{ end }}}}"
    after = _literal(reply)
    if reply != end:
        last = "{{ if eq (len (slice $.Messages $i)) 1 }}"
        after = f"{last}{_literal(end)}{{{{ else }}}}{after}{{{{ end }}}}"
    asks = _literal(f"\n{suffix}" if suffix else "")
    return (
        f"{opening}{{{{ range $i, $_ := .Messages }}}}"
        f'{{{{ if eq .Role "user" }}}}{{{{ .Content }}}}{asks}{after}'
        f'{{{{ else if eq .Role "assistant" }}}}{{{{ .Content }}}}{_literal(turn)}'
        "{{ end }}{{ end }}"
    )


def _between(tokenizer: Any, *roles: str) -> list[str] | None:
    """The texts around the messages of a conversation; None where the template refuses it, or
    leaves a message out."""
    words = [f"zq{number}z" for number in range(len(roles))]
    with contextlib.suppress(UserError):
        messages = as_messages(list(zip(roles, words, strict=True)))
        texts = re.split(r"zq\dz", rendered(tokenizer, messages))
        return texts if len(texts) == len(roles) + 1 else None
    return None


def _begun(tokenizer: Any, text: str) -> str:
    """Without the beginning-of-text token."""
    return text.removeprefix(getattr(tokenizer, "bos_token", None) or "")


def _literal(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')
