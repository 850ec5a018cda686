"""What leaves a model's folder: the files of the list, as they are, and nothing else."""

import json
from pathlib import Path

import pytest
from huggingface_hub.utils import filter_repo_objects
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from ictcli.engine.model_files import ELSEWHERE, FILES, TOKENIZER, drop_code, listed, take
from ictcli.engine.models import locate, weight_files
from ictcli.engine.older import older_names
from ictcli.errors import UserError
from tests.strange import STRANGE, strange


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_of_a_stranger_s_folder_the_files_of_the_list_leave_as_they_are(
    tiny_model: Path, tmp_path: Path
) -> None:
    folder = strange(tiny_model, tmp_path / "model")
    (tmp_path / "out").mkdir()
    take(folder, tmp_path / "out")
    more = {"additional_chat_templates/tools.jinja", "LICENSE", "merges.txt"}
    assert names(tmp_path / "out") == names(tiny_model) | more
    assert not names(tmp_path / "out") & STRANGE
    for name in names(tmp_path / "out"):
        assert (tmp_path / "out" / name).read_bytes() == (folder / name).read_bytes()


STEMS = ("config", "model", "tokenizer", "LICENSE", ".env", "a.tiktoken", "chat_template", "x.json")
ENDINGS = ("", ".json", ".safetensors", ".safetensors.index.json", ".jinja", ".py", ".bin", ".so")
FOLDERS = ("", "nested/", "additional_chat_templates/", "x/additional_chat_templates/")


@given(st.sampled_from(FOLDERS), st.sampled_from(STEMS), st.sampled_from(ENDINGS))
def test_the_hub_s_client_reads_the_list_as_a_folder_does(
    folder: str, stem: str, ending: str
) -> None:
    """Its * matches slashes."""
    name = f"{folder}{stem}{ending}"
    fetched = [*filter_repo_objects([name], allow_patterns=[*FILES], ignore_patterns=[*ELSEWHERE])]
    assert bool(fetched) == any(Path("/", name).match(f"/{pattern}") for pattern in FILES)
    assert not fetched or ending not in (".py", ".bin", ".so")


def test_a_link_out_of_the_folder_is_refused_and_the_hub_s_cache_is_not(
    tiny_model: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text('{"auths": "SECRET"}')
    folder = strange(tiny_model, tmp_path / "model")
    (folder / "vocab.txt").symlink_to(secret)
    with refused("vocab.txt is a link that leaves"):
        listed(folder)
    for name in ("vocab.txt", "generation_config.json"):  # whatever these say is written again
        (folder / name).unlink()
        (folder / name).symlink_to(secret)
        with refused(f"{name} is a link that leaves"):
            locate(str(folder), trains=True)
        (folder / name).unlink()
    assert locate(str(folder)).path == str(folder)
    (folder / "vocab.txt").symlink_to("merges.txt")
    (folder / "NOTICE.md").symlink_to("gone")
    assert folder / "NOTICE.md" not in listed(folder)
    assert folder / "vocab.txt" in listed(folder, TOKENIZER)
    cache = tmp_path / "models--me--it"
    (cache / "snapshots").mkdir(parents=True)
    (cache / "blobs").mkdir()
    snapshot = folder.rename(cache / "snapshots" / "abc")
    (snapshot / "tokenizer.json").rename(cache / "blobs" / "f00")
    (snapshot / "tokenizer.json").symlink_to("../../blobs/f00")
    assert snapshot / "tokenizer.json" in listed(snapshot)
    (snapshot / "NOTICE").symlink_to("../../../id_rsa")
    with refused("NOTICE is a link that leaves"):
        listed(snapshot)


def test_settings_that_name_code_are_dropped_wherever_they_stand_and_no_word(
    tmp_path: Path,
) -> None:
    map_ = {"AutoModel": "evil--x.M"}
    before = {"a": 1, "auto_map": map_, "text_config": {"b": [2], "auto_map": map_}}
    (tmp_path / "config.json").write_text(json.dumps(before | {"model_file": "../x.py"}))
    (tmp_path / "tokenizer_config.json").write_text('{"c":  3}')
    (tmp_path / "vocab.json").write_text('{"auto_map": 7}')
    assert drop_code(tmp_path) and not drop_code(tmp_path)
    after = json.loads((tmp_path / "config.json").read_text())
    assert after == {"a": 1, "text_config": {"b": [2]}}
    assert (tmp_path / "tokenizer_config.json").read_text() == '{"c":  3}'
    assert (tmp_path / "vocab.json").read_text() == '{"auto_map": 7}'


@pytest.mark.parametrize("name", ["pytorch_model.bin", "../secret.safetensors", "/x.safetensors"])
def test_an_index_names_safetensors_beside_it_alone(
    tiny_model: Path, tmp_path: Path, name: str
) -> None:
    """transformers would unpickle the first, and look for the others elsewhere."""
    folder = strange(tiny_model, tmp_path / "model")
    index = {"weight_map": {"model.norm.weight": name}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with refused("which is not a safetensors file in that folder"):
        weight_files(folder)
    with pytest.raises(UserError, match="not a safetensors file"):
        locate(str(folder))


def test_the_names_that_older_readers_know_are_given_to_a_model_within_too() -> None:
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    assert older_names(rope) == {"rope_theta": 5e5, "rope_scaling": None}
    assert older_names(rope | {"rope_theta": 1}) == {}
    inner = older_names({"text_config": rope})["text_config"]
    assert inner == {**rope, "rope_theta": 5e5, "rope_scaling": None}
