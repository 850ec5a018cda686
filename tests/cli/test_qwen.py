"""The paper's recipe, with LoRA, on a model of Qwen2.5's form: a chat template, byte-level BPE, a
vocabulary larger than the tokenizer's, two special tokens that end a response."""

import json
from pathlib import Path

import pytest
from processes import Processes
from qwen import make_qwen
from safetensors.numpy import load_file

from ictcli.engine import is_installed
from ictcli.runs import Run
from tests.cases import first

PAPER = Path(__file__).parents[2] / "recipes" / "qwen2.5-0.5b-gsm8k.toml"
PARITY = Path(__file__).with_name("parity.py")
STEPS = 4


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and forty questions."""
    folder = tmp_path_factory.mktemp("qwen")
    make_qwen(folder / "model")
    rows = ({"prompt": f"What is {n} + {n % 7}?", "gold": str(n + n % 7)} for n in range(40))
    (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def command(backend: str, run: str) -> tuple[str | Path, ...]:
    return (
        *("train", PAPER, "model=model", "task=sums.jsonl", f"plugins=['{PARITY}']"),
        *("reward=parity", "prompts=2", "group=4", "max_tokens=12", f"steps={STEPS}", "warmup=1"),
        *("lr=0.01", "update.minibatch=2", "eval.problems=4"),
        *("eval.n=1", "eval.k=[1]"),
        *("adapter.kind=lora", "adapter.rank=4", "prompt.system=Be brief."),
        *("--backend", backend, "--run", run),
    )


@pytest.mark.parametrize("backend", first(["mlx", "torch"]))
def test_the_papers_recipe_trains_with_lora(ictcli: Processes, home: Path, backend: str) -> None:
    if not is_installed(backend):
        pytest.skip(f"no {backend}")
    ictcli.done(*command(backend, backend), folder=home)
    metrics = Run(home / backend).metrics()
    assert len(metrics) == STEPS and any((step.grad_norm or 0) > 0 for step in metrics)
    assert (metrics[-1].kl or 0) > 0, "the reference is the model without its adapters"
    adapters = load_file(next((home / backend / "adapter").glob("*.safetensors")))
    assert any(abs(value).max() > 0 for name, value in adapters.items() if "lora_b" in name.lower())
