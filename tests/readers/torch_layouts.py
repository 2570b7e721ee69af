# SPDX-License-Identifier: Apache-2.0
"""Reads random checkpoints with torch: `torch_layouts.py CAIRN LIST`.

LIST is what cairn_torch_layouts has printed. Torch reads every element of a checkpoint, or refuses it where the save has said so; what
`CAIRN reshard --max-file` makes of it, torch reads.
"""

import json
import subprocess
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader


def read(folder, arrays):
    """What differs from the numbers of the elements, in words; nothing where all is as it was saved."""
    described = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    shapes = {name: list(each.size) for name, each in described.items()}
    if shapes != arrays:
        return f"torch sees {shapes}"
    state = {name: torch.full(each.size, -1, dtype=each.properties.dtype) for name, each in described.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    for name, shape in arrays.items():
        expected = torch.arange(state[name].numel(), dtype=state[name].dtype).reshape(shape)
        wrong = int((state[name] != expected).sum())
        if wrong:
            return f"torch reads {wrong} of {expected.numel()} elements of '{name}' wrong"
    return ""


def refuses(folder, arrays):
    try:
        return read(folder, arrays) and False
    except Exception:  # Whatever torch says: it does not know what it refuses.
        return True


def main(cairn, listed):
    refused = whole = 0
    with open(listed) as lines:
        checkpoints = [json.loads(line) for line in lines]
    for number, one in enumerate(checkpoints):
        path, arrays = one["path"], one["arrays"]
        if one["is_marked"]:
            refused += 1
            if not refuses(f"{path}/state", arrays):
                sys.exit(f"{path}: torch reads it, though a file holds several boxes of an array")
        else:
            whole += 1
            problem = read(f"{path}/state", arrays)
            if problem:
                sys.exit(f"{path}: {problem}")
        if number % 5 == 0:
            subprocess.run([cairn, "reshard", path, f"{path}-cut", "--max-file", "300"], check=True, stdout=subprocess.DEVNULL)
            problem = read(f"{path}-cut/state", arrays)
            if problem:
                sys.exit(f"{path}-cut: {problem}")
    print(f"torch: {whole} random checkpoints read whole, {refused} refused that are marked, 0 differ")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
