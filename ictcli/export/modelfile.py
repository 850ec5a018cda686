"""Writes Ollama's Modelfile, which prompts and samples the model as its run did."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ictcli.engine.model_files import GENERATION, change_tokenizer, tokenizer_config
from ictcli.engine.models import Source, loading, stop_ids
from ictcli.engine.shape import read_context
from ictcli.errors import UserError
from ictcli.export.card import Asked, asked_by
from ictcli.files.reading import parse_json, read_text
from ictcli.tasks.chats import as_messages, rendered
from ictcli.tasks.prompts import render, template_of, tokens_of
from ictcli.types import Problem

QUOTES = '"""'
LEFT_OUT = (
    "The Modelfile has no {}, which cannot be written in Ollama's language; without a TEMPLATE, "
    "Ollama uses the most similar template that it knows."
)
ROOM = 2048
"""Context tokens that are reserved for the prompt."""


def write_modelfile(run: Path, folder: Path) -> str:
    """Write a Modelfile into `folder`, which holds a run's model. Return `modelfile`'s note.
    UserError if the tokenizer cannot be loaded."""
    from transformers import AutoTokenizer

    asked, ends, config = asked_by(run), list[Any](), dict[str, Any]()
    with loading(Source(str(folder)), "torch"):
        tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    for name in (GENERATION, "config.json"):
        if (folder / name).is_file():
            config = parse_json(read_text(folder / name))
            ends.append(config.get("eos_token_id"))
    stops = [tokenizer.decode([stop]) for stop in stop_ids(tokenizer, *ends)]
    problem = Problem("shown", asked.question, "")
    ids = tokens_of(tokenizer, problem, asked.domain, asked.settings.prompt)[1]
    bos = str(tokenizer.bos_token or "")
    first = bos if bos and ids[:1] == [tokenizer.bos_token_id] else ""
    if tokenizer_config(folder).get("add_bos_token") is True:  # then Ollama itself adds it
        if not first:
            change_tokenizer(folder, add_bos_token=False)
        first = ""
    text, note = modelfile(tokenizer, asked, stops, read_context(config, 0), first)
    (folder / "Modelfile").write_text(text, encoding="utf-8")
    return note


def modelfile(
    tokenizer: Any, asked: Asked, stops: Sequence[str], context: int, first: str = ""
) -> tuple[str, str]:
    """Return the Modelfile's text and a note on blocks that had to be left out. `stops` are the
    texts of the tokens that end an answer, `context` is the model's maximum context, and `first`
    the token with which the template begins."""
    prompt, sampling = asked.settings.prompt, asked.settings.sampling
    if template_of(tokenizer, asked.domain, prompt) == "chat":
        blocks = [("TEMPLATE", "", _chat(tokenizer, asked, first))]
        for example in prompt.examples:
            blocks += [("MESSAGE", "user ", example.prompt)]
            blocks += [("MESSAGE", "assistant ", example.response)]
        blocks += [("SYSTEM", "", prompt.system)] if prompt.system else []
    else:
        blocks = [("TEMPLATE", "", _text(tokenizer, asked, first))]
    missing = dict.fromkeys(name for name, _, text in blocks if text is None or QUOTES in text)
    lines = [
        f"{name} {role}{QUOTES}{text}{QUOTES}" for name, role, text in blocks if name not in missing
    ]
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
    note = LEFT_OUT.format(" and no ".join(missing)) if missing else ""
    return "\n".join(["FROM .", *lines, ""]), note


def _text(tokenizer: Any, asked: Asked, first: str) -> str | None:
    """Return the Ollama template for a model without a chat template: the text of the prompt around
    the question. None if the prompt does not contain the question exactly once."""
    problem = Problem("shown", "zq0z", "")
    parts = render(tokenizer, problem, asked.domain, asked.settings.prompt).split("zq0z")
    if len(parts) != 2:
        return None
    before = first + _without_bos(tokenizer, parts[0])
    return f"{_literal(before)}{{{{ .Prompt }}}}{_literal(parts[1])}"


def _chat(tokenizer: Any, asked: Asked, bos: str) -> str | None:
    """Return the tokenizer's chat template, translated to Go's template language from conversations
    that it renders. None if a longer conversation has other texts between messages."""
    if "strftime" in str(tokenizer.chat_template):
        return None  # the template writes today's date
    between = partial(_between, tokenizer, asked.settings.prompt.template_arguments)
    begin = between("user")
    longer = between("user", "assistant", "user", "assistant", "user")
    if begin is None or longer is None:
        return None
    first, end = begin
    reply, turn = longer[1:3]
    if longer != [first, reply, turn, reply, turn, end]:
        return None
    opening = _literal(bos + _without_bos(tokenizer, first))
    if ordered := between("system", "user", "assistant", "user"):
        if ordered[2:] != [reply, turn, end]:
            return None
        before = _literal(bos + _without_bos(tokenizer, ordered[0]))
        with_system = f"{before}{{{{ .System }}}}{_literal(ordered[1])}"
        opening = f"{{{{ if .System }}}}{with_system}{{{{ else }}}}{opening}{{{{ end }}}}"
    after = _literal(reply)
    if reply != end:
        last = "{{ if eq (len (slice $.Messages $i)) 1 }}"
        after = f"{last}{_literal(end)}{{{{ else }}}}{after}{{{{ end }}}}"
    asks = _literal(f"\n{asked.suffix}" if asked.suffix else "")
    return (
        f"{opening}{{{{ range $i, $_ := .Messages }}}}"
        f'{{{{ if eq .Role "user" }}}}{{{{ .Content }}}}{asks}{after}'
        f'{{{{ else if eq .Role "assistant" }}}}{{{{ .Content }}}}{_literal(turn)}'
        "{{ end }}{{ end }}"
    )


def _between(tokenizer: Any, arguments: Mapping[str, Any], *roles: str) -> list[str] | None:
    """Return the texts around the messages of a conversation with these roles; None if the template
    refuses the conversation or leaves a message out."""
    messages = as_messages([(role, f"zq{number}z") for number, role in enumerate(roles)])
    with contextlib.suppress(UserError):
        texts = re.split(r"zq\dz", rendered(tokenizer, messages, arguments))
        return texts if len(texts) == len(roles) + 1 else None
    return None


def _without_bos(tokenizer: Any, text: str) -> str:
    return text.removeprefix(getattr(tokenizer, "bos_token", None) or "")


def _literal(text: str) -> str:
    return text.replace("{{", '{{ "{{" }}')
