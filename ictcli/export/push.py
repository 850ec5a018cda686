"""Upload of an export to a repository on the hub, private by default."""

import contextlib
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ictcli.engine.model_files import ELSEWHERE, FILES
from ictcli.errors import RunFailedError, UserError, reason_of
from ictcli.text import shell_word

MADE = ("Modelfile", "model.gguf")
"""Files of exports for other programs."""
LOGIN = "hf auth login, with a token that may write"


def open_repository(repo: str, *, public: bool) -> Any:
    """Check name, token and visibility before anything is written; returns the hub's API.

    An existing repository keeps its visibility, so a public one is refused without `public`. Raises
    UserError for what a user can mend, RunFailedError where the hub cannot be reached.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repo):
        raise UserError(f"{repo!r} is no repository of the hub.", "--push OWNER/NAME")
    from huggingface_hub import HfApi

    api: Any = HfApi()
    with _faults(repo):
        api.whoami()
        there = not public and api.repo_exists(repo, repo_type="model")
        if there and not api.repo_info(repo, repo_type="model").private:
            raise UserError(
                f"{repo} is there already and public: everybody would see what is pushed.",
                f"--push {repo} --public, or push to another name",
            )
    return api


def push(api: Any, folder: Path, repo: str, *, public: bool) -> str:
    """Upload a folder as one commit; returns the repository's address. The folder is kept in any
    case."""
    with _faults(repo, f"{folder} is whole: hf upload {repo} {shell_word(folder)} tries again"):
        api.create_repo(repo, repo_type="model", private=not public, exist_ok=True)
        api.upload_folder(
            repo_id=repo,
            folder_path=str(folder),
            repo_type="model",
            allow_patterns=[*FILES, *MADE],
            ignore_patterns=[*ELSEWHERE],
            commit_message="Upload by ictcli export",
        )
    return f"https://huggingface.co/{repo}"


@contextlib.contextmanager
def _faults(repo: str, kept: str = "") -> Generator[None]:
    """Around requests to the hub: UserError or RunFailedError with the reason of one that fails."""
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    def hint(text: str) -> str:
        return f"{text}; {kept}" if kept else text

    try:
        yield
    except LocalTokenNotFoundError as error:
        raise UserError("No token for the hub is configured.", hint(LOGIN)) from error
    except HfHubHTTPError as error:
        code = getattr(getattr(error, "response", None), "status_code", None)
        if code == 401:
            raise UserError("The hub does not accept the token.", hint(LOGIN)) from error
        if code == 403:
            raise UserError(
                f"The token may not write to {repo}.",
                hint(f"{LOGIN} to {repo.split('/')[0]}, or --push to a name of your own"),
            ) from error
        raise RunFailedError(
            f"The hub refuses ({code or 'no code'}): {reason_of(error)[:200]}.",
            hint("try again later"),
        ) from error
    except Exception as error:  # connections, timeouts, and HF_HUB_OFFLINE
        library = type(error).__module__.split(".")[0]
        if not isinstance(error, OSError) and library not in ("httpx", "httpx2", "httpcore"):
            raise
        raise RunFailedError(
            f"The hub cannot be reached: {reason_of(error)[:200]}.",
            hint("check the network, and that HF_HUB_OFFLINE is not set"),
        ) from error
