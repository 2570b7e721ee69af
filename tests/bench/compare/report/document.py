# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown, and its place in a document."""

from __future__ import annotations

import textwrap

from report.measures import Results, behind
from report.table import Table, all_tables, left_out

BEGIN = "<!-- compare:begin -->"
END = "<!-- compare:end -->"
COLUMNS = 120  # Of prose in docs.


def _escape(text: str) -> str:
    return text.replace("|", "\\|")


def _table(table: Table) -> str:
    lines = [f"### {table.caption}", ""]
    lines.append("| " + " | ".join(_escape(text) for text in table.head) + " |")
    lines.append("|" + "---|" * len(table.head))
    lines += ["| " + " | ".join(_escape(text) for text in row) + " |" for row in table.rows]
    if table.remarks:
        lines += ["", *(f"- {remark}" for remark in table.remarks)]
    return "\n".join(lines)


def _settings(results: Results) -> str:
    settings = results["settings"]
    caches = "the page cache was emptied"
    if not settings["caches_dropped"]:
        caches = "the files were taken out of the page cache"
    text = (
        f"Measured on {results['date']}: {settings['runs']} rounds at scale {settings['scale']:g}; before "
        f"cold loads {caches}; one round only for who took more than {settings['patience_s']:g} s for it; "
        f"{settings['timeout_s']:g} s at most for one operation. Cells are medians, in brackets the least and the most, "
        "then how many times the median of Cairn with copies that is."
    )
    return textwrap.fill(text, COLUMNS)


def markdown(results: Results) -> str:
    """Returns facts, tables, and the list of what peers do better."""
    facts = ["| machine | |", "|---|---|"]
    facts += [f"| {key} | {_escape(value)} |" for key, value in results["machine"].items()]
    ahead = [f"- {line}" for line in behind(results)] or ["In none of these measures."]
    parts = [
        _settings(results),
        "\n".join(facts),
        *(textwrap.fill(text, COLUMNS) for text in [left_out(results)] if text),
        *(_table(table) for table in all_tables(results)),
        "### Where a peer is ahead of Cairn",
        "\n".join(ahead),
    ]
    return "\n\n".join(parts) + "\n"


def insert(text: str, report: str) -> str:
    """Returns `text` with `report` between its two marks; raises ValueError unless it has each once."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the document needs '{BEGIN}' and '{END}' once each, in this order")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{report}\n{END}{after}"
