# SPDX-License-Identifier: Apache-2.0
"""torchsnapshot: one file an array, written through the page cache; it syncs nothing itself."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torchsnapshot

from peers.peer import Peer, Wait, nothing_to_wait_for
from peers.workload import Workload, map_leaves, nest


class TorchSnapshot(Peer):
    variants = ("default", "async")
    distributions = ("torchsnapshot", "torch")

    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        return nest(map_leaves(arrays, torch.from_numpy))

    def save(self, state: Any, target: pathlib.Path) -> Wait:
        app_state = {"state": torchsnapshot.StateDict(**state)}
        if self.variant == "async":
            return torchsnapshot.Snapshot.async_take(str(target), app_state).wait
        torchsnapshot.Snapshot.take(str(target), app_state)
        return nothing_to_wait_for

    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        empty = nest({path: torch.empty(workload.shape) for path in workload.paths()})
        state = torchsnapshot.StateDict(**empty)
        torchsnapshot.Snapshot(str(target)).restore({"state": state})
        return dict(state)

    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        for name, entry in torchsnapshot.Snapshot(str(target)).get_manifest().items():
            if entry.type == "Tensor":
                yield name, tuple(entry.shape), entry.dtype

    def arrays(self, loaded: Any) -> dict[str, np.ndarray]:
        return super().arrays(map_leaves(loaded, lambda tensor: tensor.numpy()))


PEER = TorchSnapshot
