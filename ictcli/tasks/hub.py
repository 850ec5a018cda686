"""Rows read with the library `datasets`: from the Hugging Face hub at pinned commits, and from
folders that `save_to_disk` wrote."""

import contextlib
import hashlib
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ictcli.engine.hub import answers, silence
from ictcli.errors import UserError, reason_of
from ictcli.files.reading import check_file, limited_memory
from ictcli.rows import BATCH, LARGEST, Row, Rows, in_memory, too_large, unfolded

COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class HubSource:
    """A data set of the hub: one split of each config, in order."""

    path: str
    revision: str | None
    """Commit, branch or tag to load; None = the newest commit."""
    configs: tuple[str, ...]
    """Names of configs; an empty name = the only config."""
    split: str
    gated: bool = False
    """Whether a user must accept the data set's terms before loading it."""

    @property
    def page(self) -> str:
        """The URL of the data set's page on the hub."""
        return f"https://huggingface.co/datasets/{self.path}"


class ElsewhereError(UserError):
    """A data set is on the hub, which is not used within `files_alone`."""


_stay: ContextVar[bool] = ContextVar("stay", default=False)


@contextlib.contextmanager
def files_alone() -> Generator[None]:
    """Within the context, raise ElsewhereError instead of loading a data set from the hub."""
    token = _stay.set(True)
    try:
        yield
    finally:
        _stay.reset(token)


def load(source: HubSource) -> Rows:
    """Return the rows of a hub data set, loaded by `datasets`, which caches them. A note names the
    commit if it is not the pinned one. UserError if the data set cannot be loaded."""
    if _stay.get():
        raise ElsewhereError(f"The data set {source.path} is on the hub, which is not used here.")
    try:
        parts = [_config(source, config) for config in source.configs]
    except Exception as error:
        raise _refusal(source, error) from error
    used = ", ".join(sorted({commit or "unknown" for _, commit in parts}))
    notes: tuple[str, ...] = ()
    if source.revision is None:
        notes = (
            f"No revision of {source.path} is pinned: the newest, {used}, was used "
            "(set hub.revision to pin it).",
        )
    elif used != source.revision and COMMIT.fullmatch(source.revision):
        notes = (f"{source.path} was loaded at revision {used}, not {source.revision}.",)
    rows = in_memory(
        source.path,
        (
            Row(f"{source.path}, {config or source.split}, row", number, columns, config)
            for config, (data, _) in zip(source.configs, parts, strict=True)
            for number, columns in enumerate(data)
        ),
    )
    config = source.configs[0] or "default" if len(source.configs) == 1 else list(source.configs)
    where = {"path": source.path, "config": config, "split": source.split, "revision": used}
    return Rows(rows, where, notes)


def read_saved(name: str, split: str | None, usual: str) -> Rows:
    """Return the rows of a folder that `save_to_disk` wrote: of the split `split`; if that is None,
    of the only split or of the split `usual`. UserError if the split is missing or cannot be
    read."""
    folder, library = Path(os.path.abspath(name)), _datasets()  # noqa: PTH100  # removes `..`
    source: dict[str, Any] = {"file": Path(name).name}
    try:
        for file in folder.rglob("*"):
            if not file.is_dir():
                check_file(file)
        with limited_memory(LARGEST):
            data = library.load_from_disk(str(folder), keep_in_memory=False)
        if isinstance(data, dict):
            splits = cast("dict[str, Any]", data)
            chosen = split or (next(iter(splits)) if len(splits) == 1 else usual)
            if chosen not in splits:
                raise UserError(
                    f"{name} has no split {chosen!r}; it has {', '.join(splits) or 'none'}.",
                    "hub.split=NAME names another; for eval.bench, eval.hub.split=NAME",
                )
            data, source = splits[chosen], {**source, "split": chosen}
        elif split is not None:
            raise UserError(f"{name} has no splits.", "leave out hub.split")
        digest = hashlib.sha256()
        for file in (Path(os.path.abspath(part["filename"])) for part in data.cache_files):  # noqa: PTH100
            if not file.is_relative_to(folder):
                raise UserError(f"{name} refers to {file}, outside of it.", "save it again")
            with file.open("rb") as opened:
                hashlib.file_digest(opened, lambda: digest)
        batches = iter(data.with_format("arrow").iter(BATCH))
        rows = in_memory(name, unfolded(name, batches))
    except UserError:
        raise
    except MemoryError as error:
        raise too_large(name) from error
    except Exception as error:  # whatever damage makes `datasets` raise
        raise UserError(f"{name} cannot be read: {reason_of(error)}.", "save it again") from error
    return Rows(rows, {**source, "sha256": digest.hexdigest()})


def _config(source: HubSource, config: str) -> tuple[Iterable[dict[str, Any]], str | None]:
    """Return the rows of one config, and their commit (None if unknown)."""
    library = _datasets()
    answers()  # if the hub does not answer, the cache is used
    data = library.load_dataset(
        source.path, config or None, split=source.split, revision=source.revision
    )
    return data, _commit(data)


def _commit(data: Any) -> str | None:
    """Return the commit in the names of a loaded data set's files in the cache, or None."""
    names = "\n".join(str(file["filename"]) for file in data.cache_files)
    commits = set(re.findall(r"[/\\]([0-9a-f]{40})\b", names))
    return commits.pop() if len(commits) == 1 else None


def _datasets() -> Any:
    """Return the library `datasets`; without a terminal, it shows no progress bars or warnings."""
    import datasets  # pyright: ignore[reportMissingTypeStubs]
    import huggingface_hub.utils as hub

    library = cast(Any, datasets)
    if not sys.stderr.isatty():
        for part in (library.utils, hub):
            part.logging.set_verbosity_error()
            part.disable_progress_bars()
    return library


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _refusal(source: HubSource, error: Exception) -> UserError:
    """Return the error for a data set that cannot be loaded. Rows of gated data are not quoted."""
    path, text = source.path, str(error)
    kinds = {base.__name__ for link in _causes(error) for base in type(link).__mro__}
    instead = "give its rows in a file: data=FILE.jsonl, or task=FILE.jsonl"
    missing = bool(kinds & {"DatasetNotFoundError", "RepositoryNotFoundError"})
    revision = "RevisionNotFoundError" in kinds or (missing and text.startswith("Revision "))
    unreachable = kinds & {"ConnectionError", "TransportError", "LocalEntryNotFoundError"}
    if unreachable or text.startswith("Couldn't find cache"):
        why = "the connection to the hub broke" if answers() else silence()
        message = f"The data set {path} is not in the cache, and {why}."
        hint = f"with a network, the same command downloads it; or {instead}"
    elif revision:
        message = f"The data set {path} has no revision {source.revision}."
        hint = f"hub.revision is a commit of {source.page}/commits, a branch or a tag"
    elif "GatedRepoError" in kinds or "gated dataset" in text or (source.gated and missing):
        message = f"The data set {path} is gated: you have to accept its terms first."
        hint = f"accept them on {source.page} and log in with `hf auth login`, or {instead}"
    elif missing:
        message = f"The hub has no data set {path}, or you have no access to it."
        hint = f"look at {source.page}, or {instead}"
    else:
        reason = type(error).__name__ if source.gated else reason_of(error)
        message = f"The data set {path} cannot be loaded: {reason}."
        hint = f"check that {source.page} is open to you, or {instead}"
    return UserError(message, hint)
