"""Conversations as problems: the same of any kind of file, asked in the model's own template."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import datasets
import pytest
from chain_texts import make_tokenizer
from pydantic import ValidationError
from refusing import refused
from written import write

from ictcli.errors import UserError
from ictcli.evaluation.provenance import prompt_settings
from ictcli.recipe.data import ColumnSettings, Example, HubSettings, PromptSettings
from ictcli.rewards import find_verifier
from ictcli.tasks import Domain, find_benchmark, find_task
from ictcli.tasks.custom import read_custom
from ictcli.tasks.prompts import render
from ictcli.tasks.split import digest_of
from ictcli.types import Problem

KINDS = ("jsonl", "json", "parquet", "folder")


def say(**turns: str) -> list[dict[str, str]]:
    """Messages by role; `user2` is the second of the user."""
    return [{"role": role.rstrip("2"), "content": text} for role, text in turns.items()]


BOX = r"Two and two: \boxed{4}."
ASKED, WORDS = say(user="2+2?"), "From 2 and 2: the answer is 4."
SHARE = [{"from": "human", "value": "2+2?"}, {"from": "gpt", "value": "4"}]
FORMS: dict[str, dict[str, Any]] = {
    "an answer of the assistant": {"messages": say(user="2+2?", assistant=BOX)},
    "an answer in a sentence": {"messages": say(user="2+2?", assistant=WORDS)},
    "an answer in a column": {"messages": ASKED, "answer": "4"},
    "a column and the assistant": {"messages": say(user="2+2?", assistant="5"), "answer": "#### 4"},
    "the words of TRL": {"prompt": ASKED, "truth": "4"},
    "a completion of TRL": {"prompt": ASKED, "completion": say(assistant="4")},
    "names of one's own": {"talk": say(user="2+2?", assistant="4"), "prompt": "none"},
    "the words of ShareGPT": {"conversations": SHARE},
}
COLUMNS = {
    "an answer in a sentence": ColumnSettings(gold_pattern=r"answer is (\d+)"),
    "the words of TRL": ColumnSettings(gold="truth"),
    "a completion of TRL": ColumnSettings(gold="completion"),
    "names of one's own": ColumnSettings(prompt="talk"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_question_and_its_answer_are_the_problem_that_a_plain_row_is(
    tmp_path: Path, form: str
) -> None:
    names = COLUMNS.get(form, ColumnSettings())
    for kind in KINDS:
        (problem,) = read_custom(write(tmp_path, [FORMS[form]], kind), names).problems
        assert replace(problem, id="") == Problem("", "2+2?", "4"), kind
        worked = BOX if form.endswith("of the assistant") else r"The answer is \boxed{4}."
        assert problem.solution == worked


TALK = say(system="Be brief.", user="2+2?", assistant="4", user2="And 1 more?", assistant2="5")
CHATML = "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}<assistant>"


def asked(settings: PromptSettings, template: str | None) -> str:
    tokenizer: Any = make_tokenizer()
    tokenizer.chat_template = template
    domain = Domain(find_benchmark("chain").domain.verify, "Box it.")
    return render(tokenizer, TALKED, domain, settings)


TALKED = Problem(
    "1", "2+2?\n4\n\nAnd 1 more?", "5", turns=tuple((m["role"], m["content"]) for m in TALK[:-1])
)


def test_roles_and_the_system_message_go_through_the_models_own_template(tmp_path: Path) -> None:
    (problem,) = read_custom(write(tmp_path, [{"messages": TALK}])).problems
    assert replace(problem, id="1") == TALKED
    tokenizer: Any = make_tokenizer()
    whole = [*TALK[:3], {"role": "user", "content": "And 1 more?\nBox it."}]
    expected = tokenizer.apply_chat_template(
        whole, chat_template=CHATML, tokenize=False, add_generation_prompt=True
    )
    assert asked(PromptSettings(), CHATML) == expected
    assert expected.startswith("<system>Be brief.</><user>2+2?</><assistant>4</>")
    text = asked(PromptSettings(system="Be long."), CHATML)  # in the place of the data's own
    assert text.startswith("<system>Be long.</><user>") and "brief" not in text
    shown = PromptSettings(examples=(Example(prompt="1+1?", response="2"),))
    assert asked(shown, CHATML).startswith("<system>Be brief.</><user>1+1?\nBox it.</><assistant>2")
    with refused("System role", hint="prompt.template=none"):
        asked(PromptSettings(), "{{ raise_exception('System role not supported') }}")


def test_arguments_go_to_the_template_and_are_part_of_how_a_model_is_asked() -> None:
    """Qwen3's way: without thinking the prompt ends with an empty thought, also under an answer."""
    closed = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    settings = PromptSettings(thinking="off", template_args={"effort": "low"})
    template = f"{CHATML}{closed}{{{{ effort }}}}"
    assert asked(PromptSettings(), template).endswith("<assistant>")
    assert asked(PromptSettings(thinking="on"), template).endswith("<assistant>")
    assert asked(settings, template).endswith("<assistant><think></think>low")
    known = {"template_arguments": {"enable_thinking": False, "effort": "low"}}
    assert prompt_settings(settings) == prompt_settings(PromptSettings()) | known
    why = "prompt.thinking is an argument of the chat template, and "
    with refused(f"{why}the model has none", hint="leave prompt.thinking out"):
        asked(settings, None)
    with refused(f"{why}these prompts do not use it"):
        asked(settings.model_copy(update={"template": "none"}), template)
    for name in ("enable_thinking", "chat_template", "tokenize"):
        with pytest.raises(ValidationError, match=name):
            PromptSettings(template_args={name: True})


def test_without_a_template_a_conversation_is_text_as_examples_are() -> None:
    assert asked(PromptSettings(), None) == "Be brief.\n2+2?\n4\n\nAnd 1 more?\nBox it."
    shown = (Example(prompt="2+2?", response="4"),)
    last = Problem("1", "And 1 more?", "5")
    domain = Domain(find_benchmark("chain").domain.verify)
    settings = PromptSettings(system="Be brief.", examples=shown)
    assert render(make_tokenizer(), last, domain, settings) == asked(
        PromptSettings(suffix=""), None
    )


def test_messages_before_the_question_tell_problems_apart() -> None:
    other = Problem("1", TALKED.prompt, "5", turns=(("system", "Be long."), *TALKED.turns[1:]))
    alone = Problem("1", TALKED.prompt, "5")
    assert len({digest_of([p]) for p in (TALKED, other, alone)}) == 3
    assert alone.to_json().keys() == {"id", "prompt", "gold", "choices"}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "user"}], "has no role or no text as content in message 1"),
        ([{"role": "user", "content": [{"type": "image"}]}], "no text as content"),
        (say(assistant="4"), "has no question"),
        (say(user="2+2?", system="4"), "has no question"),
        (say(user="2+2?"), "has no gold or answer"),
        ([], "has an empty messages"),
    ],
)
def test_a_faulty_conversation_is_named(
    tmp_path: Path, messages: list[dict[str, Any]], words: str
) -> None:
    with refused("rows.jsonl, line 1 ", words):
        read_custom(write(tmp_path, [{"messages": messages}]))


def test_messages_written_as_text_are_never_the_question(tmp_path: Path) -> None:
    turns = say(user="2+2?", assistant="4")
    for text in (json.dumps(turns, indent=1), str(turns)):  # as pandas writes a list
        with refused("list of messages written as text"):
            read_custom(write(tmp_path, [{"prompt": text, "gold": "4"}], "csv"))
    plain = [{"prompt": "[{x} | x > 1] has", "gold": "4"}]
    assert read_custom(write(tmp_path, plain, "csv")).problems[0].prompt == "[{x} | x > 1] has"


# Folders of `datasets`


def test_a_folder_of_splits_gives_train_to_tasks_and_test_to_benchmarks(tmp_path: Path) -> None:
    saved = {
        split: datasets.Dataset.from_list([{"q": f"{split} {i}", "gold": i} for i in range(60)])
        for split in ("train", "test", "dev")
    }
    folder, names = str(tmp_path / "saved"), ColumnSettings(prompt="q")
    cast(Any, datasets).DatasetDict(saved).save_to_disk(folder)
    task, bench = find_task(folder, columns=names), find_benchmark(folder, columns=names)
    dev = find_benchmark(folder, columns=names, hub=HubSettings(split="dev"))
    parts = {
        "train": (*task.train, *task.held),
        "test": bench.problems(None),
        "dev": dev.problems(None),
    }
    for split, problems in parts.items():
        assert {p.prompt.split()[0] for p in problems} == {split}
    assert task.source.keys() == {"file", "split", "sha256"} and task.source["split"] == "train"
    with refused("has no split 'x'; it has train, test, dev"):
        find_task(folder, columns=names, hub=HubSettings(split="x"))
    with refused("hub.config is for data sets of the hub"):
        find_task(folder, columns=names, hub=HubSettings(config="x"))
    cast(Any, datasets).DatasetDict({"only": saved["dev"]}).save_to_disk(str(tmp_path / "one"))
    assert find_task(str(tmp_path / "one"), columns=names).train


def test_a_folder_whose_files_are_elsewhere_or_damaged_is_refused(tmp_path: Path) -> None:
    folder = Path(write(tmp_path, [{"prompt": "1+1", "gold": "2"}], "folder"))
    state, rows = folder / "state.json", next(folder.glob("*.arrow"))
    whole = state.read_text()
    shutil.copy(rows, tmp_path)  # it is there, outside the folder
    outside = whole.replace("data-0", "../data-0")
    for text, words in (
        (outside, "outside of it"),
        *((json.dumps({"_data_files": files}), "cannot be read") for files in (5, ["x"], [])),
    ):
        state.write_text(text)
        with refused(words):
            read_custom(str(folder))
    state.write_text(whole)
    rows.write_bytes(b"no")
    with refused("cannot be read"):
        read_custom(str(folder))
    rows.unlink()
    os.mkfifo(rows)
    with refused("is not a regular file"):
        read_custom(str(folder))


@pytest.mark.parametrize("task", ["gsm8k", "math", "ledger"])
def test_data_in_place_of_a_tasks_takes_columns_and_any_kind(tmp_path: Path, task: str) -> None:
    rows = [{"talk": say(user=f"{i}+1?"), "sum": f"so\n#### {i + 1}"} for i in range(60)]
    for kind in ("jsonl", "folder"):
        data, names = write(tmp_path, rows, kind), ColumnSettings(prompt="talk", gold="sum")
        found = find_task(task, data=data, columns=names)
        assert [(p.prompt, p.gold) for p in found.train[:2]] == [("0+1?", "1"), ("1+1?", "2")]
        judge = "math" if task == "math" else "integer"
        assert found.domain.verify is find_verifier(judge)


def test_a_pattern_of_the_golds_holds_for_the_file_to_evaluate_on(tmp_path: Path) -> None:
    """What it does not find counts as no answer, and says nothing of the others' kind."""
    rows = [FORMS["an answer in a sentence"], {"messages": say(user="3+3?", assistant="Six.")}]
    usual = COLUMNS["an answer in a sentence"]
    data = read_custom(write(tmp_path, rows), ColumnSettings(), usual=usual)
    assert [problem.gold for problem in data.problems] == ["4", ""]
    assert data.verifier == "integer"
    with pytest.raises(UserError, match="can read none of the golds"):
        find_task(write(tmp_path, rows[1:]), columns=usual)
