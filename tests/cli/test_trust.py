"""A run folder from somebody else runs no code of its own, whatever is done with it."""

import shutil
from pathlib import Path

import pytest
from processes import Ended, Processes, refusal

from ictcli.errors import UserError
from ictcli.runs import trust

PLUGIN = """
import pathlib
pathlib.Path({marker!r}).touch()

def grade(response, gold):
    return response.endswith(gold + "#")
"""
COMMANDS = {
    "resume": ("resume", "run"),
    "eval": ("eval", "run", "--bench", "chain", "--limit", "1", "--n", "1", "-k", "1"),
    "generate": ("generate", "run", "1+2="),
    "inspect": ("inspect", "run", "--plain"),
    "export": ("export", "run", "--out", "out"),
    "train": ("train", "run/recipe.toml", "--dry-run"),
    "download": ("download", "run/recipe.toml"),
}


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
def made(
    ictcli: Processes, small: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory
) -> Stranger:
    stranger = Stranger(ictcli, tmp_path_factory.mktemp("stranger"))
    code = ('plugins=["theirs.py"]', "reward=theirs.py:grade", "record.rollouts_every=1", "steps=2")
    ended = stranger.run("maker", "train", "chain", *small, *code, "--run", "run")
    assert ended.code == 0, ended.err
    assert stranger.ran()
    return stranger


@pytest.mark.parametrize("name", COMMANDS)
def test_code_of_a_run_runs_for_its_maker_and_for_who_trusts_it(made: Stranger, name: str) -> None:
    assert made.run("maker", *COMMANDS[name]).code == 0
    assert made.ran()
    user = f"user of {name}"
    told = refusal(made.run(user, *COMMANDS[name]), 2)
    assert str(made.plugin) in told and "--trust" in told
    assert not made.ran()
    trusting = made.run(user, *COMMANDS[name], "--trust")
    assert trusting.code == 0, trusting.err
    assert made.ran()
    assert made.run(user, *COMMANDS[name]).code == 0, "it is remembered"
    assert made.ran()


def test_a_comparison_of_a_runs_recipe_is_asked_for_too(made: Stranger) -> None:
    many = ("compare", "run/recipe.toml", "--methods", "ict,random", "--seeds", "1")
    assert "--trust" in refusal(made.run("another", *many), 2)
    assert not made.ran()


def test_a_runs_recipe_is_no_study(made: Stranger) -> None:
    path = made.folder / "run" / "recipe.toml"
    text = path.read_text()
    path.write_text(f'recipes = ["chain"]\nmethods = ["ict"]\n{text}')
    try:
        refusal(made.run("another", "compare", "run/recipe.toml"), 2)
        assert not made.ran()
    finally:
        path.write_text(text)


@pytest.mark.parametrize("name", COMMANDS)
def test_code_that_changed_is_not_what_was_trusted(made: Stranger, name: str) -> None:
    before = made.plugin.read_text()
    made.plugin.write_text(before + "# another\n")
    try:
        assert str(made.plugin) in refusal(made.run("maker", *COMMANDS[name]), 2)
        assert not made.ran()
    finally:
        made.plugin.write_text(before)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ('reward = "os:system"', "the module os"),
        ('[reward]\nverifier = "os:system"', "the module os"),
        ("[engine]\ntrust_remote_code = true", "the code of the model builtin:chain"),
        ('plugins = "inside.py"', "run/inside.py"),
    ],
)
def test_whatever_names_code_is_refused(
    made: Stranger, tmp_path: Path, name: str, line: str, named: str
) -> None:
    """A module, a model's own code, and a file that came along in the run folder."""
    shutil.copytree(made.folder / "run", tmp_path / "run")
    recipe = 'model = "builtin:chain"\ntask = "chain"\nmethod = "ict"\nsteps = 2\n' + line
    (tmp_path / "run" / "recipe.toml").write_text(recipe + "\n")
    (tmp_path / "run" / "inside.py").write_text(made.plugin.read_text())
    told = refusal(made.ictcli.run(*COMMANDS[name], folder=tmp_path), 2)
    assert named in told
    assert not made.ran()


def test_the_name_of_a_trusted_model_lets_no_other_code_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    trust.remember(Path("run"))
    trust.check_code(Path("run"))
    shutil.copytree("run", "copy")
    trust.check_code(Path("copy"))
    (folders[0] / "copy" / "model" / "modeling.py").write_text("print()")
    with pytest.raises(UserError, match=r"copy/model/modeling\.py"):
        trust.check_code(Path("copy"))
    (folders[0] / "copy" / "model" / "modeling.py").unlink()
    (folders[0] / "copy" / "model" / "config.json").write_text('{"auto_map": "other--code"}')
    with pytest.raises(UserError, match=r"copy/model/config\.json"):
        trust.check_code(Path("copy"))
    (folders[0] / "base" / "modeling.py").write_text("print()")
    with pytest.raises(UserError, match="the code of the model base"):
        trust.check_code(Path("run"))
    monkeypatch.chdir(folders[1])
    with pytest.raises(UserError, match="the code of the model base"):
        trust.check_code(Path("run"))
