"""The rooms: imports go one way, and few modules stand outside of them."""

import ast
import graphlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_imports_go_one_way_without_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert lint_imports(no_cache=True, no_logo=True) == os.EX_OK


def test_at_most_six_modules_are_loose() -> None:
    loose = [p for p in (ROOT / "ictcli").glob("*.py") if not p.name.startswith("__")]
    assert len(loose) <= 6, loose


def test_no_module_needs_itself_to_be_imported() -> None:
    """So each can be the first to be imported, as a plugin's first line may."""
    files = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in (ROOT / "ictcli").rglob("*.py")
    }
    graph = {name: set(imports(file, files)) - {name} for name, file in files.items()}
    assert list(graphlib.TopologicalSorter(graph).static_order())


def imports(file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """Those of the modules that a file imports when it is imported itself."""
    waiting: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and (module := node.module or "") in modules:
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in modules else module
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
