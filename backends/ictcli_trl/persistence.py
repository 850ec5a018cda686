"""Checkpoints of weights that may lie spread over processes."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from ictcli_torch.engine import TorchEngine
from ictcli_torch.files import part, parts_of
from safetensors.torch import load_file, save_file
from torch import Tensor

from ictcli.engine.core import OPTIMIZER, WEIGHTS
from ictcli.engine.distributed import DataParallel
from ictcli.errors import UserError

from .communicator import TorchCommunicator
from .tensors import local, whole


class Persistent(DataParallel, TorchEngine):
    """What of an engine saves and restores."""

    processes: TorchCommunicator
    optimizer: Any
    sharded: bool
    parted = False
    """Whether each rank writes its own part of a checkpoint."""

    def save(self, folder: Path) -> None:
        """Every rank writes its parts of spread weights where all see the folder. Adapters, which
        are small, and what lies on the disk of one machine alone come from rank 0."""
        folder = folder.resolve()
        with self.processes.together():
            self.tell("save", {"folder": str(folder)})
            seen = self.processes.gather(("seen", {"seen": folder.is_dir()}, {}))
            self.parted = self.sharded and self.adapted is None
            self.parted = self.parted and all(about["seen"] for _, about, _ in seen)
            super().save(folder)
            self.processes.gather(("saved", {}, {}))  # rank 0 takes checksums of all parts

    def write_arrays(self, path: Path, arrays: dict[str, Tensor], **about: str) -> None:
        """From rank 0, to which the others bring their parts; or each its own."""
        if self.parted:
            own = {name: local(tensor).cpu().contiguous() for name, tensor in arrays.items()}
            save_file(own, part(path, self.processes.rank, self.processes.size))
            return
        held = dict[str, Tensor]()
        for name, tensor in arrays.items():
            value = whole(tensor)
            if self.processes.rank == 0:
                held[name] = value.cpu().contiguous()
        if self.processes.rank == 0:
            save_file(held, path, metadata=about or None)

    def restore(self, folder: Path) -> None:
        """Every rank reads what it wrote; of another number of ranks, rank 0 reads all."""
        parts = len(parts_of(folder / WEIGHTS))
        if not (self.sharded and parts == self.processes.size):
            super().restore(folder)
            return
        with self.processes.together():
            self.tell("restore", {"folder": str(folder.resolve())})
            self._take_parts(folder)

    def _take_parts(self, folder: Path) -> None:
        place = self.processes.rank, self.processes.size
        weights, state = (load_file(part(folder / name, *place)) for name in (WEIGHTS, OPTIMIZER))
        own = {name: local(tensor) for name, tensor in self.trained_weights().items()}
        if {n: t.shape for n, t in weights.items()} != {n: t.shape for n, t in own.items()}:
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model it began with",
            )
        self.optimizer.load_parts(state, weights)

    def load(self, weights: dict[str, Tensor], state: dict[str, Tensor]) -> None:
        trees = {"weights": weights, "state": state}
        shapes = {n: {k: list(t.shape) for k, t in tree.items()} for n, tree in trees.items()}
        with self.processes.together():
            self.tell("load", shapes)
            self.optimizer.load(state, weights)

    def obey(self, verb: str, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> bool:
        if verb == "save":
            self.save(Path(arguments["folder"]))
        elif verb == "restore":
            with self.processes.together():
                self._take_parts(Path(arguments["folder"]))
        elif verb == "load":
            parts = {n: {k: torch.empty(s) for k, s in t.items()} for n, t in arguments.items()}
            with self.processes.together():
                self.optimizer.load(parts["state"], parts["weights"])
        else:
            return super().obey(verb, arguments, arrays)
        return True
