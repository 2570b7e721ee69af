# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.checkpoint in one process: synchronous, or asynchronous with a thread."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
import torch.distributed
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from peers.peer import Peer, Wait, nothing_to_wait_for
from peers.workload import Workload, map_leaves, nest


class Dcp(Peer):
    """Variants: `default` and `threads2` (two writer threads) block until all is written; `async` stages with
    what DCP makes for each save; `async_cached` keeps one stager, and with it the staging memory."""

    variants = ("default", "threads2", "async", "async_cached")
    distributions = ("torch",)

    def __init__(self, variant: str, scratch: pathlib.Path) -> None:
        super().__init__(variant, scratch)
        store = torch.distributed.FileStore(str(scratch / "store"), 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        self._stager: DefaultStager | None = None
        if variant == "async_cached":
            # Pinned memory and asynchronous copies need a device.
            self._stager = DefaultStager(StagingOptions(False, False, False, False))

    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        return nest(map_leaves(arrays, torch.from_numpy))

    def save(self, state: Any, target: pathlib.Path) -> Wait:
        writer = dcp.FileSystemWriter(target, thread_count=1 if self.variant == "default" else 2)
        if not self.variant.startswith("async"):
            dcp.save(state, storage_writer=writer)
            return nothing_to_wait_for
        response = dcp.async_save(state, storage_writer=writer, async_stager=self._stager)
        if isinstance(response, dcp.state_dict_saver.AsyncSaveResponse):
            response.staging_completion.result()
            return response.upload_completion.result
        return response.result

    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        state = nest({path: torch.empty(workload.shape) for path in workload.paths()})
        dcp.load(state, storage_reader=dcp.FileSystemReader(target))
        return state

    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        metadata = dcp.FileSystemReader(target).read_metadata()
        for name, entry in metadata.state_dict_metadata.items():
            yield name, tuple(entry.size), str(entry.properties.dtype)

    def arrays(self, loaded: Any) -> dict[str, np.ndarray]:
        return super().arrays(map_leaves(loaded, lambda tensor: tensor.numpy()))

    def close(self) -> None:
        if self._stager is not None:
            self._stager.close()
        torch.distributed.destroy_process_group()


PEER = Dcp
