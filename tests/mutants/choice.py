# SPDX-License-Identifier: Apache-2.0
"""Which of all mutation points become mutants, and the list of those that change nothing that is promised."""
import hashlib
import itertools
import math

from points import never_returning, points_of

MODULES = {module: f"src/{module}" for module in ("formats", "io", "observe", "store", "array_store", "core")}
MODULES["handlers"] = "handlers"


def all_points(root, files):
    """The points of each of these files, by their path from root."""
    headers = [path for folder in ("include", "src", "handlers") for path in (root / folder).rglob("*.?pp")]
    never_return = set().union(*(never_returning(path.read_text(encoding="utf-8")) for path in headers))
    return {file: points_of((root / file).read_text(encoding="utf-8"), file, never_return) for file in files}


def rank(point, seed):
    """A number that depends on the point's own line only, so that other changes leave the choice as it is."""
    return hashlib.sha256(f"{seed} {point.name}".encode()).hexdigest()


def by_turns(lists):
    """One of each list, then the next of each, and so on."""
    return [item for turn in itertools.zip_longest(*lists) for item in turn if item is not None]


def kind(change):
    """`== to !=` and `!= to ==` are of one kind, all numbers + 1 are, too."""
    words = change.split(" ")
    if words[-2:] == ["+", "1"]:
        return "+ 1"
    return "comparison" if words[0] in ("<", "<=", ">", ">=", "==", "!=") else change


def in_order(points, seed):
    """A file's points in the order in which they are taken: of each kind of change one, then of each the next."""
    kinds = {}
    for point in sorted(points, key=lambda point: rank(point, seed)):
        kinds.setdefault(kind(point.change), []).append(point)
    return by_turns(sorted(kinds.values(), key=lambda points: rank(points[0], seed)))


def by_size(lists):
    """All items of some lists: of a list that is four times as long as another, twice as many among the first ones."""
    places = [((turn + 0.5) / math.sqrt(len(items)), number, item)
              for number, items in enumerate(lists) for turn, item in enumerate(items)]
    return [item for _, _, item in sorted(places, key=lambda place: place[:2])]


def overlaps(point, others):
    return any(point.begin < other.end and other.begin < point.end for other in others)


def choose(points, count, seed, refused):
    """`count` points that do not overlap, evenly over the modules and, within each, over its files: more of the larger ones.

    refused: the names of those that do not compile.
    """
    chosen = []
    for module, folder in MODULES.items():
        files = [in_order(found, seed) for file, found in sorted(points.items()) if file.startswith(folder + "/")]
        taken = {}
        for point in by_size(files):
            if len(list(itertools.chain(*taken.values()))) == count // len(MODULES):
                break
            of_file = taken.setdefault(point.file, [])
            if point.name not in refused and not overlaps(point, of_file):
                of_file.append(point)
        chosen += itertools.chain(*taken.values())
    return chosen


def module_of(point):
    return next(module for module, folder in MODULES.items() if point.file.startswith(folder + "/"))


def parse_equivalents(text):
    """{name of a point: why no test can tell it}. The name is a line, its reason the lines below it that begin with blanks."""
    reasons, name = {}, None
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  ") and name:
            reasons[name] = f"{reasons[name]} {line.strip()}".strip()
        elif line.startswith(" ") or line.strip() in reasons:
            raise ValueError(f"'{line}'")
        else:
            name = line.strip()
            reasons[name] = ""
    for name, reason in reasons.items():
        if not reason:
            raise ValueError(f"no reason: {name}")
    return reasons


def stale(equivalents, points):
    """The entries that name no point of the sources any more."""
    names = {point.name for found in points.values() for point in found}
    return sorted(set(equivalents) - names)
