# SPDX-License-Identifier: Apache-2.0
"""Prints how many seconds this machine takes for a fixed calculation that keeps all its cores busy: two or three on two cores.

What a gate takes says nothing without it: machines of one kind differ by half. Like a compiler, the calculation builds and
reads tables of words, so that memory counts as well as the processor."""
import multiprocessing
import os
import time

CHUNKS = 16


def work(chunk):
    """Counts, sorts and joins words; returns a number that depends on all of them."""
    counts, state = {}, chunk
    for _ in range(200_000):
        state = (state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        word = f"{state >> 44:x}"
        counts[word] = counts.get(word, 0) + 1
    return hash(" ".join(sorted(counts, key=lambda word: (counts[word], word))))


def seconds():
    with multiprocessing.Pool(os.cpu_count()) as pool:
        pool.map(work, range(2))  # All workers are there now.
        begin = time.monotonic()
        pool.map(work, range(CHUNKS), chunksize=1)
        return time.monotonic() - begin


if __name__ == "__main__":
    print(f"{seconds():.2f}")
