"""The tokenizer of a recorded rollout."""

from pathlib import Path
from typing import Any, cast

from ictcli.engine.models import locate, snapshot
from ictcli.errors import UserError
from ictcli.inspect.recorded import RecordedStep
from ictcli.tasks.detokenize import Decode
from ictcli.tasks.forks import Decided, built_in, decided


def decoder(
    recorded: RecordedStep, model: str | None = None, *, plain: bool = False
) -> Decode | None:
    """Decodes with the tokenizer of `model`, by default the run's, without special tokens if
    `plain`; None where it is not on this machine.

    A tokenizer.json is read without transformers, which takes seconds to import.
    """
    folder = _tokenizer_folder(recorded, model)
    if folder is None:
        return None
    try:
        if (folder / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            fast = Tokenizer.from_file(str(folder / "tokenizer.json"))
            return lambda ids: fast.decode(list(ids), skip_special_tokens=plain)
        from transformers import AutoTokenizer

        slow = cast(Any, AutoTokenizer).from_pretrained(folder, local_files_only=True)
        return lambda ids: slow.decode(
            list(ids), skip_special_tokens=plain, clean_up_tokenization_spaces=False
        )
    except Exception:  # a tokenizer that cannot be read raises anything; ids are shown instead
        return None


def decisions(recorded: RecordedStep, model: str | None = None) -> Decided | None:
    """What the choices of a step's responses came to; None where the task or the tokenizer is not
    known."""
    domain, batch = built_in(recorded.recipe.task), recorded.batch
    decode = decoder(recorded, model, plain=True) if domain else None
    if domain is None or decode is None:
        return None
    return decided(domain, batch.problems, batch.rollouts, decode)


def _tokenizer_folder(recorded: RecordedStep, model: str | None) -> Path | None:
    run = recorded.recordings.run
    if model is None and run and (run / "model" / "tokenizer.json").is_file():
        return run / "model"
    try:
        name = model or recorded.recipe.model
        return snapshot(locate(name).path) if name else None
    except UserError:
        if model is not None:
            raise
        return None
