# SPDX-License-Identifier: Apache-2.0
"""Finds sources that name what no header of theirs declares: the presets of the tests join sources, which hides that; a release
build compiles each alone. Names of the project and of the standard library count; headers may come by other headers of ours."""
import re

from check_layers import INCLUDE, resolve
from source_text import CPP_SUFFIXES, Finding, Text, run, source_files

FOLDERS = ("include", "src", "handlers", "examples")
STANDARD = {
    "algorithm": "all_of any_of none_of find_if sort stable_sort min max clamp copy_n fill fill_n transform lower_bound upper_bound equal_range "
                 "remove_if unique reverse rotate partition count_if max_element min_element binary_search adjacent_find",
    "array": "array", "atomic": "atomic atomic_flag", "bitset": "bitset", "charconv": "from_chars to_chars", "cmath": "isfinite isnan ldexp",
    "complex": "complex", "condition_variable": "condition_variable", "cstring": "memcpy memcmp memmove memset strlen", "deque": "deque",
    "exception": "exception_ptr current_exception rethrow_exception make_exception_ptr", "filesystem": "filesystem", "fstream": "ifstream ofstream",
    "functional": "function", "future": "future promise", "iterator": "back_inserter make_move_iterator", "limits": "numeric_limits", "list": "list",
    "map": "map multimap", "memory": "shared_ptr unique_ptr weak_ptr make_shared make_unique enable_shared_from_this", "mutex": "mutex lock_guard unique_lock",
    "numeric": "accumulate iota inclusive_scan exclusive_scan reduce gcd", "optional": "optional nullopt", "queue": "queue priority_queue",
    "random": "mt19937 mt19937_64 random_device", "set": "set multiset", "span": "span as_bytes as_writable_bytes", "sstream": "ostringstream istringstream stringstream",
    "string": "string to_string", "string_view": "string_view", "system_error": "error_code system_error generic_category",
    "thread": "thread jthread", "tuple": "tuple tie", "typeindex": "type_index", "unordered_map": "unordered_map", "unordered_set": "unordered_set",
    "variant": "variant visit monostate holds_alternative get_if", "vector": "vector", "bit": "bit_cast countr_zero bit_ceil bit_width has_single_bit popcount",
}
HEADER_OF = {name: header for header, names in STANDARD.items() for name in names.split()}
ALSO = {"string_view": {"string"}, "error_code": {"filesystem"}, "nullopt": {"optional"}, "system_error": {"fstream"}}
USED_STANDARD = re.compile(r"\bstd::(?:ranges::)?(\w+)")
TYPE = re.compile(r"\b(?:class|struct|enum class|enum|typename|union|concept|using)(?:\.\.\.)?(?: \[\[\w+\]\])? (?:\w+::)*(\w+)(?=[ ;,>{:=])")
FUNCTION = re.compile(r"^[ \t]*(?!(?:return|co_return|co_await|co_yield|throw|else|delete|new|case|using)\b)[A-Za-z_~\[][^\n()=;]*?[ &*>\]](?!sizeof\b)(\w+)\(", re.MULTILINE)
BROKEN_FUNCTION = re.compile(r"^[ \t]+([a-z]\w*)\([^;\n]*\) (?:const |noexcept )*\{$", re.MULTILINE)  # Its type is in the line above.
MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)
WORD = re.compile(r"(?<![\w.>])((?:\w+::)*)([A-Z]\w*[a-z]\w*)")
CALL = re.compile(r"(?<![\w.>:])((?:[a-z]\w*::)*)(?!(?:new|delete)\b)([a-z]\w*)(?=\()")
CONSTANT = re.compile(r"\bconst(?:expr)? [^;=(){}]*?\b(k[A-Z]\w*)(?=[ {\[;=])")
USED_CONSTANT = re.compile(r"(?<![\w.>:])((?:\w+::)*)(k[A-Z]\w*)")
VARIABLE = re.compile(r"\b([a-z]\w*)\b(?!\s*\()")
FOREIGN = ("std::", "boost::", "fmt::", "nlohmann::", "asio::", "flatbuffers::", "google::", "CLI::", "testing::", "Eigen::",
           "highwayhash::", "snappy::")


def closure(path, edges, known):
    """Returns the files of ours that a file sees, itself included."""
    if path not in known:
        known[path] = {path}  # Cycles are a finding of another lint.
        for target in edges[path]:
            known[path] = known[path] | closure(target, edges, known)
    return known[path]


def homes_of(texts, *patterns):
    """Returns {name: the files that declare anything of that name, whatever it is}."""
    homes = {}
    for path, text in texts.items():
        for pattern in patterns:
            for name in pattern.findall(text.code):
                homes.setdefault(name, set()).add(path)
    return homes


def used(text, pattern):
    """Yields where the project's own names are used: (position, name)."""
    for match in pattern.finditer(text.code):
        if not match.group(1).startswith(FOREIGN):
            yield match.start(2), match.group(2)


def check(files):
    """Checks a tree given as {path: text}; yields (path, line, message)."""
    texts = {path: Text(text) for path, text in files.items()}
    edges, standard = {}, {}
    for path, text in files.items():
        found = [match.group("own") or match.group("foreign") for match in INCLUDE.finditer(text)]
        edges[path] = [target for target in (resolve(path, name, files) for name in found) if target]
        standard[path] = {name for name in found if resolve(path, name, files) is None}
    homes = {WORD: homes_of(texts, TYPE, FUNCTION), CALL: homes_of(texts, FUNCTION, BROKEN_FUNCTION, TYPE, MACRO),
             USED_CONSTANT: homes_of(texts, CONSTANT)}
    known = {}
    for path, text in texts.items():
        seen = closure(path, edges, known)
        headers = set().union(*(standard[one] for one in seen))
        variables = {name for one in seen for name in VARIABLE.findall(texts[one].code) if not re.match("k[A-Z]", name)}
        findings = {}
        for match in USED_STANDARD.finditer(text.code):
            name = match.group(1)
            if name in HEADER_OF and not ({HEADER_OF[name]} | ALSO.get(name, set())) & headers:
                findings.setdefault(name, (match.start(), f"std::{name} needs <{HEADER_OF[name]}>"))
        for pattern, homes_here in homes.items():
            for position, name in used(text, pattern):
                places = {home for home in homes_here.get(name, ()) if home.endswith(".hpp")}
                if places and not homes_here[name] & seen and name not in variables:
                    findings.setdefault(name, (position, f"'{name}' is declared in '{min(places)}', which is not included"))
        for position, message in findings.values():
            yield path, text.line(position), message


def check_tree(root):
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for path in source_files(root, CPP_SUFFIXES, FOLDERS)}
    return [Finding(*finding) for finding in check(files)]
def declaring(text, header="include/cairn/base/x.hpp"):
    return {header: text, "src/array/a.hpp": included("cairn/base/x.hpp")}


def included(name):
    return f'#include "{name}"\n'


BAD = {
    "type": ("'Thing' is declared in", {"src/array/a.cpp": "Thing thing;\n", **declaring("class Thing {\n};\n")}),
    "qualified type": ("'Thing' is declared in", {"src/array/a.cpp": "cairn::Thing thing;\n", **declaring("class Thing {\n};\n")}),
    "function": ("'cast' is declared in", {"src/array/a.cpp": "void f() {\n  cast(1);\n}\n", **declaring("void cast(int x);\n")}),
    "template": ("'cast' is declared in",
                 {"src/array/a.cpp": "int f() {\n  return base::cast(1);\n}\n", **declaring("template <class T>\nT cast(int x);\n")}),
    "constant": ("'kMost' is declared in",
                 {"src/array/a.cpp": "int f() {\n  return kMost;\n}\n", **declaring("inline constexpr int kMost = 10;\n"),
                  "src/array/b.cpp": "constexpr int kMost = 10;\n"}),
    "standard type": ("std::optional needs <optional>", {"src/array/a.cpp": "std::optional<int> x;\n"}),
    "standard algorithm": ("std::sort needs <algorithm>", {"src/array/a.cpp": "#include <vector>\nstd::sort(a, b);\n"}),
    "in ranges": ("std::sort needs <algorithm>", {"src/array/a.cpp": "std::ranges::sort(a);\n"}),
    "in a header": ("std::string needs <string>", {"include/cairn/array/a.hpp": "std::string x();\n"}),
}
GOOD = {
    "included": {"src/array/a.cpp": included("cairn/base/x.hpp") + "Thing f() { return cast(1); }\n",
                 **declaring("class Thing {\n};\nThing cast(int x);\n")},
    "by another header": {"src/array/a.cpp": included("array/a.hpp") + "Thing thing;\n", **declaring("class Thing {\n};\n")},
    "declared in advance": {"src/array/a.cpp": "class Thing;\nThing* thing;\n", **declaring("class Thing {\n};\n")},
    "its own, of a long type": {"src/array/a.cpp": "static Long\n    cast(int x) {\n}\nvoid f() {\n  cast(1);\n}\n", **declaring("void cast(int x);\n")},
    "its own": {"src/array/a.cpp": "static void cast(int x) {\n}\nvoid f() {\n  cast(1);\n}\n", **declaring("void cast(int x);\n")},
    "its own constant": {"src/array/a.cpp": "constexpr std::size_t kMost = 10;\nint f() {\n  return kMost;\n}\n",
                         **declaring("inline constexpr int kMost = 10;\n")},
    "a member": {"src/array/a.cpp": "x.cast(1);\ny->cast(1);\n", **declaring("void cast(int x);\n")},
    "a parameter": {"src/array/a.cpp": "void f(Cast cast) {\n  cast(1);\n}\n", **declaring("void cast(int x);\n")},
    "of another library": {"src/array/a.cpp": "boost::Thing thing = fmt::cast(1);\n",
                           **declaring("class Thing {\n};\nvoid cast(int x);\n")},
    "in a comment": {"src/array/a.cpp": "// Thing, std::sort\n", **declaring("class Thing {\n};\n")},
    "standard name": {"src/array/a.cpp": "#include <algorithm>\nstd::sort(a, b);\n"},
}


def self_test():
    failures = []
    for name, (message, files) in BAD.items():
        if not any(message in found for _, _, found in check(files)):
            failures.append(f"'{name}' is not found")
    for name, files in GOOD.items():
        failures += [f"'{name}': {path}: {found}" for path, _, found in check(files)]
    return failures


if __name__ == "__main__":
    raise SystemExit(run(check_tree, self_test))
