"""Tiny random models of kinds other than `tests/conftest.py` has, in Hugging Face layout."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Gemma3Config, MambaConfig

from ictcli.engine.models import BUILTIN

TINY: dict[str, Any] = {
    "vocab_size": 18,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "eos_token_id": 17,
    "bos_token_id": None,
}
GEMMA: Any = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 5}


def make_kind(folder: Path, kind: str, seed: int = 1, **more: Any) -> Path:
    """One of `transformers.AutoConfig`'s kinds."""
    return save(AutoConfig.for_model(kind, **TINY | more), folder, seed)


def save(config: Any, folder: Path, seed: int = 0, kind: Any = None) -> Path:
    """A model of these settings, and the chain tokenizer."""
    torch.manual_seed(seed)
    model = kind(config) if kind else AutoModelForCausalLM.from_config(config)
    model.generation_config.eos_token_id = TINY["eos_token_id"]
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(BUILTIN["chain"]).save_pretrained(folder)
    return folder


def make_sliding(folder: Path) -> Path:
    """A sliding window shorter than the sequences, below full attention, and untied embeddings."""
    kinds = ["sliding_attention", "full_attention"]
    more = {"sliding_window": 5, "tie_word_embeddings": False}
    return make_kind(folder, "olmo3", 2, layer_types=kinds, **more)


def make_capped(folder: Path) -> Path:
    """Sliding windows, and soft caps of attention and logits."""
    caps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}
    return make_kind(folder, "gemma2", 2, **GEMMA | caps)


def make_hybrid(folder: Path) -> Path:
    """A recurrent layer (a short convolution) below one of full attention."""
    kinds = ["conv", "full_attention"]
    more = {"block_auto_adjust_ff_dim": False, "block_dim": TINY["hidden_size"]}
    return make_kind(folder, "lfm2", 3, layer_types=kinds, **more)


def make_recurrent(folder: Path) -> Path:
    """Mamba: no attention at all, and a cache of its own kind."""
    shared = {"vocab_size", "hidden_size", "num_hidden_layers", "initializer_range"}
    shared |= {"pad_token_id", "eos_token_id", "bos_token_id"}
    return save(MambaConfig(**{key: TINY[key] for key in shared}, state_size=8), folder, seed=6)


def make_multimodal(folder: Path, **text: Any) -> Path:
    """Gemma 3 with eyes: its settings as a language model stand one level down."""
    vision = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 8, "patch_size": 4}
    words = TINY | GEMMA | text
    config = Gemma3Config(text_config=words, vision_config=vision)
    config.vocab_size = words["vocab_size"]  # mlx-lm goes by it
    return save(config, folder, seed=4)


def make_qwen3_5(folder: Path) -> Path:
    """Qwen3.5, with eyes as its checkpoints have them: three layers of gated delta nets below one
    of full attention."""
    from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration

    delta = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 2}
    delta |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4}
    vision = {"hidden_size": 16, "intermediate_size": 16, "depth": 1, "num_heads": 2}
    vision |= {"patch_size": 4, "out_hidden_size": 32, "num_position_embeddings": 4}
    tied = {"tie_word_embeddings": True}
    text = TINY | delta | tied | {"head_dim": 8, "num_hidden_layers": 4}
    config = Qwen3_5Config(text_config=text, vision_config=vision, **tied)
    return save(config, folder, seed=3, kind=Qwen3_5ForConditionalGeneration)


def make_narrow(like: Path, folder: Path) -> Path:
    """The names of the weights of `like`, in other shapes."""
    config = AutoConfig.from_pretrained(like)
    config.intermediate_size //= 2
    return save(config, folder)


def make_deep(folder: Path) -> Path:
    """Many layers, so that activations are most of an update's memory."""
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 6}
    return make_kind(folder, "qwen2", **sizes, max_position_embeddings=256, initializer_range=0.02)
