# SPDX-License-Identifier: Apache-2.0
"""A plot as SVG: a panel for each workload and measure, a bar for each contender, with its range."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

from report.measures import (
    BLOCKING,
    CAIRN,
    COLD,
    DURABLE,
    META_WARM,
    Results,
    Summary,
    columns,
    number,
)
from report.measures import summarise

PLOTTED = (BLOCKING, DURABLE, COLD, META_WARM)
PANEL_WIDTH, LABEL_WIDTH, VALUE_WIDTH = 560, 180, 80
BAR_HEIGHT, ROW_HEIGHT, HEAD_HEIGHT, AXIS_HEIGHT, GAP = 12, 18, 30, 34, 20
PANELS_A_ROW = 2
OURS, THEIRS = "#1f6f8b", "#b0a08a"
UNITS = {"s": "seconds", "ms": "milliseconds"}

Bar = tuple[str, bool, Summary]
Panel = tuple[str, str, list[Bar]]  # Title, what the axis measures, bars.


def panels_of(results: Results) -> list[Panel]:
    panels = []
    for workload in results["workloads"]:
        offered = [measure for table in columns(results, workload) for measure in table]
        for measure in (measure for measure in PLOTTED if measure in offered):
            bars = [
                (row["label"], row["id"].partition(":")[0] == CAIRN, summary)
                for row in results["contenders"]
                if (summary := summarise(results, workload, row["id"], measure))
            ]
            if bars:
                panels.append((f"{workload}: {measure.title}", UNITS[measure.unit], bars))
    return panels


def _text(x: float, y: float, text: str, size: int = 11, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"


def _bar(x: float, y: float, bar: Bar, unit_width: float) -> list[str]:
    label, is_ours, summary = bar
    width, low, high = (value * unit_width for value in (summary.median, summary.low, summary.high))
    begin, middle = x + LABEL_WIDTH, y + BAR_HEIGHT / 2
    return [
        _text(begin - 6, y + BAR_HEIGHT - 2, label, anchor="end"),
        f'<rect x="{begin:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" height="{BAR_HEIGHT}" '
        f'fill="{OURS if is_ours else THEIRS}"/>',
        f'<line x1="{begin + low:.1f}" y1="{middle:.1f}" x2="{begin + high:.1f}" y2="{middle:.1f}" '
        f'stroke="black"/>',
        _text(begin + max(width, high) + 5, y + BAR_HEIGHT - 2, number(summary.median), size=10),
    ]


def tick_of(longest: float) -> float:
    """Returns 1, 2 or 5 times a power of ten, of which two to four fit into `longest`."""
    power = 10 ** math.floor(math.log10(longest / 2))
    return next(power * factor for factor in (5, 2, 1) if power * factor * 2 <= longest)


def _axis(x: float, y: float, name: str, longest: float, unit_width: float) -> list[str]:
    end = x + longest * unit_width
    shapes = [f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="black"/>']
    tick = tick_of(longest)
    for index in range(int(longest / tick * (1 + 1e-9)) + 1):
        at = x + index * tick * unit_width
        shapes.append(f'<line x1="{at:.1f}" y1="{y:.1f}" x2="{at:.1f}" y2="{y + 4:.1f}" stroke="black"/>')
        shapes.append(_text(at, y + 14, f"{index * tick:g}", size=10, anchor="middle"))
    shapes.append(_text(x - 6, y + 14, name, size=10, anchor="end"))
    return shapes


def _panel(x: float, y: float, panel: Panel) -> list[str]:
    title, name, bars = panel
    longest = max(max(summary.high, summary.median) for _, _, summary in bars)
    unit_width = (PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH) / longest if longest > 0 else 0
    shapes = [_text(x, y + 16, title, size=13)]
    for index, bar in enumerate(bars):
        shapes += _bar(x, y + HEAD_HEIGHT + index * ROW_HEIGHT, bar, unit_width)
    if longest > 0:
        shapes += _axis(x + LABEL_WIDTH, y + HEAD_HEIGHT + len(bars) * ROW_HEIGHT, name, longest, unit_width)
    return shapes


def draw(results: Results) -> str:
    """Returns the whole plot; the scale of every panel is linear and begins at zero."""
    return draw_panels(panels_of(results), results["date"], results["settings"]["runs"])


def draw_panels(panels: list[Panel], date: str, runs: int) -> str:
    title = f"Cairn beside its peers, {date}: bars are medians of {runs} rounds, lines go from the least to the most"
    shapes = [_text(GAP, GAP, f"{title}; less is better", size=14)]
    y = float(GAP + HEAD_HEIGHT)
    for begin in range(0, len(panels), PANELS_A_ROW):
        row = panels[begin : begin + PANELS_A_ROW]
        for column, panel in enumerate(row):
            shapes += _panel(GAP + column * (PANEL_WIDTH + GAP), y, panel)
        y += HEAD_HEIGHT + AXIS_HEIGHT + GAP + ROW_HEIGHT * max(len(bars) for _, _, bars in row)
    width = GAP + PANELS_A_ROW * (PANEL_WIDTH + GAP)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y:.0f}" font-family="sans-serif">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>"]) + "\n"
