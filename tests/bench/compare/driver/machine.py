# SPDX-License-Identifier: Apache-2.0
"""The facts about the machine that a report needs."""

from __future__ import annotations

import os
import pathlib
import platform
import subprocess


def _field(file: str, key: str) -> str:
    for line in pathlib.Path(file).read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return "unknown"


def file_system(directory: pathlib.Path, mounts: str) -> str:
    """Returns the type of the file system of `directory`, given the text of /proc/mounts."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        _, point, type_, *_ = line.split()
        below = directory == pathlib.Path(point) or pathlib.Path(point) in directory.parents
        if below and len(point) >= len(best):
            best, kind = point, type_
    return kind


def _revision(source: pathlib.Path) -> str:
    command = ["git", "-C", str(source), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def facts(directory: pathlib.Path) -> dict[str, str]:
    """Returns what a reader must know to judge the figures, in the order of the report."""
    memory_kb = int(_field("/proc/meminfo", "MemTotal").split()[0])
    mounts = pathlib.Path("/proc/mounts").read_text(encoding="utf-8")
    return {
        "Cairn": _revision(pathlib.Path(__file__).parent),
        "processor": f"{_field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{memory_kb / (1 << 20):.1f} GiB",
        "kernel": platform.release(),
        "file system": file_system(directory, mounts),
        "Python": platform.python_version(),
        "load before the start": f"{os.getloadavg()[0]:.2f}",
    }
