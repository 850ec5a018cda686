"""The model card: what it says of a run, and that nothing in a recipe can break out of it."""

import ast
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import yaml
from made_runs import evaluation, write, write_summary

from ictcli.export.base import license_of
from ictcli.export.card import card
from ictcli.recipe import load_recipe
from ictcli.runs.model import asked_in
from ictcli.runs.public import is_public, public_name


def make_run(folder: Path, **changed: Any) -> Path:
    folder.mkdir()
    recipe = {"model": "Qwen/Qwen2.5-0.5B", "task": "gsm8k", "steps": 9, "lr": 1e-6, **changed}
    recipe.setdefault("method", {"name": "ict", "keep": 0.1})
    (folder / "recipe.toml").write_text(tomli_w.dumps(recipe))
    write_summary(folder, 0.25, 0.28, task="gsm8k", steps=9)
    data = {"path": "openai/gsm8k", "revision": "abc123", "sha256": "f" * 64}
    about = {"ictcli": "0.1.0", "libraries": {"torch": "2.13.0"}, "data": data}
    write(folder / "environment.json", about)
    write(folder / "rollouts" / "texts.json", "a model's words")
    return folder


def header(text: str) -> dict[str, Any]:
    _, found, _ = text.split("---\n", 2)
    return yaml.safe_load(found)


def test_the_card_says_what_was_done_and_found(tmp_path: Path) -> None:
    text = card(make_run(tmp_path / "run"), "me/it", "it", adapter=True, layout="hf")
    assert header(text) == {
        "base_model": "Qwen/Qwen2.5-0.5B",
        "base_model_relation": "adapter",
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["ictcli", "reinforcement-learning", "rlvr", "ict"],
        "datasets": ["openai/gsm8k"],
    }
    for told in (
        "| pass@1 | 25.0 % [15.0, 35.0] | 28.0 % [18.0, 38.0] |",
        "\nsteps = 9\n",
        '\n[method]\nname = "ict"\nkeep = 0.1\n',
        "11.7 % of the ",
        "| revision | `abc123` |",
        "| `torch` | `2.13.0` |",
        "arXiv 2606.19771",
        'PeftModel.from_pretrained(model, "me/it")',
    ):
        assert told in text
    assert "words" not in text


def test_every_reward_and_every_example_is_named_and_no_place(tmp_path: Path) -> None:
    reward = {"verifier": "/home/me/mine.py:judge", "functions": ["/home/me/mine.py:short"]}
    reward |= {"weights": [0.5], "correct": 1.0, "format": 0.0}
    run = make_run(tmp_path / "run", reward=reward, sft={"data": "/home/me/chats.jsonl"})
    text = card(run, "it", "it", adapter=False, layout="hf")
    for told in ('"mine.py:judge"', '"mine.py:short"', "0.5", '"chats.jsonl"'):
        assert told in text
    assert "on `chats.jsonl` alone, with one seed" in text and "/home" not in text
    (run / "summary.json").write_text("{")
    assert "results of the run cannot be" in card(run, "it", "it", adapter=False, layout="hf")


def test_supervised_steps_alone_are_no_reinforcement_learning(tmp_path: Path) -> None:
    first = make_run(tmp_path / "first")
    (first / "model").mkdir()
    told = {"steps": 0, "sft": {"data": "chats.jsonl"}, "model": str(first / "model")}
    text = card(make_run(tmp_path / "run", **told), "it", "it", adapter=False, layout="hf")
    assert header(text)["tags"] == ["ictcli", "sft"] and "datasets" not in header(text)
    assert "trained on `chats.jsonl` by supervised fine-tuning (SFT). Made" in text
    assert "Starting from `first`, the model was trained on `chats.jsonl` alone" in text
    assert not any(word in text for word in ("reinforcement", "`ict`", "2606.19771", "sampled tok"))
    assert "held-out problems" not in text  # the first run may have trained on them


def test_the_card_s_code_gives_the_chat_template_its_arguments(tmp_path: Path) -> None:
    prompt = {"thinking": "off", "template_args": {"effort": "it's\n low"}}
    sizes = {"prompts": 2, "group": 2, "temperature": 1.0, "max_tokens": 9, "seed": 0}
    run = make_run(tmp_path / "run", prompt=prompt, **sizes)
    wanted = {"enable_thinking": False, **prompt["template_args"]}
    code = card(run, "me/it", "it", adapter=True, layout="hf").split("```python\n")[1]
    (call,) = (
        node
        for node in ast.walk(ast.parse(code.split("```")[0]))
        if isinstance(node, ast.Call) and "apply_chat_template" in ast.unparse(node.func)
    )
    assert ast.literal_eval(call.keywords[-1].value) == wanted
    console = card(run, "me/it", "it", adapter=True, layout="mlx").split("```console\n")[1]
    words = shlex.split(console.split("```")[0])
    assert json.loads(words[words.index("--chat-template-config") + 1]) == wanted
    kept = json.loads(asked_in(load_recipe(run / "recipe.toml"), tmp_path))["prompt"]
    assert kept == {"template": "auto", "system": "", **prompt}


def test_a_licence_is_told_where_the_model_below_tells_it(tmp_path: Path) -> None:
    (base := tmp_path / "base").mkdir()
    assert license_of(str(base)) is None
    (base / "README.md").write_text("---\ntags: [a]\nlicense: apache-2.0\n---\nlicense: mit\n")
    assert license_of(str(base)) == "apache-2.0"
    assert license_of("builtin:ledger") == "apache-2.0"
    run = make_run(tmp_path / "run", model=str(base))
    told = header(card(run, "it", "it", adapter=False, layout="hf"))
    assert told["license"] == "apache-2.0" and "base_model" not in told
    assert str(tmp_path) not in card(run, "it", "it", adapter=False, layout="hf")


def test_of_the_data_counts_and_checksums_are_told_and_no_text(tmp_path: Path) -> None:
    """Nor is a place on this machine; a task that makes its problems has no source."""
    run = make_run(tmp_path / "run", prompt={"examples": [{"prompt": "SECRET", "response": "S2"}]})
    data: dict[str, Any] = {
        "path": "/home/me/SECRET/rows",
        "train": {"problems": 7, "sha256": "a" * 64, "first": "SECRET"},
        "left_out": {"held_out": 2, "SECRET |": 3},
        "examples": [{"prompt": "SECRET", "response": "SECRET"}],
        "more": "SECRET",
    }
    write(run / "environment.json", {"data": data})
    text = card(run, "me/it", "it", adapter=False, layout="hf")
    assert "SECRET" not in text and "S2" not in text
    for told in ("| path | `rows` |", "| train.problems | `7` |", r"| left\_out.held\_out | `2` |"):
        assert told in text
    write(run / "environment.json", {"data": {"train": None, "left_out": {}}})
    text = card(run, "me/it", "it", adapter=False, layout="hf")
    assert "are made by ictcli from the seed" in text and "None" not in text


def test_a_checkpoint_s_card_has_the_figures_of_its_step(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    for name, value in (("before", 0.25), ("step-000004", 0.5)):
        found = evaluation({"pass@1": value, "pass@2": None}, (0,) * 9, 3)
        write(run / "eval" / f"{name}.json", found.model_dump(mode="json"))
    text = card(run, "it", "it", adapter=False, layout="hf", step=4)
    assert "| metric | before | step 4 |" in text and "checkpoint of step 4" in text
    assert "| pass@1 | 25.0 % [0.0, 50.0] | 50.0 % [25.0, 75.0] |" in text
    assert "9 held-out problems of `gsm8k`, 3 samples each" in text and "11.7 %" not in text
    text = card(run, "it", "it", adapter=False, layout="hf", step=5)
    assert "The weights of step 5 were not measured." in text and "28.0 %" not in text


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("environment", {"command": 5, "engine": [], "libraries": 3, "data": [1]}),
        ("environment", {"data": {"train": 1, "left_out": 2, "path": 4}, "model": "x"}),
        ("summary", {"after": {"pass@1": 3}, "before": [], "tokens_kept_share": "x"}),
        ("summary", {"after": 3, "tokens_sampled": "x", "tokens_kept_share": 0.5}),
    ],
)
def test_a_damaged_record_costs_its_own_part(tmp_path: Path, name: str, damage: Any) -> None:
    run = make_run(tmp_path / "run")
    write(run / f"{name}.json", damage)
    assert 'base_model: "Qwen/Qwen2.5-0.5B"' in card(run, "it", "it", adapter=True, layout="hf")


def test_a_folder_near_the_run_is_no_name_of_the_hub(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert is_public("models/base", run)
    (tmp_path / "models" / "base").mkdir(parents=True)
    assert not is_public("models/base", run) and is_public("other/base", run)
    assert public_name("models/base", run) == "base"


def test_a_base_of_one_s_own_is_named_by_what_it_was(tmp_path: Path) -> None:
    """A run by its name, a folder by its own and its card's or config's model, a file of the hub's
    cache by the hub's name: no path."""
    first = make_run(tmp_path / "first")
    second = make_run(tmp_path / "second", model=str(first / "model"))
    third = make_run(tmp_path / "third", model="../second/model-step-000004")
    mine = tmp_path / "models" / "mine"
    for folder in (first / "model", second / "model-step-000004", mine):
        folder.mkdir(parents=True)
    write(mine / "config.json", {"_name_or_path": "Qwen/Qwen3-0.6B"})
    fourth = make_run(tmp_path / "fourth", model=str(mine))
    cached = f"{tmp_path}/models--Qwen--Qwen3-0.6B/snapshots/abc"
    fifth = make_run(tmp_path / "fifth", model=cached)
    origins = (second, "first", "Qwen/Qwen2.5-0.5B"), (third, "second", "Qwen/Qwen2.5-0.5B")
    for run, name, origin in (*origins, (fourth, "mine", "Qwen/Qwen3-0.6B")):
        text = card(run, "it", "it", adapter=False, layout="hf")
        assert f"`{name}` (made from `{origin}`), trained" in text
        assert header(text)["base_model"] == origin and str(tmp_path) not in text
        assert "base_model" not in header(card(run, "it", "it", adapter=True, layout="hf"))
    text = card(fifth, "it", "it", adapter=True, layout="hf")
    assert header(text)["base_model"] == "Qwen/Qwen3-0.6B" and str(tmp_path) not in text
