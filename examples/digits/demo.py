#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier once without interruption and once with kills, and compares what comes out.

The second run is killed with SIGKILL again and again: at random moments, and in the middle of saves. Each time it is
started again and must go on from the newest checkpoint that was committed. In the end both runs must have the same
weights, bit for bit. Exits with 1 when anything is not as it should be.
"""
import argparse
import hashlib
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LEAST_ACCURACY = 0.95
MOST_KILLS = 60
LONGEST_WAIT_S = 120


class Failure(Exception):
    """Something is not as it should be."""


class Run:
    """One process of the trainer, and what it said."""

    def __init__(self, options, root, final):
        command = [options.build / "examples" / "digits", "--root", root, "--data", HERE / "digits.csv",
                   "--steps", options.steps, "--save-every", options.save_every, "--final", final]
        self.root = root
        self.step = 0  # The last step that it has done.
        self.resumed = 0  # The step of the checkpoint that it went on from; 0: it began.
        self.removed = 0  # Leftovers of killed runs that it removed.
        self.accuracy = None
        self.saves = []  # What it said of each save that it committed.
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True)

    def lines(self):
        """Yields the lines that it says, having noted what they mean."""
        for line in self.process.stdout:
            if not line.endswith("\n"):
                return  # The kill cut it off.
            word, _, rest = line.strip().partition(" ")
            facts = dict(re.findall(r"(\w+)=(\S+)", rest))
            if word == "step":
                self.step = int(rest)
            elif word == "resumed":
                self.resumed = self.step = int(facts["step"])
            elif word == "recovered":
                self.removed = int(facts["removed"])
            elif word == "committed":
                self.saves.append(facts)
            elif word == "finished":
                self.accuracy = float(facts["accuracy"])
            yield line.strip()

    def finish(self):
        """Lets it end by itself, as it must."""
        for _ in self.lines():
            pass
        code = self.process.wait(timeout=LONGEST_WAIT_S)
        if code != 0 or self.accuracy is None:
            raise Failure(f"the trainer ended with {code}: {self.complaint()}")

    def kill(self):
        """Kills it, and reads what it had said before."""
        self.process.send_signal(signal.SIGKILL)
        for _ in self.lines():
            pass
        code = self.process.wait()
        if code not in (-signal.SIGKILL, 0):
            raise Failure(f"the trainer ended with {code}: {self.complaint()}")

    def complaint(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip() or "it said nothing"


def newest_committed(root):
    """The step of the newest checkpoint that anybody can see; 0 when there is none."""
    return max((int(path.parent.name) for path in root.glob("*/COMMIT") if path.parent.name.isdecimal()), default=0)


def temporaries(root):
    return list(root.glob(".tmp-*"))


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


def describe_leftover(root):
    """Says what a kill has left, if it fell into a save."""
    left = temporaries(root)
    if not left:
        return "between saves"
    files = [path for path in left[0].rglob("*") if path.is_file() and not path.name.startswith(".")]
    if not files:
        return "mid-save, before its first file"
    size = sum(path.stat().st_size for path in files)
    return f"mid-save, leaving {len(files)} file{'s' if len(files) > 1 else ''}, {size:,} bytes"


def run_with_kills(options, root, final, chance):
    """Trains with kills in between; returns all runs, of which the last one finished."""
    print(f"\n{'kill':>6}  {'after step':>10}  {'during':<40}  {'resumed from':>12}")
    runs, mid_saves = [], 0
    for number in range(1, MOST_KILLS + 1):
        run = Run(options, root, final)
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
        runs.append(Run(options, root, final))
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


def compare(expected, actual):
    """Compares two files; returns their hash."""
    one, other = expected.read_bytes(), actual.read_bytes()
    if one != other:
        where = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        raise Failure(f"the final states differ from byte {where:,} on: {expected}, {actual}")
    return len(one), hashlib.sha256(one).hexdigest()


def report(reference, runs, final_bytes, digest):
    saves = [save for run in [reference, *runs] for save in run.saves]
    blocking = [int(save["blocking_us"]) for save in saves]
    durable = [int(save["durable_us"]) for save in saves]
    killed = sum(run.accuracy is None for run in runs)
    again = sum(run.step - run.newest_left for run in runs if run.accuracy is None)
    print(f"""
test accuracy      {reference.accuracy:.1%}, in both runs
final state        equal, bit for bit: {final_bytes:,} bytes, sha256 {digest[:16]}…
kills              {killed}, after which {again} steps were done again
leftovers removed  {sum(run.removed for run in runs)}
saves committed    {len(saves)}, of {int(saves[-1]["bytes"]):,} bytes in {saves[-1]["files"]} files (the last)
blocking time      {statistics.median(blocking) / 1000:.2f} ms (median), {max(blocking) / 1000:.2f} ms (longest)
durable after      {statistics.median(durable) / 1000:.2f} ms (median)
engine             {saves[-1]["engine"]}""", flush=True)


def show_tool(tool, checkpoint):
    for command in ("ls", "inspect"):
        print(f"\n$ cairn {command} {checkpoint}", flush=True)
        subprocess.run([str(tool), command, str(checkpoint)], check=True, timeout=LONGEST_WAIT_S)


def demonstrate(options, folder):
    chance = random.Random(options.seed)
    print(f"Training on 1,438 images for {options.steps:,} steps, a checkpoint every {options.save_every} steps.")
    print("Once without interruption … ", end="", flush=True)
    reference = Run(options, folder / "reference", folder / "reference.final")
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
