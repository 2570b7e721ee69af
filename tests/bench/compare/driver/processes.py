# SPDX-License-Identifier: Apache-2.0
"""Runs one operation of one contender in a process of its own."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time
from typing import Any

from driver.contenders import Contender
from driver.workloads import Workload

Record = dict[str, Any]
ERROR_CHARACTERS = 300
HERE = pathlib.Path(__file__).parent.parent


@dataclasses.dataclass(frozen=True)
class Programs:
    """Where things are, and how long one operation may take."""

    bench: pathlib.Path
    python: pathlib.Path
    pool: pathlib.Path
    timeout_s: float

    def command(self, contender: Contender, operation: str) -> list[str]:
        if contender.is_cairn:
            return [str(self.bench), operation]
        return [str(self.python), "-B", "-m", "peers", operation, contender.peer]

    def run(
        self, contender: Contender, operation: str, workload: Workload, directory: pathlib.Path
    ) -> Record:
        """Returns what the operation has printed, and how it ended: "ok", "failed" or "timeout"."""
        places = ["--dir", str(directory), "--pool", str(self.pool), "--variant", contender.variant]
        record = self._execute([*self.command(contender, operation), *workload.arguments(), *places])
        return {"contender": contender.id, "workload": workload.name, "op": operation, **record}

    def probe(self, contender: Contender) -> Record:
        return self._execute(self.command(contender, "probe"))

    def _execute(self, command: list[str]) -> Record:
        begin = time.monotonic()
        # A session of its own, so that a timeout ends its children, too.
        process = subprocess.Popen(
            command,
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, errors = process.communicate(timeout=self.timeout_s)
            status = "ok" if process.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, errors = process.communicate()
            status = "timeout"
        finally:
            if process.poll() is None:  # The comparison itself is being ended.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")]
        record: Record = {"status": status, "seconds": round(time.monotonic() - begin, 3), "lines": lines}
        if any(line.get("check") == "wrong" for line in lines):
            record["status"] = "wrong values"
        if record["status"] == "failed":
            record["error"] = _reason(errors, process.returncode)
        return record


def _reason(errors: str, code: int) -> str:
    """Returns the last line that the process has said; Python's exceptions end with their message."""
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    return said[-1][:ERROR_CHARACTERS] if said else f"ended with status {code}"
