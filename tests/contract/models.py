"""Tiny random models of kinds other than `tests/conftest.py` has, in Hugging Face layout."""

import shutil
from pathlib import Path
from typing import Any

from ictcli.tasks.chain.tokenizer import EOS_ID, PAD_ID, make_tokenizer


def make_sliding(folder: Path) -> Path:
    """Olmo 3: a sliding window shorter than the sequences, below full attention."""
    from transformers import Olmo3Config

    config = Olmo3Config(
        **_tiny(), sliding_window=5, layer_types=["sliding_attention", "full_attention"]
    )
    return _save(config, folder, seed=2)


def make_capped(folder: Path, window: int = 5) -> Path:
    """Gemma 2: sliding windows of `window` tokens, and both soft caps."""
    from transformers import Gemma2Config

    config = Gemma2Config(
        **_tiny(),
        head_dim=8,
        query_pre_attn_scalar=8,
        sliding_window=window,
        attn_logit_softcapping=5.0,
        final_logit_softcapping=3.0,
    )
    return _save(config, folder, seed=2)


def make_hybrid(folder: Path) -> Path:
    """LFM2: a recurrent layer (a short convolution) below one of full attention."""
    from transformers import Lfm2Config

    config = Lfm2Config(
        **_tiny(),
        block_auto_adjust_ff_dim=False,
        layer_types=["conv", "full_attention"],
    )
    return _save(config, folder, seed=3)


def make_kind(folder: Path, kind: str, **more: Any) -> Path:
    """One of `transformers.AutoConfig`'s kinds."""
    from transformers import AutoConfig

    return _save(AutoConfig.for_model(kind, **_tiny() | more), folder, seed=1)


def make_recurrent(folder: Path) -> Path:
    """Mamba: no attention at all, and a cache of its own kind."""
    from transformers import MambaConfig

    small = {key: value for key, value in _tiny().items() if "attention" not in key}
    small = {key: value for key, value in small.items() if "key_value" not in key}
    del small["intermediate_size"], small["max_position_embeddings"]
    return _save(MambaConfig(**small, state_size=8), folder, seed=6)


def make_multimodal(folder: Path) -> Path:
    """Gemma 3 with eyes: its settings as a language model stand one level down."""
    from transformers import Gemma3Config

    text = {**_tiny(), "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5}
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 8, "patch_size": 4}
    return _save(Gemma3Config(text_config=text, vision_config=vision), folder, seed=4)


def make_narrow(like: Path, folder: Path) -> Path:
    """The names of the weights of `like`, in other shapes."""
    from transformers import AutoConfig, AutoModelForCausalLM

    shutil.copytree(like, folder)
    config = AutoConfig.from_pretrained(folder)
    config.intermediate_size //= 2
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def _tiny() -> dict[str, Any]:
    return {
        "vocab_size": len(make_tokenizer()),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "initializer_range": 0.3,
        "pad_token_id": PAD_ID,
        "eos_token_id": EOS_ID,
        "bos_token_id": None,
    }


def _save(config: Any, folder: Path, seed: int) -> Path:
    import torch
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = EOS_ID
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


def make_deep(folder: Path) -> Path:
    """A Qwen2 of many layers, so that activations are most of an update's memory."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from ictcli.tasks.chain.tokenizer import make_tokenizer

    config = Qwen2Config(
        vocab_size=18,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=1,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder
