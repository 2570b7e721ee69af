# SPDX-License-Identifier: Apache-2.0
"""Finds what a mutex protects and is used without it, by clang's thread safety analysis; and mutexes that it could not see, or that protect
nothing. Status 77 (skipped) where there is no clang."""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from source_text import Finding, Text, source_files

SKIPPED = 77
HOME = "src/base/internal/mutex.hpp"
PUBLIC_ONLY = "src/cli/"  # Sees public headers only, and the mutex is internal.
STANDARD = re.compile(r"\bstd::(?:mutex|condition_variable|lock_guard<std::mutex>|unique_lock<std::mutex>)")
MUTEX = re.compile(r"^[ \t]*(?:mutable |static )*Mutex (\w+);", re.MULTILINE)
USE = re.compile(r"\bMutexLock\b")
INCLUDED = re.compile(r'^#include "(/[^"]+)"', re.MULTILINE)  # What a joined source is made of.
WARNING = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+):\d+: (?:warning|error): (?P<message>.*)$", re.MULTILINE)
KEPT_FLAGS = ("-I", "-D", "-std=")


def find_clang():
    """Returns the compiler: that of the formatter's version, or any."""
    return shutil.which("clang++-14") or shutil.which("clang++")


def flags_for(clang):
    """Returns what every call is given. Boost 1.81 does not see that a clang before 17 has coroutines."""
    version = int(subprocess.run([clang, "-dumpversion"], capture_output=True, text=True, check=True).stdout.split(".")[0])
    coroutines = ["-DBOOST_ASIO_HAS_CO_AWAIT=1", "-DBOOST_ASIO_HAS_STD_COROUTINE=1"] if version < 17 else []
    return [clang, "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-ferror-limit=0", *coroutines]


def mutexes(path, raw):
    """Yields the mutexes of a file that the analysis does not see, and those that protect nothing and do not say why."""
    text = Text(raw)
    if path.startswith(PUBLIC_ONLY) or path == HOME:
        return
    for match in STANDARD.finditer(text.code):
        yield Finding(path, text.line(match.start()), f"{match.group()}: the analysis does not see it; take those of {HOME}")
    for match in MUTEX.finditer(text.code):
        line = text.line(match.start(1))
        if f"_BY({match.group(1)})" not in text.code and "//" not in text.lines[line - 1]:
            yield Finding(path, line, f"nothing is CAIRN_GUARDED_BY({match.group(1)})")


def arguments_of(command):
    """Returns the flags of a compilation that decide what the source means."""
    words, kept = shlex.split(command), []
    for at, word in enumerate(words):
        if word == "-isystem":
            kept += words[at:at + 2]
        elif word.startswith(KEPT_FLAGS):
            kept.append(word)
    return kept


def locks(source):
    """Whether a source, or one of those that it joins, takes a lock."""
    text = source.read_text()
    return bool(USE.search(text)) or any(USE.search(pathlib.Path(part).read_text()) for part in INCLUDED.findall(text))


def compilations(root, build):
    """Yields (source, flags) of the library's sources that take locks, as the build has them: one by one, or joined."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["directory"], entry["file"])
        if source.suffix in (".cpp", ".cxx") and any(folder / "src" in source.parents for folder in (root, build)) and locks(source):
            yield source, arguments_of(entry["command"])


def analyse(call, root):
    """Returns the findings of a call of clang, each once however many sources include where it is."""
    result = subprocess.run(call, capture_output=True, text=True)
    found = {}
    for match in WARNING.finditer(result.stderr):
        path = os.path.relpath(match.group("path"), root)
        found[f"{path}:{match.group('line')}"] = Finding(path, int(match.group("line")), match.group("message"))
    if result.returncode != 0 and not found:
        found["-"] = Finding(call[-1], 0, result.stderr.strip() or "clang failed")
    return found


def check_tree(root, build, clang):
    """Returns all findings, sorted by place."""
    findings = [finding for path in source_files(root, {".hpp", ".cpp"}, ("src", "handlers"))
                for finding in mutexes(path.relative_to(root).as_posix(), path.read_text())]
    calls = [[*flags_for(clang), *flags, str(source)] for source, flags in compilations(root, build)]
    if not calls:
        findings.append(Finding(str(build), 0, "no source of the library takes a lock: is it built there?"))
    merged = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda call: analyse(call, root), calls):
            merged.update(found)
    return findings + [merged[place] for place in sorted(merged)]


def self_test(clang):
    """Checks the lint itself; returns what is wrong with it."""
    root = pathlib.Path(__file__).resolve().parents[2]
    head = '#include "base/internal/mutex.hpp"\nstruct Box {\n'
    tail = "  cairn::Mutex mutex;\n  int value CAIRN_GUARDED_BY(mutex) = 0;\n};\n"
    right = head + "  int get() {\n    const cairn::MutexLock lock(mutex);\n    return value;\n  }\n" + tail
    wrong = head + "  int get() { return value; }\n" + tail
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text, wanted in (("right", right, 0), ("wrong", wrong, 1)):
            path = pathlib.Path(folder, f"{name}.cpp")
            path.write_text(text)
            found = analyse([*flags_for(clang), "-std=gnu++20", f"-I{root / 'src'}", str(path)], root)
            if len(found) != wanted:
                failures.append(f"{name}: {[str(each) for each in found.values()]}")
    for text, wanted in (("  Mutex mutex_;\n  int a_ CAIRN_GUARDED_BY(mutex_);\n", 0), ("  mutable Mutex mutex_;\n  int a_;\n", 1),
                         ("  Mutex mutex_;  // One at a time.\n", 0), ("  std::mutex mutex_;\n", 1), ("// std::mutex is not used.\n", 0)):
        if len(list(mutexes("src/io/x.hpp", text))) != wanted:
            failures.append(f"mutexes: {text!r}")
    return failures


def main(arguments):
    """check_thread_safety.py ROOT BUILD | --self-test"""
    clang = find_clang()
    if clang is None:
        print("skipped: there is no clang, whose analysis this is")
        return SKIPPED
    if arguments == ["--self-test"]:
        failures = self_test(clang)
        for failure in failures:
            print(f"self-test: {failure}")
        print(f"self-test {'failed' if failures else 'passed'}")
        return 1 if failures else 0
    if len(arguments) != 2:
        print(f"usage: {sys.argv[0]} ROOT BUILD | --self-test", file=sys.stderr)
        return 2
    findings = check_tree(pathlib.Path(arguments[0]).resolve(), pathlib.Path(arguments[1]).resolve(), clang)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
