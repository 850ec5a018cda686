"""Rows of data sets on the Hugging Face hub, at pinned commits."""

import contextlib
import re
import sys
import warnings
from collections.abc import Generator, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ictcli.engine.hub import answers, offline_variable, silence
from ictcli.errors import UserError, reason_of
from ictcli.rows import Row, Rows, in_memory

COMMIT = re.compile("[0-9a-f]{40}")


@dataclass(frozen=True)
class HubSource:
    """A data set of the hub: one split of each config, in order."""

    path: str
    revision: str | None
    """Commit, branch or tag to load; None = the newest commit."""
    configs: tuple[str, ...]
    """Empty name = the only config."""
    split: str
    rows: int | None
    """Total number of rows at that commit; None for a custom data set."""
    gated: bool = False
    """Whether a user must accept its terms on its page before loading it."""

    @property
    def page(self) -> str:
        """Its page on the hub."""
        return f"https://huggingface.co/datasets/{self.path}"


class ElsewhereError(UserError):
    """The data is on the hub, and within `files_alone` the hub is not used."""


_stay: ContextVar[bool] = ContextVar("stay", default=False)


@contextlib.contextmanager
def files_alone() -> Generator[None]:
    """Context in which loading a data set from the hub raises ElsewhereError."""
    token = _stay.set(True)
    try:
        yield
    finally:
        _stay.reset(token)


def load(source: HubSource) -> Rows:
    """Rows of a hub data set through `datasets`: from its cache if it has the pinned commit, else
    from the network. If the hub no longer has that commit, a named source uses the newest with a
    note; a custom one raises UserError, as does data that cannot be loaded."""
    if _stay.get():
        raise ElsewhereError(f"The data set {source.path} is on the hub, and is not opened.")
    notes: list[str] = []
    revision = source.revision
    parts: list[tuple[Iterable[dict[str, Any]], str | None]] = []
    while not parts:
        try:
            with quiet():
                parts = [_config(source, config, revision) for config in source.configs]
        except Exception as error:
            if revision is None or source.rows is None or not _is_without_revision(error):
                raise _refusal(source, error) from error
            revision = None
    used = ", ".join(sorted({commit or "unknown" for _, commit in parts}))
    if source.revision is None:
        notes.append(
            f"No revision of {source.path} is pinned: the newest was used, {used} "
            "(hub.revision pins it)."
        )
    elif revision is None:
        notes.append(
            f"{source.path} no longer has the revision {source.revision}: "
            f"the newest was used, {used}."
        )
    elif used != revision and (source.rows is not None or COMMIT.fullmatch(revision)):
        notes.append(f"{source.path} is of revision {used}, not of {revision} as asked for.")
    rows = in_memory(
        source.path,
        (
            Row(f"{source.path}, {config or source.split}, row", number, columns, config)
            for config, (data, _) in zip(source.configs, parts, strict=True)
            for number, columns in enumerate(data)
        ),
    )
    if source.rows is not None and len(rows) != source.rows:
        notes.append(f"{source.path} gave {len(rows)} rows, not {source.rows}.")
    config = source.configs[0] or "default" if len(source.configs) == 1 else list(source.configs)
    where = {"path": source.path, "config": config, "split": source.split, "revision": used}
    return Rows(rows, where, tuple(notes))


def fetch(path: str) -> None:
    """Bring every split of a data set into the cache. UserError where it cannot be had."""
    answers()
    try:
        with quiet():
            _datasets().load_dataset(path)
    except Exception as error:
        raise _refusal(HubSource(path, None, ("",), "", None), error) from error


def _config(
    source: HubSource, config: str, revision: str | None
) -> tuple[Iterable[dict[str, Any]], str | None]:
    """The rows of one config, and their commit (None if unknown)."""
    cached = None if revision is None else _cached(source, config, revision)
    if cached is not None:
        return cached, revision
    load_dataset = _datasets().load_dataset
    answers()
    data = load_dataset(source.path, config or None, split=source.split, revision=revision)
    return data, _commit(data) or _resolved(source.path, revision)


def _cached(source: HubSource, config: str, revision: str) -> Iterable[dict[str, Any]] | None:
    """A commit from the cache of `datasets`, or None. (Its own loader asks the network first and,
    offline, uses whatever commit was cached last.)"""
    library = _datasets()
    folder = cache_folder(source.path) / (config or "default") / "0.0.0" / revision
    if not (folder / "dataset_info.json").is_file():
        return None
    ending = re.compile(rf"-{source.split}(-\d+-of-\d+)?\.arrow")
    files = sorted(file for file in folder.glob("*.arrow") if ending.search(file.name))
    try:
        parts = [library.Dataset.from_file(str(file)) for file in files]
    except Exception:
        return None
    return library.concatenate_datasets(parts) if parts else None


def cache_folder(path: str) -> Path:
    """Where `datasets` keeps the rows of a data set."""
    from datasets.naming import camelcase_to_snakecase  # pyright: ignore

    owner, _, name = path.partition("/")
    cache = Path(_datasets().config.HF_DATASETS_CACHE).expanduser()
    return cache / f"{owner}___{camelcase_to_snakecase(name)}"


def _commit(data: Any) -> str | None:
    """The commit in the file names of a loaded data set, or None."""
    files = [str(file.get("filename", "")) for file in getattr(data, "cache_files", None) or ()]
    urls = list(getattr(getattr(data, "info", None), "download_checksums", None) or ())
    commits = set(re.findall(r"[/\\@]([0-9a-f]{40})\b", "\n".join((*files, *urls))))
    return commits.pop() if len(commits) == 1 else None


def _resolved(path: str, revision: str | None) -> str | None:
    """The commit of a revision (None = main) on the hub; None offline."""
    import huggingface_hub

    if offline_variable():
        return None
    try:
        return huggingface_hub.HfApi().dataset_info(path, revision=revision).sha
    except Exception:
        return None


def _datasets() -> Any:
    import datasets  # pyright: ignore[reportMissingTypeStubs]

    return cast(Any, datasets)


def _kinds(error: BaseException | None) -> set[str]:
    """Names of the classes, bases included, of an error and of its causes."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return {base.__name__ for link in chain for base in type(link).__mro__}


def _is_without_revision(error: BaseException) -> bool:
    return "RevisionNotFoundError" in _kinds(error) or (
        "DatasetNotFoundError" in _kinds(error) and str(error).startswith("Revision ")
    )


def _refusal(source: HubSource, error: Exception) -> UserError:
    """Why a data set cannot be loaded, and what to do. Never quotes the rows of a gated one."""
    path, kinds = source.path, _kinds(error)
    instead = "give its rows in a file: data=FILE.jsonl"
    if source.rows is None:
        instead = "name a file in its place"
    missing = "DatasetNotFoundError" in kinds or "RepositoryNotFoundError" in kinds
    revision = _is_without_revision(error)
    unreachable = kinds & {"ConnectionError", "TransportError", "LocalEntryNotFoundError"}
    unreachable = unreachable or str(error).startswith("Couldn't find cache")
    gated = "GatedRepoError" in kinds or "gated dataset" in str(error)
    if unreachable and not answers():
        message = f"The data set {path} is not in the cache, and {silence()}."
        hint = f"the same command with a network keeps it in the cache; or {instead}"
    elif gated or (source.gated and missing and not unreachable and not revision):
        message = f"The data set {path} is gated: it opens to those who have accepted its terms."
        hint = f"accept them on {source.page} and log in with `hf auth login`, or {instead}"
    elif unreachable:
        message = f"The connection to the hub broke, and the data set {path} is not in the cache."
        hint = f"try again, or {instead}"
    elif revision:
        message = f"The data set {path} has no revision {source.revision}."
        hint = f"hub.revision is a commit of {source.page}/commits, a branch or a tag"
    elif missing:
        message = f"The hub has no data set {path}, or none that is open to you."
        hint = f"look at {source.page}, or {instead}"
    else:
        reason = type(error).__name__ if source.gated else reason_of(error)
        message = f"The data set {path} cannot be loaded: {reason}."
        hint = f"check that {source.page} is open to you, or {instead}"
    return UserError(message, hint)


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Without a terminal: no progress bars or warnings of the libraries."""
    if sys.stderr.isatty():
        yield
        return
    import huggingface_hub.utils as hub

    data = _datasets().utils
    with warnings.catch_warnings(), contextlib.ExitStack() as restored:
        warnings.simplefilter("ignore")
        for log in (data.logging, hub.logging):
            restored.callback(log.set_verbosity, log.get_verbosity())
            log.set_verbosity_error()
        for bars in (data, hub):
            if not bars.are_progress_bars_disabled():
                restored.callback(bars.enable_progress_bars)
                bars.disable_progress_bars()
        yield
