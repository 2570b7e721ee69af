# SPDX-License-Identifier: Apache-2.0
"""What must be found in a source, what must not, and what comes out of it."""
import choice
import cpp_text
import points

# (a function's body, the changes that must be found in it and no other)
BODIES = [
    ("if (a < b) {\n    c();\n  }", ["< to <=", "< to >=", "condition false", "condition true", "no call"]),
    ("return a && !b;", ["&& to ||", "no !", "return not"]),
    ("std::vector<int> many(3);\n  const auto& x = f(a + b);", ["3 + 1", "+ to -"]),
    ("std::map<int, std::vector<int>> none;\n  Type* p = q;\n  auto [x, y] = z;", []),
    ("std::function<void()> work = [a] { return b; };\n  std::array<int, 2> pair(a);", []),
    ("if constexpr (a == b) {\n  }\n  static_assert(a == b);\n  constexpr int k = 1;", []),
    ("for (int i = 0; i < n; ++i) {\n    break;\n  }", ["0 + 1", "< to <=", "< to >=", "no break"]),
    ("if (a) {\n    throw Error(a);\n  }\n  throw Error(b);", ["condition false", "condition true", "no throw"]),
    ("text += \"+ 1\";  // a == b", ["no assignment"]),
    ("const auto less = [](int a, int b) { return a > b; };", ["> to >=", "> to <="]),
    ("x = std::min(a, b);", ["no assignment", "min to max"]),
    ("if (auto* p = f()) {\n    ++p;\n  }", ["no step"]),
    ("switch (a) {\n    case 1:\n      f();\n  }", []),
    ("return true;", ["true to false"]),
    ("std::array<char, 16> text{};", []),
    ("if (co_await f(a) == b) {\n  }", []),
]
HEADER = "// SPDX-License-Identifier: Apache-2.0\n"


def changes_of(text):
    return [point.change for point in points.points_of(HEADER + text, "a.cpp")]


def finds_what_a_body_has():
    for body, expected in BODIES:
        found = changes_of(f"bool f() {{\n  {body}\n  while (true_) {{\n  }}\n}}\n")
        assert sorted(found) == sorted(expected), (body, found)


def leaves_what_is_no_code():
    for text in ("constexpr int k = 1 + 2;\n", "enum class E { a = 1, b = 1 + 1 };\n", "struct S { int a = 1 + 2; };\n",
                 "constexpr int f() { return 1 + 2; }\n", "#if A == B\n#endif\n", 'auto t = R"(a == b)";\n'):
        assert changes_of(text) == [], text


def finds_bodies_that_return_nothing():
    assert "no body" in changes_of("void f(int a) {\n  a = b;\n}\n")
    assert "no body" in changes_of("Awaitable<> f() {\n  co_await g();\n}\n")
    assert "no body" not in changes_of("int f(int a) {\n  a = b;\n  return a;\n}\n")
    assert "no call" not in changes_of("int f() {\n  fail();\n}\n")  # It would run past its end.
    assert "return nothing" in changes_of("std::optional<int> f() {\n  return a;\n}\n")


def keeps_what_never_returns_from_returning():
    assert points.never_returning("[[noreturn]] void Index::refuse(int a) const;\n  [[noreturn]] static void f(") == {"refuse", "f"}
    text = HEADER + "void Index::refuse(int a) const {\n  g(a);\n  fail(a);\n}\n"
    assert [point.change for point in points.points_of(text, "a.cpp", {"refuse"})] == ["no call"]


def keeps_the_lines():
    text = HEADER + "void f() {\n  if (a ||\n      b) {  // why\n    g();\n  }\n}\n"
    found = points.points_of(text, "a.cpp")
    for number, point in enumerate(found, 1):
        changed = points.mutated(text, [(number, point)], "switch.hpp")
        assert changed.count("\n") == text.count("\n"), changed
        assert f"({number})" in changed and changed.startswith('#include "switch.hpp"\n'), changed
        cpp_text.Source(changed)  # Its brackets still match.


def names_outlive_other_changes():
    text = HEADER + "void f() {\n  g();\n  g();\n}\n"
    names = {point.name for point in points.points_of(text, "a.cpp")}
    assert {"a.cpp: no call: g();", "a.cpp: no call: g(); #2"} <= names, names
    assert names == {point.name for point in points.points_of(text.replace("void f", "\n\nvoid f"), "a.cpp")}


def chooses_evenly():
    text = HEADER + "void f() {\n" + "".join(f"  g{i}(a + b);\n" for i in range(50)) + "}\n"
    files = ("src/core/a.cpp", "src/core/b.cpp", "src/io/a.cpp", "src/formats/a.cpp", "handlers/a.cpp")
    found = {file: points.points_of(text, file) for file in files}
    count_of_all = 10 * len(choice.MODULES)
    chosen = choice.choose(found, count_of_all, 1, set())
    count = {file: sum(point.file == file for point in chosen) for file in files}
    assert list(count.values()) == [5, 5, 10, 10, 10], count
    assert chosen == choice.choose(found, count_of_all, 1, set())
    assert not {chosen[0].name} & {point.name for point in choice.choose(found, count_of_all, 1, {chosen[0].name})}
    for file in files:
        mine = [point for point in chosen if point.file == file]
        assert all(not choice.overlaps(point, [other for other in mine if other is not point]) for point in mine)


def refuses_a_list_without_reasons():
    reasons = choice.parse_equivalents("# all\na.cpp: no call: g();\n  It is\n  called twice.\n")
    assert reasons == {"a.cpp: no call: g();": "It is called twice."}, reasons
    found = {"a.cpp": points.points_of(HEADER + "void f() {\n  g();\n}\n", "a.cpp")}
    assert choice.stale(reasons, found) == []
    assert choice.stale({"a.cpp: no call: h();": "No."}, found) == ["a.cpp: no call: h();"]
    for wrong in ("a.cpp: no call: g();\n", "  a reason of nothing\n", "a\n  b\na\n  b\n"):
        try:
            choice.parse_equivalents(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


def run():
    finds_what_a_body_has()
    leaves_what_is_no_code()
    finds_bodies_that_return_nothing()
    keeps_what_never_returns_from_returning()
    keeps_the_lines()
    names_outlive_other_changes()
    chooses_evenly()
    refuses_a_list_without_reasons()
