# SPDX-License-Identifier: Apache-2.0
"""Tokens of a C++ source, its brackets, and which of its braces hold statements.

Made for clang-formatted code: a binary operator has blanks on both sides, the brackets of a template have none.
"""
import re

TOKEN = re.compile(
    r'''(?P<space>\s+)
      | (?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
      | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\ ]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
      | (?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      | (?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<operator><<=|>>=|<=>|\.\.\.|->\*|::|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)''',
    re.VERBOSE | re.DOTALL | re.MULTILINE)
CLOSERS = {"(": ")", "[": "]", "{": "}"}
TYPE_WORDS = {"class", "struct", "union"}
CONTROL_WORDS = {"if", "for", "while", "switch", "catch"}
FUNCTION_ENDS = {"const", "noexcept", "override", "final", "mutable"}


class Token:
    """A token, with where it is and whether blanks are before and after it."""

    def __init__(self, kind, text, begin, source):
        self.kind, self.text, self.begin, self.end = kind, text, begin, begin + len(text)
        self.has_space_before = begin == 0 or source[begin - 1].isspace()
        self.has_space_after = self.end >= len(source) or source[self.end].isspace()

    @property
    def is_spaced(self):
        return self.has_space_before and self.has_space_after


class Source:
    """The tokens of a text (no comments, no directives), `partner` of each bracket and `outer` of each token: the index
    of the innermost bracket around it, or None. `kinds` says of each `{`: namespace, type, enum, function, lambda, block or value."""

    def __init__(self, text):
        self.text = text
        self.tokens = [Token(match.lastgroup if match.lastgroup != "mark" else "string", match.group(), match.start(), text)
                       for match in TOKEN.finditer(text)
                       if match.lastgroup not in ("space", "comment", "directive")]
        self._match_brackets()
        self.kinds = {}
        for index, token in enumerate(self.tokens):
            if token.text == "{":
                self.kinds[index] = self._kind_of(index)

    def __getitem__(self, index):
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def _match_brackets(self):
        self.partner, self.outer, stack = {}, [], []
        for index, token in enumerate(self.tokens):
            is_bracket = token.kind == "operator"
            if is_bracket and token.text in CLOSERS.values():
                if not stack or CLOSERS[self[stack[-1]]] != token.text:
                    raise ValueError(f"'{token.text}' at {token.begin} closes nothing")
                opener = stack.pop()
                self.partner[index], self.partner[opener] = opener, index
            self.outer.append(stack[-1] if stack else None)
            if is_bracket and token.text in CLOSERS:
                stack.append(index)
        if stack:
            raise ValueError("a bracket is not closed")

    def header(self, brace):
        """The indices of the tokens before a brace that belong to it: `void f(int x) const`, groups in brackets whole."""
        begin = brace
        while begin > 0:
            before = begin - 1
            if self[before] == "}" and self[begin] not in (",", "{", ")", "(", ".", "->"):
                break
            if before in self.partner and self.partner[before] < before:
                begin = self.partner[before]
            elif self[before] in (";", "{", "(", "["):
                break
            elif self[before] == ":" and self[before - 1] in ("public", "private", "protected"):
                break
            else:
                begin = before
        return range(begin, brace)

    def _kind_of(self, brace):
        header = [self[i] for i in self.header(brace)]
        top = self._top_level(self.header(brace))
        before, after = self[brace - 1], self[self.partner[brace] + 1] if brace in self.partner else ""
        outside = self.outer[brace]
        in_code = outside is not None and (self[outside] != "{" or self.kinds[outside] not in ("namespace", "type"))
        if "namespace" in top or header[:1] == ["extern"]:
            return "namespace"
        if "enum" in top:
            return "enum"
        if before in ("else", "do", "try"):
            return "block"
        if before == ")" and self[self.partner[brace - 1] - 1] in CONTROL_WORDS | {"constexpr"}:
            return "block"
        if self._is_lambda(brace):
            return "lambda"
        if not in_code and TYPE_WORDS & set(top) and "(" not in top and "=" not in top:
            return "type"
        if in_code and TYPE_WORDS & set(top[:1]):
            return "type"
        if in_code:
            return "block" if before in (";", "{", "}", ":") else "value"
        if after in (",", "{", ")", ";") and before not in (")",) and before not in FUNCTION_ENDS:
            return "value"
        return "function" if "(" in top and before not in ("=", ",", "return") else "value"

    def _top_level(self, indices):
        """The texts of these tokens, of a group in brackets only the brackets."""
        texts, index = [], indices.start
        while index < indices.stop:
            texts.append(self[index])
            index = self.partner[index] if self[index] in CLOSERS and index in self.partner else index + 1
        return texts

    def _is_lambda(self, brace):
        """Whether `{` follows `[...]`, `[...](...)` or these with what may stand between them and the body."""
        index = brace - 1
        steps = 0
        while index >= 0 and steps < 12:
            if self[index] == "]":
                opener = self.partner[index]
                return not (self.tokens[opener - 1].kind == "name" and self[opener - 1] not in ("return", "co_return")) \
                    and self[opener - 1] not in (")", "]")
            if self[index] == ")":
                index = self.partner[index] - 1
            elif self.tokens[index].kind == "name" or self[index] in ("->", "::", "<", ">", "&", "*"):
                index -= 1
            else:
                return False
            steps += 1
        return False

    def function_of(self, index):
        """The index of the `{` of the function or lambda that a token is in, or None."""
        outside = self.outer[index]
        while outside is not None:
            if self[outside] == "{" and self.kinds[outside] in ("function", "lambda"):
                return outside
            if self[outside] == "{" and self.kinds[outside] in ("type", "namespace", "enum"):
                return None
            outside = self.outer[outside]
        return None

    def line_of(self, index):
        """The number of the line that a token is in; the first is 1."""
        return self.text.count("\n", 0, self.tokens[index].begin) + 1

    def between(self, first, last):
        """The text from one token to another, both included."""
        return self.text[self.tokens[first].begin:self.tokens[last].end]
