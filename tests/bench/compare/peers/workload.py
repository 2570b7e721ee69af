# SPDX-License-Identifier: Apache-2.0
"""The data that every contender saves and loads; the same values as tests/bench/workload.cpp makes."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

POOL_VALUES = 1 << 26
STRIDE = 1_000_003
PAGE_VALUES = 1024  # float32 values of one page.
MAX_CHECKED = 8


@dataclasses.dataclass(frozen=True)
class Workload:
    """What one call of a peer works on."""

    name: str
    directory: pathlib.Path
    pool_file: pathlib.Path
    count: int
    rows: int
    columns: int
    per_layer: int
    saves: int
    step: int
    keep: int = 3

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def path(self, index: int) -> str:
        """Returns where array number `index` stands in the tree."""
        return f"layers/{index // self.per_layer}/attn.q.weight.{index % self.per_layer}"

    def paths(self) -> Iterator[str]:
        return (self.path(index) for index in range(self.count))

    def checked(self) -> list[int]:
        """Returns the numbers of the arrays whose values are compared: eight, spread evenly, or all."""
        checks = min(self.count, MAX_CHECKED)
        return [0] if checks == 1 else [i * (self.count - 1) // (checks - 1) for i in range(checks)]


class ValuePool:
    """The values that arrays are made of: 2^26 floats from a file that cairn_bench has made."""

    def __init__(self, file: pathlib.Path) -> None:
        self._values = np.fromfile(file, dtype="<f4")
        if self._values.size != POOL_VALUES:
            raise ValueError(f"'{file}' has {self._values.size} values, not {POOL_VALUES}")

    def array(self, index: int, step: int, shape: tuple[int, ...]) -> np.ndarray:
        """Returns array number `index` with the values of `step`, in memory of its own."""
        out = np.empty(shape, dtype=np.float32)
        flat = out.reshape(-1)
        position, done = index * STRIDE % POOL_VALUES, 0
        while done < flat.size:
            run = min(flat.size - done, POOL_VALUES - position)
            flat[done : done + run] = self._values[position : position + run]
            done, position = done + run, 0
        return out if step % 2 == 0 else np.negative(out, out=out)

    def arrays(self, workload: Workload, step: int) -> dict[str, np.ndarray]:
        return {workload.path(k): self.array(k, step, workload.shape) for k in range(workload.count)}


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a tree of dictionaries from values with paths."""
    root: dict[str, Any] = {}
    for path, value in flat.items():
        *folders, leaf = path.split("/")
        place = root
        for folder in folders:
            place = place.setdefault(folder, {})
        place[leaf] = value
    return root


def flatten(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The opposite of `nest`."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}/"))
        else:
            flat[prefix + key] = value
    return flat


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a tree of the same keys, with every leaf replaced by what `change` makes of it."""
    if isinstance(tree, dict):
        return {key: map_leaves(value, change) for key, value in tree.items()}
    return change(tree)


def touch(arrays: Mapping[str, np.ndarray]) -> float:
    """Reads a value of every page, so that nothing of a load is left to page faults later."""
    total = 0.0
    for array in arrays.values():
        if array.size <= PAGE_VALUES:
            total += array.item(0)
        else:
            total += float(array.reshape(-1)[::PAGE_VALUES].sum())
    return total


def check_values(arrays: Mapping[str, np.ndarray], workload: Workload, pool: ValuePool) -> str:
    """Returns "ok" when there are all arrays and the checked ones have the values of the workload's step."""
    if len(arrays) != workload.count:
        return "wrong"
    same = (
        np.array_equal(arrays[workload.path(k)], pool.array(k, workload.step, workload.shape))
        for k in workload.checked()
    )
    return "ok" if all(same) else "wrong"
