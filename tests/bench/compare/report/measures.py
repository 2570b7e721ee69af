# SPDX-License-Identifier: Apache-2.0
"""What is read out of the records, and its statistics over the rounds."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable
from typing import Any

Record = dict[str, Any]
Line = dict[str, Any]
Results = dict[str, Any]

CAIRN = "cairn"
GIB_IN_MIB = 1024


@dataclasses.dataclass(frozen=True)
class Measure:
    """One column; the smaller the better. `value` gets the line and the bytes of the workload's arrays."""

    key: str
    title: str
    unit: str
    op: str
    pick: Callable[[list[Line]], Line]
    value: Callable[[Line, int], float | None]


@dataclasses.dataclass(frozen=True)
class Summary:
    """A measure over the rounds of one contender."""

    median: float
    low: float
    high: float
    count: int


def _first(lines: list[Line]) -> Line:
    return lines[0]


def _last(lines: list[Line]) -> Line:
    return lines[-1]


def _cache(name: str) -> Callable[[list[Line]], Line]:
    return lambda lines: next(line for line in lines if line["cache"] == name)


def _field(name: str, scale: float = 1) -> Callable[[Line, int], float | None]:
    return lambda line, _: line[name] * scale if name in line else None


BLOCKING = Measure("blocking", "blocking", "s", "save", _last, _field("blocking_s"))
DURABLE = Measure("durable", "durable save", "s", "save", _last, _field("durable_s"))
COLD = Measure("cold", "cold load", "s", "load", _cache("cold"), _field("load_s"))
WARM = Measure("warm", "warm load", "s", "load", _cache("warm"), _field("load_s"))
FIRST = Measure("first", "first durable save", "s", "save", _first, _field("durable_s"))
CPU = Measure(
    "cpu", "save, processor", "s/GB", "save", _last, lambda line, size: line["cpu_s"] / (size / 1e9)
)
LOAD_CPU = Measure(
    "load_cpu",
    "cold load, processor",
    "s/GB",
    "load",
    _cache("cold"),
    lambda line, size: line["cpu_s"] / (size / 1e9),
)
RSS = Measure("rss", "save, peak memory", "GiB", "save", _last, _field("peak_rss_mb", 1 / GIB_IN_MIB))
LOAD_RSS = Measure(
    "load_rss", "load, peak memory", "GiB", "load", _cache("cold"), _field("peak_rss_mb", 1 / GIB_IN_MIB)
)
DISK = Measure("disk", "on disk / data", "", "save", _last, lambda line, size: line["disk_bytes"] / size)
META_WARM = Measure("meta_warm", "metadata, warm", "ms", "meta", _last, _field("warm_s", 1000))
META_COLD = Measure("meta_cold", "metadata, cold", "ms", "meta", _last, _field("cold_s", 1000))

TIMES = (BLOCKING, DURABLE, COLD, WARM)
COSTS = (FIRST, CPU, LOAD_CPU, RSS, LOAD_RSS, DISK)
METADATA = (META_WARM, META_COLD, DURABLE, DISK)


TITLES = {TIMES: "times", COSTS: "costs", METADATA: "metadata"}


def columns(results: Results, workload: str) -> list[tuple[Measure, ...]]:
    """Returns the tables of a workload, each as its measures."""
    is_metadata = any(record["op"] == "meta" for record in records_of(results, workload))
    return [METADATA] if is_metadata else [TIMES, COSTS]


def records_of(results: Results, workload: str, contender: str | None = None) -> list[Record]:
    return [
        record
        for record in results["records"]
        if record["workload"] == workload and contender in (None, record["contender"])
    ]


def summarise(results: Results, workload: str, contender: str, measure: Measure) -> Summary | None:
    """Returns the statistics over the rounds that were ok; None when there is none."""
    size = results["workloads"][workload]["total_bytes"]
    values = [
        value
        for record in records_of(results, workload, contender)
        if record["op"] == measure.op
        and record["status"] == "ok"
        and (value := measure.value(measure.pick(record["lines"]), size)) is not None
    ]
    if not values:
        return None
    return Summary(statistics.median(values), min(values), max(values), len(values))


def failures(results: Results, workload: str, contender: str) -> list[str]:
    """Returns one sentence for each operation that did not end well."""
    sentences = []
    for record in records_of(results, workload, contender):
        if record["status"] == "timeout":
            sentences.append(f"{record['op']} took more than {record['seconds']:.0f} s")
        elif record["status"] != "ok":
            sentences.append(f"{record['op']}: {record.get('error', record['status'])}")
    return sentences


def behind(results: Results) -> list[str]:
    """Returns a line for each measure in which a peer has a smaller median than the best variant of Cairn."""
    found = []
    for workload in results["workloads"]:
        for measure in dict.fromkeys(m for table in columns(results, workload) for m in table):
            medians = {
                row["label"]: (row["id"].partition(":")[0], summary.median)
                for row in results["contenders"]
                if (summary := summarise(results, workload, row["id"], measure))
            }
            ours = min((value for peer, value in medians.values() if peer == CAIRN), default=None)
            if ours is None:
                continue
            better = [
                f"{label} {number(value)}"
                for label, (peer, value) in medians.items()
                if peer != CAIRN and value < ours
            ]
            if better:
                unit = f" {measure.unit}" if measure.unit else ""
                found.append(f"{workload}, {measure.title}: Cairn {number(ours)}{unit}; {', '.join(better)}")
    return found


def number(value: float) -> str:
    """Returns a number with three significant digits, without an exponent."""
    if value == 0:
        return "0"
    magnitude = abs(value)
    digits = next(
        (d for limit, d in ((100, 0), (10, 1), (1, 2), (0.1, 3), (0.01, 4)) if magnitude >= limit), 5
    )
    return f"{value:.{digits}f}"
