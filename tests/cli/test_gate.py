"""What a plugin and its imports load is what the gate was asked about, and nothing else."""

import contextlib
import importlib.util
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest
from refusing import refused
from strangers import RECIPE

from ictcli.errors import UnknownCodeError
from ictcli.files import gate, plugins
from ictcli.recipe import load_recipe
from ictcli.rewards import Verdict, find_verifier, grade
from ictcli.runs.trust import read_run

RIGHT = Verdict("correct")


def test_what_was_judged_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe, a plugin, and what that imports, though all are other files by then, and though
    compiled files of other code lie beside them."""
    run, evil = tmp_path / "run", tmp_path / "evil.py"
    run.mkdir()
    plugin, neighbour = tmp_path / "judged_plugin.py", tmp_path / "judged_neighbour.py"
    (run / "recipe.toml").write_text(f"{RECIPE}plugins = ['{plugin}']\n")
    plugin.write_text("import judged_neighbour\nsaid = judged_neighbour.said\n")
    neighbour.write_text("said = 'judged'\n")
    evil.write_text("raise AssertionError\n")
    for path in (plugin, neighbour):
        compiled = importlib.util.cache_from_source(path)
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(evil), compiled, invalidation_mode=mode)
    file = read_run(run)
    with refused(f"not run here in its present form: {plugin}."):
        load_recipe(file)
    gate.trust_all()
    plugins.source(plugin)
    with monkeypatch.context() as patch:
        patch.setattr(gate, "_now", gate.State(asks=True))
        with refused(f"not run here in its present form: {neighbour}."):
            load_recipe(file)
    plugins.source(neighbour)
    monkeypatch.setattr(gate, "_now", gate.State(asks=True))
    for path in (run / "recipe.toml", plugin, neighbour):
        path.write_bytes(evil.read_bytes())
    assert load_recipe(file).plugins == (str(plugin),)
    assert vars(plugins.module_of(plugin))["said"] == "judged"


def test_modules_go_by_place_content_and_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(place: str, content: str, name: str = "theirs.grading:str") -> bool:
        folder = tmp_path / place / "theirs"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "grading.py").write_text(f"{content}\nfrom builtins import repr, str\n")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path / place)
            with contextlib.suppress(UnknownCodeError):
                return bool(find_verifier(name))
        return False

    assert runs("a", "pass")
    gate.ask()
    assert runs("a", "pass")
    assert not runs("a", "pass # not")
    assert not runs("b", "pass")
    assert not runs("a", "pass", "theirs.grading:repr")


def test_the_files_beside_a_plugin_are_for_plugins_alone(tmp_path: Path) -> None:
    """At any time, and in workers; a library does not find them."""
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        (folder / "package" / "inner").mkdir(parents=True)
        (folder / "package" / "inner" / "deep.py").write_text(f"said = {folder.name!r}\n")
        (folder / "gmpy2.py").write_text("raise AssertionError\n")
        (folder / "xtheirs.py").write_text("from package.inner import deep\n")
        (folder / "own.py").write_text(
            "def grade(response, gold):\n"
            "    import xtheirs, package.inner.deep as again\n"
            "    from package.inner.deep import said\n"
            "    assert xtheirs.deep is again\n"
            "    return said == response\n"
        )
    for folder in folders:
        assert grade(folder.name, "", find_verifier(f"{folder / 'own.py'}:grade")) == RIGHT
        judge = vars(plugins.module_of(folder / "own.py"))["grade"]
        assert judge(folder.name, "")
    for name in ("gmpy2", "xtheirs", "package"):
        assert name not in sys.modules and importlib.util.find_spec(name) is None
    assert not any(str(tmp_path) in place for place in sys.path)


def test_a_compiled_neighbour_is_no_module(tmp_path: Path) -> None:
    evil, plugin = tmp_path / "evil.py", tmp_path / "hopeful.py"
    evil.write_text("raise AssertionError\n")
    for name in ("compiled.pyc", "folded/__init__.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        py_compile.compile(str(evil), str(tmp_path / name))
    evil.unlink()
    plugin.write_text(
        "found = []\n"
        "for name in ('compiled', 'folded.inner'):\n"
        "    try: __import__(name); found.append(name)\n"
        "    except ImportError: pass\n"
        "try:\n    import compiled\n    found.append(compiled)\n"
        "except ImportError: pass\n"
    )
    assert vars(plugins.module_of(plugins.load(str(plugin), typed=True)))["found"] == []


def test_what_a_plugin_imports_later_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "lazy.py"
    file.write_text("def grade(response, gold):\n    import later\n    return True\n")
    (tmp_path / "later.py").write_text("pass\n")
    verifier = find_verifier(f"{file}:grade")
    gate.ask()
    assert "later.py" in grade("", "", verifier).reason


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
