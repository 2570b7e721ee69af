# SPDX-License-Identifier: Apache-2.0
"""Refuses what g++ 12 miscompiles and what dangles in coroutines.

g++ 12 destroys temporaries of aggregate and lambda type inside a co_await expression twice; tests/toolchain shows it.
An awaitable of Boost 1.81 that is assigned to loses the coroutine that it held. A coroutine's reference parameter
dangles when its caller has gone on; `// outlives: <reason>` on the parameter's line, or on or right above the function's
first line, says why one does not.
"""
import re
import sys

from source_text import (CONTROL_WORDS, CPP_SUFFIXES, LAMBDA, Finding, Text, functions, lambdas, own_body, run,
                         source_files, split_at_commas)

AWAITS = re.compile(r"\bco_(?:await|return|yield)\b")
BORROWS = re.compile(r"&|\bstring_view\b|\bspan\s*<")
OUTLIVES = re.compile(r"//.*\boutlives: \S")


def expression_after(text, position):
    """Returns the end of the full expression that the co_await at `position` belongs to."""
    depth = 0
    for at in range(position, len(text.code)):
        char = text.code[at]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth < 0:
                if char != ")" or text.word_before(text.open(at)) in CONTROL_WORDS:
                    return at
                depth = 0  # The enclosing call's other arguments belong to the same full expression.
        elif char == ";" and depth == 0:
            return at
    return len(text.code)


def expression_before(text, position):
    """Returns where the arguments begin that stand before the co_await inside an enclosing call."""
    begin, at = position, position - 1
    while at >= 0 and text.code[at] not in ";{":
        char = text.code[at]
        if char in ")]":
            at = text.open(at)
        elif char == "}":
            if text.code[at + 1:].lstrip()[:1] not in (",", ")"):
                break  # The end of a block, not of a braced argument.
            at = text.open(at)
        elif char == "(":
            if text.word_before(at) in CONTROL_WORDS:
                break
            begin = at
        at -= 1
    return begin


def check_expressions(text):
    for match in re.finditer(r"\bco_await\b", text.code):
        begin, end = expression_before(text, match.start()), expression_after(text, match.start())
        code = text.code[begin:end]
        lambda_at = LAMBDA.search(" " + code)
        brace = code.find("{")
        if lambda_at:
            yield match.start(), "a lambda inside a co_await expression: g++ 12 destroys it twice; name it first"
        elif brace >= 0:
            yield match.start(), "a '{' inside a co_await expression: g++ 12 destroys aggregates there twice; name the value first"


def check_blocks(text):
    for match in re.finditer(r"\bcatch\s*\(", text.code):
        body = text.code.find("{", text.close(match.end() - 1))
        if "co_await" in text.code[body:text.close(body)]:
            yield match.start(), "co_await inside catch: keep the exception_ptr and await after the block"
    for match in re.finditer(r"\bauto\s*&{0,2}\s*\[[^\]]*\]\s*=[^;]*\bco_await\b", text.code):
        yield match.start(), "a structured binding of a co_await: name the result first"
    for match in re.finditer(r"\basio::detached\b", text.code):
        yield match.start(), "asio::detached loses the exception: give the coroutine an owner"


def check_parameters(text, function, nested):
    if function.parameters is None or not AWAITS.search(own_body(text, function, nested)):
        return
    first, body = text.line(function.start), text.line(function.body[0])
    excused = range(max(1, first - 1), first + 1)
    if any(OUTLIVES.search(text.lines[line - 1]) for line in excused):
        return
    begin, end = function.parameters
    for offset, parameter in split_at_commas(text.code[begin + 1:end]):
        parameter = parameter.split("=")[0]
        position = begin + 1 + offset + len(parameter) - len(parameter.lstrip())
        last = text.line(begin + 1 + offset + len(parameter.rstrip()) - 1)
        if BORROWS.search(parameter) and not any(
            OUTLIVES.search(text.lines[line - 1]) for line in range(text.line(position), min(last, body) + 1)
        ):
            yield position, f"coroutine parameter '{' '.join(parameter.split())}' may dangle: take it by value or say '// outlives: <reason>'"


def check_functions(text):
    inner = lambdas(text)
    every = functions(text) + inner
    for function in every:
        yield from check_parameters(text, function, inner)
    for match in AWAITS.finditer(text.code):
        if not any(function.body[0] < match.start() < function.body[1] for function in every):
            yield match.start(), f"{match.group()} outside of every function that this lint recognises: teach it this form"
    for function in inner:
        if function.capture and AWAITS.search(own_body(text, function, inner)):
            yield function.start, "a capturing lambda is a coroutine: its captures die with the lambda; write a function"


def check_options(text):
    for match in re.finditer(r"\b(?:struct|class)\s+(\w*Options)\b[^;{()]*\{", text.code):
        name, begin = match.group(1), match.end() - 1
        if not re.search(rf"(?<![\w~]){name}\s*\(", text.code[begin:text.close(begin)]):
            yield match.start(), f"{name} declares no constructor: aggregates break inside co_await; write '{name}() = default;'"


def check_assignments(text):
    for match in re.finditer(r"(?<![\w:<])(?:Awaitable|Background)<[^;(){}]*> (\w+)(?: = [^;]*)?;", text.code):
        again = re.compile(rf"(?<![\w.>&*]){match.group(1)} = ").search(text.code, match.end())
        ends = text.code.find("\n}\n", match.end())  # Of the function, or of the class.
        if again and (ends < 0 or again.start() < ends):
            yield again.start(), f"'{match.group(1)}' is assigned to: Boost 1.81 loses the coroutine that it held; make another one"


def check(raw):
    text = Text(raw)
    for rule in (check_expressions, check_blocks, check_functions, check_options, check_assignments):
        for position, message in rule(text):
            yield text.line(position), message


def check_tree(root):
    findings = []
    for path in source_files(root, CPP_SUFFIXES):
        if path.relative_to(root).parts[:2] == ("tests", "toolchain"):
            continue  # Shows the broken forms on purpose.
        for line, message in sorted(set(check(path.read_text(encoding="utf-8")))):
            findings.append(Finding(path.relative_to(root), line, message))
    return findings


BAD = {
    "brace in call": ("'{'", "Awaitable<> f() { co_await g(Options{.a = 1}); }"),
    "brace over lines": ("'{'", "Awaitable<> f() {\n  co_await g(\n      a,\n      {1, 2});\n}"),
    "brace after the await": ("'{'", "Awaitable<> f() { use(co_await g(), Agg{}); }"),
    "brace before the await": ("'{'", "Awaitable<> f() { use(Agg{1}, co_await g()); }"),
    "brace deep before the await": ("'{'", "Awaitable<> f() { use(h(Agg{1}), a, k(co_await g())); }"),
    "brace in initialiser": ("'{'", "Awaitable<> f() { const auto x = co_await g(std::vector<int>{}); }"),
    "brace in condition": ("'{'", "Awaitable<> f() { if (co_await g(Agg{})) { h(); } }"),
    "lambda argument": ("a lambda inside", "Awaitable<> f() { co_await run([x] { return x; }); }"),
    "lambda without body brace near": ("a lambda inside", "Awaitable<> f() { co_await run(1, [&](int a) -> int { return a; }); }"),
    "detached": ("detached", "void f() { asio::co_spawn(e, g(), asio::detached); }"),
    "capturing lambda": ("capturing lambda", "auto task = [this]() -> Awaitable<> { co_await g(); };"),
    "capturing lambda with co_return": ("capturing lambda", "auto task = [=](int a) mutable -> Awaitable<int> { co_return a; };"),
    "structured binding": ("structured binding", "Awaitable<> f() { auto [a, b] = co_await g(); }"),
    "catch": ("inside catch", "Awaitable<> f() { try { g(); } catch (...) { co_await h(); } }"),
    "reference": ("may dangle", "Awaitable<> f(const std::string& s) { co_await g(s); }"),
    "rvalue reference": ("may dangle", "Awaitable<> f(std::string&& s) { co_await g(); }"),
    "view": ("may dangle", "Awaitable<> C::f(int a, std::string_view s) const {\n  co_return;\n}"),
    "span": ("may dangle", "Awaitable<> f(\n    int a,\n    std::span<const std::byte> s) { co_return; }"),
    "reference of a lambda": ("may dangle", "auto task = [](int& a) -> Awaitable<> { co_return; };"),
    "empty reason": ("may dangle", "Awaitable<> f(int& a) {  // outlives:\n  co_return; }"),
    "unknown form": ("teach it", "CAIRN_BODY { co_await g(); }"),
    "assignment": ("assigned to", "Awaitable<> f() {\n  Background<> w = nothing();\n  w = co_await g();\n}\n"),
    "options": ("declares no constructor", "struct SaveOptions {\n  bool overwrite = false;\n};"),
    "options with destructor only": ("declares no constructor", "struct SaveOptions { ~SaveOptions(); };"),
}
GOOD = {
    "named value": "Awaitable<> f() { Agg a{1}; co_await g(std::move(a)); }",
    "condition and block": "Awaitable<> f() { if (co_await g()) { h(); } while (co_await g(1)) { h(); } }",
    "loop": "Awaitable<> f() { for (int x : co_await g()) { h(x); } }",
    "comment and string": 'Awaitable<> f() { co_await g("{", \'{\');  // {} [x] { }\n}',
    "raw string": 'Awaitable<> f() { co_await g(R"x({"a": 1})x"); }',
    "next statement": "Awaitable<> f() { co_await g(); Agg a{1}; }",
    "statement before": "Awaitable<> f() { Agg a{1}; if (a) { b(); } co_await g(c(1)); }",
    "lambda after": "Awaitable<> f() { co_await g(); auto h = [x] { return x; }; }",
    "subscript": "Awaitable<> f() { co_await g(a[0], b[i](c)); }",
    "lambda that is no coroutine": "void f() { run([this] { g(); }); }",
    "lambda coroutine without capture": "auto task = [](int a) -> Awaitable<> { co_await g(a); };",
    "coroutine lambda inside": "void f(const A& a) { run([](int b) -> Awaitable<> { co_return; }); }",
    "await after catch": "Awaitable<> f() { try { co_await g(); } catch (...) { e = current(); } co_await h(); }",
    "reference without await": "int f(const std::string& s) { return g(s); }",
    "reference in a declaration": "Awaitable<> f(const std::string& s);",
    "outlives on the parameter": "Awaitable<> f(int a,\n             const B& b) {  // outlives: the caller awaits\n  co_return; }",
    "outlives above": "// outlives: held by the scope\nAwaitable<> f(const B& b) { co_return; }",
    "binding": "void f() { auto [a, b] = g(); }",
    "options": "struct SaveOptions {\n  SaveOptions() = default;\n  bool overwrite = false;\n};",
    "one of another function": "void f() {\n  Background<> w = g();\n}\n\nvoid h() {\n  w = 1;\n}\n",
    "options named ahead": "struct SaveOptions;\nvoid f(SaveOptions options);",
    "digit separators": "Awaitable<> f() { const int a = 1'000'000; co_await g(a); const int b{2}; char c = '{'; }",
}


def self_test():
    failures = []
    for name, (words, snippet) in BAD.items():
        messages = [message for _, message in check(snippet)]
        if not any(words in message for message in messages):
            failures.append(f"'{name}' was not refused for {words}: {messages}")
    for name, snippet in GOOD.items():
        for _, message in check(snippet):
            failures.append(f"'{name}' was refused: {message}")
    return failures


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
