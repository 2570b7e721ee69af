# SPDX-License-Identifier: Apache-2.0
"""Names the test programs that a sanitizer runs for what a commit touches.

  sanitized_programs.py asan|tsan ROOT   one a line, or `all`; CAIRN_TOUCHED lists what is touched (tests/support/commit)
  sanitized_programs.py --self-test

A module's programs are those of the folder of tests with its name. Where a module is touched, its programs and those of the modules that
include it directly run; where a folder of tests is touched, its own do."""
import os
import pathlib
import re
import sys

from check_layers import INCLUDE, module_of, resolve
from source_text import CPP_SUFFIXES, source_files

ALWAYS = {
    # What reads bytes from outside, and what coroutines, threads and lent memory go through.
    "asan": ("formats", "foreign_formats", "array_store", "store", "proto", "records", "megatron", "fuzz", "core", "async", "staging"),
    "tsan": ("async", "core", "coord", "stress", "verdicts"),
}
# Nobody can say what these do not change.
EVERYTHING = re.compile(r"(include/cairn/|src/|tests/)(base|async)/"
                        r"|src/cmake/|CMakePresets\.json$|(src/|tests/|handlers/|examples/)?CMakeLists\.txt$"
                        r"|tests/(run$|support/(commit|whole_program|tsan\.supp)$|tools/sanitized_programs\.py$)|\.ci/")
FOLDER_OF = {"tools": "tool_library"}  # Modules whose folder of tests has another name.
PROGRAM = re.compile(r"^\s*cairn_test\((\w+)(.*?)\)", re.MULTILINE | re.DOTALL)
NOT_SANITIZED = re.compile(r"\bLABEL\s+(slow|faults|crash|mutants|gpu|mpi)\b")
FOLDERS_LEFT_OUT = ("crash", "faults", "kill", "mpi")  # As the presets have them in CAIRN_FOLDERS_LEFT_OUT.


def programs_of(lists):
    """Returns {folder of tests: its programs that sanitizers run}, from {path: text} of the CMakeLists.txt below tests/."""
    found = {}
    for path, text in lists.items():
        folder = path.split("/")[1]
        if folder == "fuzz":
            found[folder] = ["fuzz"]
        elif folder not in FOLDERS_LEFT_OUT:
            programs = [name for name, rest in PROGRAM.findall(text) if not NOT_SANITIZED.search(rest)]
            found.setdefault(folder, []).extend(programs)
    return found


def includes_of(files):
    """Returns {path: the files of the tree that it includes} of {path: text}."""
    found = {}
    for path, text in files.items():
        names = (match.group("own") or match.group("foreign") for match in INCLUDE.finditer(text))
        found[path] = {target for name in names if (target := resolve(path, name, files))}
    return found


def folders_for(touched, includes):
    """Returns the folders of tests whose programs have to do with the files `touched`."""
    folders, modules = set(), set()
    for path in touched:
        parts = path.split("/")
        if parts[0] in ("include", "src", "handlers") and len(parts) > 2:
            modules.add(module_of(path)[0])
        elif parts[0] == "tests" and len(parts) > 2 and parts[1] not in ("support", "data"):
            folders.add(parts[1])
        elif parts[0] == "tests" and len(parts) > 2:  # What tests share: those that include it.
            stem = path.rsplit(".", 1)[0]
            folders |= {user.split("/")[1] for user, targets in includes.items()
                        if user.startswith("tests/") and any(target.rsplit(".", 1)[0] == stem for target in targets)}
    for user, targets in includes.items():
        if user.split("/")[0] in ("include", "src", "handlers") and modules & {module_of(target)[0] for target in targets}:
            folders.add(module_of(user)[0])
    return {FOLDER_OF.get(each, each) for each in folders | modules}


def choose(kind, touched, includes, programs):
    """Returns the programs to run, sorted; None: all."""
    if touched == ["all"] or any(EVERYTHING.match(path) for path in touched):
        return None
    chosen = set(ALWAYS[kind])
    if kind == "asan":
        for folder in folders_for(touched, includes):
            chosen.update(programs.get(folder, ()))
    return sorted(chosen)


INCLUDES = {
    "src/io/file.cpp": {"include/cairn/io/file.hpp", "src/io/ring.hpp"},
    "src/store/source.cpp": {"include/cairn/io/file.hpp"},
    "src/cli/ls.cpp": {"src/tools/internal/diff.hpp"},
    "src/training/keep.cpp": {"include/cairn/store/store.hpp"},
    "tests/flash/memory_test.cpp": {"tests/support/temp_dir.hpp"},
}
LISTS = {
    "tests/io/CMakeLists.txt": "cairn_test(io\n  SOURCES a.cpp)\n", "tests/store/CMakeLists.txt": "cairn_test(store SOURCES a.cpp)",
    "tests/cli/CMakeLists.txt": "cairn_test(cli SOURCES a.cpp)", "tests/tool_library/CMakeLists.txt": "  cairn_test(tool_library SOURCES a.cpp)",
    "tests/training/CMakeLists.txt": "cairn_test(training SOURCES a.cpp)", "tests/kill/CMakeLists.txt": "cairn_test(kill SOURCES a.cpp)",
    "tests/flash/CMakeLists.txt": "cairn_test(flash SOURCES a.cpp)\ncairn_test(flash_mutants\n  SOURCES b.cpp\n  LABEL mutants)",
    "tests/fuzz/CMakeLists.txt": "function(cairn_fuzz_target name)\nendfunction()",
}
# What is touched, and what that adds to the programs that always run.
CASES = [
    (["src/io/ring.cpp"], {"io", "store"}),
    (["include/cairn/store/store.hpp", "docs/guide.md"], {"store", "training"}),
    (["src/cli/ls.cpp"], {"cli"}),
    (["src/tools/diff.cpp"], {"tool_library", "cli"}),
    (["tests/flash/memory_test.cpp"], {"flash"}),
    (["tests/support/temp_dir.cpp"], {"flash"}),
    (["tests/kill/kill_test.cpp"], set()),
    (["tests/io/CMakeLists.txt"], {"io"}),
    (["README.md", "docs/guide.md"], set()),
    ([], set()),
]
ALL = (["all"], ["include/cairn/base/error.hpp"], ["src/async/gate.cpp"], ["tests/async/gate_test.cpp"], ["README.md", "CMakePresets.json"],
       ["src/cmake/CairnModule.cmake"], ["CMakeLists.txt"], ["tests/CMakeLists.txt"], ["tests/run"], [".ci/run"])


def self_test():
    programs, failures = programs_of(LISTS), []
    for touched, wanted in CASES:
        found = choose("asan", touched, INCLUDES, programs)
        if found is None or set(found) != wanted | set(ALWAYS["asan"]):
            failures.append(f"for {touched}: {found}")
        if choose("tsan", touched, INCLUDES, programs) != sorted(ALWAYS["tsan"]):
            failures.append(f"under tsan for {touched}: another choice")
    for touched in ALL:
        failures += [f"{kind} for {touched}: not all" for kind in ALWAYS if choose(kind, touched, INCLUDES, programs) is not None]
    if programs["flash"] != ["flash"] or "kill" in programs or programs["fuzz"] != ["fuzz"]:
        failures.append(f"programs: {programs}")
    tree = {"include/cairn/io/file.hpp": "", "src/store/a.cpp": '#include "cairn/io/file.hpp"\n#include <vector>\n'}
    if includes_of(tree)["src/store/a.cpp"] != {"include/cairn/io/file.hpp"}:
        failures.append(f"includes: {includes_of(tree)}")
    return failures


def main(arguments):
    if arguments == ["--self-test"]:
        failures = self_test()
        print("\n".join(failures), f"{len(failures)} failures", sep="\n")
        return 1 if failures else 0
    if len(arguments) != 2 or arguments[0] not in ALWAYS:
        print(__doc__, file=sys.stderr)
        return 2
    kind, root = arguments[0], pathlib.Path(arguments[1]).resolve()
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in source_files(root, CPP_SUFFIXES)}
    lists = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted((root / "tests").glob("*/**/CMakeLists.txt"))}
    programs = programs_of(lists)
    unknown = {name for names in ALWAYS.values() for name in names} - {name for names in programs.values() for name in names}
    if unknown:
        print(f"sanitized_programs: there is no program {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = choose(kind, os.environ.get("CAIRN_TOUCHED", "all").splitlines(), includes_of(files), programs)
    print("\n".join(["all"] if chosen is None else chosen))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
