# SPDX-License-Identifier: Apache-2.0
"""Checks the house rules that a machine can see: licence lines, sizes, includes, the top level, tests that assert."""
import re
import subprocess
import sys

from source_text import CPP_SUFFIXES, Finding, LITERAL_OR_COMMENT, SOURCE_FOLDERS, Text, functions, run, source_files

TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "include", "src", "handlers", "examples", "tests", "docs", "README.md", "LICENSE"}
MAX_LINES = {".hpp": 300, ".cpp": 600}
MAX_FUNCTION_LINES = 60
MAX_COLUMNS = 120  # Of comments, and of prose in documents. Code is as wide as clang-format makes it.
LICENCE = "SPDX-License-Identifier: Apache-2.0"
LICENSED_SUFFIXES = {".hpp", ".cpp", ".cmake", ".py", ".sh", ".fbs", ".proto"}
SYSTEM_HEADERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<((?:sys|linux|asm)/[^>]*|fcntl\.h|unistd\.h|pthread\.h|poll\.h)>", re.MULTILINE)
SLOW_HEADERS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<(nlohmann/json\.hpp|fmt/format\.h|mpi\.h)>", re.MULTILINE)
LEAN_MODULES = {"base", "async", "array", "io", "coord", "staging", "core"}
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + "X|HA" + r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.~$}])/(?:" + "work|home" + r")(?![\w.-])")
ASSERTION = re.compile(r"\b(?:EXPECT_\w+|ASSERT_\w+|FAIL|ADD_FAILURE|SUCCEED|expect_\w+)\s*\(")
TEST = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\s*\((?P<name>[^)]*)\)\s*\{", re.MULTILINE)


def is_licensed(name, text):
    return name == "CMakeLists.txt" or "." + name.rpartition(".")[2] in LICENSED_SUFFIXES or text.startswith("#!")


def check_any(path, text):
    """Rules for every text file."""
    name = path.rpartition("/")[2]
    lines = text.split("\n")
    if is_licensed(name, text):
        first = lines[1] if text.startswith("#!") and len(lines) > 1 else lines[0]
        if LICENCE not in first:
            yield 1, f"the first line must be the licence: {LICENCE}"
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            yield number, "a tab"
        if match := UNFINISHED.search(line):
            yield number, f"{match.group()}: finish it, or say it elsewhere"
        if match := MACHINE_PATH.search(line):
            yield number, f"'{match.group()}' is a path of one machine"
    if text and not text.endswith("\n"):
        yield len(lines), "no line end at the end of the file"
    for number in wide_prose(text) if name.endswith(".md") else wide_comments(name, text):
        yield number, f"{len(lines[number - 1])} columns of words, {MAX_COLUMNS} at most"


HASH_COMMENT = re.compile(r"^[ \t]*#(?!!)[^\n]*", re.MULTILINE)
FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
NOT_PROSE = re.compile(r"^(?: {4,}|[ \t]*(?:\||#|<|\[[^\]]+\]:))")  # Indented code, tables, headings, HTML, the targets of links.
WHOLE = re.compile(r"!?\[[^\]\n]*\]\([^)\s]*\)|`[^`\n]*`")  # What cannot go on in another line.


def wide_comments(name, text):
    """Yields the numbers of lines with a comment that is too wide."""
    if "." + name.rpartition(".")[2] in CPP_SUFFIXES:
        comments = [match for match in LITERAL_OR_COMMENT.finditer(text) if match.group().startswith("/")]
    elif name == "CMakeLists.txt" or name.endswith((".cmake", ".py", ".sh")) or text.startswith("#!"):
        comments = HASH_COMMENT.finditer(text)
    else:
        comments = []
    lines = text.split("\n")
    for comment in comments:
        first = text.count("\n", 0, comment.start())
        for number in range(first, first + comment.group().count("\n") + 1):
            if len(lines[number]) > MAX_COLUMNS:
                yield number + 1


def wide_prose(text):
    """Yields the numbers of lines of prose that are too wide, though there is a blank at which they could end."""
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code and len(line) > MAX_COLUMNS and not NOT_PROSE.match(line):
            if " " in WHOLE.sub(lambda match: "x" * len(match.group()), line).lstrip()[2:MAX_COLUMNS]:
                yield number


CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif|else)\b", re.MULTILINE)
GLUED = re.compile(r"^[ \t]*///[ \t]+(?!(?:Threads|Errors|Ownership|Cancel|Phase|Units|Shape|Example):)[^\n]*[.;)] (Threads|Errors|Ownership|Cancel|Phase|Units|Shape): ?",
                   re.MULTILINE)
USING_NAMESPACE = re.compile(r"\busing\s+namespace\b")
BODY, TYPE, NAMESPACE = "body", "type", "namespace"


def find_with_braces(text, pattern):
    """Yields (position, kinds of the braces around it) for each match of `pattern`."""
    places = iter([match.start() for match in pattern.finditer(text.code)])
    place = next(places, None)
    stack, begin = [], 0
    for match in re.finditer(r"[{};]|^[ \t]*#[^\n]*|\Z", text.code, re.MULTILINE):
        while place is not None and place <= match.start():
            yield place, tuple(stack)
            place = next(places, None)
        head = text.code[begin:match.start()]
        if match.group() == "{":
            if re.search(r'\bnamespace\b[^()]*$|\bextern\s*"[^"]*"\s*$', head):
                stack.append(NAMESPACE)
            elif re.search(r"\b(?:class|struct|union|enum)\b[^()]*$", head):
                stack.append(TYPE)
            else:
                stack.append(BODY)
        elif match.group() == "}" and stack:
            stack.pop()
        begin = match.end()


def check_cpp(path, raw):
    """Rules for C++ files."""
    text = Text(raw)
    suffix = path[path.rindex("."):]
    count = raw.count("\n")
    if count > MAX_LINES[suffix]:
        yield 1, f"{count} lines, {MAX_LINES[suffix]} at most"
    if match := re.search(r"^[ \t]*#[ \t]*include[ \t]*<boost/asio\.hpp>", text.code, re.MULTILINE):
        yield text.line(match.start()), "boost/asio.hpp: include what is used"
    for position, kinds in find_with_braces(text, CONDITIONAL):
        if BODY in kinds:
            yield text.line(position), "a preprocessor conditional inside a function: choose by file"
    if not path.startswith("tests/"):
        for function in functions(text):
            length = text.line(function.body[1]) - text.line(function.body[0]) + 1
            if length > MAX_FUNCTION_LINES:
                yield text.line(function.start), f"a function of {length} lines, {MAX_FUNCTION_LINES} at most"
    for match in TEST.finditer(text.code):
        body = text.code[match.end():text.close(match.end() - 1)]
        if not ASSERTION.search(body):
            yield text.line(match.end() - 1), f"TEST({match.group('name')}) asserts nothing"
    if suffix == ".hpp":
        yield from check_header(path, text)


def check_header(path, text):
    if not re.search(r"^#pragma once$", text.code, re.MULTILINE):
        yield 1, "no #pragma once"
    for position, kinds in find_with_braces(text, USING_NAMESPACE):
        if BODY not in kinds:
            yield text.line(position), "using namespace in a header"
    for match in GLUED.finditer(text.raw):
        yield text.line(match.start()), f"'{match.group(1)}:' of a contract stands at the beginning of a line"
    parts = path.split("/")
    if parts[0] == "include" and parts[2] != "testing":
        for match in SYSTEM_HEADERS.finditer(text.code):
            yield text.line(match.start()), f"<{match.group(1)}>, of the operating system, in a public header"
    if parts[0] == "include" and parts[2] in LEAN_MODULES:
        for match in SLOW_HEADERS.finditer(text.code):
            yield text.line(match.start()), f"<{match.group(1)}> is too slow for a public header of {parts[2]}"


def check(path, raw):
    """Yields (line, message) for one file."""
    yield from check_any(path, raw)
    if "." + path.rpartition(".")[2] in CPP_SUFFIXES:
        yield from check_cpp(path, raw)


def check_top_level(names):
    """Checks the names beside CMakeLists.txt; dot files are free."""
    visible = {name for name in names if not name.startswith(".")}
    for name in sorted(visible - TOP_LEVEL):
        yield f"'{name}' does not belong at the top level"
    for name in sorted(TOP_LEVEL - visible):
        yield f"'{name}' is missing at the top level"


def ignored(root, names):
    """Returns the names that git ignores; none where there is no git."""
    command = ["git", "-C", str(root), "check-ignore", "--", *names]
    try:
        return set(subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n"))
    except FileNotFoundError:
        return {"build"}


def check_tree(root):
    names = [path.name for path in root.iterdir()]
    names = set(names) - ignored(root, names) - {"build"}
    findings = [Finding(".", 0, message) for message in check_top_level(names)]
    files = list(source_files(root, folders=(*SOURCE_FOLDERS, "docs", ".ci")))
    files += [root / name for name in sorted(names) if (root / name).is_file()]
    for path in files:
        try:
            raw = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # Not a text.
        relative = path.relative_to(root).as_posix()
        if path.suffix == ".csv":
            continue
        findings += [Finding(relative, line, message) for line, message in check(relative, raw)]
    return findings


HEAD = f"// {LICENCE}\n"
HEADER = HEAD + "#pragma once\n"
LONG_BODY = "void f() {\n" + "  g();\n" * 60 + "}\n"
WORK = "/wo" + "rk"
BAD = {
    "no licence": ("licence", "src/a.cpp", "int a;\n"),
    "no licence in cmake": ("licence", "src/CMakeLists.txt", "project(a)\n"),
    "no licence in script": ("licence", "tests/run", "#!/bin/bash\necho\n"),
    "no pragma": ("pragma once", "src/a.hpp", HEAD + "// #pragma once\n"),
    "long header": ("at most", "src/a.hpp", HEADER + "int a;\n" * 299),
    "long source": ("at most", "src/a.cpp", HEAD + "int a;\n" * 600),
    "long function": ("a function of", "src/a.cpp", HEAD + LONG_BODY),
    "all of asio": ("boost/asio.hpp", "src/a.cpp", HEAD + "#include <boost/asio.hpp>\n"),
    "json in public header": ("too slow", "include/cairn/core/a.hpp", HEADER + "#include <nlohmann/json.hpp>\n"),
    "fmt in public header": ("too slow", "include/cairn/io/a.hpp", HEADER + "#include <fmt/format.h>\n"),
    "system header in public header": ("operating system", "include/cairn/io/a.hpp", HEADER + "#include <sys/stat.h>\n"),
    "glued contract": ("beginning of a line", "include/cairn/io/a.hpp", HEADER + "/// Does it. Errors: none.\nvoid f();\n"),
    "unfinished": ("finish it", "src/a.cpp", HEAD + "// TO" + "DO: more\n"),
    "tab": ("a tab", "src/a.cpp", HEAD + "\tint a;\n"),
    "conditional in a function": ("conditional inside", "src/a.cpp", HEAD + "void f() {\n#ifdef A\n  g();\n#endif\n}\n"),
    "conditional in a member": ("conditional inside", "src/a.hpp", HEADER + "struct S {\n  void f() {\n#if A\n#endif\n  }\n};\n"),
    "using namespace": ("using namespace", "src/a.hpp", HEADER + "using namespace std;\n"),
    "using namespace in a namespace": ("using namespace", "src/a.hpp", HEADER + "namespace a {\nusing namespace std;\n}\n"),
    "path": ("path of one machine", "docs/a.md", f"see {WORK}/shared\n"),
    "no assertion": ("asserts nothing", "tests/a_test.cpp", HEAD + "TEST(A, B) {\n  f();  // EXPECT_TRUE(x)\n}\n"),
    "no assertion in a fixture": ("asserts nothing", "tests/a_test.cpp", HEAD + "TEST_P(A, B) { run(f()); }\n"),
    "no line end": ("no line end", "src/a.cpp", HEAD + "int a;"),
    "a wide comment": ("columns of words", "src/a.cpp", HEAD + "// " + "word " * 24 + "end\n"),
    "a wide comment behind code": ("columns of words", "src/a.cpp", HEAD + "int a;  // " + "word " * 23 + "end\n"),
    "a wide line of a block": ("columns of words", "src/a.cpp", HEAD + "/* a\n" + "word " * 24 + "end */\n"),
    "a wide comment in cmake": ("columns of words", "src/CMakeLists.txt", f"# {LICENCE}\n  # " + "word " * 24 + "\n"),
    "wide prose": ("columns of words", "docs/a.md", "- " + "word " * 24 + "\n"),
    "wide prose with a link": ("columns of words", "docs/a.md", "word " * 22 + "[a b](c.md#d) words\n"),
}
GOOD = {
    "header": ("src/a.hpp", HEADER + "namespace a {\n#ifdef B\nint c;\n#endif\n}\n"),
    "conditional in a type": ("src/a.hpp", HEADER + "struct S {\n#if A\n  int a;\n#endif\n};\n"),
    "conditional after a function": ("src/a.cpp", HEAD + "void f() { g({1}); }\n#if A\n#endif\n"),
    "contract": ("src/a.hpp", HEADER + "/// Does it.\n///\n/// Threads: any; see Errors: below.\nvoid f();\n"),
    "longest header": ("src/a.hpp", HEADER + "int a;\n" * 298),
    "json in a handler's header": ("include/cairn/handlers/json.hpp", HEADER + "#include <nlohmann/json.hpp>\n"),
    "fmt in a source": ("src/a.cpp", HEAD + "#include <fmt/format.h>\n"),
    "part of asio": ("src/a.cpp", HEAD + "#include <boost/asio/post.hpp>\n"),
    "using namespace in a function": ("src/a.hpp", HEADER + "inline void f() { using namespace a; g(); }\n"),
    "using namespace in a source": ("src/a.cpp", HEAD + "using namespace std::literals;\n"),
    "temporary name": ("src/a.cpp", HEAD + 'const char* name = "/tmp/XX' + 'XXXX";\n'),
    "assertion": ("tests/a_test.cpp", HEAD + "TEST(A, B) {\n  EXPECT_EQ(f({1}), 2);\n}\n"),
    "helper": ("tests/a_test.cpp", HEAD + "TYPED_TEST(A, B) {\n  expect_round_trip(1);\n}\n"),
    "script": ("tests/run", f"#!/bin/bash\n# {LICENCE}\n"),
    "a wide literal": ("src/a.cpp", HEAD + 'const char* a = "// ' + "word " * 24 + '";\n'),
    "a comment as wide as may be": ("src/a.cpp", HEAD + "// " + "w" * 117 + "\n"),
    "wide tables and code": ("docs/a.md", "| " + "word " * 30 + "|\n```\n" + "word " * 30 + "\n```\n    " + "word " * 30 + "\n"),
    "a wide link": ("docs/a.md", "- [a word](" + "c" * 120 + ")\n"),
    "path inside a path": ("docs/a.md", f"mnt{WORK}/x and {WORK}ing\n"),
}


def self_test():
    failures = []
    for name, (words, path, raw) in BAD.items():
        messages = [message for _, message in check(path, raw)]
        if not any(words in message for message in messages):
            failures.append(f"'{name}' was not refused for '{words}': {messages}")
    for name, (path, raw) in GOOD.items():
        for _, message in check(path, raw):
            failures.append(f"'{name}' was refused: {message}")
    if list(check_top_level(TOP_LEVEL | {".git"})):
        failures.append("the right top level was refused")
    for wrong in (TOP_LEVEL | {"scripts"}, TOP_LEVEL - {"docs"}):
        if not list(check_top_level(wrong)):
            failures.append("a wrong top level was accepted")
    return failures


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
