"""The device, what can be asked of it, and how much of its memory may be taken."""

from importlib.util import find_spec

import torch

from ictcli.errors import EngineMissingError, UserError
from ictcli.recipe.tables import EngineSettings, OptimizerSettings


def choose_device(name: str) -> torch.device:
    """`auto`: CUDA, else MPS, else CPU."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
        if device.type not in ("cuda", "mps", "cpu"):
            raise RuntimeError("it is neither cuda, mps nor cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].rstrip(".!")
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason}.", "engine.device=auto picks one"
        ) from error
    return device


def check_device(
    device: torch.device,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    *,
    adapted: bool,
) -> None:
    """Refuse what this device cannot do, before a model is loaded. `adapted`: adapters are trained,
    not the model's own weights."""
    if settings.load_in_4bit:
        if optimizer is not None and not adapted:
            raise UserError(
                "Weights of 4 bits cannot be trained, and engine.load_in_4bit makes them so.",
                "adapter.kind=lora trains low-rank adapters on top of them",
            )
        _needs_bitsandbytes(device, "engine.load_in_4bit=true", "engine.load_in_4bit=false")
    if optimizer is not None and optimizer.kind == "adamw8bit":
        _needs_bitsandbytes(device, "optimizer.kind=adamw8bit", "optimizer.kind=adamw")


def _needs_bitsandbytes(device: torch.device, setting: str, without: str) -> None:
    if device.type != "cuda":
        raise EngineMissingError(
            f"{setting} needs a CUDA GPU, and the device is {device.type}.", without
        )
    if find_spec("bitsandbytes") is None:
        raise EngineMissingError(
            f"{setting} needs bitsandbytes, which is not installed.",
            f'pip install "ictcli[cuda]", or {without}',
        )


def limit_memory(device: torch.device, gib: float) -> None:
    """Let PyTorch's allocator take so many GiB of a GPU at most; 0: all of it, whatever limit an
    engine before this one had set."""
    if device.type != "cuda":
        if not gib:
            return
        raise UserError(
            f"engine.memory_limit limits CUDA and MLX, and PyTorch's device is {device.type}.",
            "leave it out, or --backend mlx",
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    total = torch.cuda.get_device_properties(index).total_memory
    share = min(gib * 2**30 / total, 1.0) if gib else 1.0
    torch.cuda.set_per_process_memory_fraction(share, index)
