# SPDX-License-Identifier: Apache-2.0
"""Compares what each folder takes to compile and to run with tests/budgets.txt. A commit waits for the sum, so a folder that needs more takes it
from what is there.

  check_budgets.py [--print-only | --suggest] BUILD_FOLDER JUNIT_FILE...   compares; the JUnit files are those of ctest --output-junit
  check_budgets.py --gate "ROW SECONDS ASKED ANSWERED SPEED..." BUILD_FOLDER JUNIT_FILE...   compares what .ci/run has taken, too
  check_budgets.py --folders ROOT                                          each folder has a row, and each row a folder
  check_budgets.py --self-test

Compile seconds are those of jobs, as ninja's log has them: two jobs at a time take half of it. Budgets hold for the preset checked; other
builds are printed (--print-only). --suggest prints a file of budgets: what was measured and half as much again.

The row `gate` is that of .ci/run as a whole: its seconds where the compiler's cache has nothing, where it has all, and those that
machine_speed.py took on the machine where both were measured. `gate_all` is the same where a commit asks for all programs or for mutants.
--gate has the row that counts, the seconds of this run, how many compilations asked the cache, how many it had, and what machine_speed.py
printed meanwhile. Between the two limits the share of the compilations that the cache did not have
decides; on a slower machine both are longer, on a quicker one they stay, and so are and do those of folders."""
import json
import math
import pathlib
import re
import shlex
import sys
import xml.etree.ElementTree

from source_text import Finding

BUDGETS = "tests/budgets.txt"
CODE = ("src/cli", "src", "handlers", "examples")  # The first that an object lies in has it. Folders of tests come on top.
# Tests are named <folder>.<test>; these lie elsewhere.
HOMES = {
    "crash_long": "tests/crash", "crash_mutants": "tests/crash", "damage_long": "tests/damage", "example": "tests/examples", "failing_disk": "tests/disk", "flash_mutants": "tests/flash",
    "figures": "tests/training", "foreign_formats": "tests/formats", "handlers_proto": "tests/handlers", "large_proto": "tests/proto", "lint": "tests/tools", "mdspan": "tests/interop",
    "power": "tests/kill", "ranks_mutants": "tests/ranks", "trainings": "tests/kill", "verdicts_mutants": "tests/verdicts",
    "watched_new": "tests/api",
}
LOG_VERSION = re.compile(r"# ninja log v([567])\n")  # Their lines are alike: start, end, time of the file, output, hash.
LAUNCHER = re.compile(r"^CMAKE_CXX_COMPILER(?:_LAUNCHER)?:[A-Z]+=.*?\b(s?ccache)\b", re.MULTILINE)
FROM_CACHE_S = 1.0  # Hardly an object of this project is compiled in less.
STEP_S = 5
COLUMNS = f"# {'folder':<22}{'compile s':>10}{'run s':>8}\n"
HEADER = f"""# SPDX-License-Identifier: Apache-2.0
# Each folder may take these seconds in the preset checked: of jobs to compile, of processes to run. See
# docs/contributing.md.
{COLUMNS}"""
GATE_HEADER = """# .ci/run as a whole, from an empty cache and from a full one, where machine_speed.py takes so long; gate_all where a
# commit asks for all programs of the sanitizers, or for mutants:
#                           cold s  warm s speed s
"""


class Trouble(Exception):
    """What cannot be compared; says why."""


class Gate:
    """What .ci/run may take, from a cache that has nothing and from one that has all, where machine_speed.py takes speed_s."""

    def __init__(self, cold_s, warm_s, speed_s):
        self.cold_s, self.warm_s, self.speed_s = cold_s, warm_s, speed_s

    def limit(self, asked, answered, slowness):
        """Returns the seconds for a run whose cache had `answered` of `asked` compilations, on a machine that takes `slowness` times as long."""
        missed = 1 - answered / asked if asked else 0
        return (self.warm_s + missed * (self.cold_s - self.warm_s)) * max(1, slowness)


class Seconds:
    """What a folder takes or may take."""

    def __init__(self, compile_s=0.0, run_s=0.0):
        self.compile_s, self.run_s = compile_s, run_s


def folders_of(root):
    """Returns the folders that need a row."""
    tests = {path.relative_to(root).parts[1] for path in (root / "tests").glob("*/**/CMakeLists.txt")}
    return sorted({*CODE, *(f"tests/{name}" for name in tests)})


GATES = ("gate", "gate_all")


def parse_gate(text, name="gate"):
    """Returns the Gate of that name in the file, or None where it has no such row."""
    row = re.search(rf"^{name}\s+(\d+)\s+(\d+)\s+(\d+(?:\.\d+)?)\s*$", text, re.MULTILINE)
    return Gate(*map(float, row.groups())) if row else None


def parse_budgets(text):
    """Returns {folder: Seconds} and the findings in the file; the rows of the gate are none of folders."""
    budgets, findings = {}, []
    for name in GATES:
        if parse_gate(text, name) is None:
            findings.append(Finding(BUDGETS, 0, f"there is no row '{name} <cold s> <warm s> <s of machine_speed.py>'"))
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words or words[0] in GATES:
            continue
        if len(words) != 3 or not all(re.fullmatch(r"\d+", word) for word in words[1:]):
            findings.append(Finding(BUDGETS, number, f"'{line}' is not a folder, its compile seconds and its run seconds"))
        elif words[0] in budgets:
            findings.append(Finding(BUDGETS, number, f"'{words[0]}' has a row already"))
        else:
            budgets[words[0]] = Seconds(*map(float, words[1:]))
    return budgets, findings


def check_rows(budgets, folders):
    """Yields folders without a row, and rows and homes of tests without a folder."""
    for folder in sorted(set(folders) - budgets.keys()):
        yield Finding(BUDGETS, 0, f"the folder '{folder}' has no row")
    for folder in sorted(budgets.keys() - set(folders)):
        yield Finding(BUDGETS, 0, f"the row '{folder}' has no folder")
    for prefix, folder in HOMES.items():
        if folder not in folders:
            yield Finding("tests/tools/check_budgets.py", 0, f"the tests '{prefix}.' lie in '{folder}', which is no folder of tests")


def home_of_object(path):
    """Returns the folder whose sources an object is compiled from, or None."""
    parts = path.split("/")
    if parts[0] == "tests" and len(parts) > 2:
        return "/".join(parts[:2])
    return next((folder for folder in CODE if path.startswith(f"{folder}/")), None)


def home_of_test(name, folders):
    """Returns the folder of a test, or None."""
    prefix = name.partition(".")[0]
    home = HOMES.get(prefix, f"tests/{prefix}")
    return home if home in folders else None


def objects_of(commands):
    """Returns the objects of a build, from its compile_commands.json. Headers that are compiled alone are no part of it."""
    words = [shlex.split(command["command"]) for command in json.loads(commands)]
    found = [each[each.index("-o") + 1] for each in words]
    return [path for path in found if "_verify_interface_header_sets" not in path]


def parse_log(text):
    """Returns {output: seconds} of ninja's log: those of the last time that each was made."""
    if not LOG_VERSION.match(text):
        raise Trouble("the log of ninja is of another version than 5 to 7")
    seconds = {}
    for line in text.splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        seconds[output] = (int(end) - int(start)) / 1000
    return seconds


def parse_junit(text):
    """Returns {test: seconds}."""
    try:
        suite = xml.etree.ElementTree.fromstring(text)
    except xml.etree.ElementTree.ParseError as error:
        raise Trouble(f"is no JUnit file: {error}") from error
    return {case.get("name"): float(case.get("time", 0)) for case in suite.iter("testcase")}


def measured(objects, log, tests, folders):
    """Returns {folder: Seconds}, and the findings: what belongs to no folder."""
    spent, findings = {folder: Seconds() for folder in folders}, []
    for path in objects:
        home = home_of_object(path)
        if home not in spent:
            findings.append(Finding(BUDGETS, 0, f"the object '{path}' is in no folder that has a row"))
        else:
            spent[home].compile_s += log.get(path, 0.0)
    for name, seconds in tests.items():
        home = home_of_test(name, folders)
        if home is None:
            findings.append(Finding(BUDGETS, 0, f"the test '{name}' is in no folder that has a row; see HOMES in check_budgets.py"))
        else:
            spent[home].run_s += seconds
    return spent, findings


def check_spent(spent, budgets, slowness=1.0):
    """Yields the folders above their budgets, on a machine that takes `slowness` times as long."""
    for folder, budget in sorted(budgets.items()):
        taken = spent.get(folder, Seconds())
        for what, took_s, may_s in (("compile", taken.compile_s, budget.compile_s), ("run", taken.run_s, budget.run_s)):
            may_s *= max(1, slowness)
            if took_s > may_s:
                yield Finding(BUDGETS, 0, f"{folder} takes {took_s:.1f} s to {what}, and may take {may_s:.0f} s")


def check_gate(text, ran):
    """Returns the line about the gate, the findings and how slow the machine is: a run `ran`, as --gate has it, that was longer than the
    budgets in `text` let it be."""
    name, *numbers = ran.split()
    gate = parse_gate(text, name)
    took_s, asked, answered, *speeds = map(float, numbers)
    slowness = sum(speeds) / len(speeds) / gate.speed_s
    may_s = gate.limit(asked, answered, slowness)
    line = (f"{name}: {took_s:.0f} s of most {may_s:.0f} s; the cache had {answered:.0f} of {asked:.0f} compilations; machine_speed.py takes "
            f"{slowness:.2f} times as long as where the limits were measured")
    findings = [Finding(BUDGETS, 0, f"the gate takes {took_s:.0f} s, and may take {may_s:.0f} s")] if took_s > may_s else []
    return line, findings, slowness


def notes(objects, log, cmake_cache):
    """Yields what the reader of the figures must know: what was not built, and what a compiler cache gave."""
    made = [log[path] for path in objects if path in log]
    if len(made) < len(objects):
        yield f"{len(objects) - len(made)} of {len(objects)} objects are not built, and count nothing"
    launcher = LAUNCHER.search(cmake_cache)
    if launcher:
        fast = sum(seconds < FROM_CACHE_S for seconds in made)
        yield (f"compiled through {launcher.group(1)}: {fast} of {len(made)} objects took less than {FROM_CACHE_S:.0f} s, as those from the cache do"
               f"{'; the compile seconds say little' if 2 * fast > len(made) else ''}")


def table(spent, budgets):
    """Yields the lines of the table; * is above the budget."""
    def cell(took_s, may_s):
        return f"{took_s:>10.1f} of {'-' if may_s is None else f'{may_s:.0f}':>4}{'*' if may_s is not None and took_s > may_s else ' '}"

    yield f"{'folder':<24}{'compile s':>10} of most  {'run s':>9} of most"
    for folder in sorted(spent):
        may = budgets.get(folder, Seconds(None, None))
        yield f"{folder:<24}{cell(spent[folder].compile_s, may.compile_s)} {cell(spent[folder].run_s, may.run_s)}".rstrip()
    taken = [sum(each.compile_s for each in spent.values()), sum(each.run_s for each in spent.values())]
    most = [sum(each.compile_s for each in budgets.values()), sum(each.run_s for each in budgets.values())]
    yield f"{'all':<24}{cell(taken[0], most[0])} {cell(taken[1], most[1])}".rstrip()


def budget_for(seconds):
    return max(STEP_S, math.ceil(round(seconds * 1.5 / STEP_S, 6)) * STEP_S)


def suggestion(spent, budgets):
    """Returns a file of budgets for what was measured, with the rows of the gate as they are in the text `budgets`."""
    rows = [f"{folder:<24}{budget_for(took.compile_s):>10}{budget_for(took.run_s):>8}\n" for folder, took in sorted(spent.items())]
    gates = [(name, parse_gate(budgets, name)) for name in GATES]
    rows += [GATE_HEADER, *(f"{name:<24}{gate.cold_s:>10.0f}{gate.warm_s:>8.0f}{gate.speed_s:>8.2f}\n" for name, gate in gates)]
    return HEADER + "".join(rows)


def read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Trouble(f"{path}: {error.strerror}") from error


def read_tests(paths):
    """Returns {test: seconds} of all files; of a test in several, the last counts."""
    tests = {}
    for path in paths:
        try:
            found = parse_junit(read(path))
        except Trouble as trouble:
            raise Trouble(f"{path}: {trouble}") from trouble
        if not found:
            raise Trouble(f"{path}: there is no test in it")
        tests.update(found)
    return tests


def compare(root, build, junit_files, mode, ran=""):
    """Prints what mode asks for, and compares what `ran`; returns the findings."""
    folders = folders_of(root)
    objects, log = objects_of(read(build / "compile_commands.json")), parse_log(read(build / ".ninja_log"))
    spent, lost = measured(objects, log, read_tests(junit_files), folders)
    remarks = list(notes(objects, log, read(build / "CMakeCache.txt")))
    if mode == "--suggest":
        print(suggestion(spent, read(root / BUDGETS)), end="")
        print("".join(f"note: {remark}\n" for remark in remarks), end="", file=sys.stderr)
        return lost
    budgets, findings = parse_budgets(read(root / BUDGETS))
    print("\n".join([*table(spent, budgets), *(f"note: {remark}" for remark in remarks)]))
    slowness = 1.0
    if ran and not findings:
        line, late, slowness = check_gate(read(root / BUDGETS), ran)
        print(line)
        findings += late
    return findings + list(check_rows(budgets, folders)) + lost + list(check_spent(spent, budgets, slowness))


LOG = ("# ninja log v5\n"
       "0\t9000\t1\ttests/array/CMakeFiles/a.dir/Unity/unity_0_cxx.cxx.o\tf\n"
       "0\t8000\t1\ttests/array/CMakeFiles/gone.dir/a.cpp.o\tf\n"
       "10\t3010\t1\ttests/array/CMakeFiles/a.dir/Unity/unity_0_cxx.cxx.o\tf\n"
       "0\t4000\t1\tsrc/array/CMakeFiles/a.dir/a.cpp.o\tf\n"
       "0\t400\t1\tsrc/cli/CMakeFiles/a.dir/a.cpp.o\tf\n"
       "0\t7000\t1\tsrc/array/liba.a\tf\n")
OBJECTS = ["tests/array/CMakeFiles/a.dir/Unity/unity_0_cxx.cxx.o", "src/array/CMakeFiles/a.dir/a.cpp.o", "src/cli/CMakeFiles/a.dir/a.cpp.o"]
JUNIT = ('<?xml version="1.0"?><testsuite name="x" tests="3">'
         '<testcase name="array.A.B" classname="array.A.B" time="1.5" status="run"><system-out>a &lt; b</system-out></testcase>'
         '<testcase name="array.all" time="2" status="fail"/><testcase name="lint.style" time="4" status="run"/></testsuite>')
FOLDERS = sorted({*CODE, *HOMES.values(), "tests/array"})
ROWS = "".join(f"{folder} 50 50\n" for folder in FOLDERS) + "gate 1000 500 2.5\ngate_all 2000 1000 2.5\n"
GOOD = {
    "budgets that are kept": (ROWS, OBJECTS, JUNIT),
    "budgets that are reached": (ROWS.replace("tests/array 50 50", "tests/array 3 4"), OBJECTS, JUNIT),
    "comments and empty lines": ("# SPDX\n\n" + ROWS.replace("tests/array 50 50", "tests/array 50 50  # small"), OBJECTS, JUNIT),
    "a folder without tests": (ROWS, [], JUNIT),
    "a test with a home elsewhere": (ROWS, OBJECTS, JUNIT.replace("array.all", "power.all")),
}
BAD = {
    "too long to compile": ("tests/array takes 3.0 s to compile, and may take 2 s", ROWS.replace("tests/array 50 50", "tests/array 2 50"), OBJECTS, JUNIT),
    "too long to run": ("tests/array takes 3.5 s to run, and may take 3 s", ROWS.replace("tests/array 50 50", "tests/array 50 3"), OBJECTS, JUNIT),
    "a library too long to compile": ("src takes 4.0 s to compile", ROWS.replace("src 50 50", "src 3 50"), OBJECTS, JUNIT),
    "lints too slow": ("tests/tools takes 4.0 s to run", ROWS.replace("tests/tools 50 50", "tests/tools 50 3"), OBJECTS, JUNIT),
    "a folder without a row": ("the folder 'tests/array' has no row", ROWS.replace("tests/array 50 50\n", ""), OBJECTS, JUNIT),
    "a row without a folder": ("the row 'tests/gone' has no folder", ROWS + "tests/gone 5 5\n", OBJECTS, JUNIT),
    "a row twice": ("has a row already", ROWS + "tests/array 5 5\n", OBJECTS, JUNIT),
    "a row of two columns": ("is not a folder", ROWS + "tests/array 5\n", OBJECTS, JUNIT),
    "no row of the gate": ("there is no row 'gate", ROWS.replace("gate 1000 500 2.5\n", ""), OBJECTS, JUNIT),
    "a row of the gate without a speed": ("there is no row 'gate", ROWS.replace("gate 1000 500 2.5\n", "gate 1000 500\n"), OBJECTS, JUNIT),
    "a row with a word": ("is not a folder", ROWS + "tests/array 5 many\n", OBJECTS, JUNIT),
    "a test of no folder": ("the test 'other.A.B' is in no folder", ROWS, OBJECTS, JUNIT.replace("array.A.B", "other.A.B")),
    "an object of no folder": ("the object 'tests/gone/a.cpp.o'", ROWS, [*OBJECTS, "tests/gone/a.cpp.o"], JUNIT),
    "an object beside the folders": ("the object 'CMakeFiles/a.cpp.o'", ROWS, [*OBJECTS, "CMakeFiles/a.cpp.o"], JUNIT),
}


def findings_of(rows, objects, junit):
    budgets, findings = parse_budgets(rows)
    spent, lost = measured(objects, parse_log(LOG), parse_junit(junit), FOLDERS)
    return [str(each) for each in [*findings, *check_rows(budgets, FOLDERS), *lost, *check_spent(spent, budgets)]]


def refusal_of(action, *arguments):
    try:
        action(*arguments)
    except Trouble as trouble:
        return str(trouble)
    return ""


def self_test():
    failures = []
    for name, case in GOOD.items():
        failures += [f"refused {name}: {found}" for found in findings_of(*case)]
    for name, (message, *case) in BAD.items():
        found = findings_of(*case)
        if sum(message in each for each in found) != 1:
            failures.append(f"accepted {name}: {found}")
    log, header = parse_log(LOG), "tests/array/CMakeFiles/a_verify_interface_header_sets.dir/a.hpp.cxx.o"
    commands = json.dumps([{"command": f"/usr/bin/c++ -DA=\\\"b\\\" -o {path} -c a.cpp"} for path in [*OBJECTS, header]])
    spent = measured(OBJECTS, log, parse_junit(JUNIT), FOLDERS)[0]
    cached = "CMAKE_CXX_COMPILER_LAUNCHER:STRING=/usr/bin/ccache\n"
    budget = suggestion(spent, ROWS)
    # What --gate says, and whether the run was too long.
    runs = {"gate 500 100 100 2.5": False, "gate 501 100 100 2.5": True, "gate 750 100 50 2.5": False, "gate 751 100 50 2.5": True,
            "gate 1000 100 0 2.5": False, "gate 1001 100 0 2.5": True, "gate 501 0 0 2.5": True, "gate 1000 100 100 5.0": False,
            "gate 1001 100 100 4.0 6.0": True, "gate 501 100 100 1.0": True, "gate_all 1000 100 100 2.5": False, "gate_all 1001 100 100 2.5": True}
    claims = {
        "what the gate may take": [bool(check_gate(ROWS, ran)[1]) for ran in runs] == list(runs.values()),
        "a folder on a slower machine": not list(check_spent({"a": Seconds(3, 0)}, {"a": Seconds(2, 9)}, 1.5)),
        "a folder on a quicker machine": len(list(check_spent({"a": Seconds(3, 0)}, {"a": Seconds(2, 9)}, 0.5))) == 1,
        "how quick the machine is": "2.00 times" in check_gate(ROWS, "gate 900 100 100 4.0 6.0")[0],
        "the objects of a build": objects_of(commands) == OBJECTS,
        "a log of ninja 1.12": parse_log(LOG.replace("v5", "v6")) == log,
        "a log of another version": "another version" in refusal_of(parse_log, LOG.replace("v5", "v4")),
        "what is no JUnit file": "no JUnit file" in refusal_of(parse_junit, "<testsuite>"),
        "a file that is missing": "nowhere" in refusal_of(read, pathlib.Path("/nowhere")),
        "nothing to say": not list(notes(OBJECTS, log, "CMAKE_CXX_COMPILER_LAUNCHER:STRING=\n")),
        "a cache that gave some": "through ccache: 1 of 3" in " ".join(notes(OBJECTS, log, cached)),
        "a cache that gave most": "say little" in " ".join(notes(OBJECTS[2:], log, cached)),
        "a compiler that is a cache": "through ccache" in " ".join(notes(OBJECTS, log, "CMAKE_CXX_COMPILER:FILEPATH=/usr/lib/ccache/g++\n")),
        "what is not built": "1 of 4 objects" in " ".join(notes([*OBJECTS, "src/b.cpp.o"], log, "")),
        "the mark of what is above": [line[:11] for line in table(spent, {"tests/array": Seconds(2, 9)}) if "*" in line][:1] == ["tests/array"],
        "what is suggested": [budget_for(seconds) for seconds in (0, 3.2, 3.4, 10, 20)] == [5, 5, 10, 15, 30],
        "a suggestion that holds": not [*parse_budgets(budget)[1], *check_rows(parse_budgets(budget)[0], FOLDERS),
                                        *check_spent(spent, parse_budgets(budget)[0])],
    }
    return failures + [f"wrong: {claim}" for claim, holds in claims.items() if not holds]


def report(findings, word):
    for finding in findings:
        print(finding)
    print(f"{len(findings)} {word}")
    return 1 if findings else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return report(self_test(), "failures")
    if len(arguments) == 2 and arguments[0] == "--folders":
        root = pathlib.Path(arguments[1]).resolve()
        budgets, findings = parse_budgets(read(root / BUDGETS))
        return report(findings + list(check_rows(budgets, folders_of(root))), "findings")
    mode = arguments.pop(0) if arguments[:1] in (["--print-only"], ["--suggest"]) else ""
    ran = arguments.pop(1) if arguments[:1] == ["--gate"] and len(arguments) > 1 and not mode else ""
    if ran:
        arguments.pop(0)
    if len(arguments) < 2 or any(argument.startswith("--") for argument in arguments):
        print(__doc__, file=sys.stderr)
        return 2
    build, *junit_files = map(pathlib.Path, arguments)
    findings = compare(pathlib.Path(__file__).resolve().parents[2], build, junit_files, mode, ran)
    if mode == "--suggest":
        print("".join(f"{finding}\n" for finding in findings), end="", file=sys.stderr)
        return 1 if findings else 0
    return 0 if report(findings, "findings") == 0 or mode else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main(sys.argv[1:]))
    except Trouble as trouble:
        print(trouble, file=sys.stderr)
        raise SystemExit(2) from trouble
