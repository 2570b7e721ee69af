# SPDX-License-Identifier: Apache-2.0
"""What is saved and loaded; the names are those of tests/bench."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Workload:
    """`count` float32 arrays of `rows` x `columns`, and the operations that are measured on them."""

    name: str
    count: int
    rows: int
    columns: int
    per_layer: int
    operations: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        return self.count * self.rows * self.columns * 4

    @property
    def title(self) -> str:
        size = f"{self.total_bytes / (1 << 20):.4g} MiB"
        return f"{self.count:,} arrays of {self.rows} x {self.columns} float32, {size}"

    def arguments(self) -> list[str]:
        """Returns the options that say this to cairn_bench and to the peers."""
        shape = ["--count", str(self.count), "--rows", str(self.rows), "--cols", str(self.columns)]
        return ["--workload", self.name, *shape, "--per-layer", str(self.per_layer)]


def _scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale))


def make_workloads(scale: float) -> dict[str, Workload]:
    """Returns the workloads by name; a scale below 1 makes large arrays shorter and many arrays fewer."""
    load = ("save", "load")
    metadata = ("save", "meta")
    workloads = [
        Workload("w1", 40, _scaled(6400, scale), 4096, 4, load),
        Workload("w3", _scaled(100_000, scale), 32, 32, 334, load),
        Workload("w4_10k", _scaled(10_000, scale), 4, 4, 334, metadata),
        Workload("w4_100k", _scaled(100_000, scale), 4, 4, 334, metadata),
    ]
    return {workload.name: workload for workload in workloads}


CEILINGS_OF = "w1"  # The workload beside whose rounds the machine's ceilings are measured.

# Small enough for a second, and every array is compared with what was saved.
DAMAGE = Workload("damage", 4, 256, 256, 4, ("save", "load"))
