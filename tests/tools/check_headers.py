# SPDX-License-Identifier: Apache-2.0
"""Finds public headers that their own source does not include first: what comes before a header hides what it lacks. A source is a header's
own if it has its module and its name. Also finds comments of public headers whose first sentence ends, for Doxygen, between backticks. `--without-source ROOT` lists the headers that have none; the build compiles those."""
import pathlib
import re
import sys

from check_layers import INCLUDE
from source_text import CPP_SUFFIXES, Finding, blank, run, source_files

PUBLIC = "include/cairn/"
COMMENT = re.compile(r"^\s*///(?!<) ?(.*)$")
# Doxygen ends the brief at such a dot, also between backticks; what follows then is no code: `<a>.<b>` becomes a tag.
BRIEF_END = re.compile(r"\.(?![\w),.\\])")


def own_sources(header, files):
    """Returns the sources of a public header's module and name; a handler's lies in any folder of the handlers."""
    module, _, name = header[len(PUBLIC):-len(".hpp")].rpartition("/")
    if module == "handlers":
        return sorted(path for path in files if path.startswith("handlers/") and path.endswith(f"/{name}.cpp"))
    source = f"src/{module}/{name}.cpp"
    return [source] if source in files else []


def first_include(text):
    """Returns the line and the name of what a file includes first, or (0, None)."""
    code = blank(text)  # An include in a comment is none. The names are literals, so they are read in the text as written.
    for match in INCLUDE.finditer(text):
        if code[match.start():match.start(match.lastgroup)].strip():
            return text.count("\n", 0, match.start(match.lastgroup)) + 1, match.group(match.lastgroup)
    return 0, None


def public_headers(files):
    return sorted(path for path in files if path.startswith(PUBLIC) and path.endswith(".hpp"))


def broken_briefs(text):
    """Returns the lines of comments whose first sentence Doxygen ends between backticks."""
    lines = text.split("\n")
    found = []
    for at, line in enumerate(lines):
        if not COMMENT.match(line) or (at > 0 and COMMENT.match(lines[at - 1])):
            continue
        words = []
        while at + len(words) < len(lines) and (part := COMMENT.match(lines[at + len(words)])) and part.group(1):
            words.append(part.group(1))
        paragraph = " ".join(words)
        end = BRIEF_END.search(paragraph)
        if end and paragraph[:end.end()].count("`") % 2:
            found.append(at + 1)
    return found


def check(files):
    """Checks a tree given as {path: text}; yields (path, line, message)."""
    for header in public_headers(files):
        for line in broken_briefs(files[header]):
            yield header, line, "ends its first sentence between backticks, as Doxygen reads it: let a sentence end before the code"
        found = {source: first_include(files[source]) for source in own_sources(header, files)}
        name = header[len("include/"):]
        if found and not any(first == name for _, first in found.values()):
            source, (line, first) = next(iter(found.items()))
            yield source, line, f"includes '{first}' first, and not its own header '{name}', which nothing shows to compile alone"


def read_tree(root):
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for path in source_files(root, CPP_SUFFIXES, ("include", "src", "handlers"))}


def check_tree(root):
    return [Finding(*finding) for finding in check(read_tree(root))]


def without_source(files):
    return [header for header in public_headers(files) if not own_sources(header, files)]


OWN = '#include "cairn/array/a.hpp"\n'
HANDLER = '#include "cairn/handlers/tree.hpp"\n'
BAD = {
    "a standard header first": {"src/array/a.cpp": "#include <vector>\n" + OWN},
    "a private header of the name first": {"src/array/a.cpp": '#include "array/a.hpp"\n' + OWN},
    "its own header never": {"src/array/a.cpp": "int a;\n"},
    "its own header first in a comment only": {"src/array/a.cpp": f"/*\n{OWN}*/\n#include <vector>\n{OWN}"},
    "its own header first in a line comment only": {"src/array/a.cpp": f"// {OWN}#include <vector>\n{OWN}"},
    "another header of ours first": {"src/array/a.cpp": '#include "cairn/array/b.hpp"\n' + OWN},
    "the source of another module only": {"src/array/a.cpp": "#include <vector>\n", "src/core/a.cpp": OWN},
    "a brief that ends in code": {"include/cairn/array/b.hpp": "/// The key is `<a>.<b>`.\nint b;\n"},
    "one that goes on": {"include/cairn/array/b.hpp": "/// The key,\n/// `a.**`.\nint b;\n"},
    "a handler": {"handlers/tree/tree.cpp": "#include <vector>\n" + HANDLER},
}
GOOD = {
    "its own header first": {"src/array/a.cpp": "// SPDX\n" + OWN + "#include <vector>\n"},
    "its own header in angles": {"src/array/a.cpp": "#include <cairn/array/a.hpp>\n"},
    "no source of its own": {"src/array/other.cpp": "#include <vector>\n", "src/core/a.cpp": "#include <vector>\n"},
    "one of the handlers of that name": {"handlers/json/tree.cpp": "#include <vector>\n", "handlers/tree/tree.cpp": HANDLER},
    "code with a dot": {"include/cairn/array/b.hpp": "/// `a.b`, `f(...)` and `a.hpp`. Then `<a>.<b>`.\nint b;\n"},
    "a handler beside the folders": {"handlers/tree.cpp": HANDLER},
}
HEADERS = {"include/cairn/array/a.hpp": "#pragma once\n", "include/cairn/handlers/tree.hpp": "#pragma once\n"}


def self_test():
    failures = [f"'{name}' is not found" for name, files in BAD.items() if not list(check({**HEADERS, **files}))]
    for name, files in GOOD.items():
        failures += [f"'{name}': {path}: {found}" for path, _, found in check({**HEADERS, **files})]
    alone = {"include/cairn/cairn.hpp": "", "include/cairn/testing/a.hpp": "", "src/cairn.cpp": "", "src/array/a.cpp": ""}
    if without_source({**HEADERS, **alone}) != ["include/cairn/cairn.hpp", "include/cairn/handlers/tree.hpp",
                                                 "include/cairn/testing/a.hpp"]:
        failures.append(f"headers without a source: {without_source({**HEADERS, **alone})}")
    return failures


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--without-source":
        print("\n".join(without_source(read_tree(pathlib.Path(sys.argv[2]).resolve()))))
        raise SystemExit(0)
    raise SystemExit(run(check_tree, self_test))
