# SPDX-License-Identifier: Apache-2.0
"""Compares Cairn with the libraries that a user would take instead; `compare.py --help` says how."""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import signal
import sys

from driver import environment, machine
from driver.contenders import CONTENDERS, Contender, choose
from driver.earlier import merged
from driver.processes import Programs, Record
from driver.session import CAN_DROP_CACHES, Rounds, empty_directory, measure_ceilings, notices_damage
from driver.session import require_room, say
from driver.workloads import CEILINGS_OF, DAMAGE, Workload, make_workloads
from report.document import insert, markdown
from report.plot import draw
from report.table import text_report


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--dir", type=pathlib.Path, required=True, help="where checkpoints go while it runs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="where results.json and plot.svg go")
    parser.add_argument("--docs", type=pathlib.Path, help="a Markdown file to write the tables into")
    parser.add_argument("--report", type=pathlib.Path, help="measure nothing, report on this results.json")
    parser.add_argument(
        "--add", action="store_true", help="keep what results.json has of other workloads, measured likewise"
    )
    parser.add_argument("--runs", type=int, default=5, help="rounds in alternating order")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the workloads")
    parser.add_argument("--workloads", default="", help="some of w1,w3,w4_10k,w4_100k; all when empty")
    parser.add_argument("--contenders", default="", help="ids, comma-separated; all when empty")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that one operation may take")
    parser.add_argument(
        "--patience",
        type=float,
        default=180,
        help="who takes more seconds for a round of a workload runs that workload once",
    )
    parser.add_argument("--bench", type=pathlib.Path, required=True, help="cairn_bench")
    parser.add_argument("--venv", type=pathlib.Path, required=True, help="the peers' environment")
    return parser.parse_args(words)


def split(text: str) -> list[str]:
    return [word for word in text.split(",") if word]


def availability(programs: Programs, contender: Contender, refused: dict[str, str]) -> Record:
    """Returns a contender's row in the report: its versions, or why it cannot run."""
    row: Record = {"id": contender.id, "label": contender.label, "syncs": contender.syncs, "versions": {}}
    missing = [f"{name}: {refused[name]}" for name in contender.packages if name in refused]
    if missing:
        return {**row, "unavailable": missing[0]}
    if not contender.is_cairn:
        found = programs.probe(contender)
        if found["status"] != "ok":
            return {**row, "unavailable": found.get("error", found["status"])}
        row["versions"] = found["lines"][0]["versions"]
    return row


def make_pool(programs: Programs, parent: pathlib.Path) -> None:
    """Has cairn_bench make the values that all contenders share; raises RuntimeError when it cannot."""
    with empty_directory(parent) as directory:
        record = programs.run(CONTENDERS[0], "save", DAMAGE, directory)
    if record["status"] != "ok":
        raise RuntimeError(f"cairn_bench: {record.get('error', record['status'])}")


def measure(options: argparse.Namespace, chosen: list[Contender], workloads: list[Workload]) -> Record:
    """Runs everything and returns the results, as they stand in results.json."""
    with empty_directory(options.dir) as directory:
        programs = Programs(
            options.bench.resolve(),
            options.venv.resolve() / "bin" / "python",
            directory / "pool.f32",
            options.timeout,
        )
        return measure_with(programs, options, chosen, workloads)


def measure_with(
    programs: Programs, options: argparse.Namespace, chosen: list[Contender], workloads: list[Workload]
) -> Record:
    directory = programs.pool.parent  # All that is written lies below it, and goes with it.
    facts = machine.facts(options.dir)
    make_pool(programs, directory)
    refused = environment.refused(options.venv)
    rows = [availability(programs, contender, refused) for contender in chosen]
    present = [contender for contender, row in zip(chosen, rows) if "unavailable" not in row]
    for contender, row in zip(chosen, rows):
        if contender in present:
            row["damage"] = notices_damage(programs, contender, directory)
    settings = {
        "runs": options.runs,
        "scale": options.scale,
        "timeout_s": options.timeout,
        "patience_s": options.patience,
        "caches_dropped": CAN_DROP_CACHES,
    }
    results: Record = {
        "date": datetime.date.today().isoformat(),
        "machine": facts,
        "settings": settings,
        "contenders": rows,
        "workloads": {},
        "records": [],
        "ceilings": [],
    }
    if options.add:
        names = {workload.name for workload in workloads}
        earlier = json.loads((options.out / "results.json").read_text(encoding="utf-8"))
        results = merged(earlier, results, names)
    chosen_names = {row["label"] for row in results["contenders"]}
    names = {*results["workloads"], *(workload.name for workload in workloads)}
    results["left_out"] = [each.label for each in CONTENDERS if each.label not in chosen_names]
    results["left_out"] += [name for name in make_workloads(options.scale) if name not in names]
    for workload in workloads:
        results["workloads"][workload.name] = {"title": workload.title, "total_bytes": workload.total_bytes}
        rounds = Rounds(programs, workload, directory, options.patience)
        for number in range(options.runs):
            if workload.name == CEILINGS_OF:
                results["ceilings"].append(measure_ceilings(programs, workload, directory))
            results["records"] += rounds.run(number, present)
            keep(results, options.out)  # Hours of measuring survive an interruption.
    return results


def keep(results: Record, out: pathlib.Path) -> None:
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def report(results: Record, options: argparse.Namespace) -> None:
    """Prints the tables, and writes the plot and the document."""
    print(text_report(results))
    (options.out / "plot.svg").write_text(draw(results), encoding="utf-8")
    (options.out / "tables.md").write_text(markdown(results), encoding="utf-8")
    if options.docs is not None:
        text = options.docs.read_text(encoding="utf-8")
        options.docs.write_text(insert(text, markdown(results)), encoding="utf-8")


def main(words: list[str]) -> int:
    options = parse(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # So that processes are ended and files removed.
    options.dir = options.dir.resolve()  # The peers run in another directory.
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        if options.docs is not None:
            insert(options.docs.read_text(encoding="utf-8"), "")  # Refused now rather than after hours.
        if options.report is not None:
            results = json.loads(options.report.read_text(encoding="utf-8"))
        else:
            known = make_workloads(options.scale)
            names = split(options.workloads) or list(known)
            if unknown := [name for name in names if name not in known]:
                raise ValueError(f"workload '{unknown[0]}' is not one of {', '.join(known)}")
            for name in names:
                require_room(options.dir, known[name])
            results = measure(options, choose(split(options.contenders)), [known[name] for name in names])
        report(results, options)
    except (OSError, ValueError, RuntimeError) as error:
        say(f"compare: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
