"""Do other programs answer as ictcli does, greedily, with what `ictcli export` makes of a run?

    python bench/exports.py MODEL [--llama FOLDER PYTHON] [--old PYTHON] [--questions 16]

MODEL is a model's folder, or qwen2.5, qwen3, llama3 or gemma3 for a random one of that kind. A few
supervised steps train adapters on it; transformers, peft and mlx-lm read the exports, all in
float32. FOLDER is llama.cpp's source, for its converter, and PYTHON one with llama-cpp-python or
cyllama; --old is one with transformers 4. Each renders the messages itself, with the template and
the beginning-of-text token that it finds. A text that differs is shown with the least gap between
the logits of two tokens in ictcli's: random weights have near ties, and llama.cpp keeps keys and
values in 16 bits. Exits with 1 if a program answers otherwise, or fails without a note.

The converter knows the tokenizers of published models by a hash. Here alone it is told that an
unknown one is Qwen2's, and a merge that never applies is written where there is none.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHIM = """import sys
sys.path[0:1] = [{folder!r}, {folder!r} + "/gguf-py"]
import gguf
from conversion.base import TextModel
known, load = TextModel.get_vocab_base_pre, gguf.SpecialVocab._load
def named(self, tokenizer):
    try:
        return known(self, tokenizer)
    except NotImplementedError:
        return "qwen2"
def loaded(self, path):
    load(self, path)
    self.merges = self.merges or ["<pad> <pad>"]
TextModel.get_vocab_base_pre, gguf.SpecialVocab._load = named, loaded
import convert_hf_to_gguf
convert_hf_to_gguf.main()
"""
TOKENS, STEPS = 24, 60
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
    "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>"
    "assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m.role == 'assistant' else "
    "m.role }}\n{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}"
    "<start_of_turn>model\n{% endif %}"
)
QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
OF_LLAMA = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
OF_GEMMA = ("<pad>", "<bos>", "<start_of_turn>", "<end_of_turn>")
OF_HEADS = {"head_dim": 16, "query_pre_attn_scalar": 16}
STAND_INS: dict[str, tuple[str, tuple[str, ...], str, str | None, str, dict[str, Any]]] = {
    "qwen2.5": ("Qwen2", QWEN, CHATML, None, "<|im_end|>", {}),
    "qwen3": ("Qwen3", QWEN, CHATML, None, "<|im_end|>", {"head_dim": 16}),
    "llama3": ("Llama", OF_LLAMA, LLAMA, "<|begin_of_text|>", "<|eot_id|>", {}),
    "gemma3": ("Gemma3Text", OF_GEMMA, GEMMA, "<bos>", "<end_of_turn>", OF_HEADS),
}
"""transformers' name, special tokens, chat template, begin and end of a text, more settings."""


def stand_in(kind: str, folder: Path) -> None:
    """Write a random model of a kind, with a tokenizer of bytes, as transformers writes it."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    name, special, template, bos, eos, more = STAND_INS[kind]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {token: id_ for id_, token in enumerate([*special, *letters])}
    plain = Tokenizer(models.BPE(vocab=ids, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.add_special_tokens([*special])
    if bos:
        plain.post_processor = processors.TemplateProcessing(
            f"{bos} $A", f"{bos} $A $B", [(bos, ids[bos])]
        )
    folder.mkdir()
    plain.save(str(folder / "tokenizer.json"))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": eos,
        "pad_token": special[0],
    }
    about |= {"chat_template": template} | ({"bos_token": bos} if bos else {})
    about |= {"add_bos_token": True} if kind == "gemma3" else {}
    about |= {"model_input_names": ["input_ids", "attention_mask"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    torch.manual_seed(0)
    layers, rope = 6, {"rope_type": "default", "rope_theta": 5e5}
    if kind == "gemma3":
        local = {"rope_type": "default", "rope_theta": 1e4}
        more = more | {"rope_parameters": {"full_attention": rope, "sliding_attention": local}}
    config = getattr(transformers, f"{name}Config")(
        **{"rope_parameters": rope, "max_position_embeddings": 512} | more,
        vocab_size=len(ids),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        bos_token_id=ids[bos] if bos else None,
        eos_token_id=ids[eos],
        pad_token_id=0,
        initializer_range=0.2,
    )
    family = name.removesuffix("Text")
    getattr(transformers, f"{family}ForCausalLM")(config).save_pretrained(folder)


def read(program: str, folder: str, base: str, chats: list[Any]) -> list[str]:
    """The greedy answer of a program to each chat. `folder` is a model, or with `base` adapters."""
    if program == "llama.cpp":
        return read_gguf(folder, chats)
    if program == "mlx-lm":
        import mlx.core as mx
        import mlx_lm

        mx.set_default_device(mx.Device(mx.cpu))
        model, tokenizer = mlx_lm.load(base or folder, adapter_path=folder if base else None)[:2]
        model.set_dtype(mx.float32)
        shown = [tokenizer.apply_chat_template(x, add_generation_prompt=True) for x in chats]
        return [mlx_lm.generate(model, tokenizer, ids, max_tokens=TOKENS) for ids in shown]
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    whole: Any = AutoModelForCausalLM.from_pretrained(base or folder, dtype=torch.float32)
    if base:
        whole = importlib.import_module("peft").PeftModel.from_pretrained(whole, folder)
    tokenizer = AutoTokenizer.from_pretrained(base or folder)
    texts: list[str] = []
    for chat in chats:
        ids = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        out = whole.generate(**ids, max_new_tokens=TOKENS, do_sample=False)[0]
        texts.append(tokenizer.decode(out[ids["input_ids"].shape[1] :], skip_special_tokens=True))
    return texts


def read_gguf(file: str, chats: list[Any]) -> list[str]:
    try:
        library: Any = importlib.import_module("llama_cpp")
    except ImportError:
        library = importlib.import_module("cyllama")
        settings: dict[str, Any] = {"temperature": 0.0, "repeat_penalty": 1.0}
        settings |= {"max_tokens": TOKENS, "add_bos": False}  # the chat template writes it
        model = library.LLM(file, n_ctx=512, n_gpu_layers=0, **settings)
        return [str(model.chat(chat)) for chat in chats]
    model = library.Llama(file, n_ctx=512, type_k=0, type_v=0, verbose=False)  # 0: float32
    answers = [
        model.create_chat_completion(chat, max_tokens=TOKENS, temperature=0, repeat_penalty=1)
        for chat in chats
    ]
    return [answer["choices"][0]["message"]["content"] for answer in answers]


def train(model: str, folder: Path) -> Path:
    """A run of supervised steps on sums, in words, of which adapters learn something anywhere."""
    for name, first in (("train", 2), ("test", 7)):
        sums = [(a, b) for a in range(first, first + 5) for b in range(2, 12)]
        rows = [{"prompt": f"What is {a} and {b}?", "gold": str(a + b)} for a, b in sums]
        rows = [row | {"response": f"I say that is {row['gold']}."} for row in rows]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text)
    keys = f"model={model} task=train.jsonl eval.bench=test.jsonl steps=0 sft.data=train.jsonl"
    keys += f" sft.steps={STEPS} sft.batch=8 sft.lr=3e-3 adapter.kind=lora adapter.rank=8"
    keys += f" engine.backend=torch engine.dtype=float32 max_tokens={TOKENS} prompt.suffix="
    keys += " eval.problems=1 eval.n=1 eval.k=1"
    call(folder, "train", "grpo", *keys.split(), "--run", "run")
    return folder / "run"


def call(folder: Path, *args: str) -> str:
    """What ictcli says. CalledProcessError where it fails."""
    command = [sys.executable, "-m", "ictcli", *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(" ".join(done.stderr.split("error: ")[-1].split()))
    return "".join(line + "\n" for line in done.stderr.splitlines() if line.startswith("note: "))


def ours(run: Path, questions: list[str]) -> tuple[list[Any], list[tuple[str, float]]]:
    """The chats that a run puts questions in, and its own greedy answers, each with the least gap
    between the logits of its tokens and of the next likely ones."""
    from dataclasses import replace

    import numpy as np

    from ictcli.export.card import asked_by
    from ictcli.export.make import trained_by
    from ictcli.tasks.prompts import tokens_of
    from ictcli.types import Problem, Sampling

    asked, engine = asked_by(run), trained_by(run, None, None).engine()
    tokenizer: Any = engine.tokenizer
    prompt = asked.settings.prompt
    problems = [Problem("shown", question, "") for question in questions]
    ids = [tokens_of(tokenizer, problem, asked.domain, prompt)[1] for problem in problems]
    rollouts = engine.generate(ids, 1, Sampling(TOKENS, 0.0, 1.0, 0, engine.stop_ids), 0)
    best = np.sort(engine.logits(rollouts, rollouts.valid), axis=1)[:, -2:]
    ends = np.cumsum(rollouts.lengths)[:-1]
    gaps = [float(part.min()) for part in np.split(best[:, 1] - best[:, 0], ends)]
    rows = zip(rollouts.tokens, rollouts.lengths, strict=True)
    texts = [tokenizer.decode(row[:end].tolist(), skip_special_tokens=True) for row, end in rows]
    chats = [replace(asked, question=question).shown(chats=True) for question in questions]
    return chats, [*zip(texts, gaps, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--llama", nargs=2, metavar=("FOLDER", "PYTHON"))
    parser.add_argument("--old", metavar="PYTHON")
    parser.add_argument("--questions", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, model = Path(name), options.model
        if model in STAND_INS:
            stand_in(model, folder / "model")
            model = str(folder / "model")
        else:
            model = str(Path(model).resolve())
        run = train(model, folder)
        questions = [f"What is {n} and {n + 7}?" for n in range(options.questions)]
        chats, answers = ours(run, questions)
        here, merged = sys.executable, ("--merge",)
        table = [
            ("transformers", here, merged, ""),
            ("peft", here, ("--to", "hf"), model),
            ("mlx-lm", here, merged, ""),
            ("mlx-lm", here, ("--to", "mlx"), model),
        ]
        table += [("transformers 4", options.old, merged, "")] if options.old else []
        if options.llama:
            (folder / "convert_hf_to_gguf.py").write_text(
                SHIM.format(folder=str(Path(options.llama[0]).resolve()))
            )
            table.append(("llama.cpp", options.llama[1], merged, ""))
        return int(show(folder, table, chats, answers) > 0)


def show(folder: Path, table: list[Any], chats: list[Any], ours: list[Any]) -> int:
    """Print a line for each program, and where its texts differ from `ours`, of which each has a
    gap; returns how many programs differ or fail."""
    print(f"ictcli says {len({text for text, _ in ours})} different texts to {len(ours)} questions")
    wrong = 0
    for number, (program, python, args, base) in enumerate(table):
        label, out = f"{program:14} {' '.join(args):16}", f"out{number}"
        try:
            note = call(folder, "export", "run", *args, "--out", out)
        except RuntimeError as error:
            print(f"{label} refused: {error}")
            continue
        place = str(folder / out)
        if program == "llama.cpp":
            converter = [sys.executable, str(folder / "convert_hf_to_gguf.py"), place]
            place += ".gguf"
            subprocess.run([*converter, "--outfile", place], check=True, capture_output=True)
        asked = json.dumps([program, place, base, chats])
        command = [python, str(Path(__file__).resolve()), "--read"]
        done = subprocess.run(command, input=asked, capture_output=True, text=True)
        if done.returncode:
            print(f"{label} fails: {done.stderr.strip().splitlines()[-1][:200]} {note}")
            wrong += not note
            continue
        texts = json.loads(done.stdout.strip().splitlines()[-1])
        pairs = [(a, b, gap) for (a, gap), b in zip(ours, texts, strict=True)]
        other = [pair for pair in pairs if pair[0].strip() != pair[1].strip()]
        print(f"{label} {len(pairs) - len(other)} of {len(pairs)} greedy texts are ictcli's {note}")
        for a, b, gap in other[:3]:
            print(f"    ictcli {a!r} (least gap {gap:.4f})\n    other  {b!r}")
        wrong += bool(other)
    return wrong


if __name__ == "__main__":
    if sys.argv[1:] == ["--read"]:
        print("\n" + json.dumps(read(*json.load(sys.stdin))))
        sys.exit()
    sys.exit(main())
