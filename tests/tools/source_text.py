# SPDX-License-Identifier: Apache-2.0
"""What the lints share: finding files, blanking comments and strings, finding functions and lambdas, reporting."""
import bisect
import pathlib
import re
import sys

CPP_SUFFIXES = {".hpp", ".cpp"}
SOURCE_FOLDERS = ("include", "src", "handlers", "examples", "tests")
SKIPPED_FOLDERS = {"build", ".git", ".cache", "__pycache__", "data", "corpus"}

LITERAL_OR_COMMENT = re.compile(
    r'//(?:\\\n|[^\n])*'
    r"|/\*.*?\*/"
    r'|(?:u8|[uUL])?R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
CLOSING = {"(": ")", "[": "]", "{": "}"}
CONTROL_WORDS = {"if", "for", "while", "switch", "catch"}


class Finding:
    """One broken rule: where and what."""

    def __init__(self, path, line, message):
        self.path, self.line, self.message = path, line, message

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}" if self.line else f"{self.path}: {self.message}"


def source_files(root, suffixes=None, folders=SOURCE_FOLDERS):
    """Yields the project's own files below `folders`, sorted, without build outputs and test data."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and not SKIPPED_FOLDERS & set(path.relative_to(root).parts[:-1]):
                if suffixes is None or path.suffix in suffixes:
                    yield path


def blank(text):
    """Replaces comments and the contents of literals by spaces; lengths and line ends stay."""

    def hide(match):
        hidden = re.sub(r"[^\n]", " ", match.group())
        if match.group().startswith("/"):
            return hidden
        return '"' + hidden[1:-1] + '"'

    return LITERAL_OR_COMMENT.sub(hide, text)


class Text:
    """A C++ file: `raw` as written, `code` with comments and literals blanked, at the same positions."""

    def __init__(self, raw):
        self.raw = raw
        self.code = blank(raw)
        self.lines = raw.split("\n")
        self._starts = [0] + [match.end() for match in re.finditer("\n", raw)]

    def line(self, position):
        return bisect.bisect_right(self._starts, position)

    def close(self, position):
        """Returns the position of the bracket that closes the one at `position`, or the end of the file."""
        stack = []
        for at in range(position, len(self.code)):
            char = self.code[at]
            if char in CLOSING:
                stack.append(CLOSING[char])
            elif stack and char == stack[-1]:
                stack.pop()
                if not stack:
                    return at
        return len(self.code)

    def open(self, position):
        """Returns the position of the bracket that opens what `position` closes, or -1."""
        depth = 0
        for at in range(position, -1, -1):
            char = self.code[at]
            if char in ")]}":
                depth += 1
            elif char in "([{":
                depth -= 1
                if depth == 0:
                    return at
        return -1

    def word_before(self, position):
        """Returns the identifier that ends right before `position`, blanks skipped."""
        match = re.search(r"([A-Za-z_]\w*)\s*$", self.code[max(0, position - 200):position])
        return match.group(1) if match else ""


class Function:
    """A function or lambda with a body: positions of its parameters' parentheses and of its body's braces."""

    def __init__(self, start, parameters, body, capture=None):
        self.start, self.parameters, self.body, self.capture = start, parameters, body, capture


LAMBDA = re.compile(r"(?<![\w\])>])\s*\[(?P<capture>[^\[\]]*)\]\s*(?=[({<]|mutable\b|noexcept\b|->)")
AFTER_PARAMETERS = re.compile(
    r"\s*(?:(?:const|noexcept(?:\s*\([^()]*\))?|override|final|mutable|requires[^{;]*|&&?|->\s*[^{;]+?)\s*)*"
    r"(?P<initialisers>:\s*(?!:)[^;{]*(?:\{[^{};]*\}[^;{]*)*)?(?=\{)"
)
TRAILING_BRACE_LIST = re.compile(r"[\w>]\s*$")


def functions(text):
    """Finds the definitions of functions outside of lambdas (heuristic: `name(parameters) qualifiers {`)."""
    found = []
    for match in re.finditer(r"(?<![\w.>])((?:[A-Za-z_]\w*(?:<[^<>;{}]*>)?::)*~?[A-Za-z_]\w*)\s*\(", text.code):
        name = match.group(1)
        if name in CONTROL_WORDS or name in {"return", "co_return", "co_await", "requires", "noexcept", "decltype", "alignas"}:
            continue
        opening = match.end() - 1
        closing = text.close(opening)
        after = AFTER_PARAMETERS.match(text.code, closing + 1)
        if after:
            found.append(Function(match.start(), (opening, closing), (after.end(), text.close(after.end()))))
    # A call such as `EXPECT_TRUE(x) {` does not exist, but a lambda's `operator` text or a nested block may match
    # twice.
    outer = []
    for function in found:
        if not outer or function.body[0] > outer[-1].body[1]:
            outer.append(function)
    return outer


def lambdas(text):
    """Finds every lambda expression, nested ones too."""
    found = []
    for match in LAMBDA.finditer(text.code):
        if text.word_before(match.start("capture") - 1) in {"delete"} or match.group("capture").startswith("["):
            continue
        at = match.end()
        if text.code[at] == "<":
            at = text.code.find(">", at) + 1
            at += len(text.code[at:]) - len(text.code[at:].lstrip())
        parameters = None
        if text.code[at:at + 1] == "(":
            parameters = (at, text.close(at))
            at = parameters[1] + 1
        rest = re.compile(r"\s*(?:mutable\s*|noexcept\s*|->\s*[^{;]+?)*(?=\{)").match(text.code, at)
        if rest:
            body = (rest.end(), text.close(rest.end()))
            found.append(Function(match.start("capture") - 1, parameters, body, match.group("capture").strip()))
    return found


def own_body(text, function, nested):
    """Returns the body's code without the bodies of the lambdas inside it, at unchanged positions."""
    begin, end = function.body
    code = text.code[begin:end + 1]
    for inner in nested:
        if begin < inner.body[0] and inner.body[1] < end:
            first, last = inner.body[0] - begin, inner.body[1] - begin
            code = code[:first] + " " * (last - first + 1) + code[last + 1:]
    return code


def split_at_commas(code):
    """Splits at the commas outside of brackets; yields (offset, part)."""
    depth, begin = 0, 0
    for at, char in enumerate(code):
        if char in "([{<":
            depth += 1
        elif char in ")]}" or (char == ">" and code[at - 1:at] != "-"):
            depth -= 1
        elif char == "," and depth == 0:
            yield begin, code[begin:at]
            begin = at + 1
    if code[begin:].strip():
        yield begin, code[begin:]


def run(check_tree, self_test):
    """The command line of every lint: `check_x.py ROOT` checks a tree, `check_x.py --self-test` checks the lint."""
    if sys.argv[1:] == ["--self-test"]:
        failures = self_test()
        for failure in failures:
            print(f"self-test: {failure}")
        print(f"self-test {'failed' if failures else 'passed'}")
        return 1 if failures else 0
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} ROOT | --self-test", file=sys.stderr)
        return 2
    root = pathlib.Path(sys.argv[1]).resolve()
    findings = check_tree(root)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0
