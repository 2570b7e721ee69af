#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits classifier on one process, and on several that are killed and resumed in other numbers.

The second training begins on 4 processes, of which one is killed, goes on with 2, which are all killed during a save, and
ends with 3. Each time it must go on from the newest checkpoint that was committed. In the end both trainings must have the
same weights and moments, bit for bit. Exits with 1 when anything is not as it should be.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"
sys.path.insert(0, str(DIGITS))

from runs import (Failure, Run, compare, describe_leftover, describe_saves, newest_committed, show_command,  # noqa: E402
                  show_tool, temporaries)

MOST_SECONDS = 60  # For each of the four runs.
# Open MPI refuses root, who is the only user of most containers, and more processes than cores, unless it is told; and
# processes that wait must not take the cores from those that compute.
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "self,vader",
            "OMPI_MCA_mpi_yield_when_idle": "1"}
OPEN_MPI_ARGUMENTS = ["--oversubscribe", "--bind-to", "none"]


def is_alive(pid):
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Job(Run):
    """The trainer on several processes."""

    def __init__(self, options, ranks, name):
        mpirun = [options.mpirun, "-n", ranks, *(OPEN_MPI_ARGUMENTS if options.is_open_mpi else [])]
        trainer = [options.build / "examples" / "sharded", "--root", options.folder / name,
                   "--data", DIGITS / "digits.csv", "--steps", options.steps, "--save-every", options.save_every,
                   "--final", options.folder / f"{name}.final"]
        self.ranks = ranks
        self.pids = []
        self.ended_by = "itself"
        self.leftover = ""
        super().__init__(mpirun + trainer, options.folder / name, {**os.environ, **OPEN_MPI})
        self.watchdog = threading.Timer(MOST_SECONDS, self.kill_everything)
        self.watchdog.start()

    def note(self, word, rest, facts):
        super().note(word, rest, facts)
        if word == "ranks":
            self.pids = [int(pid) for pid in facts["pids"].split(",")]

    def kill(self, pids):
        """Kills processes; what mpirun does then must end all of them."""
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def kill_everything(self):
        self.kill([*self.pids, self.process.pid])

    def finish(self):
        super().finish()
        self.watchdog.cancel()

    def finish_killed(self):
        """Reads what it had said before the kill, and waits until none of its processes is left."""
        for _ in self.lines():
            pass
        code = self.process.wait(timeout=MOST_SECONDS)
        patience = time.monotonic() + MOST_SECONDS
        while any(map(is_alive, self.pids)):
            if time.monotonic() > patience:
                raise Failure(f"mpirun has ended with {code}, but not all of the processes {self.pids}")
            time.sleep(0.01)
        self.watchdog.cancel()
        if self.finished or code == 0:
            raise Failure("the trainer was quicker than the kill: try more --steps")
        self.leftover = describe_leftover(self.root)


def kill_one(job, after_step, chance):
    """Kills one process while the job trains; mpirun ends the others."""
    for _ in job.lines():
        if job.step >= after_step:
            rank = chance.randrange(job.ranks)
            time.sleep(chance.uniform(0, 0.005))
            job.kill([job.pids[rank]])
            job.ended_by = f"a kill of rank {rank}"
            return job.finish_killed()
    raise Failure(f"the trainer ended too soon: {job.complaint()}")


def kill_all(job, after_step, chance):
    """Kills all processes at some moment after the temporary folder of a save has come."""
    for line in job.lines():
        if job.step >= after_step and line.startswith("saving "):
            patience = time.monotonic() + 0.1
            while not temporaries(job.root) and time.monotonic() < patience:
                pass
            time.sleep(chance.uniform(0, 0.01))
            job.kill(job.pids)
            job.ended_by = "a kill of all ranks"
            return job.finish_killed()
    raise Failure(f"the trainer ended too soon: {job.complaint()}")


def run_with_kills(options, chance):
    """Trains on 4, 2 and 3 processes; returns these runs."""
    print(f"\n{'ranks':>5}  {'from step':>9}  {'to step':>7}  {'ended by':<20}  {'which was'}")
    plan = [(4, lambda job: kill_one(job, options.steps // 3 + chance.randrange(options.save_every), chance)),
            (2, lambda job: kill_all(job, options.steps * 2 // 3, chance)),
            (3, Job.finish)]
    jobs, newest = [], 0
    for ranks, end in plan:
        job = Job(options, ranks, "killed")
        jobs.append(job)
        try:
            end(job)
        finally:
            job.watchdog.cancel()
            if job.process.poll() is None:
                job.kill_everything()
        if job.resumed != newest:
            raise Failure(f"{newest} was the newest checkpoint, but training went on from {job.resumed}")
        newest = newest_committed(job.root)
        print(f"{ranks:>5}  {job.resumed:>9}  {job.step:>7}  {job.ended_by:<20}  {job.leftover}".rstrip(), flush=True)
    left = [path.name for path in jobs[-1].root.iterdir() if not path.name.isdecimal()]
    if left:
        raise Failure(f"nobody removed {left}")
    return jobs


def describe_ranks(checkpoint):
    """Says which rank wrote how much, in lines of a report."""
    sizes = {}
    for path in checkpoint.rglob("data-r*.safetensors"):
        rank = int(re.match(r"data-r(\d+)-", path.name)[1])
        sizes.setdefault(rank, []).append(path.stat().st_size)
    return "\n".join(f"  by rank {rank:<9}{sum(of_rank):,} bytes in {len(of_rank)} file{'s' if len(of_rank) > 1 else ''}"
                     for rank, of_rank in sorted(sizes.items()))


def report(reference, jobs, final_bytes, digest, checkpoint):
    print(f"""
test accuracy      {reference.accuracy:.1%}, in both trainings
final state        equal, bit for bit: {final_bytes:,} bytes, sha256 {digest[:16]}…
weights            xxh3 {reference.finished["weights"]}, in both trainings
steps done again   {sum(job.step for job in jobs) - sum(job.resumed for job in jobs) - jobs[-1].step}
leftovers removed  {sum(job.removed for job in jobs)}
{describe_saves([save for job in jobs for save in job.saves])}
last checkpoint    {checkpoint.name}
{describe_ranks(checkpoint)}""", flush=True)


def show_checkpoint(options, reference, checkpoint):
    """Shows it with the tool, which must find it equal to the one of the other training, divided otherwise as that is."""
    tool = options.build / "cairn"
    show_tool(tool, checkpoint)
    show_command(tool, "diff", reference, checkpoint)
    subprocess.run([str(tool), "diff", str(reference), str(checkpoint)], check=True, timeout=MOST_SECONDS)


def demonstrate(options):
    chance = random.Random(options.seed)
    print(f"Training on 1,438 images for {options.steps:,} steps, a checkpoint every {options.save_every} steps.")
    print("Once on 1 process, without interruption … ", end="", flush=True)
    reference = Job(options, 1, "reference")
    try:
        reference.finish()
    finally:
        reference.watchdog.cancel()
    print(f"{len(reference.saves)} saves, accuracy {reference.accuracy:.1%}.\nOnce on several, with kills:")
    jobs = run_with_kills(options, chance)
    size, digest = compare(options.folder / "reference.final", options.folder / "killed.final")
    if jobs[-1].finished != reference.finished:
        raise Failure(f"one training ended with {reference.finished}, the other with {jobs[-1].finished}")
    checkpoint = options.folder / "killed" / str(newest_committed(options.folder / "killed"))
    report(reference, jobs, size, digest, checkpoint)
    if not options.no_tool:
        show_checkpoint(options, options.folder / "reference" / checkpoint.name, checkpoint)


def require_mpi(options):
    if not (options.build / "examples" / "sharded").exists():
        raise Failure(f"{options.build} was built without MPI: install it (libopenmpi-dev, openmpi-bin) and build again")
    if not options.mpirun or not shutil.which(options.mpirun):
        raise Failure("there is no mpirun: install MPI (openmpi-bin)")
    version = subprocess.run([options.mpirun, "--version"], capture_output=True, text=True, timeout=MOST_SECONDS)
    options.is_open_mpi = re.search("Open MPI|OpenRTE", version.stdout + version.stderr) is not None


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build" / "release",
                        help="the build folder (build/release)")
    parser.add_argument("--folder", type=pathlib.Path, help="work here, and keep what was made (a temporary folder)")
    parser.add_argument("--mpirun", default="mpirun", help="what starts the processes (%(default)s)")
    parser.add_argument("--steps", type=int, default=600, help="steps of training (%(default)s)")
    parser.add_argument("--save-every", type=int, default=20, help="steps between checkpoints (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the random moments; the machine's speed has its say, too")
    parser.add_argument("--no-tool", action="store_true", help="do not show the last checkpoint with the cairn tool")
    return parser.parse_args()


def main():
    options = parse_options()
    is_kept = options.folder is not None
    options.folder = options.folder or pathlib.Path(tempfile.mkdtemp(prefix="cairn-sharded-"))
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        if any(options.folder.iterdir()):
            raise Failure(f"{options.folder} is not empty")
        require_mpi(options)
        demonstrate(options)
    except (Failure, OSError, subprocess.SubprocessError) as failure:
        print(f"\ndemo: {failure}", file=sys.stderr)
        return 1
    finally:
        if not is_kept:
            shutil.rmtree(options.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
