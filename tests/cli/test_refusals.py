"""What is typed and cannot be done, and data that cannot be used: a sentence and a hint, before
anything is made."""

import json
import shlex
import sys
from pathlib import Path

import pytest
from processes import Processes
from refusing import refused
from written import sums, write

from ictcli.recipe import load_recipe

TYPED = {
    "trian": "no command 'trian' (did you mean train?)",
    "finetune": "no command 'finetune' (did you mean train?)",
    "train chain --nosuch": "No such option",
    "train chain stpes=3": "there is no key 'stpes' (did you mean steps?)",
    "train chain --every=5": "settings have no dashes: eval.every=VALUE or checkpoint.every=VALUE",
    "eval builtin:chain --bench chain --pattern x": "reward.pattern=VALUE",
    "train quickstrt": "no recipe 'quickstrt' (did you mean quickstart?)",
    "train nosuch.toml": "There is no recipe file nosuch.toml",
    "train mine.csv": "for data, use task=FILE",
    "train data=mine.csv": "ictcli check qwen3-0.6b-gsm8k data=mine.csv",
    "train chain task=chian": "no task 'chian' (did you mean chain?)",
    "train chain engine.backend=trch": "'trch': input should be 'auto', 'torch' or 'mlx'",
    "train chain model=builtin:chian": "no built-in model 'chian' (did you mean chain?)",
    "train chain model=/no/such": "There is no model folder /no/such",
    "train chain model=no/such": "no/such is not in the cache, and HF_",
    "train chain model=": "model = '': string should have at least 1 character",
    "train chain model=.": "is not a model: it has no config.json",
    "train chain model={} max_tokens=128": "exceeds the model's context of 128. max_tokens=1",
    "train chain model={} prompt.template=chat": "has no chat template. prompt.template=none",
    "compare chain --methods ict,random --baseline randm": "'randm' (did you mean random?)",
    "eval builtin:chian --bench chain": "no built-in model 'chian' (did you mean chain?)",
    "eval builtin:chain --bench chian": "no benchmark 'chian' (did you mean chain?)",
    "eval builtin:chain --bench chain --k 0": "There is no pass@0",
    "eval builtin:chain --bench chain --k 1,x": "'1,x' is not a list of numbers",
    "eval {} --bench chain prompt.template=chat": "has no chat template",
    "generate builtin:chain 'What is 3 plus 4?'": "becomes '34'. prompts look like ",
    "generate builtin:chain ''": "The prompt is empty. prompts look like ",
    "generate builtin:chain x=3": "if your prompt looks like KEY=VALUE",
    "generate builtin:chain 3 + 4=": "put the prompt in quotes",
    f"generate builtin:chain {'1+' * 200}1=": "no room for an answer in the model's context of 256",
    "generate builtin:chain \udcff": "not UTF-8",
    "train chain model={} --run \udcff": "not UTF-8",
    f"train chain model={{}} --run {'n' * 300}": f"File name too long ({'n' * 300}). check",
    "train chain model=~nobody": "There is no model folder ~nobody",
    "eval -- -- --bench chain": "There is no model folder --",
    "generate 'no\nfolder' x": "There is no model folder no",
    "train chain model={} log=wandb --run deep/run": "log=wandb needs wandb, which is not",
    "check chain model={} log=tensorboard,wandb": "log=wandb needs wandb",
    "compare chain model={} log=wandb --out out": "log=wandb needs wandb",
}


@pytest.mark.parametrize("typed", TYPED)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wandb",):
        monkeypatch.setitem(sys.modules, name, None)
    assert TYPED[typed] in ictcli.refused(*shlex.split(typed.format(tiny_model)))
    assert not [path for path in tmp_path.rglob("*") if path.name != "runs"]


def test_a_missing_device_has_its_own_exit_code(ictcli: Processes, tmp_path: Path) -> None:
    for device in ("cuda:99", "abacus"):
        told = ictcli.refused("train", "chain", f"engine.device={device}", code=3)
        assert f"The device '{device}' cannot be used" in told
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"model = \n", "is not TOML: Invalid value (at line 1, column 9)"),
        (b'# caf\xe9\nmodel = "x"\n', "is not UTF-8, as TOML has to be"),
        (bytes(range(256)), "is not UTF-8"),
    ],
)
def test_a_faulty_recipe_file_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    with refused(f"{tmp_path}/bad.toml", words):
        load_recipe(tmp_path / "bad.toml")


def test_a_faulty_plugin_is_named(ictcli: Processes, tmp_path: Path) -> None:
    for content, words in (
        ("def (\n", "fails: SyntaxError"),
        ("import nosuchmodule\n", "fails: ModuleNotFoundError"),
        ("1 / 0\n", "fails: ZeroDivisionError: division by zero"),
    ):
        (tmp_path / "plugin.py").write_text(content)
        told = ictcli.refused("train", "quickstart", "plugins=['plugin.py']")
        assert f"{tmp_path}/plugin.py" in told and words in told
    evaluation = ("eval", "builtin:chain", "--bench", "chain", "plugins=plugin.py")
    assert words in ictcli.refused(*evaluation)


LONG = {"prompt": "1+" * 80, "gold": "1"}


def test_a_faulty_line_is_named_before(ictcli: Processes, tiny_model: Path, tmp_path: Path) -> None:
    for content, words in (
        (b'{"prompt": "caf\xe9", "gold": "1"}', "rows.jsonl"),
        (json.dumps(LONG).encode(), "The prompt of problem 1 takes"),
        (b'{"prompt": "", "gold": "1"}', "rows.jsonl, line 1 has an empty question"),
    ):
        (tmp_path / "rows.jsonl").write_bytes(content)
        args = ("--bench", "rows.jsonl", "max_tokens=8", "--out", "out")
        assert words in ictcli.refused("eval", tiny_model, *args)
        assert not list(tmp_path.glob("out/*.jsonl"))
    write(tmp_path, [*sums(range(60)), LONG])
    args = ("train", "chain", f"model={tiny_model}", "task=rows.jsonl", "max_tokens=8")
    assert "The prompt of problem 61 takes" in ictcli.refused(*args, "--run", "run")
    assert not (tmp_path / "run").exists()


def test_a_run_is_resumed_on_its_own_problems_alone_and_evaluated_with_its_examples(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.csv"
    data.write_text("frage,antwort\n" + "".join(f"{i}+1=,{i + 1}\n" for i in range(60)))
    columns = ("columns.prompt=frage", "columns.gold=antwort", "max_tokens=8")
    args = ("train", "chain", f"model={tiny_model}", "task=data.csv", *columns)
    args += ("prompt.shots=1", "prompt.max_tokens=64")
    sizes = ("prompts=8", "group=2", "steps=2", "eval.n=1", "eval.k=[1]", "--run", "run")
    assert "left out of training" in ictcli.done(*args, *sizes, "--json").err
    bench = ("--bench", "data.csv", *columns, "--n", "1", "--k", "1", "--out", "out")
    asked = ("eval", "run", *bench)
    assert "shows the answer of 1 of the problems of data.csv" in ictcli.refused(*asked)
    ictcli.done(*asked, "prompt.examples=none")
    (tmp_path / "run" / "summary.json").unlink()
    data.write_text(data.read_text().replace("7+1=", "7+2="))
    assert " changed since run began" in ictcli.refused("resume", "run")
