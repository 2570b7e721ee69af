# SPDX-License-Identifier: Apache-2.0
"""Checks the documents: code in them is a region of a compiled file, and their links lead somewhere.

A block that begins with ```cpp file=examples/a.cpp region=save must equal what that file has between the lines
`// [save]` and `// [/save]`, less the indentation that all lines share. C++ without a file is refused.
`--update` writes the regions into the documents. The steps of a commit above the code are those of docs/reliability.md.
`--links` checks only links, those of all documents in the folder: what was installed has no sources.
"""
import pathlib
import re
import sys
import textwrap

FENCE = re.compile(r"^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
CODE_LANGUAGES = {"cpp", "c++", "cc", "c"}
COMMIT_DOCUMENT, COMMIT_SOURCE = "docs/reliability.md", "src/store/publish.cpp"
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ +(?P<title>.+?) *$", re.MULTILINE)
INLINE_CODE = re.compile(r"`[^`\n]*`")


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def region_of(text, name):
    """Returns the lines between the marks of a region, without the indentation that they share; None without marks."""
    mark = re.escape(name)
    found = re.findall(rf"^[ \t]*(?://|#) \[{mark}\]\n(.*?)^[ \t]*(?://|#) \[/{mark}\]$", text, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(found[0]) if len(found) == 1 else None


def expected_body(info, files):
    """Returns (the region that a block's info string names, None) or (None, what is wrong with it)."""
    words = info.split()
    facts = dict(word.partition("=")[::2] for word in words[1:])
    if "file" not in facts:
        is_code = bool(words) and words[0].lower() in CODE_LANGUAGES
        return None, "C++ must come from a compiled file: say file=... region=..." if is_code else None
    text = files.get(facts["file"])
    if text is None:
        return None, f"there is no file '{facts['file']}'"
    region = region_of(text, facts.get("region", ""))
    if region is None:
        return None, f"'{facts['file']}' does not have the region '{facts.get('region', '')}' once"
    return region, None


def anchor(title):
    """Returns the name under which a heading is linked to, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", INLINE_CODE.sub(lambda match: match.group()[1:-1], title).lower())
    return kept.replace(" ", "-")


def without_blocks(text):
    """Blanks code, so that nothing in it is taken for a link or a heading; lines keep their numbers."""
    blanked = FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)
    return blanked


def check_blocks(text, files):
    for block in FENCE.finditer(text):
        region, problem = expected_body(block.group("info"), files)
        if problem:
            yield line_of(text, block.start()), problem
        elif region is not None and region != block.group("body"):
            yield line_of(text, block.start()), "differs from the compiled file; run check_docs.py --update"


def check_links(path, text, documents, exists):
    prose = without_blocks(text)
    for link in LINK.finditer(INLINE_CODE.sub(lambda match: " " * len(match.group()), prose)):
        target = link.group("target")
        if re.match(r"[a-z]+:", target):
            continue
        file, _, fragment = target.partition("#")
        aim = (pathlib.PurePosixPath(path).parent / file).as_posix() if file else path
        aim = str(pathlib.PurePosixPath(*normal_parts(aim)))
        if file and not exists(aim):
            yield line_of(prose, link.start()), f"'{target}' leads nowhere"
        elif fragment and aim in documents:
            titles = {anchor(match.group("title")) for match in HEADING.finditer(without_blocks(documents[aim]))}
            if fragment not in titles:
                yield line_of(prose, link.start()), f"'{aim}' has no heading '#{fragment}'"


def normal_parts(path):
    parts = []
    for part in pathlib.PurePosixPath(path).parts:
        if part == "..":
            parts[-1:] = []
        else:
            parts.append(part)
    return parts


def check_steps(document, source):
    """Compares the numbered steps of the section "Commit" with those in the comment of the source; yields messages."""
    section = document.partition("\n## Commit\n")[2].partition("\n## ")[0].replace("`", "")
    wanted = dict(re.findall(r"^(\d+)\. (.*)$", section, re.MULTILINE))
    found = dict(re.findall(r"^//   (\d+)\. (.*?)(?:  .*)?$", source, re.MULTILINE))
    for number in sorted(wanted.keys() | found.keys(), key=int):
        if not (found.get(number) and wanted.get(number, "").startswith(found[number])):
            yield f"step {number} is '{wanted.get(number)}', in {COMMIT_SOURCE} it is '{found.get(number)}'"


def check(path, documents, files, exists):
    """Yields (line, message) for one document."""
    yield from check_blocks(documents[path], files)
    yield from check_links(path, documents[path], documents, exists)


def update(text, files):
    def renew(block):
        region, _ = expected_body(block.group("info"), files)
        return block.group() if region is None else f"```{block.group('info')}\n{region}```"

    return FENCE.sub(renew, text)


def read_tree(root):
    documents = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
                 for path in [root / "README.md", *sorted((root / "docs").rglob("*.md")),
                              *sorted((root / "examples").rglob("*.md"))] if path.is_file()}
    files = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for folder in ("examples", "tests/consumer") for path in sorted((root / folder).rglob("*"))
             if path.suffix in {".cpp", ".hpp", ".txt"}}
    return documents, files


def check_all_links(root):
    documents = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
                 for path in sorted(root.rglob("*.md"))}
    count = 0
    for path, text in documents.items():
        for line, message in check_links(path, text, documents, lambda aim: (root / aim).exists()):
            print(f"{path}:{line}: {message}")
            count += 1
    print(f"{count} dead links in {len(documents)} documents")
    return 1 if count or not documents else 0


SOURCE = "int f() {\n  // [part]\n  int a = 1;\n    b();\n  // [/part]\n}\n"
GOOD = {
    "equal to the region": "```cpp file=a.cpp region=part\nint a = 1;\n  b();\n```\n",
    "a shell block": "```\n$ cairn ls\n```\n",
    "another language": "```json\n{}\n```\n",
    "a link to a file": "[a](docs/b.md)\n",
    "a link to a heading": "[a](docs/b.md#one-more-thing) [here](#top)\n\n# Top\n",
    "a link elsewhere": "[a](https://example.org/x)\n",
    "a link in code": "`[a](gone.md)`\n```\n[b](gone.md)\n```\n",
}
BAD = {
    "another text": ("differs", "```cpp file=a.cpp region=part\nint a = 2;\n  b();\n```\n"),
    "other indentation": ("differs", "```cpp file=a.cpp region=part\n  int a = 1;\n    b();\n```\n"),
    "no file": ("must come from", "```cpp\nint a;\n```\n"),
    "no such file": ("no file 'b.cpp'", "```cpp file=b.cpp region=part\n```\n"),
    "no such region": ("the region 'other'", "```cpp file=a.cpp region=other\n```\n"),
    "a region twice": ("the region 'twice'", "```cpp file=twice.cpp region=twice\n```\n"),
    "a dead link": ("leads nowhere", "[a](docs/gone.md)\n"),
    "a dead heading": ("no heading", "[a](docs/b.md#gone)\n"),
    "a heading in code only": ("no heading", "[a](#gone)\n```\n# Gone\n```\n"),
}


def self_test():
    files = {"a.cpp": SOURCE, "twice.cpp": "// [twice]\n// [/twice]\n" * 2}
    beside = {"docs/b.md": "# One more `thing`\n"}
    failures = []

    def findings(text):
        documents = {"README.md": text, **beside}
        return [message for _, message in check("README.md", documents, files, lambda path: path in documents)]

    for name, text in GOOD.items():
        failures += [f"refused {name}: {message}" for message in findings(text)]
    for name, (expected, text) in BAD.items():
        if not any(expected in message for message in findings(text)):
            failures.append(f"accepted {name}")
    document, source = "# A\n\n## Commit\n\n1. `a` is made: so.\n2. It goes.\n\n## B\n", "//   1. a is made    f.cpp\n//   2. It goes\n"
    if list(check_steps(document, source)):
        failures.append("refused the steps of a commit")
    for wrong in (source.replace("made", "kept"), source.partition("\n")[0], source + "//   3. More\n"):
        if not list(check_steps(document, wrong)):
            failures.append(f"accepted other steps of a commit: {wrong!r}")
    if update(BAD["another text"][1], files) != GOOD["equal to the region"]:
        failures.append("--update does not repair")
    print("\n".join(failures) or f"{len(GOOD) + len(BAD) + 1} cases as expected")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    is_update = arguments[:1] == ["--update"]
    root = pathlib.Path(arguments[-1])
    if arguments[:1] == ["--links"]:
        return check_all_links(root)
    documents, files = read_tree(root)
    count = 0
    for path, text in documents.items():
        if is_update:
            renewed = update(text, files)
            if renewed != text:
                (root / path).write_text(renewed, encoding="utf-8")
                print(f"{path}: updated")
            documents[path] = renewed
    for path in documents:
        for line, message in check(path, documents, files, lambda aim: (root / aim).exists()):
            print(f"{path}:{line}: {message}")
            count += 1
    for message in check_steps(documents[COMMIT_DOCUMENT], (root / COMMIT_SOURCE).read_text(encoding="utf-8")):
        print(f"{COMMIT_DOCUMENT}: {message}")
        count += 1
    print(f"{count} findings in {len(documents)} documents")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
