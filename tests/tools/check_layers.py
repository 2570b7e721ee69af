# SPDX-License-Identifier: Apache-2.0
"""Enforces who may include whom: the table of modules, internal and private headers, no cycles of modules or files."""
import posixpath
import re
import sys

from source_text import CPP_SUFFIXES, Finding, run, source_files

INTERFACES = ["base", "async", "array", "io", "observe", "store", "coord", "staging", "sharding", "formats", "array_store",
              "contract", "core"]
LAYERS = {
    "base": [],
    "async": ["base"],
    "array": ["base"],
    "io": ["base", "async"],
    "observe": ["base", "io"],
    "staging": ["base", "async", "io", "observe"],
    "store": ["base", "async", "io", "observe", "staging"],
    "coord": ["base", "async"],
    "interop": ["base", "array"],
    "sharding": ["base", "array"],
    "formats": ["base", "async", "array", "io", "sharding"],
    "array_store": ["base", "async", "array", "io", "staging", "sharding", "formats"],
    "joint": ["base", "async", "io", "staging", "store", "coord"],
    "contract": ["base", "async", "array", "io", "observe", "store", "staging", "coord", "joint"],
    "core": ["base", "async", "array", "io", "observe", "store", "staging", "coord", "joint", "contract"],
    "records": ["base", "async", "io"],
    "proto": ["base", "io", "records"],
    "handlers": [*INTERFACES, "proto"],
    "cuda": ["base", "async", "array", "io", "staging"],
    "mpi": ["base", "async", "coord"],
    "api": [*INTERFACES, "joint", "proto", "handlers", "cuda", "mpi"],
    "megatron": [*INTERFACES, "handlers", "api"],
    "training": [*INTERFACES, "joint", "handlers", "api"],
    "tools": [*INTERFACES, "joint", "handlers", "api"],
    "flash": [*INTERFACES, "handlers", "api", "training"],
    "testing": [*INTERFACES, "handlers", "api"],  # Suites that users run on handlers of their own; installed, not linked.
}
# Headers are public (include/: installed), internal (src/<module>/internal/: for other modules, too, but not
# installed) or private.
PUBLIC_ONLY = ("examples",)  # Use nothing that a user could not.
# The modules whose internal headers built-in handlers may use, besides those of the handlers: what arrays, trees and
# texts are stored by. A user's handler does the same by its contexts and the public calls for arrays.
INTERNAL_OF_HANDLERS = ("base", "coord", "sharding", "formats", "array_store", "handlers")
APPLICATIONS = ("cli", "examples", "tests")  # May include every public header; nobody includes them.
USER_CODE = ("examples/", "tests/consumer/")  # Includes <cairn/...> as users do.
GENERATED = re.compile(r"(_generated\.h|\.pb\.h|\.inc)$")
MAP_ROW = re.compile(r"^\| `(\w+)` \| ([^|]*) \|", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"(?P<own>[^"]+)"|<(?P<foreign>[^>]+)>)', re.MULTILINE)


def module_of(path):
    """Returns the module that owns a file, and who may see the file: "public", "internal" or "private"."""
    parts = path.split("/")
    if path.startswith("include/cairn/"):
        return (parts[2] if len(parts) > 3 else "api"), "public"
    if parts[0] == "src" and len(parts) > 2:
        return parts[1], "internal" if parts[2] == "internal" else "private"
    return parts[0], "private"


def resolve(path, name, files):
    """Returns the file of the tree that an include means, or None."""
    for folder in ("include", "src", "handlers", "tests", "examples", posixpath.dirname(path)):
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in files:
            return candidate
    return None


def refusal_internal(path, module, seen, owner):
    """Says why a file may not include an internal header, or returns None."""
    if seen == "public":
        return "a public header includes the internal '{}'"
    if module in PUBLIC_ONLY or path.startswith(USER_CODE):
        return "uses public headers only, not the internal '{}'"
    if module == "handlers" and owner not in INTERNAL_OF_HANDLERS:
        return f"a handler may not use what is internal to {owner}: '{{}}'"
    return None


def refusal_private(path, module, target, owner):
    """Says why a file may not include the private header `target`, or returns None."""
    if module == "handlers":
        if posixpath.dirname(path) == posixpath.dirname(target):
            return None
        return f"a handler uses public and internal headers only, not the private '{target}'"
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
    edges, includes = {}, {}
    for path, text in files.items():
        module, seen = module_of(path)
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
            includes.setdefault(path, {})[target] = line
            owner, target_seen = module_of(target)
            if target_seen == "private":
                if seen != "private":
                    yield path, line, f"a {seen} header includes the private '{target}'"
                elif message := refusal_private(path, module, target, owner):
                    yield path, line, message
                continue
            if target_seen == "internal" and (message := refusal_internal(path, module, seen, owner)):
                yield path, line, message.format(target)
            if module in LAYERS and owner != module:
                edges.setdefault(module, {}).setdefault(owner, (path, line))
                if owner not in LAYERS[module]:
                    yield path, line, f"{module} may not include {owner}"
    for cycle in cycles({module: list(targets) for module, targets in edges.items()}):
        path, line = edges[cycle[0]][cycle[1]]
        yield path, line, f"modules include each other in a circle: {' -> '.join(cycle)}"
    for cycle in cycles(includes):
        yield cycle[0], includes[cycle[0]][cycle[1]], f"files include each other in a circle: {' -> '.join(cycle)}"


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


def check_map(text, modules):
    """Checks the table of modules in docs/architecture.md; yields messages."""
    body = text.partition("<!-- layers:begin -->")[2].partition("<!-- layers:end -->")[0]
    rows = dict(MAP_ROW.findall(body))
    for module in modules:
        if module not in rows:
            yield f"the module '{module}' is missing in the table"
            continue
        allowed = {name.strip() for name in rows.pop(module).split(",")} - {""}
        wanted = set(LAYERS[module]) & set(modules)
        if allowed != {"all above"} and allowed != wanted:
            yield f"'{module}' may include {sorted(wanted)}, not {sorted(allowed)}"
    for module in rows:
        yield f"there is no module '{module}'"


def check_tree(root):
    files = {}
    for path in source_files(root, CPP_SUFFIXES):
        files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    findings = [Finding(*finding) for finding in check(files)]
    modules = [module for module in LAYERS if (root / "src" / module).is_dir() or (root / module).is_dir()]
    page = "docs/architecture.md"
    return findings + [Finding(page, 0, message) for message in check_map((root / page).read_text(encoding="utf-8"), modules)]


PUBLIC = {f"include/cairn/{module}/x.hpp": "" for module in LAYERS}


def included(name):
    return f'#include "{name}"\n'


BAD = {
    "upwards": ("base may not include async", {"src/base/a.cpp": included("cairn/async/x.hpp")}),
    "core knows no files of arrays": ("core may not include array_store",
                                      {"include/cairn/core/a.hpp": included("cairn/array_store/x.hpp")}),
    "core knows no formats": ("core may not include formats", {"src/core/a.cpp": included("cairn/formats/x.hpp")}),
    "handlers know no api": ("handlers may not include api", {"handlers/json/a.cpp": included("cairn/api/x.hpp")}),
    "umbrella header": ("handlers may not include api",
                        {"handlers/json/a.cpp": included("cairn/cairn.hpp"), "include/cairn/cairn.hpp": ""}),
    "another's private header": ("private to io", {"src/core/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "public includes private": ("public header includes", {"include/cairn/io/a.hpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "handler includes private": ("public and internal headers only", {"handlers/json/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "handler includes a sibling": ("leaves its folder", {"handlers/json/a.cpp": included("../tree/t.hpp"), "handlers/tree/t.hpp": ""}),
    "climbing path": ("leaves its folder", {"handlers/json/a.cpp": included("../../src/io/ring.hpp"), "src/io/ring.hpp": ""}),
    "tool includes private": ("private to io", {"src/cli/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "example includes private": ("private to io", {"examples/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "test of another module": ("only tests/io may", {"tests/core/a.cpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "angle brackets": ("with quotes", {"src/async/a.cpp": "#include <cairn/base/x.hpp>\n"}),
    "angle brackets upwards": ("base may not", {"src/base/a.cpp": "#include <cairn/async/x.hpp>\n"}),
    "foreign header in quotes": ("other libraries'", {"src/base/a.cpp": included("fmt/core.h")}),
    "unknown module": ("unknown module", {"src/extra/a.cpp": ""}),
    "public includes internal": ("public header includes the internal",
                                 {"include/cairn/io/a.hpp": included("io/internal/ring.hpp"), "src/io/internal/ring.hpp": ""}),
    "internal includes private": ("internal header includes the private",
                                  {"src/io/internal/a.hpp": included("io/ring.hpp"), "src/io/ring.hpp": ""}),
    "handler includes what is internal to io": ("internal to io",
                                                {"handlers/json/a.cpp": included("io/internal/ring.hpp"), "src/io/internal/ring.hpp": ""}),
    "example includes internal": ("public headers only",
                                  {"examples/a.cpp": included("io/internal/ring.hpp"), "src/io/internal/ring.hpp": ""}),
    "internal upwards": ("base may not include io", {"src/base/a.cpp": included("io/internal/ring.hpp"), "src/io/internal/ring.hpp": ""}),
    "cycle of files": ("files include each other", {"src/io/a.hpp": included("io/b.hpp"), "src/io/b.hpp": included("io/a.hpp")}),
    "cycle": ("in a circle", {"include/cairn/base/a.hpp": included("cairn/async/x.hpp"),
                              "include/cairn/async/a.hpp": included("cairn/base/x.hpp")}),
}
GOOD = {
    "downwards": {"src/io/a.cpp": included("cairn/base/x.hpp") + included("cairn/async/x.hpp")},
    "own module": {"src/io/a.cpp": included("cairn/io/x.hpp") + included("io/ring.hpp"), "src/io/ring.hpp": ""},
    "api includes all that it may": {
        "src/api/a.cpp": "".join(included(f"cairn/{module}/x.hpp") for module in ["api", *LAYERS["api"]])},
    "another's internal header": {"src/core/a.cpp": included("io/internal/ring.hpp"), "src/io/internal/ring.hpp": ""},
    "handler includes what is internal to formats": {"handlers/tree/a.cpp": included("formats/internal/index.hpp"),
                                                     "src/formats/internal/index.hpp": ""},
    "handler includes what handlers share": {"handlers/tree/a.cpp": included("handlers/internal/packed.hpp"),
                                             "src/handlers/internal/packed.hpp": ""},
    "internal includes public": {"src/io/internal/a.hpp": included("cairn/io/x.hpp") + included("cairn/base/x.hpp")},
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
    table = "<!-- layers:begin -->\n| `base` |  | is |\n| `async` | {} | is |\n<!-- layers:end -->"
    for right, allowed in ((True, "base"), (True, "all above"), (False, "io"), (False, "")):
        if right == bool(list(check_map(table.format(allowed), ["base", "async"]))):
            failures.append(f"a table that says '{allowed}' was judged wrongly")
    if not list(check_map(table, ["base"])) or not list(check_map("", ["base"])):
        failures.append("a table of other modules was accepted")
    if cycles(LAYERS):
        failures.append(f"the table itself has a cycle: {cycles(LAYERS)}")
    return failures


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
