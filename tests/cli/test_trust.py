"""A run folder from somebody else runs no code of its own, whatever is done with it."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes, Small, refusal
from refusing import refused
from safetensors.numpy import save_file
from strangers import COMMANDS, RECIPE

from ictcli.cli import cli
from ictcli.engine.models import locate
from ictcli.errors import UserError
from ictcli.files import gate, is_below
from ictcli.recipe import load_recipe
from ictcli.runs.trained import base_notes
from ictcli.runs.trust import read_run

PLUGIN = """
import pathlib
pathlib.Path({marker!r}).touch()

def grade(response, gold):
    return response.endswith(gold + "#")

def other(response, gold):
    return False
"""


class Stranger:
    """A run made by a user, and commands on it by that user and by another one."""

    def __init__(self, ictcli: Processes, folder: Path) -> None:
        self.ictcli, self.folder = ictcli, folder
        self.plugin, self.marker = folder / "theirs.py", folder / "it-ran"
        self.plugin.write_text(PLUGIN.format(marker=str(self.marker)))

    def ran(self) -> bool:
        """Whether the code ran since this was asked last."""
        there = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return there

    def run(self, user: str, *args: str) -> Ended:
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        state = str(self.folder / user)
        return self.ictcli.run(*args, folder=self.folder, XDG_STATE_HOME=state)


@pytest.fixture(scope="module")
def made(processes: Processes, small: Small, tmp_path_factory: pytest.TempPathFactory) -> Stranger:
    stranger = Stranger(processes, tmp_path_factory.mktemp("stranger"))
    code = ('plugins=["theirs.py"]', "reward=theirs.py:grade", "record.rollouts_every=1", "steps=2")
    ended = stranger.run("maker", "train", "chain", *small, *code, "--run", "run")
    assert ended.code == 0, ended.err
    assert stranger.ran()
    return stranger


@pytest.mark.parametrize("name", COMMANDS)
def test_code_of_a_run_runs_for_who_trusts_it_alone(made: Stranger, name: str) -> None:
    user = f"user of {name}"
    told = refusal(made.run(user, *COMMANDS[name]), 2)
    assert str(made.plugin) in told and "--trust" in told
    assert not made.ran()
    if name == "compare":
        return  # which trains
    trusting = made.run(user, *COMMANDS[name], "--trust")
    assert trusting.code == 0, trusting.err
    assert made.ran()


def test_the_maker_is_not_asked_and_who_trusted_is_not_asked_again(made: Stranger) -> None:
    assert made.run("one", *COMMANDS["inspect"], "--trust").code == 0
    for user in ("maker", "one"):
        made.ran()
        assert made.run(user, *COMMANDS["inspect"]).code == 0
        assert made.ran()


def test_code_that_changed_is_not_what_was_trusted(made: Stranger) -> None:
    before = made.plugin.read_text()
    made.plugin.write_text(before + "# another\n")
    try:
        assert str(made.plugin) in refusal(made.run("maker", *COMMANDS["eval"]), 2)
        assert not made.ran()
    finally:
        made.plugin.write_text(before)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('[reward]\nverifier = "os:system"', "the module os"),
        ('[eval]\nverifier = "os:system"', "the module os"),
        ('[reward]\nfunctions = "os:system,os:remove"', "the module os"),
        ('[reward]\nverifier = "run/inside.py:grade"', "run/inside.py"),
        ('plugins = "run/inside.py"', "run/inside.py"),
    ],
)
def test_whatever_names_code_is_refused(
    made: Stranger, tmp_path: Path, line: str, named: str
) -> None:
    """A module, and a file that came along in the run folder."""
    shutil.copytree(made.folder / "run", tmp_path / "run")
    (tmp_path / "run" / "recipe.toml").write_text(f"{RECIPE}{line}\n")
    (tmp_path / "run" / "inside.py").write_text(made.plugin.read_text())
    command = ("eval", "run", "--limit", "1", "--n", "1", "-k", "1")
    assert named in made.ictcli.refused(*command, folder=tmp_path)
    assert not made.ran()


FORMS = {
    "text": '"FILE"',
    "list": '["FILE"]',
    "commas": '"FILE,FILE"',
    "list of commas": '["FILE,FILE"]',
    "spaced": '" FILE , FILE "',
    "quoted": "'\"FILE\"'",
    "dotted": '"./FILE"',
    "carriage return": '"FILE\\rFILE"',
    "twice named": '"FILE::"',
}
TABLES = {
    "plugins": "plugins = {plugin}",
    "reward": "reward = {verifier}",
    "reward.verifier": "[reward]\nverifier = {verifier}",
    "reward.functions": "[reward]\nfunctions = {verifier}",
    "eval.verifier": "[eval]\nverifier = {verifier}",
}
RUNS = {"plugins": {"text", "list", "dotted"}, "reward.functions": {"list", "text", "commas"}}
"""The forms that name code, so that it runs where it may."""
OF_ALL = (
    COMMANDS["train"],
    ("eval", "run", "--limit", "1", "--n", "1", "-k", "1"),
    ("check", "run/recipe.toml", "--seconds", "9"),
    ("compare", "run/recipe.toml", "--methods", "ict,random", "--seeds", "1", "--dry-run"),
)
"""Commands that are given every form; the others are given one."""
OF_ONE = (
    *COMMANDS.values(),
    ("train", "chain", "model=run", "eval.problems=1", "--dry-run"),
    ("runs", "show", "run"),
    ("runs", "ls", "."),
    ("runs", "diff", "run", "run"),
)


@pytest.mark.parametrize("key", TABLES)
def test_no_form_of_a_value_runs_code(
    made: Stranger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """In any command, nor where the run is a base model; and with `--trust` it runs."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made.folder / "run", "run")
    monkeypatch.setattr(gate, "_file", lambda: tmp_path / "state")
    monkeypatch.setattr("ictcli.engine.registry.is_installed", lambda name: False)
    ran = set[str]()
    for number, (form, value) in enumerate(FORMS.items()):
        file = Path(f"evil{number}.py")
        file.write_text(made.plugin.read_text())
        verifier = value.replace(",FILE", ",FILE:other").replace(", FILE", ", FILE:other")
        verifier = re.sub("FILE(?!:)", "FILE:grade", verifier)
        line = TABLES[key].format(plugin=value, verifier=verifier).replace("FILE", file.name)
        tables = (line, RECIPE) if key == "reward" else (RECIPE, line)
        Path("run", "recipe.toml").write_text("\n".join(tables))
        for command in (*OF_ALL, *(OF_ONE if form == "commas" else ())):
            here(*command)
            assert not made.ran(), (form, command)
        base_notes("run/model", ())
        assert not made.ran(), form
        for command in OF_ALL[:2]:
            here(*command, "--trust")
        ran |= {form} if made.ran() else set()
        monkeypatch.setattr(gate, "_now", gate.State())
        (tmp_path / "state").unlink(missing_ok=True)
    assert ran >= RUNS.get(key, {"text", "dotted"})


def here(*args: str) -> None:
    """A command in this process."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.suppress(UserError, SystemExit),
    ):
        cli.main(list(args), prog_name="ictcli", standalone_mode=False)


def test_no_hidden_line_names_code(tmp_path: Path) -> None:
    """Behind what some readers take for the end of a comment's line."""
    (tmp_path / "inside.py").write_text("raise AssertionError\n")
    for end in "\r\x85\u2028\x0c":
        hidden = f"# x{end}plugins = ['{tmp_path / 'inside.py'}']\n{RECIPE}"
        (tmp_path / "recipe.toml").write_bytes(hidden.encode())
        with contextlib.suppress(UserError):
            assert not load_recipe(read_run(tmp_path)).plugins


def test_a_run_names_no_folder_of_its_own_as_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever name, wherever the command is given."""
    run = tmp_path / "run"
    (run / "acme" / "custom").mkdir(parents=True)
    for name in ("acme/custom", "run/acme", "./acme", str(run / "acme" / "custom"), "."):
        (run / "recipe.toml").write_text(RECIPE.replace("builtin:chain", name))
        (run / "adapter").mkdir(exist_ok=True)
        about = {"peft_type": "LORA", "base_model_name_or_path": name}
        (run / "adapter" / "adapter_config.json").write_text(json.dumps(about))
        save_file({}, run / "adapter" / "adapter_model.safetensors")
        for place in (tmp_path, run, run / "acme"):
            monkeypatch.chdir(place)
            if (Path(name).is_dir() and is_below(run, Path(name))) or (run / name).is_dir():
                for read in (read_run, locate):
                    with refused("is a folder of that run"):
                        read(run if read is read_run else str(run))  # type: ignore[operator]
    monkeypatch.chdir(tmp_path)
    (run / "recipe.toml").write_text(RECIPE)
    typed = load_recipe(read_run(run), ["model=acme/custom"])
    assert typed.model == "acme/custom"
