# SPDX-License-Identifier: Apache-2.0
"""Tables: cells, rows, and their form for a terminal."""

from __future__ import annotations

import dataclasses

from report.measures import (
    CAIRN,
    TITLES,
    Measure,
    Results,
    Summary,
    behind,
    columns,
    failures,
    number,
    summarise,
)

ABSENT = "-"

# What the keys of `cairn_bench ceilings` say.
CEILINGS = {
    "memcpy1_s": "copy by one thread, into touched memory, s",
    "memcpy2_s": "copy by two threads, s",
    "memcpy2_fresh_s": "copy by two threads into fresh memory of small pages, s",
    "write_s": "O_DIRECT write through io_uring, synced, s",
    "read_s": "O_DIRECT read through io_uring, cold, s",
    "touch2_s": "two threads touch fresh huge pages, s",
    "read_fresh_s": "O_DIRECT read into fresh huge pages, s",
    "read_buffered_s": "read through the page cache, cold, s",
    "xxh3_gbs": "XXH3 by one thread, GB/s",
    "fsync_s": "fsync with nothing to write, s",
}


@dataclasses.dataclass(frozen=True)
class Table:
    """A caption, a head, rows of as many cells, and remarks below."""

    caption: str
    head: list[str]
    rows: list[list[str]]
    remarks: list[str]


def cell(summary: Summary | None, cairn: Summary | None, runs: int) -> str:
    """Returns median, minimum to maximum, how many times Cairn's, and the count where it is not `runs`."""
    if summary is None:
        return ABSENT
    text = number(summary.median)
    if summary.count > 1:
        text += f" ({number(summary.low)}-{number(summary.high)})"
    if cairn is not None and cairn.median > 0:
        text += f" {number(summary.median / cairn.median)}x"
    return text if summary.count == runs else f"{text} n={summary.count}"


def _row(
    results: Results, workload: str, contender: dict[str, str], measures: tuple[Measure, ...]
) -> list[str]:
    if "unavailable" in contender:
        return [contender["label"], f"not available: {contender['unavailable']}", *[""] * (len(measures) - 1)]
    cells = []
    for measure in measures:
        cairn = None if contender["id"] == CAIRN else summarise(results, workload, CAIRN, measure)
        summary = summarise(results, workload, contender["id"], measure)
        cells.append(cell(summary, cairn, results["settings"]["runs"]))
    return [contender["label"], *cells]


def _head(measure: Measure) -> str:
    return f"{measure.title}, {measure.unit}" if measure.unit else measure.title


def _entrants(results: Results, workload: str) -> list[dict[str, str]]:
    """Returns the contenders that ran the workload, and those that could run none."""
    ran = {record["contender"] for record in results["records"] if record["workload"] == workload}
    return [row for row in results["contenders"] if row["id"] in ran or "unavailable" in row]


def _not_run(results: Results, workload: str) -> list[str]:
    """Returns a sentence that names the contenders that could have run the workload and did not."""
    entrants = _entrants(results, workload)
    names = [row["label"] for row in results["contenders"] if row not in entrants]
    return [f"not run: {'; '.join(names)}"] if names else []


def left_out(results: Results) -> str:
    """Returns a sentence that names the contenders and workloads that were measured nowhere; empty for none."""
    names = "; ".join(results.get("left_out", []))
    return f"Not measured: {names}." if names else ""


def tables(results: Results) -> list[Table]:
    """Returns the tables of all workloads, in the order in which they were measured."""
    made = []
    for workload, facts in results["workloads"].items():
        remarks = [
            f"{row['label']}: {sentence}"
            for row in results["contenders"]
            for sentence in failures(results, workload, row["id"])
        ]
        remarks += _not_run(results, workload)
        for measures in columns(results, workload):
            rows = [_row(results, workload, row, measures) for row in _entrants(results, workload)]
            head = ["library", *(_head(measure) for measure in measures)]
            caption = f"{workload}, {TITLES[measures]}: {facts['title']} ({results['date']})"
            made.append(Table(caption, head, rows, remarks))
            remarks = []  # Once a workload.
    return made


def durability(results: Results) -> Table:
    """Returns what each does for durability and against damage, and its versions."""
    rows = []
    for row in results["contenders"]:
        versions = ", ".join(f"{name} {version}" for name, version in row["versions"].items())
        rows.append([row["label"], row["syncs"], row.get("damage", ABSENT), versions or ABSENT])
    head = ["library", "syncs itself", "load after one bit has changed", "versions"]
    return Table(f"Durability and damage ({results['date']})", head, rows, [])


def ceilings(results: Results) -> Table | None:
    """Returns what the machine does without any library: median, minimum and maximum over the rounds."""
    lines = [line for record in results["ceilings"] for line in record["lines"]]
    if not lines:
        return None
    keys = [key for key, value in lines[0].items() if isinstance(value, float)]
    rows = []
    for key in keys:
        values = sorted(line[key] for line in lines)
        summary = Summary(values[len(values) // 2], values[0], values[-1], len(values))
        rows.append([CEILINGS.get(key, key), cell(summary, None, len(values))])
    caption = f"Ceilings of the machine, {lines[0]['bytes'] / 1e9:.2f} GB ({results['date']})"
    return Table(caption, ["what the machine does without a library", "median (least-most)"], rows, [])


def render(table: Table) -> str:
    """Returns a table in columns of equal width; the text of a row that is not available runs over them."""
    spans = [row for row in table.rows if len(row) > 2 and not any(row[2:])]
    aligned = [table.head, *(row for row in table.rows if row not in spans)]
    widths = [max(len(row[i]) for row in aligned) for i in range(len(table.head))]
    widths[0] = max(widths[0], *(len(row[0]) for row in table.rows))
    lines = [table.caption, ""]
    for row in [table.head, *table.rows]:
        lines.append("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    return "\n".join([*lines, *table.remarks])


def all_tables(results: Results) -> list[Table]:
    bounds = ceilings(results)
    return [*tables(results), *([bounds] if bounds else []), durability(results)]


def text_report(results: Results) -> str:
    """Returns everything for a terminal."""
    facts = ", ".join(f"{key}: {value}" for key, value in results["machine"].items())
    parts = [f"{results['date']}, {facts}", *(render(table) for table in all_tables(results))]
    if sentence := left_out(results):
        parts.append(sentence)
    lines = behind(results)
    parts.append("\n".join(["Where a peer is ahead of Cairn:", *(lines or ["nowhere"])]))
    return "\n\n".join(parts)
