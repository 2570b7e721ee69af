# SPDX-License-Identifier: Apache-2.0
"""What the demonstrations of digits and of sharded have in common: runs of a trainer, and looks at what they leave."""
import hashlib
import pathlib
import re
import shlex
import statistics
import subprocess
import tempfile

LONGEST_WAIT_S = 120


class Failure(Exception):
    """Something is not as it should be."""


class Run:
    """A trainer that runs, and what it said."""

    def __init__(self, command, root, environment=None):
        self.root = root
        self.step = 0  # The last step that it has done.
        self.resumed = 0  # The step of the checkpoint that it went on from; 0: it began.
        self.removed = 0  # Leftovers of killed runs that it removed.
        self.finished = None  # What it said at its end.
        self.saves = []  # What it said of each save that it committed.
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)

    @property
    def accuracy(self):
        return float(self.finished["accuracy"]) if self.finished else None

    def note(self, word, rest, facts):
        """Notes what a line means."""
        if word == "step":
            self.step = int(rest)
        elif word == "resumed":
            self.resumed = self.step = int(facts["step"])
        elif word == "recovered":
            self.removed = int(facts["removed"])
        elif word == "committed":
            self.saves.append(facts)
        elif word == "finished":
            self.finished = facts

    def lines(self):
        """Yields the lines that it says, having noted what they mean."""
        for line in self.process.stdout:
            if not line.endswith("\n"):
                return  # The kill cut it off.
            word, _, rest = line.strip().partition(" ")
            self.note(word, rest, dict(re.findall(r"(\w+)=(\S+)", rest)))
            yield line.strip()

    def finish(self):
        """Lets it end by itself, as it must."""
        for _ in self.lines():
            pass
        code = self.process.wait(timeout=LONGEST_WAIT_S)
        if code != 0 or self.finished is None:
            raise Failure(f"the trainer ended with {code}: {self.complaint()}")

    def complaint(self):
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip() or "it said nothing"


def newest_committed(root):
    """The step of the newest checkpoint that anybody can see; 0 when there is none."""
    return max((int(path.parent.name) for path in root.glob("*/COMMIT") if path.parent.name.isdecimal()), default=0)


def temporaries(root):
    return list(root.glob(".tmp-*"))


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


def compare(expected, actual):
    """Compares two files; returns their hash."""
    one, other = expected.read_bytes(), actual.read_bytes()
    if one != other:
        where = next((at for at, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
        raise Failure(f"the final states differ from byte {where:,} on: {expected}, {actual}")
    return len(one), hashlib.sha256(one).hexdigest()


def describe_saves(saves):
    """Says how long saves took, in lines of a report."""
    blocking = [int(save["blocking_us"]) for save in saves]
    durable = [int(save["durable_us"]) for save in saves]
    return f"""\
saves committed    {len(saves)}, of {int(saves[-1]["bytes"]):,} bytes in {saves[-1]["files"]} files (the last)
blocking time      {statistics.median(blocking) / 1000:.2f} ms (median), {max(blocking) / 1000:.2f} ms (longest)
durable after      {statistics.median(durable) / 1000:.2f} ms (median)
engine             {saves[-1]["engine"]}"""


def shown(path):
    """The path as it is typed in the folder in which this runs."""
    path = pathlib.Path(path).absolute()
    return str(path.relative_to(pathlib.Path.cwd()) if path.is_relative_to(pathlib.Path.cwd()) else path)


def show_command(tool, *words):
    """Shows a command so that it can be repeated, as long as its paths are kept."""
    print(f"\n$ {shlex.join([shown(tool), words[0], *map(shown, words[1:])])}", flush=True)


def show_tool(tool, checkpoint):
    for command in ("ls", "inspect"):
        show_command(tool, command, checkpoint)
        subprocess.run([str(tool), command, str(checkpoint)], check=True, timeout=LONGEST_WAIT_S)
