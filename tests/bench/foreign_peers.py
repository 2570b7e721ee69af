# SPDX-License-Identifier: Apache-2.0
"""Reads with torch what `cairn_bench foreign_archive` and `foreign_distributed` have made; prints JSON lines as they do.

    foreign_peers.py archive DIR --saves 5
    foreign_peers.py distributed DIR --saves 5

Needs torch (tests/bench/compare/requirements.txt has the version). Each round is cold where the page cache may be emptied.
"""
import argparse
import json
import os
import subprocess
import sys
import time

try:
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemReader, LoadPlanner
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata
    from torch.distributed.checkpoint.planner import LoadPlan
    from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list
    from torch.distributed._shard._utils import narrow_tensor_by_index
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

PARTS = 8


class Boxes(LoadPlanner):
    """Loads boxes of one tensor into memory that is there: what a process of a job does with its own box."""

    def __init__(self, name, boxes):
        self.name, self.boxes = name, boxes

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        self.metadata = metadata

    def create_local_plan(self):
        chunks = [ChunkStorageMetadata(torch.Size(offsets), tensor.size()) for offsets, tensor in self.boxes]
        return LoadPlan(create_read_items_for_chunk_list(self.name, self.metadata.state_dict_metadata[self.name], chunks))

    def create_global_plan(self, global_plan):
        return global_plan

    def finish_plan(self, central_plan):
        return central_plan

    def load_bytes(self, read_item, value):
        raise ValueError("no objects are wanted")

    def resolve_tensor(self, read_item):
        tensor = self.boxes[read_item.dest_index.index or 0][1]
        return narrow_tensor_by_index(tensor, read_item.dest_offsets, read_item.lengths)

    def commit_tensor(self, read_item, tensor):
        pass


def is_cold(folder):
    """Empties the page cache; returns whether it could."""
    subprocess.run(["sync", "-f", folder], check=True)
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
            file.write("3")
        return True
    except OSError:
        return False


def report(operation, variant, seconds, cold):
    print(json.dumps({"op": operation, "variant": variant, "cache": "cold" if cold else "warm", "torch": torch.__version__,
                      "torch_s": seconds}), flush=True)


def used(*shape):
    return torch.zeros(shape).fill_(1.0)


def copy_archive(path, memory):
    for name, tensor in torch.load(path, mmap=True).items():
        memory[name].copy_(tensor)


def archive(folder, rounds):
    path = os.path.join(folder, "arrays.pt")
    memory = {name: used(*tensor.shape) for name, tensor in torch.load(path, mmap=True).items()}
    for _ in range(rounds):
        cold = is_cold(folder)
        begin = time.perf_counter()
        copy_archive(path, memory)  # Nothing stays mapped, or the next round would not be cold.
        report("foreign_archive", "torch.load(mmap=True)", time.perf_counter() - begin, cold)


def distributed(folder, rounds):
    path = os.path.join(folder, "matrix_dcp")
    rows, columns = FileSystemReader(path).read_metadata().state_dict_metadata["w"].size
    layouts = {"whole": [((0, 0), used(rows, columns))],
               "columns": [((0, i * columns // PARTS), used(rows, columns // PARTS)) for i in range(PARTS)],
               "rows": [((3 * rows // PARTS, 0), used(rows // PARTS, columns))]}
    for variant, boxes in layouts.items():
        for _ in range(rounds):
            cold = is_cold(folder)
            begin = time.perf_counter()
            dcp.load({}, storage_reader=FileSystemReader(path), planner=Boxes("w", boxes), no_dist=True)
            report("foreign_distributed", variant, time.perf_counter() - begin, cold)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operation", choices=["archive", "distributed"])
    parser.add_argument("folder")
    parser.add_argument("--saves", type=int, default=5, help="rounds")
    arguments = parser.parse_args()
    {"archive": archive, "distributed": distributed}[arguments.operation](arguments.folder, arguments.saves)


if __name__ == "__main__":
    main()
