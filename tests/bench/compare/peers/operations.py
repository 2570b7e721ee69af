# SPDX-License-Identifier: Apache-2.0
"""The operations of the protocol; each returns the lines that cairn_bench would print."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from peers.measure import Stopwatch, Usage, disk_use, drop_page_cache, sync_file_system
from peers.peer import Peer
from peers.workload import ValuePool, Workload, check_values, touch

Line = dict[str, Any]
WARM_VISITS = 3
SLICES = 8  # Of the matrix that is loaded in other boxes.


def run_save(peer: Peer, workload: Workload) -> Iterator[Line]:
    pool = ValuePool(workload.pool_file)
    first_step = workload.step if workload.saves == 1 else 0
    state = peer.adopt(pool.arrays(workload, first_step))
    for number in range(workload.saves):
        target = workload.directory / f"ck{1 if workload.saves == 1 else number}"
        shutil.rmtree(target, ignore_errors=True)
        sync_file_system(workload.directory)
        usage, watch = Usage(), Stopwatch()
        wait = peer.save(state, target)
        blocking = watch.seconds()
        if number + 1 < workload.saves:
            state = peer.mutate(state)
        wait()
        saved = watch.seconds()
        sync_file_system(workload.directory)
        times = {"blocking_s": blocking, "save_s": saved, "durable_s": watch.seconds()}
        yield {"op": "save", "step": first_step + number, **times, **usage.fields(), **disk_use(target)}


def run_load(peer: Peer, workload: Workload) -> Iterator[Line]:
    pool = ValuePool(workload.pool_file)
    target = workload.directory / "ck1"
    _warm_up(peer, workload, pool)
    for cache in ("cold", "warm"):
        if cache == "cold":
            drop_page_cache(target)
        usage, watch = Usage(), Stopwatch()
        loaded = peer.load(target, workload)
        returned = watch.seconds()
        arrays = peer.arrays(loaded)  # Only for the check, so it does not count.
        touching = Stopwatch()
        touch(arrays)
        times = {"return_s": returned, "load_s": returned + touching.seconds()}
        line = {"op": "load", "cache": cache, **times, **usage.fields()}
        yield {**line, "check": check_values(arrays, workload, pool)}
        del loaded, arrays  # The next load gets fresh memory.


def run_metadata(peer: Peer, workload: Workload) -> Iterator[Line]:
    target = workload.directory / "ck1"
    _warm_up(peer, workload, ValuePool(workload.pool_file))
    first = _visit(peer, target, workload.count)
    warm = statistics.median(_visit(peer, target, workload.count) for _ in range(WARM_VISITS))
    drop_page_cache(target)
    cold = _visit(peer, target, workload.count)
    yield {"op": "meta", "first_s": first, "warm_s": warm, "cold_s": cold, "check": "ok"}


def run_training(peer: Peer, workload: Workload) -> Iterator[Line]:
    state = peer.adopt(ValuePool(workload.pool_file).arrays(workload, 0))
    root = workload.directory / "run"
    shutil.rmtree(root, ignore_errors=True)
    sync_file_system(workload.directory)
    usage, watch = Usage(), Stopwatch()
    blocking = peer.train(state, root, workload.saves, workload.keep)
    times = {"loop_s": watch.seconds(), "blocking_s": statistics.median(blocking)}
    left = len(list(root.iterdir()))
    yield {"op": "training", "steps": workload.saves, "keep": workload.keep, **times, "left": left, **usage.fields()}


def run_reshard_save(peer: Peer, workload: Workload) -> Iterator[Line]:
    matrix = _matrix(workload)
    target = workload.directory / "ck"
    shutil.rmtree(target, ignore_errors=True)
    usage, watch = Usage(), Stopwatch()
    peer.save_slices(matrix, SLICES, target)
    line = {"op": "reshard_save", "layout": f"rows{SLICES}", "save_s": watch.seconds()}
    yield {**line, **usage.fields(), **disk_use(target)}


def run_reshard_load(peer: Peer, workload: Workload) -> Iterator[Line]:
    target = workload.directory / "ck"
    _warm_up(peer, workload, ValuePool(workload.pool_file))
    expected = _matrix(workload)
    for layout, count in (("rows4", 4), ("rows16", 16), ("cols8", 8)):
        size = workload.rows // count if layout.startswith("rows") else workload.columns // count
        ranges = [slice(begin * size, (begin + 1) * size) for begin in range(count)]
        boxes = [(each, slice(None)) if layout.startswith("rows") else (slice(None), each) for each in ranges]
        places = [np.full_like(expected[box], 1, order="C") for box in boxes]  # Memory that was used before.
        drop_page_cache(target)
        usage, watch = Usage(), Stopwatch()
        peer.load_boxes(target, boxes, places)
        times = {"load_s": watch.seconds(), **usage.fields()}
        right = all(np.array_equal(place, expected[box]) for place, box in zip(places, boxes))
        yield {"op": "reshard_load", "layout": layout, "cache": "cold", **times, "check": "ok" if right else "wrong"}


OPERATIONS = {
    "save": run_save,
    "load": run_load,
    "meta": run_metadata,
    "training": run_training,
    "reshard_save": run_reshard_save,
    "reshard_load": run_reshard_load,
}


def _matrix(workload: Workload) -> np.ndarray:
    """As cairn_bench makes it: the slices are arrays of the workload, number after number."""
    slices = dataclasses.replace(workload, count=SLICES, rows=workload.rows // SLICES, per_layer=SLICES)
    return np.concatenate(list(ValuePool(workload.pool_file).arrays(slices, 0).values()))


def _visit(peer: Peer, target: pathlib.Path, count: int) -> float:
    watch = Stopwatch()
    # The sums keep a lazy library from skipping what is not used.
    visited = [len(name) + len(shape) + len(dtype) for name, shape, dtype in peer.visit(target)]
    seconds = watch.seconds()
    if len(visited) != count or not all(visited):
        raise RuntimeError(f"the metadata has {len(visited)} arrays, not {count}")
    return seconds


def _warm_up(peer: Peer, workload: Workload, pool: ValuePool) -> None:
    """Saves and loads very little, so that a cold load does not pay for modules that are imported late."""
    tiny = Workload("tiny", peer.scratch, workload.pool_file, 2, 4, 4, 2, 1, 0)
    target = peer.scratch / "warm_up"
    peer.save(peer.adopt(pool.arrays(tiny, 0)), target)()
    peer.load(target, tiny)
    list(peer.visit(target))
