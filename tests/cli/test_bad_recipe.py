"""Recipes and options that are wrong: refused before anything is made."""

from pathlib import Path

import pytest
from processes import Processes, refusal

from ictcli.errors import UserError
from ictcli.recipe import load_recipe

RECIPE = 'model = "builtin:chain"\ntask = "chain"\nmethod = "ict"\nsteps = 1\n'

OVERRIDES = [
    (["epochs=2"], "(did you mean update.epochs?)"),
    (["checkpont.every=3"], "'checkpont' (did you mean checkpoint?)"),
    (["method.scop=group"], "method ict has no option 'scop' (did you mean scope?)"),
    (["method=itc"], "no method 'itc' (did you mean ict?)"),
    (["method=3"], "method = 3: input should be a method's name"),
    (["method={}"], "[method] needs a name"),
    (["method.keep=7"], "method.keep = 7: input should be less than or equal to 1"),
    (["method.scope=word"], "input should be 'response', 'group' or 'batch'"),
    (["steps=2.5"], "steps = 2.5: input should be a valid integer"),
    (["lr=abc"], "lr = 'abc': input should be a valid number"),
    (["entropy=nan"], "entropy = nan: input should be a finite number"),
    (["temperature=0"], "temperature = 0: input should be greater than 0"),
    (["eval.k=[0]"], "every k must lie in 1..n = 4"),
    (["eval.k=[1,1]"], "no k may stand there twice"),
    (["eval.k=x"], "eval.k.0 = 'x': input should be a valid integer"),
    (["checkpoint=3"], "checkpoint = 3: input should be a table"),
    (["keep.x=3"], "keep in 'keep.x=3' is a value, not a table"),
    (["=3"], "'=3' is not of the form key=value"),
    (["plugins=['no.py']"], "There is no plugin file no.py"),
]


@pytest.mark.parametrize(("args", "words"), OVERRIDES, ids=[" ".join(a) for a, _ in OVERRIDES])
def test_a_faulty_key_is_named(args: list[str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        load_recipe("chain", args)
    assert words in caught.value.message


FILES = {
    "empty": (b"", "the key 'model' is missing"),
    "mistyped": (RECIPE.replace("model", "modle").encode(), "'modle' (did you mean model?)"),
    "not TOML": (b"model = \n", "is not TOML: Invalid value (at line 1, column 9)"),
    "twice": (b"seed = 1\n" * 2, "is not TOML: Cannot overwrite a value"),
    "not UTF-8": (b'# caf\xe9\nmodel = "x"\n', "is not TOML, which is UTF-8"),
    "binary": (bytes(range(256)), "is not TOML"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_faulty_recipe_file_is_named(tmp_path: Path, name: str) -> None:
    content, words = FILES[name]
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(UserError) as caught:
        load_recipe(tmp_path / "bad.toml")
    assert caught.value.message.startswith(str(tmp_path / "bad.toml"))
    assert words in caught.value.message


PLUGINS = {
    "raises": ("1 / 0\n", "fails: ZeroDivisionError: division by zero"),
    "syntax": ("def (\n", "fails: SyntaxError"),
    "imports": ("import nosuchmodule\n", "fails: ModuleNotFoundError"),
}


@pytest.mark.parametrize("name", PLUGINS)
def test_a_faulty_plugin_is_named(ictcli: Processes, tmp_path: Path, name: str) -> None:
    content, words = PLUGINS[name]
    (tmp_path / "plugin.py").write_text(content)
    commands = (
        ["methods", "--plugin", "plugin.py"],
        ["train", "quickstart", "plugins=['plugin.py']"],
        ["eval", "builtin:chain", "--bench", "chain", "plugins=plugin.py"],
    )
    for command in commands[: 3 if name == "raises" else 1]:
        told = refusal(ictcli.run(*command, folder=tmp_path), 2)
        assert f"{tmp_path}/plugin.py" in told and words in told


USAGE = [
    (["train", "chain", "stpes=3"], "there is no key 'stpes' (did you mean steps?)"),
    (["train", "chain", "--nosuch"], "No such option"),
    (["train", "chain", "--backend", "jax"], "'jax' is not one of"),
    (["trian"], "no command 'trian' (did you mean train?)"),
    (["train", "quickstrt"], "no recipe 'quickstrt' (did you mean quickstart?)"),
    (["train", "nosuch.toml"], "There is no recipe file nosuch.toml"),
    (["train", "my data/mine.csv"], "ictcli train RECIPE task='my data/mine.csv'"),
    (["train", "task=mine.csv", "steps=3"], "ictcli train RECIPE task=mine.csv"),
    (["recipes", "lss"], "No such command 'lss'"),
    (["compare", "quickstart", "--seeds", "0"], "0 is not in the range"),
    (["eval", "builtin:chain"], "Missing option '--bench'"),
    (["eval", "builtin:chain", "--bench", "chian"], "no benchmark 'chian' (did you mean chain?)"),
    (
        ["eval", "builtin:chain", "--bench", "chain", "--n", "2", "--k", "4"],
        "pass@4 needs at least 4 samples",
    ),
    (["eval", "builtin:chain", "--bench", "chain", "--k", "0"], "There is no pass@0"),
    (["eval", "builtin:chain", "--bench", "chain", "--k", "1,x"], "'1,x' is not numbers"),
    (["recipes", "cp", "quickstart", "mine"], "does not end in .toml. ictcli recipes cp"),
]


@pytest.mark.parametrize(("args", "words"), USAGE, ids=[" ".join(a) for a, _ in USAGE])
def test_a_faulty_command_is_named(
    ictcli: Processes, tmp_path: Path, args: list[str], words: str
) -> None:
    assert words in refusal(ictcli.run(*args, folder=tmp_path), 2)
    assert not list(tmp_path.iterdir())
