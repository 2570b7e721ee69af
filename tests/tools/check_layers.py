# SPDX-License-Identifier: Apache-2.0
"""Enforces who may include whom: the table of modules, private headers, and no cycles."""
import posixpath
import re
import sys

from source_text import CPP_SUFFIXES, Finding, run, source_files

INTERFACES = ["base", "async", "array", "io", "coord", "staging", "sharding", "formats", "core"]
LAYERS = {
    "base": [],
    "async": ["base"],
    "array": ["base"],
    "io": ["base", "async"],
    "coord": ["base", "async"],
    "staging": ["base", "async", "array"],
    "sharding": ["base", "array"],
    "formats": ["base", "async", "array", "io"],
    "core": ["base", "async", "io", "staging", "coord"],
    "handlers": INTERFACES,
    "training": ["base", "async", "io", "coord", "core"],
    "flash": ["base", "async", "io", "staging", "coord", "core"],
    "cuda": ["base", "async", "array", "io", "staging"],
    "mpi": ["base", "async", "coord"],
    "api": [*INTERFACES, "handlers", "training", "flash", "cuda", "mpi"],
    "testing": [*INTERFACES, "handlers"],  # Suites that users run on handlers of their own; installed, not linked.
}
APPLICATIONS = ("cli", "examples", "tests")  # May include every public header; nobody includes them.
USER_CODE = ("examples/", "tests/consumer/")  # Includes <cairn/...> as users do.
GENERATED = re.compile(r"(_generated\.h|\.pb\.h|\.inc)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<own>[^"]+)"|<(?P<foreign>[^>]+)>)', re.MULTILINE)


def module_of(path):
    """Returns the module that owns a file, and whether the file is a public header."""
    parts = path.split("/")
    if path.startswith("include/cairn/"):
        return (parts[2] if len(parts) > 3 else "api"), True
    if parts[0] == "src" and len(parts) > 2:
        return parts[1], False
    return parts[0], False


def resolve(path, name, files):
    """Returns the file of the tree that an include means, or None."""
    for folder in ("include", "src", "handlers", "tests", "examples", posixpath.dirname(path)):
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in files:
            return candidate
    return None


def refusal_private(path, module, target, owner):
    """Says why a file may not include the private header `target`, or returns None."""
    if module == "handlers":
        if posixpath.dirname(path) == posixpath.dirname(target):
            return None
        return f"a handler uses public headers only, not the private '{target}'"
    if module == "tests":
        part = path.split("/")[1]
        if part == "fuzz":
            return None  # What reads from outside is private almost everywhere, and each part of it has its target.
        if owner == "tests" or part == owner or (owner in ("handlers", "examples") and f"/{part}/" in f"/{target}"):
            return None
        return f"only tests/{owner} may include the private '{target}'"
    if owner != module:
        return f"'{target}' is private to {owner}"
    return None


def check(files):
    """Checks a tree given as {path: text}; yields (path, line, message)."""
    edges = {}
    for path, text in files.items():
        module, is_public = module_of(path)
        if module not in LAYERS and module not in APPLICATIONS:
            yield path, 1, f"unknown module '{module}': add it to the table"
            continue
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = match.group("own") or match.group("foreign")
            if match.group("foreign"):
                if name.startswith("cairn/") and not path.startswith(USER_CODE):
                    yield path, line, f"write #include \"{name}\" with quotes"
                if not name.startswith("cairn/"):
                    continue
            elif name.startswith("../") or "/../" in name:
                yield path, line, f"'{name}' leaves its folder: write the full path"
                continue
            target = resolve(path, name, files)
            if target is None:
                if not GENERATED.search(name):
                    yield path, line, f"'{name}' is no header of this tree: other libraries' go in <>"
                continue
            owner, target_is_public = module_of(target)
            if not target_is_public:
                if is_public:
                    yield path, line, f"a public header includes the private '{target}'"
                elif message := refusal_private(path, module, target, owner):
                    yield path, line, message
            elif module in LAYERS and owner != module:
                edges.setdefault(module, {}).setdefault(owner, (path, line))
                if owner not in LAYERS[module]:
                    yield path, line, f"{module} may not include {owner}"
    for cycle in cycles({module: list(targets) for module, targets in edges.items()}):
        path, line = edges[cycle[0]][cycle[1]]
        yield path, line, f"modules include each other in a circle: {' -> '.join(cycle)}"


def cycles(edges):
    """Returns one cycle of a graph in a list, or an empty list."""
    done, trail = set(), []

    def visit(node):
        if node in trail:
            return [*trail[trail.index(node):], node]
        if node in done:
            return None
        trail.append(node)
        for target in edges.get(node, []):
            if found := visit(target):
                return found
        trail.pop()
        done.add(node)
        return None

    for start in sorted(edges):
        if found := visit(start):
            return [found]
    return []


def check_tree(root):
    files = {}
    for path in source_files(root, CPP_SUFFIXES):
        files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return [Finding(*finding) for finding in check(files)]


PUBLIC = {f"include/cairn/{module}/x.hpp": "" for module in LAYERS}


def included(name):
    return f'#include "{name}"\n'


BAD = {
    "upwards": ("base may not include async", {"src/base/a.cpp": included("cairn/async/x.hpp")}),
    "core knows no arrays": ("core may not include array", {"include/cairn/core/a.hpp": included("cairn/array/x.hpp")}),
    "core knows no formats": ("core may not include formats", {"src/core/a.cpp": included("cairn/formats/x.hpp")}),
    "handlers know no api": ("handlers may not include api", {"handlers/json/a.cpp": included("cairn/api/x.hpp")}),
    "umbrella header": ("handlers may not include api",
                        {"handlers/json/a.cpp": included("cairn/cairn.hpp"), "include/cairn/cairn.hpp": ""}),
    "another's private header": ("private to io", {"src/core/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "public includes private": ("public header includes", {"include/cairn/io/a.hpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "handler includes private": ("public headers only", {"handlers/json/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "handler includes a sibling": ("leaves its folder", {"handlers/json/a.cpp": included("../tree/t.hpp"), "handlers/tree/t.hpp": ""}),
    "climbing path": ("leaves its folder", {"handlers/json/a.cpp": included("../../src/io/ring.hpp"), "src/io/ring.hpp": ""}),
    "tool includes private": ("private to io", {"src/cli/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "example includes private": ("private to io", {"examples/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "test of another module": ("only tests/io may", {"tests/core/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "angle brackets": ("with quotes", {"src/async/a.cpp": "#include <cairn/base/x.hpp>\n"}),
    "angle brackets upwards": ("base may not", {"src/base/a.cpp": "#include <cairn/async/x.hpp>\n"}),
    "foreign header in quotes": ("other libraries'", {"src/base/a.cpp": included("fmt/core.h")}),
    "unknown module": ("unknown module", {"src/extra/a.cpp": ""}),
    "cycle": ("in a circle", {"include/cairn/base/a.hpp": included("cairn/async/x.hpp"),
                              "include/cairn/async/a.hpp": included("cairn/base/x.hpp")}),
}
GOOD = {
    "downwards": {"src/io/a.cpp": included("cairn/base/x.hpp") + included("cairn/async/x.hpp")},
    "own module": {"src/io/a.cpp": included("cairn/io/x.hpp") + included("io/ring.hpp"), "src/io/ring.hpp": ""},
    "api includes all that it may": {
        "src/api/a.cpp": "".join(included(f"cairn/{module}/x.hpp") for module in ["api", *LAYERS["api"]])},
    "umbrella": {"include/cairn/cairn.hpp": included("cairn/handlers/x.hpp") + included("cairn/api/x.hpp")},
    "handler and its own header": {"handlers/tree/a.cpp": included("t.hpp") + included("cairn/core/x.hpp"), "handlers/tree/t.hpp": ""},
    "test of the same module": {"tests/io/a.cpp": included("io/ring.hpp") + included("support/s.hpp"),
                                "src/io/ring.hpp": "", "tests/support/s.hpp": ""},
    "fuzz target": {"tests/fuzz/a.cpp": included("io/ring.hpp") + included("json/text.hpp"),
                    "src/io/ring.hpp": "", "handlers/json/text.hpp": ""},
    "example as a user writes it": {"examples/a.cpp": "#include <cairn/api/x.hpp>\n#include <vector>\n"},
    "example's own header": {"examples/digits/a.cpp": included("b.hpp"), "examples/digits/b.hpp": ""},
    "generated": {"src/formats/a.cpp": included("index_generated.h")},
    "system": {"src/base/a.cpp": "#include <vector>\n#include <boost/asio/post.hpp>\n"},
}


def self_test():
    failures = []
    for name, (words, files) in BAD.items():
        messages = [message for _, _, message in check({**PUBLIC, **files})]
        if not any(words in message for message in messages):
            failures.append(f"'{name}' was not refused for '{words}': {messages}")
    for name, files in GOOD.items():
        for path, _, message in check({**PUBLIC, **files}):
            failures.append(f"'{name}' was refused: {path}: {message}")
    if cycles(LAYERS):
        failures.append(f"the table itself has a cycle: {cycles(LAYERS)}")
    return failures


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
