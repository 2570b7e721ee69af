# SPDX-License-Identifier: Apache-2.0
"""Finds code that blocks a thread of the program without lending it to the coordinator. Where MPI allows no thread of ours, packets move only
while the program's are lent: a wait that lends nothing may wait for ever, for what the other ranks say to this one. The one wait is that of
src/coord/internal/borrowed_caller_thread.hpp; the other files that block are listed here, each with the reason why it may."""
import re
import sys

from source_text import Finding, Text, run, source_files

WAIT = re.compile(
    r"(?:\.|->)(?:wait_for|wait_until)\("  # Of conditions and of events.
    r"|\.wait\(lock"
    r"|^[ \t]*[\w.>()\-]*(?:\.|->)get\(\);"  # Whose value is not used: of an event.
    r"|\bstd::this_thread::sleep_(?:for|until)\("
    r"|\bthread_?\.join\(\);"
    r"|\bboost::asio::io_context\b",
    re.MULTILINE,
)
OURS = "threads of ours wait, or for threads of ours that wait for nobody"
MAY_BLOCK = {
    "src/api/remove.cpp": "on a thread of the context's, or where nobody wants to be lent this one",
    "src/async/event.cpp": "what waits are made of",
    "src/async/strand.cpp": "drive: does meanwhile what its caller says, which lends",
    "src/async/suspend.cpp": "for a call that is being made",
    "src/async/task_group.cpp": OURS,
    "src/async/thread_pool.cpp": OURS,
    "src/async/timers.cpp": OURS,
    "src/base/clock.cpp": "what waits are made of",
    "src/base/internal/mutex.hpp": "what waits are made of",
    "src/base/parallel_for.cpp": OURS,
    "src/coord/borrowed_caller_thread.cpp": "the one wait",
    "src/core/context.cpp": "a moment, when nothing is under way any more",
    "src/core/disk_calls.cpp": "for what has happened",
    "src/core/save_ranks.cpp": "on a thread of the context's",
    "src/core/services.cpp": "a moment, to try again",
    "src/flash/memory_directory.cpp": "a moment, to try again, in a program of one process",
    "src/io/internal/check.hpp": "a moment, to try again",
    "src/io/mapped_files.cpp": "a moment, for a piece that is being mapped",
    "src/io/thread_engine.cpp": OURS,
    "src/io/uring_engine.cpp": OURS,
    "src/io/uring_ring.cpp": "a moment, to try again",
    "src/io/write_behind.cpp": OURS,
    "src/mpi/transport.cpp": OURS,
    "src/store/checkpoint_lock.cpp": "a moment, to try again, on a thread of the context's",
    "src/store/verify.cpp": OURS,
    "src/tools/array_reader.cpp": OURS,
    "src/training/rank_talk.hpp": "lends",
    "src/training/worker.cpp": OURS,
}
PUBLIC_ONLY = "src/cli/"  # A program of one process.


def check(path, raw):
    text = Text(raw)
    if path in MAY_BLOCK or path.startswith(PUBLIC_ONLY):
        return
    for match in WAIT.finditer(text.code):
        line = text.lines[text.line(match.start()) - 1]
        if "co_await" not in line:
            yield text.line(match.start()), f"'{line.strip()}' blocks without lending the thread: coord::wait_with_progress, get_with_progress, BorrowedCallerThread"


def check_tree(root):
    found = [Finding(path.relative_to(root).as_posix(), line, message)
             for path in source_files(root, {".hpp", ".cpp"}, ("src", "handlers"))
             for line, message in check(path.relative_to(root).as_posix(), path.read_text())]
    for path in MAY_BLOCK:
        if not (root / path).is_file() or not WAIT.search(Text((root / path).read_text()).code):
            found.append(Finding(path, 0, "does not block: take it from the list in tests/tools/check_waits.py"))
    return found


GOOD = ("  co_await call.ended().wait();\n", "  co_await async::sleep_for(pause);\n", "  return piece.source.get();\n",
        "  coord::wait_with_progress(coordinator, worker.idle());\n", "  // event.get();\n", "  auto all = coordinator.join(bonds);\n")
BAD = ("  job->answered().get();\n", "  ended.wait_for(timeout);\n", "  changed_.wait(lock, [] { return true; });\n",
       "  clock.wait_until(lock, changed_, end, ready);\n", "  std::this_thread::sleep_for(kPause);\n", "  thread_.join();\n")


def self_test():
    return [f"{text!r} was {'refused' if text in GOOD else 'accepted'}"
            for text in GOOD + BAD if (text in GOOD) == bool(list(check("src/x/x.cpp", text)))]


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
