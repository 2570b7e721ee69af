#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier once without interruption and once with kills, and compares what comes out.

The second run is killed with SIGKILL again and again: at random moments, and in the middle of saves. Each time it is
started again and must go on from the newest checkpoint that was committed. In the end both runs must have the same
weights, bit for bit. Exits with 1 when anything is not as it should be.
"""
import argparse
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from runs import (Failure, Run, compare, describe_leftover, describe_saves, newest_committed, show_tool,
                  temporaries)

HERE = pathlib.Path(__file__).resolve().parent
LEAST_ACCURACY = 0.95
MOST_KILLS = 60


class Trainer(Run):
    """One process of the trainer."""

    def __init__(self, options, root, final):
        super().__init__([options.build / "examples" / "digits", "--root", root, "--data", HERE / "digits.csv",
                          "--steps", options.steps, "--save-every", options.save_every, "--final", final], root)

    def kill(self):
        """Kills it, and reads what it had said before."""
        self.process.send_signal(signal.SIGKILL)
        for _ in self.lines():
            pass
        code = self.process.wait()
        if code not in (-signal.SIGKILL, 0):
            raise Failure(f"the trainer ended with {code}: {self.complaint()}")


def kill_while_training(run, chance):
    """Kills the run at some moment after a random number of steps."""
    steps = chance.randint(1, 150)
    for line in run.lines():
        steps -= line.startswith("step ")
        if steps <= 0:
            time.sleep(chance.uniform(0, 0.005))
            return run.kill()


def kill_while_saving(run, chance):
    """Kills the run at some moment after the temporary folder of a save has come."""
    saves = chance.randint(1, 3)
    for line in run.lines():
        saves -= line.startswith("saving ")
        if saves <= 0:
            patience = time.monotonic() + 0.05
            while not temporaries(run.root) and time.monotonic() < patience:
                pass
            time.sleep(chance.uniform(0, 0.004))
            return run.kill()


def run_with_kills(options, root, final, chance):
    """Trains with kills in between; returns all runs, of which the last one finished."""
    print(f"\n{'kill':>6}  {'after step':>10}  {'during':<40}  {'resumed from':>12}")
    runs, mid_saves = [], 0
    for number in range(1, MOST_KILLS + 1):
        run = Trainer(options, root, final)
        runs.append(run)
        # Every other kill aims at a save, until enough of them have hit.
        wants_save = number % 2 == 0 or number > options.kills
        (kill_while_saving if wants_save else kill_while_training)(run, chance)
        if run.accuracy is not None:  # It was quicker than the kill.
            check_resumption(runs, root)
            break
        leftover, newest = describe_leftover(root), newest_committed(root)
        mid_saves += leftover.startswith("mid-save")
        check_resumption(runs, root)
        run.newest_left = newest
        print(f"{number:>6}  {run.step:>10}  {leftover:<40}  {newest if newest else 'the start':>12}",
              flush=True)
        if number >= options.kills and mid_saves >= options.mid_saves:
            break
    if runs[-1].accuracy is None:
        runs.append(Trainer(options, root, final))
        runs[-1].finish()
        check_resumption(runs, root)
    killed = sum(run.accuracy is None for run in runs)
    if killed < options.kills or mid_saves < options.mid_saves:
        raise Failure(f"{killed} kills, {mid_saves} of them in saves: too few to show anything; try more --steps")
    if temporaries(root):
        raise Failure(f"nobody removed {temporaries(root)[0]}")
    return runs


def check_resumption(runs, root):
    """Checks that the last run went on from the newest checkpoint that the one before it had left."""
    if len(runs) > 1 and runs[-1].step and runs[-1].resumed != runs[-2].newest_left:
        raise Failure(f"{root}: {runs[-2].newest_left} was the newest checkpoint, "
                      f"but training went on from {runs[-1].resumed}")


def report(reference, runs, final_bytes, digest):
    saves = [save for run in [reference, *runs] for save in run.saves]
    killed = sum(run.accuracy is None for run in runs)
    again = sum(run.step - run.newest_left for run in runs if run.accuracy is None)
    print(f"""
test accuracy      {reference.accuracy:.1%}, in both runs
final state        equal, bit for bit: {final_bytes:,} bytes, sha256 {digest[:16]}…
kills              {killed}, after which {again} steps were done again
leftovers removed  {sum(run.removed for run in runs)}
{describe_saves(saves)}""", flush=True)


def demonstrate(options, folder):
    chance = random.Random(options.seed)
    print(f"Training on 1,438 images for {options.steps:,} steps, a checkpoint every {options.save_every} steps.")
    print("Once without interruption … ", end="", flush=True)
    reference = Trainer(options, folder / "reference", folder / "reference.final")
    reference.finish()
    print(f"{len(reference.saves)} saves, accuracy {reference.accuracy:.1%}.\nOnce with kills:")
    runs = run_with_kills(options, folder / "killed", folder / "killed.final", chance)
    size, digest = compare(folder / "reference.final", folder / "killed.final")
    report(reference, runs, size, digest)
    if reference.accuracy < LEAST_ACCURACY or runs[-1].accuracy != reference.accuracy:
        raise Failure(f"accuracy {reference.accuracy} and {runs[-1].accuracy}; {LEAST_ACCURACY} was expected")
    if not options.no_tool:
        show_tool(options.build / "cairn", folder / "killed" / str(newest_committed(folder / "killed")))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "release",
                        help="the build folder (build/release)")
    parser.add_argument("--folder", type=pathlib.Path, help="work here, and keep what was made (a temporary folder)")
    parser.add_argument("--steps", type=int, default=2000, help="steps of training (%(default)s)")
    parser.add_argument("--save-every", type=int, default=40, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--kills", type=int, default=10, help="kill so often at least (%(default)s)")
    parser.add_argument("--mid-saves", type=int, default=3, help="so many of them in the middle of saves (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the random moments; the machine's speed has its say, too")
    parser.add_argument("--no-tool", action="store_true", help="do not show the last checkpoint with the cairn tool")
    return parser.parse_args()


def main():
    options = parse_options()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="cairn-digits-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise Failure(f"{folder} is not empty")
        demonstrate(options, folder)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(f"\ndemo: {failure}", file=sys.stderr)
        return 1
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
