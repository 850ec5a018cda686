"""Laws of the checksums that tell one model from another."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

from ictcli.engine import checksums
from ictcli.engine.checksums import identity, weights_fingerprint
from ictcli.engine.models import Source


def test_a_models_identity_is_of_its_weights_wherever_they_lie(
    tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    own = identity(Source(str(tiny_model)))
    moved = shutil.copytree(tiny_model, tmp_path / "moved")
    (moved / "notes.txt").write_text("mine")
    assert identity(Source(str(moved))) == own
    assert identity(Source(str(untied_model))) != own
    config = (moved / "config.json").read_text()
    (moved / "config.json").write_text(config.replace('"num_attention_heads": 4', '"x": 4'))
    assert identity(Source(str(moved))) != own


def test_a_print_of_weights_is_of_their_tensors(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of how they are dealt to files; and no tensor is passed over, wherever it lies."""
    monkeypatch.setattr(checksums, "BLOCK", 64)
    monkeypatch.setattr(checksums, "BLOCKS", 8)
    weights = load_file(tiny_model / "model.safetensors")
    assert sum(w.nbytes for w in weights.values()) > 20 * 64 * 8

    def found(files: list[dict[str, Any]], about: dict[str, str] | None = None) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, content in enumerate(files):
            save_file(content, folder / f"model-{number}.safetensors", metadata=about)
        return weights_fingerprint(folder)

    own, names = weights_fingerprint(tiny_model), sorted(weights)
    assert found([weights], {"format": "pt", "made": "elsewhere"}) == own
    assert found([{n: weights[n] for n in names[k::2]} for k in range(2)]) == own
    others = {own}
    for name in names:
        others.add(found([weights | {name: weights[name] + 1}]))
    first = weights[names[0]]
    others.add(found([weights | {names[0]: first.view("int32")}]))
    others.add(found([weights | {names[0]: first.reshape(-1, 2)}]))
    others.add(found([{f"{n}x" if n == names[0] else n: w for n, w in weights.items()}]))
    assert len(others) == len(names) + 4
