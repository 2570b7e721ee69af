# SPDX-License-Identifier: Apache-2.0
"""Runs the tests: once each without a mutant, to know which mutants it reaches and how long it takes; then, for each
mutant, those that reach it, until one fails."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time

MOST = 65536  # As in switch.hpp.
TICK_S = 0.05
QUICK_S = 0.5
LARGEST_FILE = 8 << 30
MOST_MEMORY = 12 << 30


def limit():
    """In the child: a group of its own, so that all of it can be ended; no cores, and no mutant that eats the machine."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for what, most in ((resource.RLIMIT_FSIZE, LARGEST_FILE), (resource.RLIMIT_DATA, MOST_MEMORY)):
        hard = resource.getrlimit(what)[1]
        resource.setrlimit(what, (min(most, hard) if hard != resource.RLIM_INFINITY else most, hard))


class Run:
    """What a test program did: its exit code (None: it was ended after `limit_s`), the test that failed or was running."""

    def __init__(self, code, text):
        self.code = code
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+?),?(?: .*)?\(\d+ ms\)$", text, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)$", text, re.MULTILINE)
        ended = set(re.findall(r"^\[ +(?:OK|FAILED|SKIPPED) +\] ([^\s,]+)", text, re.MULTILINE))
        running = [test for test in begun if test not in ended]
        self.culprit = failed[0] if failed else running[-1] if running else begun[-1] if begun else None
        self.is_failure = code != 0
        self.text = text


def run(program, tests, limit_s, environment):
    """Runs some tests of a program in a directory for temporary files of their own, which is then removed."""
    with tempfile.TemporaryDirectory(prefix="cairn-mutants-", ignore_cleanup_errors=True) as folder:
        variables = {**os.environ, **environment, "TMPDIR": folder, "GTEST_FILTER": ":".join(tests), "GTEST_FAIL_FAST": "1"}
        variables.pop("GTEST_OUTPUT", None)
        if pathlib.Path(program).name == "cairn_store_test":
            variables["CAIRN_SEED"] = "all"  # A commit has a sample of the calls that fail; a mutant is to meet all of them.
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen([str(program)], cwd=folder, env=variables, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT, preexec_fn=limit)
            code = wait(child, limit_s)
            out.seek(0)
            return Run(code, out.read(1 << 22).decode(errors="replace"))


def wait(child, limit_s):
    """The exit code, or None. Counts the ticks that this process has had: a machine that stops both of them ends nothing."""
    left = limit_s
    try:
        while left > 0:
            try:
                return child.wait(TICK_S)
            except subprocess.TimeoutExpired:
                left -= TICK_S
        return None
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


def tests_of(program):
    """The names of all tests of a program."""
    listed = subprocess.run([str(program), "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = [], ""
    for line in listed.split("\n"):
        text = line.split("#")[0].rstrip()
        if text and not text.startswith(" ") and text.endswith("."):
            suite = text
        elif text.startswith("  "):
            names.append(suite + text.strip())
    return [name for name in names if "DISABLED_" not in name]


class Record:
    """Of each test of some programs: the mutants that it reaches, and its seconds. Kept in a file while the programs stay the same."""

    def __init__(self, programs, numbering, folder, workers):
        self.programs, self.numbering, self.folder, self.workers = programs, numbering, folder, workers
        self.tests = {}  # (program, test): {"reached": [numbers], "seconds": s}
        self.failing = []
        for name in programs:
            self._record(name)

    def _record(self, name):
        path = self.folder / f"reached-{name}.json"
        digest = hashlib.sha256(self.numbering.encode() + self.programs[name].read_bytes()).hexdigest()
        kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if kept.get("digest") != digest:
            names = tests_of(self.programs[name])
            with concurrent.futures.ThreadPoolExecutor(self.workers) as pool:
                kept = {"digest": digest, "tests": dict(zip(names, pool.map(lambda test: self._try(name, test), names)))}
            path.write_text(json.dumps(kept), encoding="utf-8")
        for test, facts in kept["tests"].items():
            if facts["is_sound"]:
                self.tests[name, test] = facts
            else:
                self.failing.append(f"{name}: {test}")
        print(f"mutants: {name}: {len(kept['tests'])} tests, {sum(facts['seconds'] for facts in kept['tests'].values()):.0f} s",
              flush=True)

    def _try(self, name, test):
        with tempfile.NamedTemporaryFile() as reached:
            reached.truncate(MOST)
            for _ in range(3):
                begin = time.monotonic()
                result = run(self.programs[name], [test], 600, {"CAIRN_MUTANTS_REACHED": reached.name})
                seconds = time.monotonic() - begin
                if not result.is_failure:
                    break
            numbers = [number for number, byte in enumerate(pathlib.Path(reached.name).read_bytes()) if byte]
            return {"reached": numbers, "seconds": seconds, "is_sound": not result.is_failure}

    def reaching(self, number):
        return [key for key, facts in self.tests.items() if number in facts["reached"]]

    def seconds(self, name, tests):
        return sum(self.tests[name, test]["seconds"] for test in tests)


class Trial:
    """One mutant against the tests that reach it: those of its own module first, the quick ones before the slow ones."""

    def __init__(self, record, number, module):
        self.record, self.number, self.module = record, number, module
        self.unsteady = []

    def result(self):
        """{"verdict": killed, survived or unreached, "by": the test}."""
        reaching = self.record.reaching(self.number)
        for name, tests in self._batches(reaching):
            killer = self._killer(name, tests)
            if killer:
                return {"verdict": "killed", "by": killer}
        return {"verdict": "survived" if reaching else "unreached", "by": "", "tests": len(reaching), "unsteady": self.unsteady}

    def _batches(self, reaching):
        names = sorted(self.record.programs, key=lambda name: not name.startswith(self.module))
        batches = []
        for is_quick in (True, False):
            for name in names:
                tests = [test for program, test in reaching
                         if program == name and (self.record.seconds(name, [test]) < QUICK_S) == is_quick]
                if tests:
                    batches.append((name, tests))
        return batches

    def _killer(self, name, tests):
        """The test that fails, twice: in the batch and alone. One that fails once proves nothing, and is left out."""
        left = list(tests)
        while left:
            result = self._run(name, left)
            if not result.is_failure:
                return None
            if result.culprit not in left:
                return f"{name}: ends with {result.code}"  # Before the first test, or after the last one.
            if self._run(name, [result.culprit]).is_failure:
                return f"{name}: {result.culprit}" + (" (time)" if result.code is None else "")
            self.unsteady.append(f"{name}: {result.culprit}")
            left.remove(result.culprit)
        return None

    def _run(self, name, tests):
        limit_s = 15 + 8 * self.record.seconds(name, tests)
        return run(self.record.programs[name], tests, limit_s, {"CAIRN_MUTANT": str(self.number)})


def clean(folder):
    shutil.rmtree(folder, ignore_errors=True)
