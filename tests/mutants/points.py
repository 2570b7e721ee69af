# SPDX-License-Identifier: Apache-2.0
"""Where a C++ source can be mutated, and how. A mutant is a replacement of a stretch of text by an expression or a
statement that asks at run time which of the two it is to be."""
import dataclasses
import re

from cpp_text import CONTROL_WORDS, Source

IS = "::cairn_mutants::is({number})"
NEGATION = "::cairn_mutants::negation({number}) % "
COMPARISONS = {"==": ["!="], "!=": ["=="], "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"]}
ARITHMETIC = {"+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"]}
LOGIC = {"&&": ["||"], "||": ["&&"]}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>="}
ENDS = {";", ",", "?", ":", "return", "co_return", "co_yield", "else", "case", "throw", *ASSIGNMENTS}
OPERATOR_ENDS = {**dict.fromkeys(LOGIC, ENDS), **dict.fromkeys(COMPARISONS, ENDS | set(LOGIC)),
                 **dict.fromkeys(ARITHMETIC, ENDS | set(LOGIC) | set(COMPARISONS) | {"<<", ">>", "&", "|", "^", "<=>"})}
STATEMENT_WORDS = {"if", "for", "while", "switch", "do", "return", "co_return", "co_yield", "case", "default", "using", "static",
                   "const", "auto", "constexpr", "try", "catch", "else", "goto", "struct", "class", "static_assert", "typedef",
                   "template", "thread_local", "friend", "public", "private", "delete", "extern"}
INTEGERS = {"int", "std::size_t", "std::uint64_t", "std::uint32_t", "std::int64_t", "std::ptrdiff_t", "std::uint8_t", "ssize_t"}


@dataclasses.dataclass
class Point:
    """One mutation: `begin` and `end` in the text, and what is put there, with {number} for the mutant's."""
    change: str
    begin: int
    end: int
    replacement: str
    file: str = ""
    line: int = 0
    last_line: int = 0
    line_text: str = ""
    name: str = ""


def on_one_line(text):
    """The text without comments and line breaks, so that a copy of it moves no line."""
    return re.sub(r"\s*\n\s*", " ", re.sub(r"//[^\n]*", "", text))


def escaped(text):
    return text.replace("{", "{{").replace("}", "}}")


class Finder:
    """All mutation points of one source."""

    def __init__(self, text, never_return=frozenset()):
        self.source = Source(text)
        self.never_return = never_return
        self.points = []

    def run(self):
        for index in range(len(self.source.tokens)):
            function = self.source.function_of(index)
            if function is None or self._is_constant(function, index):
                continue
            self._operator(index)
            self._literal(index)
            self._call_of_min_or_max(index)
            self._condition(index)
            if self._begins_statement(index):
                self._statement(index, function)
        for brace, kind in self.source.kinds.items():
            if kind in ("function", "lambda") and not self._is_constant(brace, brace):
                self._body(brace)
        return self.points

    def _is_constant(self, function, index):
        """Whether a token is part of what is computed while compiling."""
        source = self.source
        if "constexpr" in [source[i] for i in source.header(function)]:
            return True
        begin = index
        while begin > 0 and source[begin - 1] not in (";", "{", "}") and index - begin < 60:
            begin -= 1
        words = {source[i] for i in range(begin, index + 1)}
        return bool(words & {"constexpr", "static_assert", "consteval", "requires", "noexcept", "alignas", "static"})

    def _add(self, change, first, last, replacement):
        """Puts `replacement` in the place of the tokens from first to last."""
        tokens = self.source.tokens
        self.points.append(Point(change, tokens[first].begin, tokens[last].end, replacement))

    def _choose(self, change, first, last, mutated):
        """An expression is `mutated` (a text) while the mutant is on."""
        original = self.source.between(first, last)
        self._add(change, first, last, f"({IS} ? ({escaped(on_one_line(mutated))}) : ({escaped(original)}))")

    # Expressions.

    def _region(self, index, ends):
        """The operands around an operator: from and to the next token of `ends` or the bracket around it."""
        source, first, last = self.source, index, index
        while first > 0:
            before = first - 1
            if before in source.partner and source.partner[before] < before:
                opener = source.partner[before]
                if source[opener] == "{" and source.kinds[opener] in ("block", "function"):
                    break
                first = opener
            elif before in source.partner or source[before] in ends:
                break
            else:
                first = before
        while last + 1 < len(source.tokens):
            after = last + 1
            if source[after] in ("(", "[", "{"):
                if source[after] == "{" and source.kinds[after] in ("block", "function"):
                    break
                last = source.partner[after]
            elif after in source.partner or source[after] in ends:
                break
            else:
                last = after
        return first, last

    def _operator(self, index):
        token = self.source.tokens[index]
        if token.kind != "operator":
            return
        if token.text == "!" and token.has_space_after is False:
            self._add("no !", index, index, NEGATION)
            return
        for table in (COMPARISONS, ARITHMETIC, LOGIC):
            if token.text in table and token.is_spaced:
                self._binary(index, table[token.text], OPERATOR_ENDS[token.text])
        if token.text in ("+=", "-="):
            self._binary(index, ["-=" if token.text == "+=" else "+="], ENDS - {"+=", "-="})

    def _binary(self, index, others, ends):
        source = self.source
        first, last = self._region(index, ends)
        if first == index or last == index or any(source[i] in ("co_await", "mutable") for i in range(first, last + 1)):
            return
        token = source.tokens[index]
        if token.text in ("+", "+=", "-", "-=") and any(source.tokens[i].kind in ("string", "char") for i in range(first, last + 1)):
            return  # Joined strings.
        for other in others:
            before = source.text[source.tokens[first].begin:token.begin]
            after = source.text[token.end:source.tokens[last].end]
            self._choose(f"{token.text} to {other}", first, last, before + other + after)

    def _literal(self, index):
        source, token = self.source, self.source.tokens[index]
        if token.text in ("true", "false"):
            other = "false" if token.text == "true" else "true"
            self._add(f"{token.text} to {other}", index, index, f"({IS} ? {other} : {token.text})")
        if token.kind != "number" or "." in token.text or source[index - 1] in ("<", "case") or source[index + 1] == ">":
            return
        if source[index - 1] == "," and not source.tokens[index + 1].has_space_before and source[index + 1] == ">":
            return
        self._add(f"{token.text} + 1", index, index, f"({IS} ? {token.text} + 1 : {token.text})")

    def _call_of_min_or_max(self, index):
        """`std::min(...)` for `std::max(...)`, and the reverse."""
        source = self.source
        if source[index] not in ("min", "max") or source[index - 1] != "::" or source[index - 2] != "std":
            return
        opener = index + 1
        while source[opener] != "(":
            if source[opener] in (";", ")", "{"):
                return
            opener += 1
        closer = source.partner[opener]
        if any(source[i] == "co_await" for i in range(opener, closer)):
            return
        other = "max" if source[index] == "min" else "min"
        rest = source.text[source.tokens[index].end:source.tokens[closer].end]
        self._choose(f"{source[index]} to {other}", index - 2, closer, f"std::{other}{rest}")

    def _condition(self, index):
        """The condition of an `if` or a `?` is always true, or never."""
        source = self.source
        if source[index] == "if" and source[index + 1] == "(":
            first, last = index + 2, source.partner[index + 1] - 1
            parts = [i for i in range(first, last + 1) if source[i] == ";" and source.outer[i] == index + 1]
            first = parts[-1] + 1 if parts else first
        elif source[index] == "?":
            first, last = self._region(index, ENDS)[0], index - 1
        else:
            return
        texts = [source[i] for i in range(first, last + 1)]
        inside = [source[i] for i in range(first, last + 1) if source.outer[i] == source.outer[first]]
        if not texts or "co_await" in texts or "=" in inside:
            return
        original = escaped(source.between(first, last))
        self._add("condition true", first, last, f"({IS} || ({original}))")
        self._add("condition false", first, last, f"(!{IS} && ({original}))")

    # Statements.

    def _begins_statement(self, index):
        source = self.source
        outside = source.outer[index]
        if outside is None or source[outside] != "{" or source.kinds[outside] not in ("block", "function", "lambda"):
            return False
        before = source[index - 1]
        if before in (";", "else", "do"):
            return True
        if before == "{":
            return outside == index - 1
        if before == "}":
            return source.kinds[source.partner[index - 1]] in ("block", "function")
        if before == ")":
            return source[source.partner[index - 1] - 1] in CONTROL_WORDS
        return False

    def _end_of_statement(self, first):
        source, index = self.source, first
        while source[index] != ";":
            if source[index] in ("(", "[", "{"):
                index = source.partner[index]
            elif index in source.partner or index + 1 >= len(source.tokens):
                return None
            index += 1
        return index

    def _statement(self, first, function):
        source = self.source
        last = self._end_of_statement(first)
        if last is None or last == first or source[first] == "}":
            return
        word = source[first]
        if word in ("return", "co_return"):
            self._return(first, last, function)
        elif word in ("break", "continue"):
            self._skip(f"no {word}", first, last)
        elif word == "throw":
            if last > first + 1 and self._is_guarded(first):
                self._skip("no throw", first, last)
        elif word not in STATEMENT_WORDS and not self._is_declaration(first, last):
            if not self._is_last_of_value(last, function):
                self._skip(self._what(first, last), first, last)

    def _skip(self, change, first, last):
        statement = escaped(self.source.between(first, last))
        self._add(change, first, last, f"{{{{ if (!{IS}) {{{{ {statement} }}}} }}}}")

    def _is_guarded(self, first):
        """Whether a `throw` is the body of an `if`, after which there is more to do."""
        source = self.source
        opener = first - 1
        if source[opener] == "{" and source[opener - 1] == ")":
            return source[source.partner[opener - 1] - 1] == "if"
        return source[opener] == ")" and source[source.partner[opener] - 1] == "if"

    def _is_declaration(self, first, last):
        source, index = self.source, first
        while index <= last and source[index] not in ("(", "=", ";", "{", "["):
            token, after = source.tokens[index], source.tokens[index + 1]
            is_type_end = token.kind == "name" and token.text != "co_await" or token.text in (">", ">>", "*", "&", "&&")
            if is_type_end and after.kind == "name" and after.has_space_before:
                return True
            index = self._after_template(index)
        return source[index] == "{"

    def _after_template(self, index):
        """The index behind a token, or behind the arguments in <> that begin with it."""
        source, depth = self.source, 0
        if source[index] != "<" or source.tokens[index].has_space_before:
            return index + 1
        while index < len(source.tokens):
            depth += {"<": 1, ">": -1, ">>": -2}.get(source[index], 0)
            if depth == 0:
                return index  # Its `>` is the end of a type.
            index += 1
        return index

    def _is_last_of_value(self, last, function):
        """Whether a function that returns a value would run past its end without this statement."""
        source, after = self.source, last + 1
        while source[after] == "}" and source.partner[after] != function:
            after += 1
        if source[after] != "}":
            return False
        return not self._returns_nothing(function) or self._never_returns(function)

    def _never_returns(self, function):
        """Whether it is declared [[noreturn]]: what the compiler makes of one that returns all the same is anything."""
        name = re.search(r"(\w+)\(", self._header_text(function))
        return bool(name) and name.group(1) in self.never_return

    def _returns_nothing(self, function):
        """A constructor counts; of a lambda what its statements say."""
        source = self.source
        if source.kinds[function] == "function":
            header = self._header_text(function)
            return bool(re.match(r"void\b|(async::)?Awaitable<>|Background<>", header)) or \
                bool(re.match(r"(?:\w+::)*~?(\w+)(?:::~?\1)?\(", header))
        inside = range(function, source.partner[function])
        return not any(source[i] in ("return", "co_return") and source[i + 1] != ";" and source.function_of(i) == function
                       for i in inside)

    def _header_text(self, function):
        source = self.source
        header = source.header(function)
        if not header:
            return ""
        text = source.between(header.start, header.stop - 1)
        return re.sub(r"^((\[\[\w+\]\]|static|inline|virtual|explicit|friend)\s*)*(template\s*<[^>]*>\s*)?", "", on_one_line(text))

    def _what(self, first, last):
        source = self.source
        top = [source[i] for i in range(first, last) if source.outer[i] == source.outer[first]]
        if any(text in ASSIGNMENTS for text in top):
            return "no assignment"
        return "no step" if top[0] in ("++", "--") else "no call"

    def _return(self, first, last, function):
        """`return a;` gives something else of its type, where the type is known from the function's header."""
        source = self.source
        if last == first + 1 or source.kinds[function] != "function" or source[first] == "co_return":
            return
        header = self._header_text(function)
        value = source.between(first + 1, last - 1)
        if re.match(r"bool\s", header) and value not in ("true", "false"):
            self._choose("return not", first + 1, last - 1, f"!static_cast<bool>({value})")
        elif header.split(" ")[0] in INTEGERS:
            self._choose("return + 1", first + 1, last - 1, f"({value}) + 1")
        elif header.startswith("std::optional<") and value != "std::nullopt":
            statement = escaped(source.between(first, last))
            self._add("return nothing", first, last, f"{{{{ if ({IS}) {{{{ return std::nullopt; }}}} {statement} }}}}")

    def _body(self, brace):
        """A function that returns nothing does nothing."""
        source = self.source
        if source.kinds[brace] != "function" or source.partner[brace] == brace + 1 or not self._returns_nothing(brace):
            return
        if self._never_returns(brace):
            return
        inside = range(brace, source.partner[brace])
        own = [source[i] for i in inside if source.function_of(i) == brace]
        word = "co_return" if {"co_return", "co_await"} & set(own) else "return"
        if word == "return" and not self._header_text(brace).startswith("void"):
            return
        self._add("no body", brace, brace, f"{{{{ if ({IS}) {{{{ {word}; }}}}")


def never_returning(text):
    """The names of the functions that a text declares [[noreturn]]."""
    return set(re.findall(r"\[\[noreturn\]\][^;{}()]*?(\w+)\(", text))


def points_of(text, file, never_return=frozenset()):
    """All points of a text, in its order, with names that a change elsewhere in the file leaves as they are."""
    points = sorted(Finder(text, never_return).run(), key=lambda point: (point.begin, point.end, point.change))
    lines, seen = text.split("\n"), {}
    for point in points:
        point.file = file
        point.line = text.count("\n", 0, point.begin) + 1
        point.last_line = text.count("\n", 0, point.end) + 1
        point.line_text = lines[point.line - 1].strip()
        name = f"{file}: {point.change}: {point.line_text}"
        seen[name] = seen.get(name, 0) + 1
        point.name = name if seen[name] == 1 else f"{name} #{seen[name]}"
    return points


def mutated(text, numbered, header):
    """The text with all these (number, point) in it, none of which may overlap; its first line, a comment, makes room for `header`."""
    for number, point in sorted(numbered, key=lambda pair: -pair[1].begin):
        replacement = point.replacement.format(number=number)
        text = text[:point.begin] + replacement + text[point.end:]
    first, rest = text.split("\n", 1)
    if not first.startswith("//"):
        raise ValueError("the first line is not a comment")
    return f'#include "{header}"\n{rest}'
