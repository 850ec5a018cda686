"""Messages between the processes of a launch, through torch.distributed as accelerate set it up."""

import contextlib
import os
import re
from collections.abc import Generator
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

from ictcli.engine.distributed import Message, packed, unpacked
from ictcli.errors import RunFailedError

from .launch import launched

PATIENCE = timedelta(hours=2)
"""How long ranks wait for rank 0, which judges responses meanwhile."""
LOST = ("gloo", "nccl", "connection", "peer", "process group")
"""What torch's errors name where another process is gone."""


class Communicator:
    """This process among those of a launch, be it the only one."""

    def __init__(self) -> None:
        cpu = launched() and not torch.accelerator.is_available()
        cpu = cpu or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
        state: Any = PartialState(cpu=cpu, timeout=PATIENCE)
        self.rank, self.size = int(state.process_index), int(state.num_processes)
        self.device: torch.device = state.device
        self.broken = False

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        if self.broken:
            raise RunFailedError("The launch has lost step.", "start the same launch again")
        try:
            yield
        except BaseException as error:
            self.broken = self.size > 1
            if self.broken and isinstance(error, RuntimeError) and _says_lost(error):
                raise RunFailedError(
                    f"Another process of the launch is gone: {_reason(error)}.",
                    "its own message says why; the same launch with ictcli resume RUN goes on",
                ) from error
            raise

    def broadcast(self, message: Message | None) -> Message:
        if self.size == 1:
            assert message is not None
            return message
        blob = b"" if message is None else packed(message)
        with self.together():
            size = torch.tensor([len(blob)], device=self.device)
            dist.broadcast(size, 0)
            part = np.frombuffer(blob, dtype=np.uint8) if blob else np.zeros(int(size), np.uint8)
            body = torch.from_numpy(part.copy()).to(self.device)
            dist.broadcast(body, 0)
        return message or unpacked(body.cpu().numpy().tobytes())

    def gather(self, message: Message) -> list[Message]:
        if self.size == 1:
            return [message]
        blob = np.frombuffer(packed(message), dtype=np.uint8)
        with self.together():
            sizes = self._every(torch.tensor([len(blob)]))
            padded = np.zeros(int(max(sizes)), dtype=np.uint8)
            padded[: len(blob)] = blob
            rows = self._every(torch.from_numpy(padded))
        return [
            unpacked(row[: int(size)].numpy().tobytes())
            for row, size in zip(rows, sizes, strict=True)
        ]

    def _every(self, own: Tensor) -> list[Tensor]:
        """Every rank's tensor, by rank, on the host."""
        own = own.to(self.device)
        parts = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(parts, own)
        return [part.cpu() for part in parts]

    def close(self) -> None:
        """Leave the process group, all at once: torch aborts where another left in the middle."""
        if dist.is_initialized() and not self.broken:
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            dist.destroy_process_group()


def _says_lost(error: RuntimeError) -> bool:
    text = str(error).lower()
    return any(word in text for word in LOST)


def _reason(error: RuntimeError) -> str:
    """Its first sentence, without the place in torch's source that it begins with."""
    line = next(iter(str(error).splitlines()), "")
    return re.sub(r"^\[[^]]*\]\s*", "", line).split(". ")[0].rstrip(".")[:200]


@cache
def communicator() -> Communicator:
    """This process's, one for all the engines it builds."""
    return Communicator()
