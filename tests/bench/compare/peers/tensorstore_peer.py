# SPDX-License-Identifier: Apache-2.0
"""TensorStore: every array a zarr3 array of one uncompressed chunk, or one a slice; it syncs its files itself."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorstore as ts

from peers.peer import Peer, Wait
from peers.workload import Workload

MATRIX = "matrix"
IN_FLIGHT = 1024  # Opens and copies at a time: enough to fill every thread, without 100,000 futures at once.


def _spec(target: pathlib.Path, path: str) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{target}/{path}/"}}


def _create(target: pathlib.Path, path: str, array: np.ndarray, slices: int = 1) -> Any:
    shape = [array.shape[0] // slices, *array.shape[1:]] if slices > 1 else list(array.shape)
    chunk = {"name": "regular", "configuration": {"chunk_shape": shape}}
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    metadata = {
        "shape": list(array.shape),
        "data_type": str(array.dtype),
        "chunk_grid": chunk,
        "codecs": codecs,
    }
    return ts.open({**_spec(target, path), "metadata": metadata}, create=True)


def _batches(items: list[Any]) -> Iterable[list[Any]]:
    return (items[begin : begin + IN_FLIGHT] for begin in range(0, len(items), IN_FLIGHT))


class TensorStore(Peer):
    """Variants: `cached` keeps chunks in memory, so that no part of the file is read twice."""

    variants = ("default", "cached")
    distributions = ("tensorstore",)

    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        return arrays

    def save(self, state: Any, target: pathlib.Path) -> Wait:
        commits: list[Any] = []
        for batch in _batches(list(state.items())):
            stores = [_create(target, path, array) for path, array in batch]
            # The source is not named immutable, so TensorStore copies before the copy future is ready.
            writes = [store.result().write(array) for store, (_, array) in zip(stores, batch)]
            for write in writes:
                write.copy.result()
            commits += [write.commit for write in writes]

        def wait() -> None:
            for commit in commits:
                commit.result()

        return wait

    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        loaded: dict[str, np.ndarray] = {}
        for batch in _batches(list(workload.paths())):
            stores = [ts.open(_spec(target, path), open=True) for path in batch]
            reads = [store.result().read() for store in stores]
            loaded.update((path, read.result()) for path, read in zip(batch, reads))
        return loaded

    def save_slices(self, matrix: np.ndarray, slices: int, target: pathlib.Path) -> None:
        store = _create(target, MATRIX, matrix, slices).result()
        store.write(matrix).result()

    def load_boxes(self, target: pathlib.Path, boxes: list[tuple[slice, slice]], places: list[np.ndarray]) -> None:
        cache = {"cache_pool": {"total_bytes_limit": 2**32 if self.variant == "cached" else 0}}
        store = ts.open({**_spec(target, MATRIX), "context": cache}, open=True).result()
        reads = [ts.array(place).write(store[box]) for box, place in zip(boxes, places)]
        for read in reads:
            read.result()

    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        paths = [
            os.path.relpath(folder, target) for folder, _, names in os.walk(target) if "zarr.json" in names
        ]
        for batch in _batches(paths):
            stores = [ts.open(_spec(target, path), open=True) for path in batch]
            for path, store in zip(batch, stores):
                array = store.result()
                yield path, tuple(array.shape), array.dtype.name


PEER = TensorStore
