# SPDX-License-Identifier: Apache-2.0
"""Writes torch_layouts.json: which elements each rank holds where torch divides tensors.

Usage: python make_torch_layouts.py > torch_layouts.json

Needs torch (2.15.0 made it). Elements are counted row-major and given as ranges, the end not included.
"""
import itertools
import json
import math

import torch
from torch.distributed.tensor.placement_types import Replicate, Shard, _StridedShard


def ranges(elements):
    found = []
    for element in sorted(int(each) for each in elements):
        if found and found[-1][1] == element:
            found[-1][1] += 1
        else:
            found.append([element, element + 1])
    return found


def of_torch(extents, placements, shape):
    ranks = []
    for position in itertools.product(*(range(extent) for extent in extents)):
        held = torch.arange(math.prod(shape)).reshape(shape)
        for axis, placement in enumerate(placements):
            if not isinstance(placement, Replicate):
                chunks, _ = placement._split_tensor(held, extents[axis], with_padding=False, contiguous=True)
                held = chunks[position[axis]]
        ranks.append({"elements": ranges(held.flatten().tolist())})
    said = [None if isinstance(each, Replicate) else [each.dim, getattr(each, "split_factor", 1)] for each in placements]
    return {"mesh": extents, "placements": said, "shape": shape, "ranks": ranks}


def torch_tables():
    rule, copy = Shard, Replicate()
    divided = [
        ([4], [rule(0)], [8]), ([4], [rule(0)], [7]), ([4], [rule(0)], [5, 2]), ([4], [rule(1)], [3, 10]), ([4], [copy], [3]),
        ([8], [rule(0)], [3]), ([8], [rule(0)], [13, 2]), ([2, 4], [rule(0), rule(1)], [5, 7]),
        ([2, 4], [copy, rule(0)], [11]), ([2, 4], [rule(0), copy], [7, 2]), ([2, 4], [rule(0), rule(0)], [16]),
        ([2, 4], [rule(0), rule(0)], [13]), ([2, 2, 2], [rule(0), rule(0), rule(1)], [11, 5]),
        ([2, 2, 2], [rule(2), rule(1), rule(0)], [3, 5, 7]), ([3, 2], [rule(0), rule(0)], [17, 2]),
        ([2, 2], [_StridedShard(0, split_factor=2), rule(0)], [8]), ([2, 4], [_StridedShard(0, split_factor=4), rule(0)], [16, 2]),
        ([2, 4], [_StridedShard(0, split_factor=4), rule(0)], [19]), ([2, 2], [_StridedShard(0, split_factor=2), rule(0)], [7, 3]),
        ([4, 2], [_StridedShard(1, split_factor=2), rule(1)], [2, 21]), ([2, 2, 2], [_StridedShard(0, split_factor=2), rule(0), rule(1)], [9, 4]),
    ]
    return [of_torch(*each) for each in divided]


def main():
    print("[" + ",\n".join(json.dumps(each) for each in torch_tables()) + "]")


if __name__ == "__main__":
    main()
