# SPDX-License-Identifier: Apache-2.0
"""Reads a checkpoint of examples/sharded with torch: `torch_reads.py FOLDER FINAL RANKS`.

FINAL has the same arrays one behind the other, as the program holds them.
"""

import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

LAYERS = ("w1", "b1", "w2", "b2")
ORDER = [f"{part}/{layer}" for part in ("weights", "adam/first", "adam/second") for layer in LAYERS] + ["random", "order"]


def main(folder, final, ranks):
    described = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    if sorted(described) != sorted(ORDER):
        sys.exit(f"torch sees other arrays: {sorted(described)}")
    state = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in described.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    with open(final, "rb") as file:
        expected = file.read()
    for name in ORDER:
        found = state[name].numpy().tobytes()
        if found != expected[: len(found)]:
            sys.exit(f"torch reads other values of '{name}'")
        expected = expected[len(found):]
    slices = sum(len(each.chunks) for each in described.values())
    print(f"torch: {len(state)} arrays in {slices} slices of {ranks} ranks, 0 differ")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
