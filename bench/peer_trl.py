"""TRL's GRPOTrainer as `peers_torch.py` times it; run by the Python that TRL is installed in."""

import argparse
import json
import resource
import sys
import time
import warnings
from functools import partial
from typing import Any

RANK = 16


def prompts_of(a: argparse.Namespace) -> list[str]:
    texts = (f"{n}+{n * 7 % 83}=" * a.prompt for n in range(11, 11 + a.prompts))
    return [text[: a.prompt] for text in texts]


class Clock:
    """Says what a turn took: wall and CPU seconds, those of sampling (wall seconds on a GPU), and
    the peak of memory, the GPU's where there is one."""

    def __init__(self, device: str) -> None:
        self.on_gpu = device != "cpu"
        self.start()

    def start(self) -> None:
        self.sampling = 0.0
        self.began = time.perf_counter(), time.process_time()

    def now(self) -> float:
        if not self.on_gpu:
            return time.process_time()
        import torch

        torch.cuda.synchronize()
        return time.perf_counter()

    def stop(self) -> None:
        self.now()
        wall, cpu = time.perf_counter() - self.began[0], time.process_time() - self.began[1]
        update = (wall if self.on_gpu else cpu) - self.sampling
        took = {"wall": wall, "cpu": cpu, "sampling": self.sampling, "update": update}
        took["peak"] = self.peak()
        print("turn " + json.dumps(took), flush=True)

    def peak(self) -> float:
        if self.on_gpu:
            import torch

            return torch.cuda.max_memory_allocated() / 1e9
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024) / 1e9


def trl(folder: str, a: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore")
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder, eos_token="#")
    rows = a.prompts * a.group
    at_once = min(rows, a.trl_rows or rows)
    end = {"suppress_tokens": [tokenizer.eos_token_id]}
    by_vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.3}
    config = GRPOConfig(
        output_dir=folder + "/trl",
        use_cpu=a.device == "cpu",
        per_device_train_batch_size=at_once,
        gradient_accumulation_steps=rows // at_once,
        num_generations=a.group,
        max_completion_length=a.tokens,
        max_steps=a.rounds + 1,
        learning_rate=1e-4,
        lr_scheduler_type="constant",
        beta=0.0,
        temperature=1.0,
        bf16=a.dtype == "bfloat16",
        gradient_checkpointing=False,
        generation_kwargs={"ignore_eos": True} if a.vllm else end,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=False,
        **(by_vllm if a.vllm else {}),
    )
    lora: Any = LoraConfig(
        r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    clock = Clock(a.device)
    if a.vllm and a.device == "cpu":
        mend_vllm_on_cpu(a.dtype)

    class Timed(GRPOTrainer):
        def _generate(self, *args: Any, **options: Any) -> Any:
            began = clock.now()
            completions = super()._generate(*args, **options)
            clock.sampling += clock.now() - began
            return completions

    class Turns(TrainerCallback):
        def on_step_begin(self, *args: Any, **options: Any) -> None:
            sys.stdin.readline()
            clock.start()

        def on_step_end(self, *args: Any, **options: Any) -> None:
            clock.stop()

    data = [{"prompt": text} for text in prompts_of(a)] * (a.rounds + 2)
    trainer = Timed(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, a.dtype)),
        args=config,
        reward_funcs=lambda completions, **columns: [float(len(c) % 2) for c in completions],
        train_dataset=Dataset.from_list(data),
        processing_class=tokenizer,
        callbacks=[Turns()],
        peft_config=None if a.full else lora,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()


def mend_vllm_on_cpu(dtype: str) -> None:
    """TRL 1.16 gives vLLM no dtype, and fails to send weights to the layers that vLLM 0.32 packs on
    a CPU, as it drops what it packed: have it keep them, and pack them again when they are sent."""
    from trl.generation import vllm_generation
    from vllm.model_executor.layers import utils

    trl: Any = vllm_generation
    pack: Any = utils.dispatch_cpu_unquantized_gemm
    layers: list[Any] = []

    def keep(layer: Any, remove_weight: bool) -> None:
        pack(layer, remove_weight=False)
        layers.append(layer)

    send = trl.VLLMGeneration.sync_weights

    def send_and_pack(generation: Any) -> None:
        send(generation)
        for layer in layers:
            pack(layer, remove_weight=False)

    utils.dispatch_cpu_unquantized_gemm = keep
    trl.VLLMGeneration.sync_weights = send_and_pack
    trl.LLM = partial(trl.LLM, dtype=dtype, enforce_eager=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("prompt", "tokens", "rounds", "prompts", "group", "trl-rows"):
        parser.add_argument(f"--{option}", type=int, required=True)
    for option in ("folder", "device", "dtype"):
        parser.add_argument(f"--{option}", required=True)
    for option in ("full", "vllm"):
        parser.add_argument(f"--{option}", action="store_true")
    a = parser.parse_args()
    trl(a.folder, a)


if __name__ == "__main__":
    main()
