# SPDX-License-Identifier: Apache-2.0
"""safetensors: one file, written through the page cache; it syncs nothing itself."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import safetensors

from peers.peer import Peer, Wait, nothing_to_wait_for
from peers.workload import Workload, map_leaves


class Safetensors(Peer):
    variants = ("default", "torch")
    distributions = ("safetensors",)

    def __init__(self, variant: str, scratch: pathlib.Path) -> None:
        super().__init__(variant, scratch)
        module = "torch" if variant == "torch" else "numpy"
        self._library: Any = importlib.import_module(f"safetensors.{module}")

    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        if self.variant == "torch":
            torch = importlib.import_module("torch")
            return map_leaves(arrays, torch.from_numpy)
        return arrays

    def save(self, state: Any, target: pathlib.Path) -> Wait:
        target.mkdir()
        self._library.save_file(state, target / "model.safetensors")
        return nothing_to_wait_for

    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        return self._library.load_file(target / "model.safetensors")

    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        with safetensors.safe_open(target / "model.safetensors", framework="np") as file:
            for name in file.keys():
                part = file.get_slice(name)
                yield name, tuple(part.get_shape()), part.get_dtype()


PEER = Safetensors
