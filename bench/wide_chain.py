"""`builtin:chain` with heads that vLLM has kernels for."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from ictcli.engine.models import BUILTIN

SIZES = {
    "small": {"hidden_size": 128, "layers": 4, "heads": 4, "head": 32, "intermediate_size": 256},
    "large": {"hidden_size": 384, "layers": 7, "heads": 6, "head": 64, "intermediate_size": 1024},
}


def widened(folder: Path, size: str) -> Path:
    """`builtin:chain` in a wider model that computes the same: its coordinates lie among others
    that are 0, and what is new gives 0 until it is trained."""
    to, source = SIZES[size], BUILTIN["chain"]
    narrow: Any = Qwen2ForCausalLM.from_pretrained(source)
    old: Any = narrow.config
    heads, groups, head = old.num_attention_heads, old.num_key_value_heads, to["head"]
    before = old.hidden_size // heads
    share = old.hidden_size / to["hidden_size"]  # of the coordinates that a norm averages over
    theta = old.rope_parameters["rope_theta"] ** (head / before)  # the same first frequencies
    changed = {
        "hidden_size": to["hidden_size"],
        "intermediate_size": to["intermediate_size"],
        "num_hidden_layers": to["layers"],
        "num_attention_heads": to["heads"],
        "layer_types": None,
        "rms_norm_eps": old.rms_norm_eps * share,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
    }
    torch.manual_seed(0)
    wide: Any = Qwen2ForCausalLM(Qwen2Config(**{**old.to_dict(), **changed}))

    half, pairs = torch.arange(before // 2), head // 2
    in_head = torch.cat([half, pairs + half])
    per, most = heads // groups, to["heads"] // groups
    queries = torch.cat([(h // per * most + h % per) * head + in_head for h in range(heads)])
    keys = torch.cat([h * head + in_head for h in range(groups)])
    hidden, inner = torch.arange(old.hidden_size), torch.arange(old.intermediate_size)
    rows = {"q_proj": queries, "k_proj": keys, "v_proj": keys, "gate_proj": inner, "up_proj": inner}
    columns = {"o_proj": queries, "down_proj": inner}
    state, known = wide.state_dict(), narrow.state_dict()
    for name, value in state.items():
        kind = name.split(".")[-2]
        if kind in ("o_proj", "down_proj", "embed_tokens", "lm_head"):
            value.zero_()
        if name not in known:
            continue
        if "norm" in kind:
            value[hidden] = known[name] * share**0.5
        elif kind in ("embed_tokens", "lm_head"):
            value[:, hidden] = known[name]
        else:
            into = rows.get(kind, hidden)
            scale = (head / before) ** 0.5 if kind == "q_proj" else 1.0
            for h in set((into // head).tolist()) if kind[0] in "qkv" else ():
                value[h * head : (h + 1) * head] = 0
            if value.ndim == 1:
                value[into] = known[name] * scale
            else:
                value[into] = 0
                value[into[:, None], columns.get(kind, hidden)[None]] = known[name] * scale
    ids = torch.randint(2, old.vocab_size, (4, 60))
    with torch.inference_mode():
        gap = (narrow(ids).logits - wide(ids).logits).abs().max()
    print(f"{size}: {wide.num_parameters():,} parameters, {gap:.1e} from builtin:chain", flush=True)
    wide.generation_config = GenerationConfig.from_pretrained(source)
    wide.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder
