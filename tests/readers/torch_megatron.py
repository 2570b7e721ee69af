# SPDX-License-Identifier: Apache-2.0
"""Reads what examples/megatron has saved with torch: `torch_megatron.py MARKED FOLDER...`. It must refuse the first, and read the others."""

import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

LAYERS, EXPERTS, HIDDEN, WORDS = 4, 4, 16, 64


def filled(rows, seed):
    return torch.arange(rows * HIDDEN, dtype=torch.float32).reshape(rows, HIDDEN) + seed


def expected():
    def stack(layer):
        return torch.stack([layer(1000 * number) for number in range(LAYERS)])

    return {
        "layers.qkv": stack(lambda seed: filled(3 * HIDDEN, seed)),
        "layers.fc1": stack(lambda seed: torch.cat([filled(4 * HIDDEN, seed + half) for half in (1, 2)])),
        "layers.experts": stack(lambda seed: torch.stack([filled(HIDDEN, seed + expert) for expert in range(EXPERTS)])),
        "embedding": filled(WORDS, 0),
        "optimizer.state.exp_avg.embedding": filled(WORDS, 0),
    }


def read(folder):
    described = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    state = {name: torch.full(each.size, -1, dtype=each.properties.dtype) for name, each in described.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    return state


def main(marked, folders):
    for folder in folders:
        state = read(folder)
        for name, elements in expected().items():
            if name not in state or not torch.equal(state[name], elements):
                sys.exit(f"{folder}: torch reads other elements of '{name}'")
    try:
        read(marked)
    except Exception:  # Whatever torch says: it does not know what it refuses.
        print(f"torch: megatron: {len(folders)} checkpoints of {len(expected())} tensors, 0 differ; refuses the marked one")
        return
    sys.exit(f"{marked}: torch reads it, though files hold several boxes of an array")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1], sys.argv[2:])
