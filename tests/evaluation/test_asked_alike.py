"""A model beside a run is asked as the run was trained, and answers within its tokens."""

import copy
import shutil
import weakref
from dataclasses import replace
from pathlib import Path

from ictcli.engine import Engine
from ictcli.engine.models import locate
from ictcli.evaluation.settings import read_settings
from ictcli.evaluation.specs import benchmark_specs
from ictcli.evaluation.suite import evaluate_suite
from ictcli.recipe import load_recipe
from ictcli.recipe.load import to_toml
from ictcli.runs.model import find_models


def make_run(folder: Path, suffix: str, *more: str) -> str:
    shutil.copytree(locate("builtin:ledger").path, folder / "model")
    typed = ["max_tokens=77", f"prompt.suffix={suffix}", "eval.temperature=0.7", *more]
    (folder / "recipe.toml").write_text(to_toml(load_recipe("ledger", typed)))
    return str(folder)


def test_a_model_is_asked_as_the_run_beside_it(tmp_path: Path) -> None:
    said: list[str] = []
    run = make_run(tmp_path / "one", "short")
    base, trained = find_models(["builtin:ledger", run], read_settings([]), say=said.append)
    assert base.prompt == trained.prompt
    assert base.prompt.suffix == "short"
    assert base.temperature == trained.temperature
    assert said == ["note: builtin-ledger: asked and sampled as the run beside it."]


def test_runs_that_disagree_leave_it_alone(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name, name) for name in ("one", "two")]
    alone = find_models(["builtin:ledger"], read_settings([]))[0]
    assert find_models(["builtin:ledger", *runs], read_settings([]))[0].prompt == alone.prompt


def test_problems_of_ones_own_have_the_columns_and_the_tokens_of_training(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("frage,gold\nwhat,2\n")
    models = find_models(
        [make_run(tmp_path / "one", "", "columns.prompt=frage")], read_settings([])
    )

    def tokens(names: str, *typed: str) -> list[int]:
        settings = read_settings(list(typed))
        return [spec.max_tokens for spec in benchmark_specs(names, settings, models)]

    assert tokens(str(file)) == [77]
    assert tokens("chain") == tokens("chain", "max_tokens=64") == [64]
    assert tokens(str(file), "max_tokens=5") == [5]


def test_one_model_is_held_at_a_time(tmp_path: Path) -> None:
    settings = read_settings([], n=1, k=(1,), limit=1, temperatures=(), max_tokens=4)
    specs = find_models(["builtin:chain", str(locate("builtin:chain").path)], settings)
    loaded, held = specs[0].load(), list[weakref.ref[Engine]]()

    def load() -> Engine:
        assert not any(engine() for engine in held)
        held.append(weakref.ref(engine := copy.copy(loaded)))
        return engine

    models = [replace(spec, load=load) for spec in specs]
    evaluate_suite(models, benchmark_specs("chain", settings), settings, out=tmp_path / "out")
    assert len(held) == 3
