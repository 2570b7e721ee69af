# SPDX-License-Identifier: Apache-2.0
"""Finds system calls that fail for good where a signal interrupts them: each is made again by `uninterrupted`, `done_at_last` or
`moved_at_last` (src/io/internal/check.hpp). A sync and a close are not: what they did not write the next one does not, and says nothing."""
import re
import sys

from source_text import Finding, Text, run, source_files

AGAIN = re.compile(r"\b(?:uninterrupted|done_at_last|moved_at_last)\(")
CALL = re.compile(
    r"\bsyscalls_?(?:\(\))?\s*(?:\.|->)\s*(open_at|open_beneath|allocate|truncate|read_at|write_at|status|status_at|list|"
    r"make_directory_at|rename_at|link_at|symlink_at|unlink_at|try_lock|unlock|try_lock_use|try_lock_for_process|file_system|"
    r"sync|sync_data|close)\("
)
ONCE = {"sync", "sync_data", "close"}
ELSEWHERE = {  # File and call: why it needs no wrapper there.
    ("src/io/file.cpp", "rename_at"): "an exchange that is done twice is undone",
    ("src/io/thread_engine.cpp", "read_at"): "who has asked the engine asks again",
    ("src/io/thread_engine.cpp", "write_at"): "who has asked the engine asks again",
    ("src/store/publish.cpp", "rename_at"): "looks what became of it before each repetition",
}


def calls(raw):
    """Yields line and name of each call, and whether it is made again."""
    text = Text(raw)
    again = [(match.start(), text.close(match.end() - 1)) for match in AGAIN.finditer(text.code)]
    for match in CALL.finditer(text.code):
        yield text.line(match.start()), match.group(1), any(begin < match.start() < end for begin, end in again)


def check(path, raw):
    for line, name, is_again in calls(raw):
        if is_again and name in ONCE:
            yield line, f"{name} is not made again after a signal: what it has lost stays lost"
        if not is_again and name not in ONCE and (path, name) not in ELSEWHERE:
            yield line, f"{name} is not made again after a signal: io::uninterrupted, io::done_at_last, io::moved_at_last"


def check_tree(root):
    found = [Finding(path.relative_to(root).as_posix(), line, message)
             for path in source_files(root, {".hpp", ".cpp"}, ("src", "handlers"))
             for line, message in check(path.relative_to(root).as_posix(), path.read_text())]
    for path, name in ELSEWHERE:
        if not (root / path).is_file() or (name, False) not in {each[1:] for each in calls((root / path).read_text())}:
            found.append(Finding(path, 0, f"has no {name}: take it from the list in tests/tools/check_interrupted.py"))
    return found


GOOD = ("  const int made = io::uninterrupted([&] { return syscalls.open_at(fd, name, flags, 0); });\n",
        "  done_at_last(-EEXIST, [&] {\n    return parent.syscalls().link_at(a, b, c, d);\n  });\n",
        "  // syscalls.status(fd, status)\n", "  io::require(syscalls_.sync(fd), \"fsync\", path);\n", "  directory.list();\n")
BAD = ("  const int made = syscalls.open_at(fd, name, flags, 0);\n", "  file.syscalls()\n      .try_lock(file.fd());\n",
       "  uninterrupted([&] { return 0; }), syscalls_->unlink_at(fd, name, false);\n",
       "  uninterrupted([&] { return syscalls.sync(fd); });\n")


def self_test():
    return [f"{text!r} was {'refused' if text in GOOD else 'accepted'}"
            for text in GOOD + BAD if (text in GOOD) == bool(list(check("src/x/x.cpp", text)))]


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
