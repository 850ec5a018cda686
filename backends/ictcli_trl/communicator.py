"""Messages between the processes of a launch, through torch.distributed as accelerate set it up."""

import contextlib
import os
import re
import time
import weakref
from collections.abc import Generator
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate import PartialState
from torch import Tensor

from ictcli.engine.communicator import Communicator, gone

from .launch import launched

PATIENCE = timedelta(hours=2)
"""How long ranks wait for rank 0, which judges responses meanwhile."""
LEAVE = 5.0
"""Seconds that a process waits for torch's threads before it ends all the same."""
LOST = ("gloo", "nccl", "connection", "peer", "process group")
"""What torch's errors name where another process is gone."""


class TorchCommunicator(Communicator):
    """This process among those of a launch, be it the only one."""

    def __init__(self) -> None:
        cpu = launched() and not torch.accelerator.is_available()
        cpu = cpu or os.environ.get("ACCELERATE_USE_CPU", "").lower() == "true"
        state: Any = PartialState(cpu=cpu, timeout=PATIENCE)
        self.rank, self.size = int(state.process_index), int(state.num_processes)
        self.device: torch.device = state.device
        self.sent = weakref.WeakSet[Tensor]()
        """What torch's threads still hold of messages."""

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        try:
            with super().together():
                yield
        except RuntimeError as error:
            if self.broken and _says_lost(error):
                raise gone(_reason(error)) from error
            raise

    def every(self, own: np.ndarray) -> list[np.ndarray]:
        tensor = self._on_device(own)
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        dist.all_gather(parts, tensor)
        return [part.cpu().numpy() for part in parts]

    def first(self, own: np.ndarray) -> np.ndarray:
        tensor = self._on_device(own)
        dist.broadcast(tensor, 0)
        return tensor.cpu().numpy()

    def _on_device(self, array: np.ndarray) -> Tensor:
        tensor = torch.tensor(array, device=self.device)
        self.sent.add(tensor)
        return tensor

    def close(self) -> None:
        """Leave the process group, all at once: torch aborts where another left in the middle, and
        where Python ends before a thread of its own lets go of a tensor."""
        if dist.is_initialized() and not self.broken:
            with contextlib.suppress(RuntimeError):
                dist.barrier()
            patience = time.monotonic() + LEAVE
            while self.sent and time.monotonic() < patience:
                time.sleep(0.001)
            dist.destroy_process_group()


def _says_lost(error: RuntimeError) -> bool:
    text = str(error).lower()
    return any(word in text for word in LOST)


def _reason(error: RuntimeError) -> str:
    """Its first sentence, without the place in torch's source that it begins with."""
    line = next(iter(str(error).splitlines()), "")
    return re.sub(r"^\[[^]]*\]\s*", "", line).split(". ")[0].rstrip(".")[:200]


@cache
def communicator() -> TorchCommunicator:
    """This process's, one for all the engines it builds."""
    return TorchCommunicator()
