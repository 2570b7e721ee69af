# SPDX-License-Identifier: Apache-2.0
"""Clocks, memory, processor time, caches and disk use, taken as tests/bench/measure.cpp does."""

from __future__ import annotations

import ctypes
import os
import pathlib
import resource
import time

DROP_CACHES = pathlib.Path("/proc/sys/vm/drop_caches")


class Stopwatch:
    """Seconds since it was made, by a monotonic clock."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._begin


def _process_cpu() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _machine_cpu() -> float:
    """Busy seconds of all cores: everything in /proc/stat but idle and waiting for disks."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, soft, steal = (int(field) for field in fields)
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


class Usage:
    """Processor time and peak memory since it was made."""

    def __init__(self) -> None:
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # Resets the peak.
        self._process = _process_cpu()
        self._machine = _machine_cpu()

    def fields(self) -> dict[str, float]:
        return {
            "cpu_s": _process_cpu() - self._process,
            "machine_cpu_s": _machine_cpu() - self._machine,
            "peak_rss_mb": _peak_rss_mb(),
        }


def _peak_rss_mb() -> float:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def sync_file_system(directory: pathlib.Path) -> None:
    """Makes everything durable that was written to the file system of `directory`."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if library.syncfs(fd) != 0:
            raise OSError(ctypes.get_errno(), "cannot sync", str(directory))
    finally:
        os.close(fd)


def files_under(directory: pathlib.Path) -> list[pathlib.Path]:
    return [pathlib.Path(folder, name) for folder, _, names in os.walk(directory) for name in names]


def evict(directory: pathlib.Path) -> None:
    """Takes the files under `directory` out of the page cache; they must have been synced."""
    for file in files_under(directory):
        fd = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def drop_page_cache(directory: pathlib.Path) -> None:
    """Empties the page cache where that is allowed; else takes the files under `directory` out of it."""
    sync_file_system(directory)
    if os.access(DROP_CACHES, os.W_OK):
        DROP_CACHES.write_text("3")
    else:
        evict(directory)


def disk_use(directory: pathlib.Path) -> dict[str, int]:
    stats = [file.stat() for file in files_under(directory)]
    return {
        "files": len(stats),
        "file_bytes": sum(stat.st_size for stat in stats),
        "disk_bytes": sum(stat.st_blocks * 512 for stat in stats),
    }
