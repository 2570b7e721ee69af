#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier with each step in memory, under `cairn agent`, and kills it again and again; then the same
with checkpoints on disk alone. Says how many steps each kill has lost.

The program, its agent, or both are killed, at a random moment after a random number of steps. Each time the training goes
on from the newest step that there is. In the end all have the same weights, bit for bit, as a run without kills. Exits
with 1 when anything is not as it should be.
"""
import argparse
import collections
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from runs import Failure, Run, compare

HERE = pathlib.Path(__file__).resolve().parent


class Trainer(Run):
    """One process of the trainer; with a memory, under an agent."""

    def __init__(self, options, root, final, memory=None):
        command = [options.build / "examples" / "digits", "--root", root, "--data", HERE / "digits.csv", "--steps", options.steps,
                   "--save-every", options.save_every, "--final", final]
        if memory:
            agent = [options.build / "cairn", "agent", "--memory", memory, "--root", root, "--"]
            command = [*agent, *command, "--memory", memory]
        self.is_under_agent = memory is not None
        self.skipped = 0
        super().__init__(command, root)

    def note(self, word, rest, facts):
        self.skipped += word == "skipped"
        super().note(word, rest, facts)

    def program(self):
        """The process that trains: under an agent its child."""
        pid = self.process.pid
        if not self.is_under_agent:
            return pid
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])

    def kill(self, who):
        program = self.program()
        if who != "program" and self.is_under_agent:
            self.process.kill()
        if who == "agent":
            time.sleep(0.01)  # The program goes on without it.
        os.kill(program, signal.SIGKILL)
        for _ in self.lines():
            pass
        self.process.wait()


def killed_runs(options, folder, name, memory=None):
    """Kills the training so often, then lets it come to its end. Returns the steps that each kill has lost."""
    chance = random.Random(options.seed)
    lost, before, who, killed, skipped = [], None, None, collections.Counter(), 0
    while True:
        run = Trainer(options, folder / name, folder / f"{name}.final", memory)
        left = chance.randint(1, 2 * options.save_every) if sum(killed.values()) < options.kills else options.steps
        for line in run.lines():
            if line.startswith("recovered"):
                continue
            if before is not None:  # It says first where it goes on.
                lost.append(before - run.resumed)
                before = None
            left -= line.startswith("step ")
            if left <= 0:
                time.sleep(chance.uniform(0, 0.005))
                who = chance.choice(["program", "agent", "both"])
                run.kill(who)
                break
        skipped += run.skipped
        if run.finished:
            return lost, killed, skipped
        if left > 0:
            raise Failure(f"the trainer ended with {run.process.wait()}: {run.complaint()}")
        killed[who if memory else "program"] += 1
        before = run.step


def describe(name, lost, killed, skipped):
    whom = ", ".join(f"{count} of {'both' if who == 'both' else 'the ' + who}" for who, count in sorted(killed.items()))
    print(f"{name:<28} {statistics.mean(lost):6.2f} on average, {statistics.median(lost):g} at the median, {max(lost)} at most"
          f"   ({len(lost)} kills: {whom}; {skipped} steps not kept)", flush=True)


def demonstrate(options, folder, memory):
    reference = Trainer(options, folder / "reference", folder / "reference.final")
    reference.finish()
    print(f"Steps lost per kill, of {options.steps:,} steps, on disk each {options.save_every}:", flush=True)
    lost, killed, skipped = killed_runs(options, folder, "in memory", memory)
    describe("each step in memory, agent", lost, killed, skipped)
    describe("the disk alone", *killed_runs(options, folder, "on disk"))
    for name in ("in memory", "on disk"):
        compare(folder / "reference.final", folder / f"{name}.final")
    print("final states                 equal, bit for bit")
    # The step under way, and the one before, as long as its image was not complete; and what was not kept.
    if max(lost) > 2 and skipped == 0:
        raise Failure(f"a kill has lost {max(lost)} steps, with each in memory")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "release", help="the build folder (build/release)")
    parser.add_argument("--steps", type=int, default=10000, help="steps of training (%(default)s)")
    parser.add_argument("--save-every", type=int, default=100, help="steps between checkpoints on disk (%(default)s)")
    parser.add_argument("--kills", type=int, default=100, help="of each training (%(default)s)")
    parser.add_argument("--memory", type=pathlib.Path, default="/dev/shm", help="a tmpfs (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the random moments; the machine's speed has its say, too")
    options = parser.parse_args()
    if not options.memory.is_dir():
        print(f"skipped: there is no {options.memory}")
        return 0
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-digits-"))
    memory = pathlib.Path(tempfile.mkdtemp(prefix="cairn-digits-", dir=options.memory))
    try:
        demonstrate(options, folder, memory / "run")
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(f"\nflash: {failure}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(memory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
