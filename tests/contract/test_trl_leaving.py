"""Leaving the other processes of a launch."""

import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

import torch
import torch.distributed as dist
from ictcli_trl.communicator import TorchCommunicator


def test_a_process_ends_after_torchs_threads_let_go_of_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gloo's threads drop a tensor some time after it is sent, and need Python for that."""
    held: list[weakref.ref[Any]] = []

    def broadcast(tensor: torch.Tensor, source: int) -> None:
        held.append(weakref.ref(tensor))
        threading.Timer(0.2, lambda kept: None, [tensor]).start()

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    ranks = TorchCommunicator()
    monkeypatch.setattr(dist, "broadcast", broadcast)
    np.testing.assert_array_equal(ranks.first(np.arange(3)), np.arange(3))
    assert held[0]() is not None
    ranks.close()
    assert held[0]() is None
    assert not dist.is_initialized()
