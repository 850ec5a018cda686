"""Models that no process reads or writes whole."""

from pathlib import Path

import pytest
import torch
from ictcli_torch import files
from ictcli_torch.files import on_meta, open_arrays, part, read_arrays, write_files
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from .models import make_kind

CPU = torch.device("cpu")


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_without_numbers_knows_where_they_are(tmp_path: Path, tied: bool) -> None:
    """In several files, of which an index says what each holds; buffers are in no file."""
    path = make_kind(tmp_path, "qwen2", tie_word_embeddings=tied)
    whole = AutoModelForCausalLM.from_pretrained(path)
    whole.save_pretrained(path, max_shard_size="20KB")
    (path / "model.safetensors").unlink()
    found = on_meta(str(path), AutoConfig.from_pretrained(path), torch.float32, CPU)
    assert all(weight.is_meta for weight in found.parameters())
    buffers = dict(found.named_buffers())
    assert all(torch.equal(buffers[name], value) for name, value in whole.named_buffers())
    weights = dict(whole.named_parameters())
    assert found.places.keys() == weights.keys()
    assert len({file for file, _ in found.places.values()}) > 1
    for name, (file, stored) in found.places.items():
        with safe_open(file, "pt") as opened:
            assert torch.equal(opened.get_tensor(stored), weights[name])


def test_weights_that_files_hold_in_another_shape_are_read_by_transformers(tmp_path: Path) -> None:
    """Experts, which transformers puts together."""
    more = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}
    path = make_kind(tmp_path, "qwen3_moe", **more)
    assert on_meta(str(path), AutoConfig.from_pretrained(path), torch.float32, CPU) is None


def test_a_model_written_weight_by_weight_is_read_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files that hold no more than they may."""
    path = make_kind(tmp_path / "one", "qwen2", tie_word_embeddings=False, dtype="bfloat16")
    whole = AutoModelForCausalLM.from_pretrained(path)
    weights = dict(whole.named_parameters())
    monkeypatch.setattr(files, "FILE", 20_000)
    folder = tmp_path / "other"
    whole.save_pretrained(folder, state_dict={})
    write_files(folder, weights, lambda name: weights[name].detach())
    sizes = [file.stat().st_size for file in folder.glob("*.safetensors")]
    assert len(sizes) > 1 and max(sizes) < 20_000 + 2_000
    read = dict(AutoModelForCausalLM.from_pretrained(folder).named_parameters())
    assert read.keys() == weights.keys()
    assert all(torch.equal(read[name], value) for name, value in weights.items())


def test_arrays_in_parts_have_their_shapes_before_they_are_read(tmp_path: Path) -> None:
    for rank, rows in enumerate((2, 1, 0)):
        arrays = {"weight": torch.full((rows, 3), rank), "step": torch.tensor(5.0)}
        save_file(arrays, part(tmp_path / "x.safetensors", rank, 3))
    found = open_arrays(tmp_path / "x.safetensors")
    assert {name: array.shape for name, array in found.items()} == {"weight": (3, 3), "step": ()}
    assert {n: x.tolist() for n, x in read_arrays(tmp_path / "x.safetensors").items()} == {
        "weight": [[0, 0, 0], [0, 0, 0], [1, 1, 1]],
        "step": 5.0,
    }
