"""The device."""

import mlx.core as mx

from ictcli.errors import EngineMissingError


def choose_device(name: str) -> mx.Device:
    """Make the device MLX's default. `auto`: the GPU (Metal), else the CPU."""
    has_gpu = mx.is_available(mx.Device(mx.gpu))
    if name == "auto":
        kind = mx.gpu if has_gpu else mx.cpu
    elif name == "cpu":
        kind = mx.cpu
    elif name in ("gpu", "mps") and has_gpu:
        kind = mx.gpu
    else:
        reason = "this machine has none" if name in ("gpu", "mps") else "MLX has cpu and gpu"
        raise EngineMissingError(
            f"The device {name!r} cannot be used: {reason}.", "engine.device=auto picks one"
        )
    device = mx.Device(kind)
    mx.set_default_device(device)
    return device
