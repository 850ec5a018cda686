"""What is known of a model before it is loaded: its size, its type, its checksums; and of an engine
that does not load."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from refusing import refused
from safetensors.numpy import load_file, save_file

from ictcli.engine import checksums, dtype, registry
from ictcli.engine.checksums import fingerprint, identity, weights_fingerprint
from ictcli.engine.models import BUILTIN, Source
from ictcli.engine.shape import read_shape
from ictcli.errors import EngineMissingError, UserError
from ictcli.recipe.tables import EngineSettings

CHAIN = BUILTIN["chain"]


def untied(folder: Path) -> Path:
    """The model of chain with a head of its own."""
    made = Path(shutil.copytree(CHAIN, folder / "untied"))
    weights = load_file(made / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    save_file(weights, made / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    return made


def test_kernels_follow_the_kind_of_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine, flags, kernels in (
        ("x86_64", "avx2", "avx2"),
        ("x86_64", "avx2 avx512f", "avx512"),
        ("AMD64", "", "onednn"),
        ("arm64", "avx2", "plain"),
    ):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        monkeypatch.setattr(dtype, "cpu_flags", lambda flags=flags: frozenset(flags.split()))
        assert dtype.choose_kernels("auto") == kernels
        assert dtype.choose_kernels("plain") == "plain"


def test_a_models_identity_is_of_its_weights_wherever_they_lie(tmp_path: Path) -> None:
    own = identity(Source(str(CHAIN)))
    moved = shutil.copytree(CHAIN, tmp_path / "moved")
    assert fingerprint(Source(str(moved))) == fingerprint(Source(str(CHAIN)))
    (moved / "notes.txt").write_text("mine")
    assert identity(Source(str(moved))) == own
    assert identity(Source(str(untied(tmp_path)))) != own
    config = (moved / "config.json").read_text()
    (moved / "config.json").write_text(config.replace('"num_attention_heads"', '"x"'))
    assert identity(Source(str(moved))) != own


def test_a_print_of_weights_is_of_their_tensors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of how they are dealt to files; and no tensor is passed over, wherever it lies."""
    monkeypatch.setattr(checksums, "BLOCK", 64)
    monkeypatch.setattr(checksums, "BLOCKS", 8)
    weights = load_file(CHAIN / "model.safetensors")
    assert sum(w.nbytes for w in weights.values()) > 20 * 64 * 8

    def found(files: list[dict[str, Any]], about: dict[str, str] | None = None) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for number, content in enumerate(files):
            save_file(content, folder / f"model-{number}.safetensors", metadata=about)
        return weights_fingerprint(folder)

    own, names = weights_fingerprint(CHAIN), sorted(weights)
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


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(tmp_path: Path, *, tied: bool) -> None:
    folder = CHAIN if tied else untied(tmp_path)
    true = sum(w.size for w in load_file(folder / "model.safetensors").values())
    shape = read_shape(str(folder))
    assert shape.tied == tied
    assert shape.parameters == true  # by the headers of its files
    by_config = replace(shape, stored=None)
    assert by_config.parameters == pytest.approx(true, rel=0.01)  # its matrices
    assert shape.weights(4) == 4 * true and by_config.weights(4) == 4 * by_config.parameters


def test_a_hub_id_in_the_cache_needs_its_config_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.json"
    config.write_text((CHAIN / "config.json").read_text())
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *arguments: str(config))
    shape = read_shape("somebody/has-this")
    assert shape.stored is None
    assert shape.parameters == pytest.approx(read_shape(str(CHAIN)).parameters, rel=0.01)


@pytest.mark.parametrize("value", [0, -1, 10**400, float("inf"), float("nan"), 1e308, [], None])
def test_a_size_of_no_model_is_refused(tmp_path: Path, value: object) -> None:
    folder = Path(shutil.copytree(CHAIN, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    for key in ("hidden_size", "vocab_size", "num_attention_heads"):
        (folder / "config.json").write_text(json.dumps({**config, key: value}))
        with pytest.raises(UserError, match=r"config\.json cannot be read"):
            read_shape(str(folder))


@pytest.mark.parametrize("error", [ImportError("no name 'x'"), AttributeError("no attribute 'x'")])
def test_an_engine_that_does_not_fit_its_library_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def load(*names: str) -> None:
        raise error

    monkeypatch.setattr(registry, "engine_module", load)
    monkeypatch.setattr(registry, "is_installed", lambda name: True)
    with refused(str(error), hint="[torch]", kind=EngineMissingError):
        registry.build_engine("builtin:chain", EngineSettings(backend="torch"))
