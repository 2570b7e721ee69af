# SPDX-License-Identifier: Apache-2.0
"""What a library must be able to do to be compared."""

from __future__ import annotations

import abc
import operator
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from peers.workload import Workload, flatten, map_leaves

Wait = Callable[[], object]


def nothing_to_wait_for() -> None:
    """What a synchronous save leaves to be waited for."""


class Peer(abc.ABC):
    """One library in one variant. A process makes one and calls it for one operation.

    Only `save`, `load` and `visit` are timed.
    """

    variants: ClassVar[tuple[str, ...]] = ("default",)
    distributions: ClassVar[tuple[str, ...]]  # The packages whose versions the report names.

    def __init__(self, variant: str, scratch: pathlib.Path) -> None:
        """`scratch` is a directory for what the library needs beside checkpoints."""
        if variant not in self.variants:
            raise ValueError(f"variant '{variant}' is not one of {', '.join(self.variants)}")
        self.variant = variant
        self.scratch = scratch

    @abc.abstractmethod
    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        """Returns the state in the form that the library saves; may keep the memory of `arrays`."""

    @abc.abstractmethod
    def save(self, state: Any, target: pathlib.Path) -> Wait:
        """Returns as soon as the caller may change the state; what it returns waits until it is committed."""

    @abc.abstractmethod
    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        """Returns the state that a checkpoint has, in the library's form and in fresh memory."""

    @abc.abstractmethod
    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        """Opens a checkpoint and yields name, shape and dtype of every array."""

    def save_slices(self, matrix: np.ndarray, slices: int, target: pathlib.Path) -> None:
        """Saves an array as so many slices of its rows, for good."""
        raise NotImplementedError(f"{type(self).__name__} has no slices")

    def load_boxes(self, target: pathlib.Path, boxes: list[tuple[slice, slice]], places: list[np.ndarray]) -> None:
        """Loads boxes of that array into memory that is there."""
        raise NotImplementedError(f"{type(self).__name__} has no slices")

    def train(self, state: Any, root: pathlib.Path, steps: int, keep: int) -> list[float]:
        """Saves at each step, changes the state, and lets the library remove all but the newest `keep` (0: none).

        Returns the seconds that each save has blocked, when all are committed.
        """
        raise NotImplementedError(f"{type(self).__name__} has no checkpoints by step")

    def mutate(self, state: Any) -> Any:
        """Changes every value as a training step would: in place, or by new arrays."""
        return map_leaves(state, lambda leaf: operator.imul(leaf, -1))

    def arrays(self, loaded: Any) -> dict[str, np.ndarray]:
        """Returns what `load` has returned as arrays with paths, without a copy."""
        return {path: np.asarray(leaf) for path, leaf in flatten(loaded).items()}

    def close(self) -> None:
        """Ends what the library has started in this process."""
