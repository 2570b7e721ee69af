# SPDX-License-Identifier: Apache-2.0
"""Finds mutexes that clang's thread safety analysis cannot see, or that protect nothing. The analysis itself is part of each build by clang
(`-Wthread-safety`), so of `tests/run --asan`."""
import re
import sys

from source_text import Finding, Text, run, source_files

HOME = "src/base/internal/mutex.hpp"
PUBLIC_ONLY = "src/cli/"  # Sees public headers only, and the mutex is internal.
STANDARD = re.compile(r"\bstd::(?:mutex|condition_variable|lock_guard<std::mutex>|unique_lock<std::mutex>)")
MUTEX = re.compile(r"^[ \t]*(?:mutable |static )*Mutex (\w+);", re.MULTILINE)


def check(path, raw):
    text = Text(raw)
    if path.startswith(PUBLIC_ONLY) or path == HOME:
        return
    for match in STANDARD.finditer(text.code):
        yield text.line(match.start()), f"{match.group()}: the analysis does not see it; take those of {HOME}"
    for match in MUTEX.finditer(text.code):
        line = text.line(match.start(1))
        if f"_BY({match.group(1)})" not in text.code and "//" not in text.lines[line - 1]:
            yield line, f"nothing is CAIRN_GUARDED_BY({match.group(1)})"


def check_tree(root):
    return [Finding(path.relative_to(root).as_posix(), line, message)
            for path in source_files(root, {".hpp", ".cpp"}, ("src", "handlers"))
            for line, message in check(path.relative_to(root).as_posix(), path.read_text())]


GOOD = ("  Mutex mutex_;\n  int a_ CAIRN_GUARDED_BY(mutex_);\n", "  Mutex mutex_;  // One at a time.\n", "// std::mutex is not used.\n")
BAD = ("  mutable Mutex mutex_;\n  int a_;\n", "  std::mutex mutex_;\n")


def self_test():
    return [f"{text!r} was {'refused' if text in GOOD else 'accepted'}"
            for text in GOOD + BAD if (text in GOOD) == bool(list(check("src/io/x.hpp", text)))]


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
