"""Writes the folder of an export: adapters or a whole model, and the model card."""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ictcli.engine import Engine, build_engine
from ictcli.engine.adapters import FILES, in_layout, layout_of, read_config
from ictcli.engine.model_files import ASKED, drop_code, take, tokenizer_config
from ictcli.engine.models import ADAPTER_CONFIG, exported, locate, snapshot, typed_path
from ictcli.engine.older import older_names
from ictcli.errors import UserError
from ictcli.export.base import names_of
from ictcli.export.card import card
from ictcli.export.kept import Kept, measure
from ictcli.export.modelfile import write_modelfile
from ictcli.files import new_folder
from ictcli.files.reading import parse_json, read_text
from ictcli.recipe import Recipe, RecipeFile, load_recipe
from ictcli.recipe.tables import EngineSettings
from ictcli.runs.checkpoints import check_finished, pick, step_of
from ictcli.runs.folder import is_run
from ictcli.runs.model import asked_in, engine_at, engine_of
from ictcli.runs.origin import check_same, of_model
from ictcli.runs.public import base_of, is_public
from ictcli.runs.read import read_environment
from ictcli.runs.trust import read_run
from ictcli.text import command, shell_word

Layout = Literal["hf", "mlx", "ollama"]
CODED = "The model needs custom code, which is not exported; load the model with the code of {}."
OF_TRANSFORMERS_5 = "TokenizersBackend"
UNREAD = (
    f"transformers 4 cannot load the tokenizer: like the base model's, it names {OF_TRANSFORMERS_5}"
    ", a class of transformers 5."
)


@dataclass(frozen=True)
class Trained:
    """The weights that a run trained: its last weights, or a checkpoint's (`saved`)."""

    run: Path
    file: RecipeFile
    recipe: Recipe
    saved: Path | None
    settings: EngineSettings

    @property
    def base(self) -> str:
        """The base model of the run, from environment.json or else from the recipe."""
        return base_of({"model": self.recipe.model}, read_environment(self.run))

    @property
    def step(self) -> int | None:
        """The step of the checkpoint; None for the last weights."""
        return step_of(self.saved) if self.saved else None

    @property
    def adapter(self) -> Path | None:
        """The folder of the last adapters; None for a checkpoint or if all weights were trained."""
        return self.run / "adapter" if self.recipe.adapters and not self.saved else None

    def place(self, *, merge: bool) -> Path:
        """Return the default folder of an export; with `merge`, the folder of a whole model."""
        which = "model" if (merge if self.recipe.adapters else self.saved) else "export"
        return self.run / (f"{which}-{self.saved.name}" if self.saved else which)

    def engine(self) -> Engine:
        """Return an engine with these weights."""
        if self.saved:
            return engine_at(self.run, self.file.data, self.saved, self.settings)
        return engine_of(self.run, self.settings)

    def kept(self, folder: Path, *, whole: bool) -> Kept:
        """Return how much of training's effect the export in `folder` preserves."""
        environment = read_environment(self.run)
        typed = environment.typed(self.settings)  # training's dtype may round the base
        plain: dict[str, Any] = {"dtype": "float32", "load_in_4bit": False} if whole else {}

        def base() -> Engine:
            check_same(self.run, environment, of_model(self.recipe.model))
            return build_engine(locate(self.recipe.model, trains=True).path, typed)

        others = base, partial(build_engine, str(folder), typed.model_copy(update=plain))
        return measure(self.run, self.step, self.recipe, self.engine, others)

    @contextlib.contextmanager
    def adapters(self) -> Generator[Path]:
        """Yield a folder with the adapters; for a checkpoint it is temporary."""
        if self.adapter is not None:
            yield self.adapter
            return
        with tempfile.TemporaryDirectory() as name:
            self.engine().export_adapter(Path(name))
            yield Path(name)


def trained_by(run: Path, checkpoint: str | None, backend: str | None) -> Trained:
    """Return the trained weights of a run. UserError if it is unfinished or lacks `checkpoint`."""
    file = read_run(run)
    recipe = load_recipe(file)
    saved = pick(run, checkpoint) if checkpoint else None
    if not saved:
        check_finished(run, "adapter" if recipe.adapters else "model")
    settings = recipe.with_engine(backend=backend).engine if backend else recipe.engine
    return Trained(run, file, recipe, saved, settings)


def export_adapters(trained: Trained, out: Path, layout: Layout | None) -> Kept:
    """Write a run's adapters to `out`, unchanged if `layout` is None, and return how much of
    training's effect they preserve. Their config names a base model of the hub by its hub id."""
    with trained.adapters() as adapter, new_folder(out) as folder:
        present = layout_of(read_config(adapter))
        wanted = present if layout is None else "peft" if layout == "hf" else "mlx"
        blocks = _blocks(adapter, trained.run) if wanted == "mlx" else 0
        try:
            with in_layout(adapter, wanted, blocks) as source:
                take(source, folder, (ADAPTER_CONFIG, FILES[wanted]))
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"The adapters in {adapter} cannot be written for {layout or wanted}: {error}.",
                f"{command('export', trained.run, merge=True)} makes a whole model",
            ) from error
        kept = trained.kept(folder, whole=False)
        if is_public(trained.base, trained.run):
            key = "model" if wanted == "mlx" else "base_model_name_or_path"
            config = json.dumps({**read_config(folder), key: trained.base}, indent=2) + "\n"
            (folder / ADAPTER_CONFIG).write_text(config, encoding="utf-8")
        drop_code(folder)
        library = "mlx" if wanted == "mlx" else "hf"
        _describe(trained, folder, out.name, library, kept, adapter=True)
    return kept


def _blocks(adapter: Path, run: Path) -> int:
    """Return the number of blocks of the adapters' base model. UserError if it is unknown, or if
    the model's config has only names of transformers 5, which mlx-lm does not read."""
    source = locate(str(adapter)).path
    folder = snapshot(source)
    config: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        config = parse_json(read_text(folder / "config.json") if folder else "{}")
    if missing := sorted(name for name, value in older_names(config).items() if value is not None):
        raise UserError(
            f"mlx-lm may compute {source} differently than in training: its "
            f"config.json, written by transformers 5, has no {' and no '.join(missing)}.",
            f"{command('export', run, merge=True)} makes a whole model; --to hf makes "
            "adapters for peft",
        )
    for place in (config, config.get("text_config") or {}):
        for key in ("num_hidden_layers", "n_layer", "num_layers"):
            if isinstance(blocks := place.get(key), int):
                return blocks
    raise UserError(
        f"mlx-lm's layout needs the number of blocks of {source}, which is not known here.",
        f"hf download {shell_word(source)}",
    )


def export_model(trained: Trained, out: Path, layout: Layout | None) -> tuple[str, Kept]:
    """Write a whole model, which transformers and mlx-lm can load, to `out`: with adapters merged,
    or, without adapters, a copy of RUN/model. Return notes on what was not written (maybe empty),
    and how much of training's effect the model preserves."""
    with new_folder(out) as folder:
        if trained.saved or trained.adapter:
            with tempfile.TemporaryDirectory(dir=folder) as temporary:
                trained.engine().export(Path(temporary))
                take(Path(temporary), folder, by=shutil.move)
        else:
            take(Path(locate(str(trained.run / "model")).path), folder)
        notes = list[str]()
        if drop_code(folder) and trained.settings.trust_remote_code:
            notes.append(CODED.format(names_of(trained.base, trained.run)[0]))
        if tokenizer_config(folder).get("tokenizer_class") == OF_TRANSFORMERS_5:
            notes.append(UNREAD)
        if layout == "ollama" and (note := write_modelfile(trained.run, folder)):
            notes.append(note)
        kept = trained.kept(folder, whole=True)
        _describe(trained, folder, out.name, layout or "hf", kept, adapter=False)
    return " ".join(notes), kept


def merge_base(model: str, say: Callable[[str], None]) -> None:
    """If `model` is a run with unmerged adapters, merge them into RUN/model, to train from it."""
    run = typed_path(model)
    if is_run(run) and exported(run, whole=True) == run / "adapter":
        say(f"merging the adapters of {run} into {run / 'model'}")
        export_model(trained_by(run, None, None), run / "model", None)


def _describe(
    trained: Trained, folder: Path, name: str, layout: Layout, kept: Kept, *, adapter: bool
) -> None:
    """Write the model card, and the file with the prompt and sampling settings of the run."""
    title = trained.run.name if folder.parent == trained.run else name
    about: dict[str, Any] = {"layout": layout, "step": trained.step, "kept": kept.sentence}
    text = card(trained.run, name, title, adapter=adapter, **about)
    (folder / "README.md").write_text(text, encoding="utf-8")
    (folder / ASKED).write_text(asked_in(trained.recipe, folder), encoding="utf-8")
