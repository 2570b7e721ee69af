# SPDX-License-Identifier: Apache-2.0
"""Who is compared, and what each does of its own accord for durability."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Contender:
    """One library in one variant; `cairn` is run by cairn_bench, every other by `python -m peers`."""

    id: str
    label: str
    syncs: str  # What it syncs itself; all get a syncfs on top before the durable time is taken.
    packages: tuple[str, ...] = ()  # Names in requirements.txt without which it cannot run.

    @property
    def peer(self) -> str:
        return self.id.partition(":")[0]

    @property
    def variant(self) -> str:
        return self.id.partition(":")[2] or "default"

    @property
    def is_cairn(self) -> bool:
        return self.peer == "cairn"


_CAIRN = "files and directories"
_DCP = "files"
_NOTHING = "nothing"
_TORCH = ("numpy", "torch")
_ORBAX = ("numpy", "jax", "tensorstore", "orbax-checkpoint")

CONTENDERS = (
    Contender("cairn", "Cairn, copy", _CAIRN),
    Contender("cairn:borrow", "Cairn, borrow", _CAIRN),
    Contender("safetensors", "safetensors (numpy)", _NOTHING, ("numpy", "safetensors")),
    Contender("safetensors:torch", "safetensors (torch)", _NOTHING, (*_TORCH, "safetensors")),
    Contender("dcp", "DCP", _DCP, _TORCH),
    Contender("dcp:threads2", "DCP, 2 threads", _DCP, _TORCH),
    Contender("dcp:async", "DCP async", _DCP, _TORCH),
    Contender("dcp:async_cached", "DCP async, cached stager", _DCP, _TORCH),
    Contender("tensorstore", "TensorStore zarr3", "files and directories", ("numpy", "tensorstore")),
    Contender("orbax", "Orbax v1 (numpy)", "array data", _ORBAX),
    Contender("orbax:jax", "Orbax v1 (jax, immutable)", "array data", _ORBAX),
    Contender("torchsnapshot", "torchsnapshot", _NOTHING, (*_TORCH, "torchsnapshot")),
    Contender("torchsnapshot:async", "torchsnapshot async", _NOTHING, (*_TORCH, "torchsnapshot")),
)


def choose(ids: list[str]) -> list[Contender]:
    """Returns the contenders with these ids, all of them for none; raises ValueError for an unknown one."""
    known = {contender.id: contender for contender in CONTENDERS}
    for id_ in ids:
        if id_ not in known:
            raise ValueError(f"contender '{id_}' is not one of {', '.join(known)}")
    return [known[id_] for id_ in ids] if ids else list(CONTENDERS)
