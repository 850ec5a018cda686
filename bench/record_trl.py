"""Record what TRL's GRPOTrainer computes as its loss, so that tests need no TRL.

    pip install torch==2.13.0 trl transformers datasets accelerate
    OMP_NUM_THREADS=1 python bench/record_trl.py      # writes tests/golden/trl_losses.json

Every number is TRL's own: a real GRPOTrainer is built for each case and its `compute_loss` called.
Replaced are only the model's forward pass (`_get_per_token_logps_and_entropies` returns a leaf
tensor, so that autograd stops at the log-probabilities) and the batch (fixed tensors).
All is float64; the inputs are multiples of 2**-10, hence exact in float32 as well. The whole batch
is one micro-batch on one process, so num_items_in_batch is the batch's own token count and no
gradient-accumulation factor remains. Shapes: B rollouts, T completion tokens, right-padded.
Padding positions hold ordinary values, so a loss that forgets the mask gives another number.
"""

import json
import os
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "TRL_EXPERIMENTAL_SILENCE": "1"}

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import GRPOConfig, GRPOTrainer

LENGTHS = [7, 5, 2, 6, 1, 4]  # completion tokens of each rollout (B=6, T=7); halves differ
ADVANTAGES = [1.0, -0.75, -0.5, 1.25, 0.0, -0.625]  # not centred: else on-policy grpo is 0
MAX_COMPLETION_LENGTH = 16  # not T, so that dr_grpo's constant shows in the number
GRID = 2**-10
LOSS_TYPES = ["grpo", "dapo", "dr_grpo", "bnpo"]
# old, ref: whether TRL was given old_logps, ref_logps. kl_times_ratio: use_bias_correction_kl, by
# which each token's k3 is multiplied by its unclipped ratio (TRL's default; not in the GRPO paper).
CLIP = {"old": True, "ref": False, "eps_low": 0.2, "eps_high": 0.28, "beta": 0.0}
CLIP["kl_times_ratio"] = False
SETUPS = {
    "on_policy": CLIP | {"old": False, "eps_high": 0.2},
    "clip": CLIP,
    "clip_kl": CLIP | {"ref": True, "beta": 0.04},
    "clip_kl_ratio": CLIP | {"ref": True, "beta": 0.04, "kl_times_ratio": True},
}


def fixed_inputs():
    """Log-probabilities (B, T) of the current, old and reference policy, advantages, mask."""
    rng = np.random.default_rng(149)  # a draw that takes both branches of min and clip
    shape = (len(LENGTHS), max(LENGTHS))

    def on_grid(values):
        return np.round(values / GRID) * GRID

    logps = on_grid(-rng.exponential(1.0, shape) - 0.05)
    old = np.minimum(on_grid(logps - rng.normal(0.0, 0.35, shape)), -GRID)
    ref = np.minimum(on_grid(logps + rng.normal(0.0, 0.3, shape)), -GRID)
    mask = (np.arange(shape[1]) < np.array(LENGTHS)[:, None]).astype(np.int64)

    # A ratio on the clip's edge would make the gradient a matter of rounding: keep clear of it.
    edges = np.log([1 - CLIP["eps_low"], 1 + CLIP["eps_high"]])
    assert np.abs((logps - old)[..., None] - edges).min() > 0.01
    assert all((v == v.astype(np.float32)).all() and (v < 0).all() for v in (logps, old, ref))
    arrays = {"logps": logps, "old_logps": old, "ref_logps": ref, "mask": mask}
    return {key: values.tolist() for key, values in arrays.items()} | {"advantages": ADVANTAGES}


def save_tiny_model(folder):
    """A Qwen2 of a few thousand weights: TRL wants a model, though its output is never used."""
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    vocab = {token: i for i, token in enumerate(special.values())}
    words = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)
    sizes = {"vocab_size": 3, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = Qwen2Config(**sizes, num_attention_heads=1, num_key_value_heads=1, pad_token_id=0)
    Qwen2ForCausalLM(config).save_pretrained(folder)


def record(folder, inputs, loss_type, name):
    """One case: TRL's loss, and its gradient (B, T) with respect to `logps`."""
    setup = SETUPS[name]
    args = GRPOConfig(
        output_dir=f"{folder}/out",
        loss_type=loss_type,
        beta=setup["beta"],
        epsilon=setup["eps_low"],
        epsilon_high=setup["eps_high"],
        use_bias_correction_kl=setup["kl_times_ratio"],
        per_device_train_batch_size=len(LENGTHS),
        gradient_accumulation_steps=1,
        num_generations=3,
        max_completion_length=MAX_COMPLETION_LENGTH,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model=folder,
        args=args,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=Dataset.from_list([{"prompt": "<unk>"}]),
    )
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = 1  # the training loop's job, which does not run

    logps = torch.tensor(inputs["logps"], dtype=torch.float64, requires_grad=True)
    forward = (logps, torch.zeros_like(logps), None)  # log-probabilities, entropies, MoE loss
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: forward
    mask = torch.tensor(inputs["mask"])
    batch = {
        "prompt_ids": torch.full((len(LENGTHS), 1), 2),
        "prompt_mask": torch.ones(len(LENGTHS), 1, dtype=torch.long),
        "completion_ids": torch.full_like(mask, 2),
        "completion_mask": mask,
        "advantages": torch.tensor(inputs["advantages"], dtype=torch.float64),
        "num_items_in_batch": mask.sum(),
    }
    for key in filter(setup.get, ("old", "ref")):
        batch[f"{key}_per_token_logps"] = torch.tensor(inputs[f"{key}_logps"], dtype=logps.dtype)
    loss = trainer.compute_loss(trainer.model, batch)
    loss.backward()

    assert trainer.accelerator.num_processes == args.steps_per_generation == 1
    case = {"name": f"{loss_type}-{name}", "loss_type": loss_type, **setup, "loss": loss.item()}
    logged = trainer._metrics["train"]  # what TRL reports: means over the batch's tokens
    wanted = ("kl", "clip_ratio/low_mean", "clip_ratio/high_mean")
    metrics = {key: logged[key][0] for key in wanted if key in logged}
    return case | {"metrics": metrics, "grad": logps.grad.tolist()}


def main():
    torch.set_num_threads(1)
    inputs = fixed_inputs()
    with tempfile.TemporaryDirectory() as folder:
        save_tiny_model(folder)
        cases = [record(folder, inputs, kind, name) for kind in LOSS_TYPES for name in SETUPS]
    versions = {name: version(name) for name in ("trl", "torch", "transformers", "numpy")}
    ones = ("num_processes", "current_gradient_accumulation_steps", "steps_per_generation")
    lengths = {"num_items_in_batch": sum(LENGTHS), "max_completion_length": MAX_COMPLETION_LENGTH}
    normalisers = lengths | dict.fromkeys(ones, 1)
    golden = {"versions": versions, "normalisers": normalisers, "inputs": inputs, "cases": cases}
    text = json.dumps(golden, indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda row: " ".join(row[0].split()), text)  # a line per row
    (Path(__file__).parents[1] / "tests/golden/trl_losses.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
