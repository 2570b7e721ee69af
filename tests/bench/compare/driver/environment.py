# SPDX-License-Identifier: Apache-2.0
"""Makes the virtual environment that the peers run in: `environment.py VENV`.

What does not install is left out; its last error line goes to VENV/refused.json, and so to the report.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys
import venv

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "requirements.txt"


def requirements(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def refused(environment: pathlib.Path) -> dict[str, str]:
    """Returns the packages that did not install, each with the reason."""
    file = environment / "refused.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _install(environment: pathlib.Path, wanted: list[str]) -> str | None:
    """Returns None, or the last thing that pip said when it failed."""
    pip = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command = [*pip, "--constraint", str(REQUIREMENTS), *wanted]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if "ERROR" in line]
    return (errors or ["ERROR: pip failed"])[-1].removeprefix("ERROR: ")


def make(environment: pathlib.Path) -> None:
    """Creates the environment unless it was made from the same requirements."""
    text = REQUIREMENTS.read_text(encoding="utf-8")
    stamp = environment / "requirements.sha256"
    digest = hashlib.sha256(text.encode()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    if not (environment / "bin" / "python").exists():
        venv.create(environment, with_pip=True)
    wanted = requirements(text)
    failures: dict[str, str] = {}
    if _install(environment, wanted) is not None:  # One by one, so that the others are there at least.
        reasons = {line: _install(environment, [line]) for line in wanted}
        failures = {line.partition("==")[0]: reason for line, reason in reasons.items() if reason is not None}
    (environment / "refused.json").write_text(json.dumps(failures, indent=1), encoding="utf-8")
    for package, reason in failures.items():
        print(f"{package} did not install: {reason}", file=sys.stderr)
    stamp.write_text(digest, encoding="utf-8")


if __name__ == "__main__":
    make(pathlib.Path(sys.argv[1]))
