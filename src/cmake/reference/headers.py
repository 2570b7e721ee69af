# SPDX-License-Identifier: Apache-2.0
"""Writes the public headers in the form that Doxygen wants: headers.py ROOT OUT. `--aliases` prints lines for the Doxyfile.

What a header declares is put in the group of its folder, and the groups are named as the modules in docs/architecture.md. Paragraphs
of comments that begin with "Errors:", "Threads:" and so on get headings; examples become code. So the headers need none of Doxygen's
commands. Lines keep their numbers.
"""
import pathlib
import re
import sys

LABELS = ("Invariant", "Example", "Options", "Shape", "Units", "Ownership", "Phase", "Time", "Cheap", "Threads", "Cancel", "Destructor",
          "Counters", "Histograms", "Null", "Errors", "Source")
COMMENT = re.compile(r"^\s*///(?!<)")
LABEL = re.compile(rf"^ (?P<label>{'|'.join(LABELS)}): *(?P<rest>.*)$")
CODE = re.compile(r"^ {3,}\S")
OPEN = re.compile(r"^namespace cairn(::\w+)* \{$")
CLOSE = re.compile(r"^\}  // namespace cairn(::\w+)*$")
FOREIGN = re.compile(r"^struct fmt::formatter<")
# Doxygen 1.9 takes two overloads in a group for one where their parameters are aliases of one template.
SAME_TO_DOXYGEN = re.compile(r"\(.*const Strides& strides\);$")
ROW = re.compile(r"^\| `(?P<name>\w+)` \| [^|]*\| (?P<meaning>.*) \|$")
OTHER_GROUPS = {"testing": "for tests of handlers: the conformance suite, ranks in one process"}


def group_of(path):
    """The folder of a header below include/cairn; headers beside that, which include others, are of the api."""
    return path.parts[1] if len(path.parts) > 2 else "api"


def code_of(lines):
    """Puts an example between Doxygen's commands; its lines keep what they are indented by beyond the first."""
    code = [f" @code{{.cpp}} {lines[0]}".rstrip(), *lines[1:]]
    return [*code[:-1], code[-1] + " @endcode"]


def turn_comment(texts):
    """Returns the lines of a comment, given without the slashes, as Doxygen wants them."""
    out = []
    at = 0
    while at < len(texts):
        label = LABEL.match(texts[at])
        is_example = bool(label) and label["label"] == "Example"
        if not label and not CODE.match(texts[at]):
            out.append(texts[at])
            at += 1
            continue
        end = at + 1
        while end < len(texts) and texts[end].startswith("   "):
            end += 1
        if not label or is_example:
            first = texts[at] if not label else " " * label.start("rest") + label["rest"] if label["rest"] else texts[at + 1]
            code = [text[len(first) - len(first.lstrip()):] for text in texts[at + 1:end]]
            code = code_of([label["rest"] if label else first.lstrip(), *code])
            out += ([" @cairn_example" + code[0]] if label else code[:1]) + code[1:]
        else:  # More blanks would make code of the lines that the paragraph goes on with.
            out.append(f" @cairn_{label['label'].lower()} {label['rest']}")
            out += [" " + text.strip() for text in texts[at + 1:end]]
        at = end
    return out


def turn_header(path, text):
    """Returns the text of a header, whose path is below include, as Doxygen wants it."""
    group = group_of(path)
    lines = text.split("\n")
    lines[0] = f"/** @file {path.as_posix()} */"
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and COMMENT.match(lines[end]):
            end += 1
        if end > at:
            marks = [COMMENT.match(line).group() for line in lines[at:end]]
            texts = turn_comment([line[len(mark):] for line, mark in zip(lines[at:end], marks)])
            lines[at:end] = [mark + text for mark, text in zip(marks, texts)]
            at = end
            continue
        if OPEN.match(lines[at]):
            lines[at] += f" /** @addtogroup {group} */ /** @{{ */"
        elif CLOSE.match(lines[at]):
            lines[at] = "/** @} */ " + lines[at]
        elif SAME_TO_DOXYGEN.search(lines[at]):
            lines[at] = f"/** @cond */ {lines[at]} /** @endcond */"
        elif FOREIGN.match(lines[at]):
            lines[at - 1] = "/** @cond */ " + lines[at - 1]
            lines[lines.index("};", at)] += " /** @endcond */"
        at += 1
    return "\n".join(lines)


def groups(architecture, folders):
    """Returns the definitions of the groups of those folders, in the order of docs/architecture.md."""
    rows = [ROW.match(line) for line in architecture.split("\n")]
    meanings = {row["name"]: row["meaning"] for row in rows if row} | OTHER_GROUPS
    missing = sorted(set(folders) - set(meanings))
    if missing:
        raise ValueError(f"docs/architecture.md does not say what {', '.join(missing)} is")
    return "".join(f"/** @defgroup {name} {name}\n{meaning[0].upper() + meaning[1:]}. */\n"
                   for name, meaning in meanings.items() if name in folders)


TEXT = """// SPDX-License-Identifier: Apache-2.0
namespace cairn {
/// Does it.
///
/// Threads: one
///          at a time.
/// Example: f();
///            g();
/// Errors:  none.
/// Example:
///   if (a) {
///     b();
///   }
void f();
///   int a;
std::string to_string(const Strides& strides);
}  // namespace cairn
template <>
struct fmt::formatter<A> {
};
"""
TURNED = """/** @file cairn/core/a.hpp */
namespace cairn { /** @addtogroup core */ /** @{ */
/// Does it.
///
/// @cairn_threads one
/// at a time.
/// @cairn_example @code{.cpp} f();
///  g(); @endcode
/// @cairn_errors none.
/// @cairn_example @code{.cpp}
///if (a) {
///  b();
///} @endcode
void f();
/// @code{.cpp} int a; @endcode
/** @cond */ std::string to_string(const Strides& strides); /** @endcond */
/** @} */ }  // namespace cairn
/** @cond */ template <>
struct fmt::formatter<A> {
}; /** @endcond */
"""


def self_test():
    failures = []
    turned = turn_header(pathlib.PurePosixPath("cairn/core/a.hpp"), TEXT)
    if turned != TURNED:
        failures.append(f"the header becomes\n{turned}")
    if groups("| `a` | b | c; d |\n", {"a"}) != "/** @defgroup a a\nC; d. */\n":
        failures.append("another group")
    print("\n".join(failures) or "as expected")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments == ["--aliases"]:
        print("\n".join(f'ALIASES += "cairn_{label.lower()}=@par {label} ^^"' for label in LABELS))
        return 0
    root, out = map(pathlib.Path, arguments)
    headers = sorted((root / "include").rglob("*.hpp"))
    for header in headers:
        path = header.relative_to(root / "include")
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(turn_header(path, header.read_text(encoding="utf-8")), encoding="utf-8")
    architecture = (root / "docs/architecture.md").read_text(encoding="utf-8")
    folders = {folder.name for folder in (root / "include/cairn").iterdir() if folder.is_dir()}
    (out / "groups.dox").write_text(groups(architecture, folders), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
