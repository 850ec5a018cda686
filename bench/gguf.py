"""Does a run's GGUF answer in llama.cpp as the run does in ictcli, greedily?

    pip install cyllama
    python bench/gguf.py RUN LLAMA_CPP [--problems 64]

LLAMA_CPP is a folder of llama.cpp's source, whose converter runs on the export of RUN (`ictcli
export RUN --to gguf`). The converter knows the tokenizers of published models by a hash, and
llama.cpp wants a tokenizer to have merges; the built-in models' is of Qwen2's kind, unknown and
without any. So here alone the converter is told that an unknown tokenizer is Qwen2's, and a merge
is written that never applies. cyllama's wheel has llama.cpp in it, which keeps keys and values in
16 bits: take a trained model, as random weights have near ties. Exits with 1 if a problem of the
run's task has another answer.
"""

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.export.asked import asked_by
from ictcli.export.gguf import FOLDER, SCRIPT
from ictcli.export.make import export_model, trained_by
from ictcli.recipe import load_recipe
from ictcli.runs.trust import read_run
from ictcli.tasks.prepare import task_alone
from ictcli.tasks.prompts import tokens_of
from ictcli.types import Problem, Sampling

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
SHOWN = 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("llama_cpp", type=Path)
    parser.add_argument("--problems", type=int, default=64)
    options = parser.parse_args()
    trained = trained_by(options.run, None, None)
    task = task_alone(load_recipe(read_run(options.run)))
    problems = [*task.heldout(options.problems), *task.finite][: options.problems]
    with tempfile.TemporaryDirectory() as name:
        shim = Path(name) / SCRIPT
        shim.write_text(SHIM.format(folder=str(options.llama_cpp.resolve())), encoding="utf-8")
        os.environ[FOLDER] = name
        out = Path(name) / "made"
        export_model(trained, out, "gguf", "made")
        ours, theirs = answers(trained.engine(), options.run, problems, out / "model.gguf")
    other = [place for place, pair in enumerate(zip(ours, theirs, strict=True)) if len({*pair}) > 1]
    print(
        f"{options.run}: {len(problems) - len(other)} of {len(problems)} greedy answers are equal"
    )
    for place in other[:SHOWN]:
        print(f"{problems[place].prompt}\n  ictcli    {ours[place]}\n  llama.cpp {theirs[place]}")
    return int(bool(other))


def answers(
    engine: Engine, run: Path, problems: list[Problem], file: Path
) -> tuple[list[str], list[str]]:
    """The greedy answer to each problem by ictcli and by llama.cpp, which shows no end token."""
    asked = asked_by(run)
    pairs = [tokens_of(engine.tokenizer, p, asked.domain, asked.settings.prompt) for p in problems]
    sampling = Sampling(asked.max_tokens, 0.0, 1.0, 0, engine.stop_ids)
    rollouts = engine.generate([ids for _, ids in pairs], 1, sampling, 0)
    library: Any = importlib.import_module("cyllama")
    exact = {"temperature": 0.0, "repeat_penalty": 1.0, "n_gpu_layers": 0, "add_bos": False}
    model = library.LLM(str(file), max_tokens=asked.max_tokens, n_ctx=engine.context, **exact)
    texts = [
        engine.tokenizer.decode(
            [token for token in row[:length].tolist() if token not in engine.stop_ids],
            skip_special_tokens=True,
            clean_up_tokenization_spaces=False,
        )
        for row, length in zip(rollouts.tokens, rollouts.lengths, strict=True)
    ]
    return texts, [str(model(text)) for text, _ in pairs]


if __name__ == "__main__":
    sys.exit(main())
