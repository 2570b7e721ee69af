# SPDX-License-Identifier: Apache-2.0
"""A copy of the sources that has the mutants in it, and is built as the original is."""
import json
import os
import pathlib
import re
import shutil
import subprocess

from choice import MODULES
from points import mutated

COPIED = ("CMakeLists.txt", "CMakePresets.json", "src", "include", "handlers", "tests", "examples")
PRESET = "checked"
# From the nearest to what has the module's code in it, to what plays the whole library.
PROGRAMS = {"formats": "formats", "io": "io", "store": "store", "array_store": "array_store", "core": "core", "handlers": "handlers", "handlers_proto": "handlers", "devices": "devices",
            "api": "api", "cli": "cli", "crash": "crash", "damage": "damage"}


def files_below(path):
    if path.is_file():
        return [path]
    return [pathlib.Path(folder) / name for folder, folders, names in os.walk(path)
            if pathlib.Path(folder).name != "__pycache__" for name in names]


def write_if_changed(path, data):
    """Keeps the time of what stays the same, so that it is not built again."""
    if path.is_file() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


class Tree:
    """The copy: `write` makes it, `build` builds the test programs and tells which mutants do not compile."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self._read = {}

    def sources(self):
        """The files that may have mutants: those of the modules that this machine's build compiles."""
        wanted = []
        for folder in MODULES.values():
            files = sorted(path.relative_to(self.root) for path in files_below(self.root / folder))
            wanted += [str(file) for file in files if file.suffix in (".cpp", ".hpp")]
        compiled = self._compiled()
        return [file for file in wanted if file.endswith(".hpp") or file in compiled]

    def write(self, numbered, keeps_mutants=False):
        """Copies all files; in those of the (number, point) the mutants are put, or else those of the last time stay."""
        by_file = {}
        for number, point in numbered:
            by_file.setdefault(point.file, []).append((number, point))
        kept = set()
        for top in COPIED:
            for path in files_below(self.root / top):
                file = str(path.relative_to(self.root))
                kept.add(file)
                if keeps_mutants and path.suffix in (".cpp", ".hpp") and (self.folder / file).exists():
                    continue
                data = self._read.setdefault(file, path.read_bytes())  # What is changed meanwhile is for the next run.
                if file in by_file:
                    header = os.path.relpath(self.folder / "tests/mutants/switch.hpp", (self.folder / file).parent)
                    data = mutated(data.decode(), by_file[file], header).encode()
                write_if_changed(self.folder / file, data)
                shutil.copymode(path, self.folder / file)
        self._remove_others(kept)

    def build(self, programs, log):
        """Returns {file: lines that the compiler complained of}; empty when all is built."""
        targets = [f"cairn_{program}_test" for program in programs]
        command = ["src/cmake/build", PRESET, "-DCAIRN_BUILD_EXAMPLES=OFF", "-DCAIRN_BUILD_BENCH=OFF", "--", "--target", *targets,
                   "--", "-k", "0"]
        result = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        log.write_text(result.stdout, encoding="utf-8")
        if result.returncode == 0:
            return {}
        lines = self._complaints(result.stdout)
        if not lines:
            raise SystemExit(f"mutants: the copy of the sources cannot be built: {log}")
        return lines

    def program(self, name):
        return self.folder / "build" / PRESET / "tests" / PROGRAMS[name] / f"cairn_{name}_test"

    def _complaints(self, text):
        """The lines of the modules' sources that an error names, or that it says it comes from."""
        lines, is_error = {}, False
        place = re.compile(r"((?:/|\.\./|src/|handlers/)[^:\s]*?):(\d+):\d+: *(.*)")
        context = {}
        for line in text.split("\n"):
            match = place.search(line)
            if not match:
                if "In instantiation of" in line or "In function" in line:
                    context = {}
                continue
            file = os.path.relpath(os.path.normpath(self.folder / "build" / PRESET / match.group(1)), self.folder)
            is_error = match.group(3).startswith("error")
            if match.group(3).startswith("required from") or match.group(3).startswith("in 'constexpr'"):
                context.setdefault(file, set()).add(int(match.group(2)))
            if is_error:
                lines.setdefault(file, set()).add(int(match.group(2)))
                for other, numbers in context.items():
                    lines.setdefault(other, set()).update(numbers)
        folders = tuple(folder + "/" for folder in MODULES.values())
        return {file: numbers for file, numbers in lines.items() if file.startswith(folders)}

    def _compiled(self):
        """The sources of the copy's database of commands, those that unity builds include among them."""
        database = self.folder / "build" / PRESET / "compile_commands.json"
        compiled = set()
        for command in json.loads(database.read_text(encoding="utf-8")):
            paths = [command["file"]]
            if pathlib.Path(command["file"]).name.startswith("unity_"):
                paths = re.findall(r'#include "([^"]+)"', pathlib.Path(command["file"]).read_text(encoding="utf-8"))
            compiled.update(os.path.relpath(path, self.folder) for path in paths)
        return compiled

    def configure(self, log):
        """So that it is known what is compiled on this machine."""
        bootstrap = subprocess.run(["src/cmake/bootstrap", PRESET], cwd=self.folder, check=False)
        command = ["cmake", "--preset", PRESET, "-DCAIRN_BUILD_EXAMPLES=OFF", "-DCAIRN_BUILD_BENCH=OFF"]
        with log.open("w", encoding="utf-8") as out:
            result = subprocess.run(command, cwd=self.folder, stdout=out, stderr=subprocess.STDOUT, check=False)
        if bootstrap.returncode != 0 or result.returncode != 0:
            raise SystemExit(f"mutants: the copy of the sources cannot be configured: {log}")

    def _remove_others(self, kept):
        for top in COPIED:
            for path in files_below(self.folder / top):
                if str(path.relative_to(self.folder)) not in kept:
                    path.unlink()
