"""Settings of config.json that other libraries read, and transformers 5 no longer writes."""

from typing import Any, cast

OLDER = {
    "lfm2": ("block_dim",),
    "qwen3_moe": ("num_experts",),
    "glm4_moe": ("head_dim",),
    "gemma3_text": ("sliding_window_pattern",),
}
"""Settings that mlx-lm reads and transformers 5 does not write, by model type."""


def older_names(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings to add to a config.json of transformers 5, for libraries that read the
    older names. Without them mlx-lm rejects some models, and silently uses defaults for others."""
    settings = _rope_settings(config)
    full = [kind == "full_attention" for kind in config.get("layer_types") or ()]
    every = full.index(True) + 1 if True in full else 0
    periodic = every and all(is_full == (n % every == 0) for n, is_full in enumerate(full, 1))
    heads = config.get("num_attention_heads")
    derived = {
        "block_dim": config.get("hidden_size"),
        "num_experts": config.get("num_local_experts"),
        "head_dim": config.get("hidden_size", 0) // heads if heads else None,
        "sliding_window_pattern": every if periodic else None,
    }
    names = OLDER.get(config.get("model_type", ""), ())
    settings |= {name: derived[name] for name in names if derived[name] is not None}
    settings = {name: value for name, value in settings.items() if name not in config}
    text: dict[str, Any] = config.get("text_config") or {}  # of a multimodal model
    inner = older_names(text) if text else {}
    return settings | ({"text_config": text | inner} if inner else {})


def _rope_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the rotary settings by their older names, from transformers 5's `rope_parameters`."""
    rope = cast(dict[str, Any], config.get("rope_parameters") or {})
    settings: dict[str, Any] = {}
    if "full_attention" in rope:  # settings by kind of layer
        settings["rope_local_base_freq"] = rope.get("sliding_attention", {}).get("rope_theta", 1e4)
        rope = rope["full_attention"]
    if "rope_theta" in config or "rope_theta" not in rope:
        return {}
    names = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings")
    settings |= {name: rope[name] for name in names if name in rope}
    scaled = rope.get("rope_type", "default") != "default"
    return settings | {"rope_scaling": {"type": rope["rope_type"], **rope} if scaled else None}
