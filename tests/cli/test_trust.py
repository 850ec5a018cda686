"""A run folder from somebody else runs no code of its own, whatever is done with it."""

import contextlib
import importlib.util
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Ended, Processes, Small, refusal
from strangers import COMMANDS

from ictcli.errors import UserError
from ictcli.recipe import load_recipe, read_recipe
from ictcli.runs import trust

PLUGIN = """
import pathlib
pathlib.Path({marker!r}).touch()

def grade(response, gold):
    return response.endswith(gold + "#")
"""
RECIPE = 'model = "builtin:chain"\ntask = "chain"\nmethod = "ict"\nsteps = 2\n'


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
        ("[engine]\ntrust_remote_code = true", "the code of the model builtin:chain"),
        ('plugins = "inside.py"', "run/inside.py"),
    ],
)
def test_whatever_names_code_is_refused(
    made: Stranger, tmp_path: Path, line: str, named: str
) -> None:
    """A module, a model's own code, and a file that came along in the run folder."""
    shutil.copytree(made.folder / "run", tmp_path / "run")
    (tmp_path / "run" / "recipe.toml").write_text(f"{RECIPE}{line}\n")
    (tmp_path / "run" / "inside.py").write_text(made.plugin.read_text())
    assert named in made.ictcli.refused(*COMMANDS["resume"], folder=tmp_path)
    assert not made.ran()


def test_no_hidden_line_names_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind what some readers take for the end of a comment's line."""
    monkeypatch.setattr(trust, "_file", lambda: tmp_path / "state")
    (tmp_path / "inside.py").write_text("raise AssertionError\n")
    for end in "\r\x85\u2028\x0c":
        hidden = f"# x{end}plugins = ['inside.py']\n{RECIPE}"
        (tmp_path / "recipe.toml").write_bytes(hidden.encode())
        with contextlib.suppress(UserError):
            assert not load_recipe(trust.read_run(tmp_path)).plugins


def test_what_was_judged_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe, a plugin, and what that imports, though all are other files by then, and though
    compiled files of other code lie beside them."""
    monkeypatch.setattr(trust, "_session", set[str]())
    monkeypatch.setattr(trust, "_file", lambda: tmp_path / "state")
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path])
    (run / "recipe.toml").write_text(f"{RECIPE}plugins = ['judged_plugin.py']\n")
    (run / "judged_plugin.py").write_text("import judged_neighbour\n")
    (run / "judged_neighbour.py").write_text("said = 'judged'\n")
    with pytest.raises(UserError, match=r"judged_plugin\.py, .*/judged_neighbour\.py"):
        trust.read_run(run)
    trust.remember(run, read_recipe(run / "recipe.toml").data)
    file = trust.read_run(run)
    evil = tmp_path / "evil.py"
    evil.write_text("raise AssertionError\n")
    for name in ("judged_plugin", "judged_neighbour"):
        compiled = importlib.util.cache_from_source(run / f"{name}.py")
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(evil), compiled, invalidation_mode=mode)
    for path in (run / "recipe.toml", run / "judged_plugin.py", run / "judged_neighbour.py"):
        path.write_bytes(evil.read_bytes())
    assert load_recipe(file).plugins == (str(run / "judged_plugin.py"),)
    assert sys.modules["judged_neighbour"].said == "judged"


def test_modules_go_by_place_and_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def digests(place: str, content: str) -> set[str]:
        folder = tmp_path / place / "theirs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "grading.py").write_text(content)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / place)
            return set(trust.code_of(tmp_path, {"reward": "theirs.grading:grade"}).values())

    own = digests("a", "pass")
    assert digests("a", "pass") == own
    assert digests("a", "pass # not") != own
    assert digests("b", "pass") != own
    assert "theirs" not in sys.modules


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    """Neither by a command nor by the processes that it starts."""
    for name in ("click", "numpy", "pickle", "random", "theirs"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'w')\n")
    (tmp_path / "rows.csv").write_text("response,gold\n\\boxed{(x+1)^2},x^2+2x+1\n")
    command = [sys.executable, "-m", "ictcli", "grade", "rows.csv"]
    for more in ((), ("--kind", "theirs:grade")):
        ended = subprocess.run([*command, *more], cwd=tmp_path, capture_output=True, text=True)
        assert not (tmp_path / "ran").exists()
        assert ended.returncode == (2 if more else 0), ended.stderr


def test_a_trusted_name_trusts_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run may name a model whose code its reader runs, and bring code of its own; and a folder of
    the same name may hold other code elsewhere."""
    monkeypatch.setattr(trust, "_session", set[str]())
    monkeypatch.setattr(trust, "_file", lambda: tmp_path / "state")
    folders = [tmp_path / name for name in ("mine", "theirs")]
    recipe = 'model = "base"\n[engine]\ntrust_remote_code = true\n'
    for folder in folders:
        (folder / "base").mkdir(parents=True)
        (folder / "run" / "model").mkdir(parents=True)
        (folder / "run" / "recipe.toml").write_text(recipe)
        (folder / "base" / "modeling.py").write_text("pass")
        (folder / "run" / "model" / "config.json").write_text("{}")
    monkeypatch.chdir(folders[0])
    trust.remember(Path("run"), read_recipe(Path("run/recipe.toml")).data)
    trust.read_run(Path("run"))
    shutil.copytree("run", "copy")
    trust.read_run(Path("copy"))
    (folders[0] / "copy" / "model" / "modeling.py").write_text("print()")
    with pytest.raises(UserError, match=r"copy/model/modeling\.py"):
        trust.read_run(Path("copy"))
    (folders[0] / "copy" / "model" / "modeling.py").unlink()
    (folders[0] / "copy" / "model" / "config.json").write_text('{"auto_map": "other--code"}')
    with pytest.raises(UserError, match=r"copy/model/config\.json"):
        trust.read_run(Path("copy"))
    (folders[0] / "base" / "modeling.py").write_text("print()")
    with pytest.raises(UserError, match="the code of the model base"):
        trust.read_run(Path("run"))
    monkeypatch.chdir(folders[1])
    with pytest.raises(UserError, match="the code of the model base"):
        trust.read_run(Path("run"))
