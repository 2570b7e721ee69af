# SPDX-License-Identifier: Apache-2.0
"""Results of an earlier run, kept beside those of a run that measures other workloads."""

from __future__ import annotations

from driver.contenders import CONTENDERS
from driver.processes import Record
from driver.workloads import CEILINGS_OF

_CHANGES = "load before the start"  # The one fact about a machine that two runs on it need not share.


def _lasting(results: Record) -> Record:
    machine = {key: value for key, value in results["machine"].items() if key != _CHANGES}
    return {"machine": machine, "settings": results["settings"]}


def merged(earlier: Record, results: Record, names: set[str]) -> Record:
    """Returns `results`, which has no records yet, with the earlier ones of workloads that are not in `names`.

    Raises ValueError when they were measured on another machine, of another revision or with other settings.
    """
    before, now = _lasting(earlier), _lasting(results)
    for what in now:
        for key in before[what].keys() | now[what].keys():
            then, here = before[what].get(key), now[what].get(key)
            if then != here:
                raise ValueError(f"results.json was measured with {key} {then!r}, not {here!r}")
    rows = {row["id"]: row for row in [*earlier["contenders"], *results["contenders"]]}
    order = [contender.id for contender in CONTENDERS]
    return {
        **results,
        "contenders": sorted(rows.values(), key=lambda row: order.index(row["id"])),
        "workloads": {name: facts for name, facts in earlier["workloads"].items() if name not in names},
        "records": [record for record in earlier["records"] if record["workload"] not in names],
        "ceilings": [] if CEILINGS_OF in names else earlier["ceilings"],
    }
