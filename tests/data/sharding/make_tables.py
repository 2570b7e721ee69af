# SPDX-License-Identifier: Apache-2.0
"""Writes jax_and_torch.json: which elements each rank holds where JAX and torch divide arrays.

Usage: python make_tables.py > jax_and_torch.json

Needs jax (0.10.2 made it) and torch (2.15.0). Elements are counted row-major and given as ranges, the end not included; JAX numbers copies, torch does not.
"""
import itertools
import json
import math
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from torch.distributed.tensor.placement_types import Replicate, Shard, _StridedShard


def ranges(elements):
    found = []
    for element in sorted(int(each) for each in elements):
        if found and found[-1][1] == element:
            found[-1][1] += 1
        else:
            found.append([element, element + 1])
    return found


def numbered(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def of_jax(extents, axes, spec, shape):
    mesh = Mesh(np.array(jax.devices()[: math.prod(extents)]).reshape(extents), axes)
    parts = [tuple(each) if each else None for each in spec]
    array = jax.device_put(numbered(shape).astype(np.int32), NamedSharding(mesh, PartitionSpec(*parts)))
    ranks = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
    return {
        "mesh": extents, "axes": axes, "spec": spec, "shape": shape,
        "ranks": [{"elements": ranges(np.asarray(each.data).flat), "replica": each.replica_id} for each in ranks],
    }


def of_torch(extents, placements, shape):
    ranks = []
    for position in itertools.product(*(range(extent) for extent in extents)):
        held = torch.from_numpy(numbered(shape))
        for axis, placement in enumerate(placements):
            if not isinstance(placement, Replicate):
                chunks, _ = placement._split_tensor(held, extents[axis], with_padding=False, contiguous=True)
                held = chunks[position[axis]]
        ranks.append({"elements": ranges(held.flatten().tolist())})
    said = [None if isinstance(each, Replicate) else [each.dim, getattr(each, "split_factor", 1)] for each in placements]
    return {"mesh": extents, "placements": said, "shape": shape, "ranks": ranks}


def jax_tables():
    one, two, three = ["x"], ["x", "y"], ["x", "y", "z"]
    specs = [
        ([4], one, [["x"]], [8]), ([4], one, [[]], [8]), ([8], one, [["x"], []], [8, 3]), ([8], one, [[], ["x"]], [3, 8]),
        ([2, 4], two, [["x"], ["y"]], [4, 8]), ([2, 4], two, [["y"], ["x"]], [8, 4]), ([2, 4], two, [["x", "y"]], [16]),
        ([2, 4], two, [["y", "x"], []], [16, 2]), ([2, 4], two, [[], ["y"]], [3, 8]), ([2, 4], two, [["x"]], [4, 5]),
        ([2, 4], two, [], [3]), ([2, 2, 2], three, [["x"], ["y"], ["z"]], [2, 4, 6]),
        ([2, 2, 2], three, [["z", "x"], ["y"]], [8, 6]), ([2, 2, 2], three, [["y"], [], ["z"]], [4, 3, 2]),
        ([2, 2, 2], three, [["z", "y", "x"]], [24]), ([2, 1, 4], three, [["y"], ["z"]], [3, 4]),
        ([1, 8], two, [["x"], ["y"]], [5, 16]), ([4, 2], two, [[], [], ["x", "y"]], [1, 2, 8]),
    ]
    return [of_jax(*each) for each in specs]


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
    tables = {"jax": jax_tables(), "torch": torch_tables()}
    print("{" + ",\n".join(
        json.dumps(name) + ": [\n" + ",\n".join(json.dumps(each) for each in cases) + "]" for name, cases in tables.items()) + "}")


if __name__ == "__main__":
    main()
