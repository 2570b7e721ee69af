# SPDX-License-Identifier: Apache-2.0
"""The order of a comparison: rounds, contenders, operations; what is left on the disk between them."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import sys
import tempfile
from collections.abc import Iterator

from driver.contenders import CONTENDERS, Contender
from driver.processes import Programs, Record
from driver.workloads import DAMAGE, Workload
from peers.measure import sync_file_system

CAN_DROP_CACHES = os.access("/proc/sys/vm/drop_caches", os.W_OK)
COPIES_ON_DISK = 3  # Two checkpoints, and what a library keeps beside the second while it writes.


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def empty_directory(parent: pathlib.Path) -> Iterator[pathlib.Path]:
    """Gives a new directory, and removes it; the next operation begins with nothing left to be written."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-compare-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)
        sync_file_system(parent)


def evict(directory: pathlib.Path) -> None:
    """Takes the files of a checkpoint out of the page cache, for programs that may not empty it."""
    for folder, _, names in os.walk(directory):
        for name in names:
            fd = os.open(pathlib.Path(folder, name), os.O_RDONLY)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def require_room(parent: pathlib.Path, workload: Workload) -> None:
    """Raises OSError when the disk has not enough room for a workload."""
    needed, free = COPIES_ON_DISK * workload.total_bytes, shutil.disk_usage(parent).free
    if free < needed:
        raise OSError(f"'{parent}' has {free >> 20} MiB free, {workload.name} needs {needed >> 20} MiB")


def run_once(
    programs: Programs, contender: Contender, workload: Workload, parent: pathlib.Path
) -> list[Record]:
    """Runs the operations of a workload one after another; the first that fails is the last."""
    records: list[Record] = []
    with empty_directory(parent) as directory:
        for operation in workload.operations:
            evict(directory)
            record = programs.run(contender, operation, workload, directory)
            if contender.is_cairn and operation == "meta" and not CAN_DROP_CACHES:
                for line in record["lines"]:
                    line.pop("cold_s", None)  # cairn_bench cannot make it cold, so it is not.
            records.append(record)
            if record["status"] != "ok":
                break
    return records


class Rounds:
    """The rounds of one workload, in alternating order.

    Invariant: who has failed, or has taken longer than `patience_s` for one round, does not run again.
    """

    def __init__(
        self, programs: Programs, workload: Workload, parent: pathlib.Path, patience_s: float
    ) -> None:
        self._programs = programs
        self._workload = workload
        self._parent = parent
        self._patience_s = patience_s
        self._done: set[str] = set()

    def run(self, number: int, contenders: list[Contender]) -> Iterator[Record]:
        """Runs round `number`: forwards when it is even, backwards when it is odd."""
        order = contenders if number % 2 == 0 else contenders[::-1]
        for contender in order:
            if contender.id in self._done:
                continue
            records = run_once(self._programs, contender, self._workload, self._parent)
            seconds = sum(record["seconds"] for record in records)
            status = records[-1]["status"]
            say(f"{self._workload.name} round {number + 1}: {contender.id}: {status}, {seconds:.1f} s")
            if status != "ok" or seconds > self._patience_s:
                self._done.add(contender.id)
            yield from ({**record, "round": number} for record in records)


def measure_ceilings(programs: Programs, workload: Workload, parent: pathlib.Path) -> Record:
    """Measures what the machine can do without any library."""
    with empty_directory(parent) as directory:
        return programs.run(CONTENDERS[0], "ceilings", workload, directory)


def _flip_a_byte(directory: pathlib.Path) -> None:
    files = [pathlib.Path(folder, name) for folder, _, names in os.walk(directory) for name in names]
    largest = max(files, key=lambda file: file.stat().st_size)
    with largest.open("r+b") as file:
        file.seek(largest.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x01]))


def notices_damage(programs: Programs, contender: Contender, parent: pathlib.Path) -> str:
    """Says what a load does after one bit in the middle of the largest file has changed."""
    with empty_directory(parent) as directory:
        if programs.run(contender, "save", DAMAGE, directory)["status"] != "ok":
            return "not known"
        _flip_a_byte(directory / "ck1")
        status = programs.run(contender, "load", DAMAGE, directory)["status"]
    return {"failed": "error", "wrong values": "wrong values", "ok": "no effect"}.get(status, "not known")
