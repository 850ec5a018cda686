"""Rows of the data sets of the Hugging Face hub, at pinned revisions."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import warnings
from collections.abc import Generator, Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.rows import Row, Rows, read_file
from ictcli.tasks.sources import SOURCES, Source

COMMIT = re.compile("[0-9a-f]{40}")
_OFFLINE = ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


class ElsewhereError(UserError):
    """The data is on the hub, where it is not looked for now."""


_stay: ContextVar[bool] = ContextVar("stay", default=False)


@contextlib.contextmanager
def files_alone() -> Generator[None]:
    """Within, the data sets of the hub are not opened: ElsewhereError in their place."""
    token = _stay.set(True)
    try:
        yield
    finally:
        _stay.reset(token)


def rows_of(name: str, data: str | None) -> Rows:
    """The rows of a source by its name, or of the local file that replaces it."""
    return load(SOURCES[name]) if data is None else read_file(data)


def load(source: Source) -> Rows:
    """Rows of the hub, through `datasets`: from its cache where the pinned commit is there, else
    from the network. Where the hub no longer has that commit, the newest, and a note says so;
    for a data set of one's own an error does."""
    if _stay.get():
        raise ElsewhereError(f"The data set {source.path} is on the hub, and is not opened.")
    notes: list[str] = []
    asked = source.revision
    with _quiet():
        try:
            parts = [_config(source, config, asked) for config in source.configs]
        except Exception as error:
            if asked is None or source.rows is None or not _is_without_revision(error):
                raise _refusal(source, error) from error
            asked = None
            try:
                parts = [_config(source, config, None) for config in source.configs]
            except Exception as another:
                raise _refusal(source, another) from another
    used = sorted({revision or "unknown" for _, revision in parts})
    revision = ", ".join(used)
    if source.revision is None:
        notes.append(
            f"No revision of {source.path} is pinned: the newest was used, {revision} "
            "(hub.revision pins it)."
        )
    elif asked is None:
        notes.append(
            f"{source.path} no longer has the revision {source.revision}: "
            f"the newest was used, {revision}."
        )
    elif used != [asked] and (source.rows is not None or COMMIT.fullmatch(asked)):
        notes.append(f"{source.path} is of revision {revision}, not of {asked} as asked for.")
    rows = [
        Row(f"{source.path}, {config or source.split}, row {number}", number, columns, config)
        for config, (data, _) in zip(source.configs, parts, strict=True)
        for number, columns in enumerate(data)
    ]
    if source.rows is not None and len(rows) != source.rows:
        notes.append(f"{source.path} gave {len(rows)} rows, not {source.rows}.")
    if not rows:
        raise UserError(f"The data set {source.path} is empty.", f"look at {source.page}")
    config = source.configs[0] or "default" if len(source.configs) == 1 else list(source.configs)
    where = {"path": source.path, "config": config, "split": source.split, "revision": revision}
    return Rows(rows, where, tuple(notes))


def _config(
    source: Source, config: str, revision: str | None
) -> tuple[Iterable[dict[str, Any]], str | None]:
    """The rows of one config, and the commit they are of (None where that is not known)."""
    import datasets  # pyright: ignore[reportMissingTypeStubs]

    library = cast(Any, datasets)
    if revision is not None:
        cached = _cached(source, config, revision)
        if cached is not None:
            return cached, revision
    data = library.load_dataset(source.path, config or None, split=source.split, revision=revision)
    return data, _commit(data) or _resolved(source.path, revision)


def _cached(source: Source, config: str, revision: str) -> Iterable[dict[str, Any]] | None:
    """A commit that `datasets` has prepared before. (Left to itself, it asks the network first,
    and without one takes the commit that was cached last.)"""
    import datasets  # pyright: ignore[reportMissingTypeStubs]
    from datasets.naming import camelcase_to_snakecase  # pyright: ignore

    library = cast(Any, datasets)
    owner, _, name = source.path.partition("/")
    folder = Path(library.config.HF_DATASETS_CACHE).expanduser()
    folder = folder / f"{owner}___{camelcase_to_snakecase(name)}"
    folder = folder / (config or "default") / "0.0.0" / revision
    if not (folder / "dataset_info.json").is_file():
        return None
    ending = re.compile(rf"-{source.split}(-\d+-of-\d+)?\.arrow")
    files = sorted(file for file in folder.glob("*.arrow") if ending.search(file.name))
    try:
        parts = [library.Dataset.from_file(str(file)) for file in files]
    except Exception:
        return None
    return library.concatenate_datasets(parts) if parts else None


def _commit(data: Any) -> str | None:
    """The commit in the names of a loaded data set's files."""
    files = [str(file.get("filename", "")) for file in getattr(data, "cache_files", None) or ()]
    urls = list(getattr(getattr(data, "info", None), "download_checksums", None) or ())
    found = {
        commit for name in (*files, *urls) for commit in re.findall(r"[/\\@]([0-9a-f]{40})\b", name)
    }
    return found.pop() if len(found) == 1 else None


def _resolved(path: str, revision: str | None) -> str | None:
    """The commit a revision (None: main) names on the hub; None offline."""
    import huggingface_hub

    if _is_offline():
        return None
    try:
        return huggingface_hub.HfApi().dataset_info(path, revision=revision).sha
    except Exception:
        return None


def _is_offline() -> bool:
    import datasets  # pyright: ignore[reportMissingTypeStubs]

    return bool(cast(Any, datasets).config.HF_HUB_OFFLINE)


def _chain(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _kinds(error: BaseException) -> set[str]:
    """Names of the classes of an error, and of those behind it."""
    return {base.__name__ for link in _chain(error) for base in type(link).__mro__}


def _is_without_revision(error: BaseException) -> bool:
    return "RevisionNotFoundError" in _kinds(error) or (
        "DatasetNotFoundError" in _kinds(error) and str(error).startswith("Revision ")
    )


def _refusal(source: Source, error: Exception) -> UserError:
    """What stands in the way of a data set, and what to do; nothing of its rows."""
    path, kinds = source.path, _kinds(error)
    instead = "give its rows in a file: --data FILE.jsonl (in a recipe: task=FILE.jsonl)"
    unreachable = kinds & {"ConnectionError", "TransportError", "LocalEntryNotFoundError"}
    unreachable = unreachable or str(error).startswith("Couldn't find cache")
    if unreachable and (_is_offline() or "OfflineModeIsEnabled" in kinds):
        off = ("", "0", "FALSE", "NO", "OFF")
        on = [name for name in _OFFLINE if os.environ.get(name, "").upper() not in off]
        why = (on or _OFFLINE)[0]
        return UserError(
            f"The data set {path} is not in the cache, and {why} keeps this machine offline.",
            f"load it once with {why}=0, or {instead}",
        )
    if "GatedRepoError" in kinds or "gated dataset" in str(error):
        return _gated(source, instead)
    if unreachable:
        return UserError(
            f"The hub does not answer, and the data set {path} is not in the cache.",
            f"check the network, or {instead}",
        )
    if _is_without_revision(error):
        return UserError(
            f"The data set {path} has no revision {source.revision}.",
            f"hub.revision is a commit of {source.page}/commits, a branch or a tag",
        )
    if "DatasetNotFoundError" in kinds or "RepositoryNotFoundError" in kinds:
        if source.gated:
            return _gated(source, instead)
        return UserError(
            f"The hub has no data set {path}, or none that is open to you.",
            f"look at {source.page}, or {instead}",
        )
    reason = type(error).__name__
    if not source.gated:
        reason = ((str(error).strip() or reason).splitlines()[0]).rstrip(".")
    return UserError(
        f"The data set {path} cannot be loaded: {reason}.",
        f"check that {source.page} is open to you, or {instead}",
    )


def _gated(source: Source, instead: str) -> UserError:
    return UserError(
        f"The data set {source.path} is gated: it opens to those who have accepted its terms.",
        f"accept them on {source.page} and log in with `hf auth login`, or {instead}",
    )


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Where nobody watches, neither bars nor warnings of the libraries."""
    if sys.stderr.isatty():
        yield
        return
    import datasets  # pyright: ignore[reportMissingTypeStubs]
    import huggingface_hub.utils as hub

    data = cast(Any, datasets).utils
    logs = (data.logging, hub.logging)
    levels = [log.get_verbosity() for log in logs]
    shown = [not data.are_progress_bars_disabled(), not hub.are_progress_bars_disabled()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for log in logs:
            log.set_verbosity_error()
        data.disable_progress_bars()
        hub.disable_progress_bars()
        try:
            yield
        finally:
            for log, level in zip(logs, levels, strict=True):
                log.set_verbosity(level)
            if shown[0]:
                data.enable_progress_bars()
            if shown[1]:
                hub.enable_progress_bars()
