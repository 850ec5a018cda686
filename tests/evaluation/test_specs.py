"""Benchmarks with files of their own, settings from KEY=VALUE, and models asked beside a run."""

import copy
import json
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chain_texts import make_tokenizer
from refusing import refused
from written import write

from ictcli.engine import Engine
from ictcli.engine.models import locate
from ictcli.evaluation.benchmarks import benchmark_specs
from ictcli.evaluation.provenance import of_benchmark, provenance_of
from ictcli.evaluation.settings import read_settings
from ictcli.evaluation.specs import BenchmarkSpec
from ictcli.evaluation.suite import evaluate_suite
from ictcli.files import plugins
from ictcli.recipe import load_recipe
from ictcli.recipe.data import ColumnSettings, PromptSettings
from ictcli.recipe.load import to_toml
from ictcli.recipe.tables import EngineSettings
from ictcli.runs.model import asked_in, find_models, settings_of
from ictcli.tasks import BENCHMARKS
from ictcli.tasks.golds import LAST_NUMBER
from ictcli.tasks.prompts import render
from ictcli.tasks.split import digest_of, is_heldout, key_of

SETTINGS = read_settings(())


def test_each_benchmark_has_a_samples_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("q.jsonl", "d/q.jsonl", "q-2.jsonl", "e/Q.jsonl", "d/Results.jsonl")
    for path in map(Path, names):
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"prompt": "1+1=", "gold": "2"}\n')
    found = [one.stem for one in benchmark_specs(",".join(names), SETTINGS)]
    assert found == ["q", "q-2", "q-2-2", "Q-2-2-2", "Results-2"]


def test_one_benchmark_under_two_names_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "chain-again", BENCHMARKS["chain"])
    with refused("names the benchmark chain twice"):
        benchmark_specs("chain,chain-again", SETTINGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it has no temperature"),
        ('temperature = "warm"', "could not convert"),
        ("temperature = 1.0\neval = 3", "'int' object"),
        ("temperature = 1.0\n[engine]\nthreads = 'all'", "threads: Input should be"),
    ],
)
def test_a_recipe_that_is_torn_is_said_to_be(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with refused("recipe.toml is damaged, or not a run's recipe", words):
        settings_of(tmp_path)


def test_the_files_of_verifiers_and_plugins_are_part_of_the_settings(tmp_path: Path) -> None:
    plugin, grader = tmp_path / "plugin.py", tmp_path / "grader.py"
    plugin.write_text("loaded = True\n")
    grader.write_text("def grade(response, gold): return True\n")
    (tmp_path / "recipe.toml").write_text(f"temperature = 1.0\nplugins = ['{plugin}']")
    plugins.load(str(plugin))
    loaded = settings_of(tmp_path)[2]
    assert [path.name for path in loaded] == ["plugin.py"]
    settings = read_settings([f"reward.verifier={grader}:grade"])
    specs = benchmark_specs("chain", settings)
    before = provenance_of(settings, (), specs, loaded)["plugins"]
    assert list(before) == ["grader.py", "plugin.py"]
    grader.write_text("def grade(response, gold): return False\n")
    after = provenance_of(settings, (), specs, loaded)["plugins"]
    assert after["plugin.py"] == before["plugin.py"] and after["grader.py"] != before["grader.py"]


def test_a_model_is_never_named_as_a_folder_above(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny_model)
    same = [".", f"../{tiny_model.name}/../{tiny_model.name}/."]
    found = [find_models([name], SETTINGS)[0] for name in same]
    assert not any(".." in Path(one.name).parts or not one.name for one in found)
    for twice in (same, ["builtin:chain", "builtin:chain"]):
        with refused(f"{twice[0]} and {twice[1]} are the same model."):
            find_models(twice, SETTINGS)


REFUSED = [
    (",", [], "--bench names no benchmark"),
    ("aime23,aime24", ["data=d.jsonl"], "which of the 2 benchmarks it is for"),
    ("aime23", ["data.aime24=d.jsonl"], "data.aime24 names none of the benchmarks aime23"),
    ("aime23", ["data=d.jsonl", "data.aime23=e.jsonl"], "is a value, not a table"),
    ("aime23", ["data=d.jsonl"], "There is no data file d.jsonl"),
    ("chain", ["data=d.jsonl"], "chain has its own problems"),
    ("chain", ["columns.prompt=x"], "columns is for your own data sets, not for chain"),
    ("chain", ["hub.split=x"], "hub is for hub:owner/name, not for chain"),
    ("chain", ["eval.shots=2"], "chain has no worked solutions"),
    ("chain", ["reward.pattern=("], "is not a regular expression"),
    ("chain", ["columns.golds=x"], "no key 'columns.golds' (did you mean columns.gold?)"),
    ("chain", ["prompt.template=Q: {quest}"], "is neither a template nor a file"),
    ("chain", ["steps=3"], "ictcli eval: there is no key 'steps'"),
    ("chain", ["temperature=warm"], "temperature = 'warm': input should be a valid number"),
    ("chain", ["prompt.shots=2"], "prompt.shots only matters in training"),
    ("chain", ["reward.functions=f.py:f"], "reward.functions only matters in training"),
    ("chain", ["engine=3"], "engine = 3: input should be a table; set the keys in it"),
]


@pytest.mark.parametrize(("names", "overrides", "words"), REFUSED)
def test_what_cannot_be_evaluated_is_named(names: str, overrides: list[str], words: str) -> None:
    with refused(words):
        benchmark_specs(names, read_settings(overrides))


def test_problems_and_how_they_are_judged_decide_what_an_evaluation_is() -> None:
    keys = ("limit=4", "max_tokens=9", "reward.pattern=x", "reward.timeout=1")
    specs = [benchmark_specs("chain", read_settings([key]))[0] for key in ("n=16", *keys)]
    plain, *others = map(of_benchmark, specs)
    assert plain not in others


def test_how_answers_are_judged_is_a_recipe_s_reward(tmp_path: Path) -> None:
    (tmp_path / "grader.py").write_text("def grade(response, gold): return True\n")
    keys = [f"reward.verifier={tmp_path}/grader.py:grade", "reward.timeout=2", "reward.memory=3"]
    (spec,) = benchmark_specs("chain", read_settings(keys))
    domain = spec.benchmark.domain
    assert (domain.limits.seconds, domain.limits.memory) == (2, 3)
    assert [v.status for v in domain.judge(spec.problems[:1], ["?"])] == ["correct"]
    (read,) = benchmark_specs("ledger", read_settings([r"reward.pattern=^\D*(\d)", "limit=3"]))
    assert len(read.problems) == 3 and read.benchmark.domain.limits.seconds == 5
    assert read.benchmark.domain.judge(read.problems[:1], ["it is 0, or 1"])[0].extracted == "0"


def test_shots_ask_and_read_as_the_public_figures_do(tmp_path: Path) -> None:
    rows = [
        {"question": f"{i} and {i}?", "answer": f"So <<{i}+{i}={2 * i}>>.\n#### {2 * i}"}
        for i in range(9)
    ]
    data = [
        f"data.gsm8k={write(tmp_path, rows[:2], name='test')}",
        f"data.gsm8k-train={write(tmp_path, rows, name='train')}",
    ]

    def spec_of(*keys: str) -> BenchmarkSpec:
        return benchmark_specs("gsm8k", read_settings([*data, *keys]))[0]

    spec, prompt = spec_of("eval.shots=7"), PromptSettings()
    text = render(make_tokenizer(), spec.problems[0], spec.benchmark.domain, spec.asked(prompt))
    *shown, asked = text.split("\n\n")
    texts = [f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows]
    assert sorted(shown) == texts[2:]  # none of those that are asked
    assert asked == f"Question: {rows[0]['question']}\nAnswer:"
    answers = [f"{texts[0]}\n\n{texts[1]}", "\\boxed{0}"]
    found = spec.benchmark.domain.judge(spec.problems[:1], answers)
    assert [verdict.status for verdict in found] == ["correct", "unparsed"]
    assert spec_of("eval.shots=7").examples == spec.examples
    others = [spec_of(f"eval.shots={n}", f"seed={seed}") for n, seed in ((6, 0), (7, 1))]
    records = [of_benchmark(each)["shots"] for each in (spec, *others)]
    assert len(set(map(str, records))) == 3 and [len(each or ()) for each in records] == [7, 6, 7]
    with refused("has 7 worked examples"):
        spec_of("eval.shots=8")


def test_without_k_there_is_a_curve_of_pass_at_k() -> None:
    for n, ks in ((1, (1,)), (6, (1, 2, 4, 6)), (300, (1, 2, 4, 8, 16, 32, 64, 128, 256))):
        assert read_settings((), n=n).k == ks
        assert read_settings((), n=n, k=(1,)).k == (1,)


def make_run(folder: Path, suffix: str, *more: str) -> str:
    shutil.copytree(locate("builtin:ledger").path, folder / "model")
    typed = ["max_tokens=77", f"prompt.suffix={suffix}", "eval.temperature=0.7", *more]
    (folder / "recipe.toml").write_text(to_toml(load_recipe("ledger", typed)))
    return str(folder)


def test_a_model_is_asked_as_the_runs_beside_it_where_they_agree(tmp_path: Path) -> None:
    said, (one, two) = list[str](), (make_run(tmp_path / name, name) for name in ("one", "two"))
    base, trained = find_models(["builtin:ledger", one], SETTINGS, say=said.append)
    assert (base.prompt, base.temperature) == (trained.prompt, trained.temperature)
    assert base.prompt.suffix == "one"
    assert said == ["note: builtin-ledger: prompted and sampled like the run."]
    alone, between = (
        find_models(["builtin:ledger", *runs], SETTINGS)[0] for runs in ([], [one, two])
    )
    assert alone.prompt == between.prompt != base.prompt


def test_an_export_carries_how_its_run_asks_and_nothing_else(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", "short")
    exported, plain = (
        shutil.copytree(locate("builtin:ledger").path, tmp_path / name)
        for name in ("exported", "plain")
    )
    file, said = exported / "ictcli.json", list[str]()
    file.write_text(asked_in(load_recipe(Path(run, "recipe.toml")), exported))
    trained = find_models([run], SETTINGS)[0]
    other, alone = find_models([str(plain), str(exported)], SETTINGS, say=said.append)
    for each in (other, alone):
        assert (each.prompt, each.temperature) == (trained.prompt, trained.temperature)
    assert alone.max_tokens == 77
    assert said == ["note: plain: prompted and sampled like exported."]
    assert json.loads(file.read_text())["engine"] == {"dtype": "float32"}  # its weights'
    hostile = {"engine": {"trust_remote_code": True}, "plugins": ["x.py"], "max_tokens": 5}
    hostile |= {"columns": {"gold": "mine", "gold_pattern": "(a+)+$"}}
    file.write_text(json.dumps(hostile | {"prompt": {"examples": "/etc/passwd"}}))
    found = find_models([str(exported)], SETTINGS)[0]
    assert (found.max_tokens, found.prompt.examples, found.plugins) == (5, (), ())
    assert found.columns == ColumnSettings()
    assert not found.engine.trust_remote_code
    for text in ("[]", "{", '{"max_tokens": "x"}', '{"prompt": 3}'):
        file.write_text(text)
        with refused("has no valid settings for prompts and sampling"):
            find_models([str(exported)], SETTINGS)


def test_problems_of_ones_own_have_the_columns_and_the_tokens_of_training(tmp_path: Path) -> None:
    file, run = tmp_path / "mine.csv", make_run(tmp_path / "one", "", "columns.prompt=frage")
    file.write_text("frage,gold\nwhat,2\n")
    models = find_models([run], SETTINGS)

    def tokens(names: str, *typed: str) -> int:
        (spec,) = benchmark_specs(names, read_settings(list(typed)), models)
        return spec.max_tokens

    assert (tokens(str(file)), tokens(str(file), "max_tokens=5")) == (77, 5)
    assert tokens("chain") == tokens("chain", "max_tokens=64") == 64


def test_without_a_benchmark_a_run_is_asked_what_its_own_evaluations_ask(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("gold,prompt\n" + "".join(f"{n},what is {n}\n" for n in range(64)))
    held = ["eval.holdout=4", "eval.problems=7", "eval.skip=2"]
    run = make_run(tmp_path / "one", "", f"data={file}", *held)
    models = find_models(["builtin:ledger", run], SETTINGS)
    (spec,) = benchmark_specs(None, SETTINGS, models)
    out = [f"what is {n}" for n in range(64) if is_heldout(f"what is {n}", 4)]
    assert [problem.prompt for problem in spec.problems] == out[2:9]
    assert not {key_of(prompt) for prompt in out} & models[1].trained_on().keys
    assert (spec.stem, spec.max_tokens) == ("mine", 77)
    began: dict[str, Any] = {
        "data": {"heldout": {"problems": 7, "sha256": digest_of(spec.problems)}}
    }
    Path(run, "environment.json").write_text(json.dumps(began))
    for changes in (0, 1):  # a gold of them
        file.write_text(file.read_text().replace(f",{out[4]}\n", f"{'1' * changes},{out[4]}\n"))
        alone = find_models([run], SETTINGS)
        (spec,) = benchmark_specs(None, SETTINGS, alone)
        assert len(spec.benchmark.notes) == changes
    began["data"] |= {"sha256": spec.benchmark.source["sha256"], "verifier": "math"}
    began["data"]["heldout"]["problems"] = 5  # the tokenizer lost two
    Path(run, "environment.json").write_text(json.dumps(began))
    (spec,) = benchmark_specs(None, SETTINGS, find_models([run], SETTINGS))
    assert [note.partition(" ")[2][:3] for note in spec.benchmark.notes] == ["run"]
    assert "with the verifier math, not integer" in spec.benchmark.notes[0]
    wrong = {"data=d.csv": "data needs", "columns.gold=x": "columns needs", "eval.shots=1": "shots"}
    for typed, words in wrong.items():
        with refused(words):
            benchmark_specs(None, read_settings([typed]), models)
    with refused("none of these is a run: "):
        benchmark_specs(None, SETTINGS, models[:1])


def test_a_run_s_answers_are_read_as_its_task_reads_them(tmp_path: Path) -> None:
    """A number task of reasoning-gym reads the last number, which no recipe says."""
    pytest.importorskip("reasoning_gym")
    run = make_run(tmp_path / "one", "", "task=gym:products:max_digits=1:size=64")
    (spec,) = benchmark_specs(None, SETTINGS, find_models([run], SETTINGS))
    assert spec.benchmark.domain.pattern == LAST_NUMBER


def test_one_model_is_held_at_a_time(tmp_path: Path) -> None:
    settings = read_settings([], n=1, k=(1,), limit=1, temperatures=(), max_tokens=4)
    specs = find_models(["builtin:chain", str(locate("builtin:chain").path)], settings)
    loaded, held = specs[0].load(), list[weakref.ref[Engine]]()

    def build(settings: EngineSettings) -> Engine:
        assert not any(engine() for engine in held)
        held.append(weakref.ref(engine := copy.copy(loaded)))
        return engine

    models = [replace(spec, build=build) for spec in specs]
    evaluate_suite(models, benchmark_specs("chain", settings), settings, out=tmp_path / "out")
    assert len(held) == 3
