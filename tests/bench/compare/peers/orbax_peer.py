# SPDX-License-Identifier: Apache-2.0
"""Orbax, interface version 1, with its defaults: zarr3 arrays in OCDBT."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from orbax.checkpoint import v1 as ocp

from peers.measure import Stopwatch
from peers.peer import Peer, Wait
from peers.workload import Workload, flatten, map_leaves, nest


class Orbax(Peer):
    """Variants: `default` saves numpy arrays, which it copies; `jax` saves jax arrays, which never change."""

    variants = ("default", "jax")
    distributions = ("orbax-checkpoint", "jax", "tensorstore")

    def adopt(self, arrays: dict[str, np.ndarray]) -> Any:
        if self.variant == "jax":
            return jax.block_until_ready(nest(map_leaves(arrays, lambda array: jnp.array(array, copy=True))))
        return nest(arrays)

    def save(self, state: Any, target: pathlib.Path) -> Wait:
        return ocp.save_async(target, state).result

    def train(self, state: Any, root: pathlib.Path, steps: int, keep: int) -> list[float]:
        policies = ocp.training.preservation_policies
        kept = policies.LatestN(keep) if keep else policies.PreserveAll()
        every = ocp.training.save_decision_policies.FixedIntervalPolicy(1)
        blocking = []
        with ocp.training.Checkpointer(root, save_decision_policy=every, preservation_policy=kept) as run:
            for step in range(steps):
                watch = Stopwatch()
                run.save_async(step, state)
                blocking.append(watch.seconds())
                state = self.mutate(state)
        return blocking

    def load(self, target: pathlib.Path, workload: Workload) -> Any:
        if self.variant == "jax":
            wanted = nest(
                {path: jax.ShapeDtypeStruct(workload.shape, jnp.float32) for path in workload.paths()}
            )
            return jax.block_until_ready(ocp.load(target, wanted))
        return ocp.load(target)

    def visit(self, target: pathlib.Path) -> Iterable[tuple[str, tuple[int, ...], str]]:
        for name, entry in flatten(ocp.metadata(target).metadata).items():
            yield name, tuple(entry.shape), str(entry.dtype)

    def mutate(self, state: Any) -> Any:
        return (
            jax.block_until_ready(super().mutate(state)) if self.variant == "jax" else super().mutate(state)
        )


PEER = Orbax
