"""Recipes and model shapes to estimate."""

from typing import Any

from hypothesis import strategies as st

from ictcli.engine.shape import ModelShape
from ictcli.recipe import Recipe, check

QWEN = ModelShape("qwen2", 24, 896, 14, 896, 128, 4864, 151_936, 32768, tied=True)
"""Qwen2.5-0.5B."""

shapes = st.builds(
    lambda layers, heads, head_dim, ratio, vocabulary, tied, bits: ModelShape(
        *("qwen2", layers, heads * head_dim, heads, heads * head_dim, heads // 2 * head_dim),
        *(ratio * heads * head_dim, vocabulary, 32768, tied, bits),
    ),
    st.integers(1, 30),
    st.sampled_from([2, 8, 14]),
    st.sampled_from([32, 64, 128]),
    st.integers(2, 6),
    st.sampled_from([100, 5000, 151_936]),
    st.booleans(),
    st.sampled_from([0, 4]),
)
engines = st.fixed_dictionaries(
    {
        "backend": st.sampled_from(["mlx", "torch"]),
        "device": st.sampled_from(["cpu", "gpu"]),
        "micro_tokens": st.sampled_from([1, 300, 1024, 2048, 8192]),
        "gradient_checkpointing": st.booleans(),
        "dtype": st.sampled_from(["auto", "float32", "bfloat16"]),
        "rows": st.sampled_from([1, 7, 64, 512]),
    }
)
tables = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["ict", "grpo", "entropy20", "frequent"]),
        "prompts": st.integers(1, 32),
        "group": st.sampled_from([2, 8]),
        "max_tokens": st.sampled_from([20, 500, 3000]),
        "warmup": st.sampled_from([0, 5]),
        "kl": st.sampled_from([0.0, 0.1]),
        "entropy": st.sampled_from([0.0, 0.1]),
        "adapter": st.sampled_from([{}, {"kind": "lora", "layers": 1}]),
        "engine": engines,
    }
)


def recipe_of(**settings: Any) -> Recipe:
    """A recipe of one step on the MLX engine; `settings` override."""
    engine = {"backend": "mlx", **settings.pop("engine", {})}
    fixed = {"model": "builtin:chain", "task": "chain", "method": "grpo", "steps": 1}
    return check({**fixed, **settings, "engine": engine}, "test")


def recipe_with(table: dict[str, Any], **settings: Any) -> Recipe:
    return recipe_of(**{**table, "engine": {**table["engine"], **settings}})
