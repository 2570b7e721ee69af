# SPDX-License-Identifier: Apache-2.0
"""Tests what the comparison does with its records; needs neither the peers' environment nor a network."""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

from driver import environment, machine, session
from driver.contenders import CONTENDERS, choose
from driver.earlier import merged
from driver.processes import Programs, Record
from driver.workloads import DAMAGE, make_workloads
from report.document import BEGIN, END, insert, markdown
from report.measures import (
    BLOCKING,
    COLD,
    CPU,
    DURABLE,
    META_COLD,
    META_WARM,
    Summary,
    behind,
    failures,
    number,
)
from report.measures import summarise
from report.plot import draw, tick_of
from report.table import cell, text_report

HERE = pathlib.Path(__file__).parent
RESULTS = json.loads((HERE / "recorded.json").read_text(encoding="utf-8"))


class Statistics(unittest.TestCase):
    def test_takes_median_least_and_most_of_the_last_save_of_each_round(self) -> None:
        self.assertEqual(summarise(RESULTS, "w1", "cairn", BLOCKING), Summary(0.3, 0.2, 0.4, 3))
        self.assertEqual(summarise(RESULTS, "w1", "cairn", DURABLE), Summary(2.5, 2.0, 4.0, 3))

    def test_divides_processor_time_by_the_bytes_of_the_arrays(self) -> None:
        self.assertEqual(summarise(RESULTS, "w1", "cairn", CPU), Summary(0.5, 0.5, 0.5, 3))

    def test_has_no_figure_for_wrong_values(self) -> None:
        self.assertIsNone(summarise(RESULTS, "w1", "safetensors", COLD))

    def test_has_no_figure_for_what_a_line_lacks(self) -> None:
        self.assertIsNone(summarise(RESULTS, "w4_10k", "safetensors", META_COLD))

    def test_gives_metadata_in_milliseconds(self) -> None:
        self.assertEqual(summarise(RESULTS, "w4_10k", "safetensors", META_WARM), Summary(46, 46, 46, 1))

    def test_says_what_failed(self) -> None:
        self.assertEqual(failures(RESULTS, "w1", "orbax"), ["save took more than 600 s"])
        self.assertEqual(failures(RESULTS, "w1", "safetensors"), ["load: wrong values"])

    def test_names_only_measures_in_which_a_peer_is_ahead(self) -> None:
        self.assertEqual(behind(RESULTS), ["w1, save, processor: Cairn 0.500 s/GB; Safe 0.400"])

    def test_writes_three_significant_digits(self) -> None:
        self.assertEqual(
            [number(value) for value in (0, 123.4, 12.34, 1.234, 0.1234, 0.0123)],
            ["0", "123", "12.3", "1.23", "0.123", "0.0123"],
        )


class Tables(unittest.TestCase):
    def test_cell_has_range_and_factor(self) -> None:
        self.assertEqual(cell(Summary(3, 2, 4, 5), Summary(2, 2, 2, 5), 5), "3.00 (2.00-4.00) 1.50x")

    def test_cell_says_when_rounds_are_missing(self) -> None:
        self.assertEqual(cell(Summary(3, 3, 3, 1), None, 5), "3.00 n=1")

    def test_text_has_a_row_for_who_is_not_available(self) -> None:
        self.assertRegex(text_report(RESULTS), r"(?m)^Torch +not available: no wheel$")

    def test_text_leaves_out_who_did_not_run_a_workload(self) -> None:
        records = [record for record in RESULTS["records"] if record["contender"] != "safetensors"]
        self.assertRegex(text_report(RESULTS), r"(?m)^Safe +\d")
        self.assertNotRegex(text_report({**RESULTS, "records": records}), r"(?m)^Safe +\d")

    def test_text_names_who_did_not_run_a_workload(self) -> None:
        self.assertRegex(text_report(RESULTS), r"(?m)^not run: Orbax$")

    def test_text_names_what_was_measured_nowhere(self) -> None:
        self.assertIn("Not measured: Nobody; w9.", text_report({**RESULTS, "left_out": ["Nobody", "w9"]}))
        self.assertNotIn("Not measured", text_report(RESULTS))

    def test_captions_differ_and_have_the_date(self) -> None:
        captions = [line for line in markdown(RESULTS).splitlines() if line.startswith("### ")][:-1]
        self.assertEqual(len(captions), len(set(captions)))
        self.assertTrue(all(caption.endswith("(2026-01-02)") for caption in captions), captions)

    def test_text_has_the_ceilings(self) -> None:
        self.assertRegex(text_report(RESULTS), r"(?m)^O_DIRECT write through io_uring, synced, s +2\.20 \(2\.10-2\.40\)$")

    def test_markdown_escapes_bars(self) -> None:
        self.assertIn("| processor | a \\| b, 2 cores |", markdown(RESULTS))

    def test_markdown_rows_have_as_many_cells_as_their_head(self) -> None:
        lines = [line.replace("\\|", "") for line in markdown(RESULTS).splitlines()]
        for above, line in zip(lines, lines[1:]):
            if above.startswith("|") and line.startswith("|"):
                self.assertEqual(above.count("|"), line.count("|"), line)


class Document(unittest.TestCase):
    def test_replaces_only_what_is_between_the_marks(self) -> None:
        self.assertEqual(insert(f"a\n{BEGIN}\nold\n{END}\nb\n", "new\n"), f"a\n{BEGIN}\n\nnew\n\n{END}\nb\n")

    def test_refuses_a_document_without_marks(self) -> None:
        with self.assertRaisesRegex(ValueError, "once each"):
            insert(f"a\n{BEGIN}\n", "new\n")

    def test_has_a_place_in_the_documentation(self) -> None:
        text = (HERE.parents[2] / "docs" / "performance.md").read_text(encoding="utf-8")
        self.assertIn("new", insert(text, "new\n"))


class Plot(unittest.TestCase):
    def test_is_xml_with_a_bar_for_each_median(self) -> None:
        root = xml.etree.ElementTree.fromstring(draw(RESULTS))
        bars = root.findall("{http://www.w3.org/2000/svg}rect")[1:]  # The first is the background.
        self.assertEqual(len(bars), 2 + 2 + 1 + 2)  # Blocking, durable, cold, metadata.


    def test_says_what_it_shows_and_of_which_day(self) -> None:
        texts = [element.text for element in xml.etree.ElementTree.fromstring(draw(RESULTS)).iter() if element.text]
        self.assertTrue(any("2026-01-02" in text and "less is better" in text for text in texts))
        self.assertEqual({"seconds", "milliseconds"} & set(texts), {"seconds", "milliseconds"})

    def test_has_two_to_five_ticks(self) -> None:
        self.assertEqual([tick_of(longest) for longest in (1, 2, 3, 7, 21.5, 0.3)], [0.5, 1, 1, 2, 10, 0.1])


class Workloads(unittest.TestCase):
    def test_are_those_of_the_protocol_at_full_scale(self) -> None:
        workloads = make_workloads(1)
        self.assertEqual(workloads["w1"].total_bytes, 40 * 6400 * 4096 * 4)
        self.assertEqual((workloads["w3"].count, workloads["w3"].rows), (100_000, 32))

    def test_keep_at_least_one_row_and_array(self) -> None:
        self.assertTrue(all(w.count and w.rows for w in make_workloads(1e-9).values()))


class Contenders(unittest.TestCase):
    def test_unknown_ones_are_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "contender 'nobody'"):
            choose(["nobody"])

    def test_need_packages_that_are_pinned(self) -> None:
        pinned = environment.requirements(environment.REQUIREMENTS.read_text(encoding="utf-8"))
        names = {line.partition("==")[0] for line in pinned if "==" in line}
        self.assertEqual(names, {package for contender in CONTENDERS for package in contender.packages})


class Earlier(unittest.TestCase):
    NEW = {
        **RESULTS,
        "machine": {**RESULTS["machine"], "load before the start": "0.10"},
        "contenders": [{"id": "tensorstore", "label": "zarr", "syncs": "files", "versions": {}}],
        "workloads": {},
        "records": [],
        "ceilings": [],
    }

    def earlier(self, **changed: object) -> Record:
        known = {contender.id for contender in CONTENDERS}
        rows = [row for row in RESULTS["contenders"] if row["id"] in known]
        return {**RESULTS, "contenders": rows, **changed}

    def test_keeps_the_other_workloads_and_all_contenders(self) -> None:
        both = merged(self.earlier(), self.NEW, {"w3"})
        self.assertEqual(both["workloads"], RESULTS["workloads"])
        self.assertEqual(both["records"], RESULTS["records"])
        self.assertEqual(both["ceilings"], RESULTS["ceilings"])
        self.assertEqual([row["id"] for row in both["contenders"]][0], "cairn")
        self.assertIn("tensorstore", [row["id"] for row in both["contenders"]])

    def test_drops_what_is_measured_again(self) -> None:
        both = merged(self.earlier(), self.NEW, {"w1"})
        self.assertNotIn("w1", both["workloads"])
        self.assertNotIn("w1", {record["workload"] for record in both["records"]})
        self.assertEqual(both["ceilings"], [])

    def test_refuses_what_was_measured_in_another_way(self) -> None:
        settings = {**RESULTS["settings"], "runs": 4}
        with self.assertRaisesRegex(ValueError, "runs 4, not 3"):
            merged(self.earlier(settings=settings), self.NEW, {"w3"})
        machine = {**RESULTS["machine"], "kernel": "5.4"}
        with self.assertRaisesRegex(ValueError, "kernel '5.4', not '6.1'"):
            merged(self.earlier(machine=machine), self.NEW, {"w3"})


class Machine(unittest.TestCase):
    def test_finds_the_file_system_of_the_longest_mount(self) -> None:
        mounts = "a / ext4 rw 0 0\nb /data xfs rw 0 0\nc /da btrfs rw 0 0\n"
        self.assertEqual(machine.file_system(pathlib.Path("/data/x"), mounts), "xfs")
        self.assertEqual(machine.file_system(pathlib.Path("/other"), mounts), "ext4")


class Session(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bench = self.folder / "bench"

    def programs(self, script: str, timeout_s: float = 20) -> Programs:
        self.bench.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        self.bench.chmod(0o755)
        return Programs(self.bench, pathlib.Path(sys.executable), self.folder / "pool", timeout_s)

    def run_save(self, programs: Programs) -> Record:
        return programs.run(CONTENDERS[0], "save", DAMAGE, self.folder)

    def test_reads_the_lines_that_are_json(self) -> None:
        record = self.run_save(self.programs('echo note; echo \'{"op": "save", "operation": "\'$1\'"}\''))
        self.assertEqual((record["status"], record["lines"]), ("ok", [{"op": "save", "operation": "save"}]))

    def test_reports_the_last_words_of_a_failure(self) -> None:
        record = self.run_save(self.programs("echo first >&2; echo no room >&2; exit 1"))
        self.assertEqual((record["status"], record["error"]), ("failed", "no room"))

    def test_ends_what_takes_too_long_with_its_children(self) -> None:
        record = self.run_save(self.programs("sleep 60 & sleep 60", timeout_s=0.3))
        self.assertEqual(record["status"], "timeout")

    def test_reports_wrong_values(self) -> None:
        self.assertEqual(
            self.run_save(self.programs('echo \'{"check": "wrong"}\''))["status"], "wrong values"
        )

    def test_alternates_the_order_and_drops_who_fails(self) -> None:
        def run_once(_: Programs, contender: object, *__: object) -> list[dict[str, object]]:
            return [
                {"status": "failed" if contender is CONTENDERS[1] else "ok", "seconds": 1, "id": contender}
            ]

        rounds = session.Rounds(self.programs("exit 0"), DAMAGE, self.folder, patience_s=10)
        with mock.patch.object(session, "run_once", run_once), mock.patch.object(session, "say"):
            orders = [[record["id"] for record in rounds.run(i, list(CONTENDERS[:3]))] for i in range(2)]
        self.assertEqual(orders, [list(CONTENDERS[:3]), [CONTENDERS[2], CONTENDERS[0]]])

    def test_leaves_nothing_on_the_disk(self) -> None:
        self.programs("exit 0")
        with session.empty_directory(self.folder) as directory:
            (directory / "file").write_text("x", encoding="utf-8")
        self.assertEqual([path.name for path in self.folder.iterdir()], ["bench"])

    def test_refuses_a_disk_that_is_too_small(self) -> None:
        with self.assertRaisesRegex(OSError, "w1 needs"):
            session.require_room(self.folder, make_workloads(1000)["w1"])


if __name__ == "__main__":
    unittest.main()
