# SPDX-License-Identifier: Apache-2.0
"""Writes copies of sources with all mutants in them, each switched on by its number at run time.

    mutate.py --files LIST               prints the sources that have mutants
    mutate.py LIST ROOT OUT              writes OUT/<source> for each of them, and OUT/mutants.inc
    mutate.py --stale ROOT LIST...       names those that are stale, or use members that are not there, and then exits with 1
    mutate.py --self-test

LIST has for each mutant: `@ <name> <source>`, lines that say what is wrong with it (two spaces before them), the lines of the source
that it replaces (`-`) and those that it puts there (`+`), where MUTANT is true when it is switched on. Indentation does not count. A place
that is not in the source exactly once makes the mutant stale: the source stays as it is, and mutants.inc says so.
"""
import pathlib
import re
import sys


def parse(text):
    """Returns the mutants as dicts of name, source, why, before and after (lists of lines)."""
    mutants = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("@ "):
            name, source = line[2:].split()
            mutants.append({"name": name, "source": source, "why": [], "before": [], "after": []})
        elif line.startswith("  ") and mutants:
            mutants[-1]["why"].append(line.strip())
        elif line[0] in "-+" and mutants:
            mutants[-1]["before" if line[0] == "-" else "after"].append(line[1:].strip())
        else:
            raise ValueError(f"line {number}: '{line}'")
    return mutants


def apply(text, mutant, number):
    """Returns the source with the mutant in it, or None when its place is not there once."""
    place = re.compile(r"[ \t]*\n[ \t]*".join(re.escape(line) for line in mutant["before"]))
    if len(place.findall(text)) != 1:
        return None
    condition = f"(::cairn_mutant == {number})"
    after = "\n".join(line.replace("MUTANT", condition) for line in mutant["after"])
    return place.sub(lambda _: after, text)


def read(list_path, root):
    """Returns the mutants of a list, and the texts of their sources."""
    mutants = parse(pathlib.Path(list_path).read_text(encoding="utf-8"))
    sources = {mutant["source"]: root / mutant["source"] for mutant in mutants}
    return mutants, {name: path.read_text(encoding="utf-8") if path.exists() else "" for name, path in sources.items()}


def unknown_members(mutant, module):
    """Returns the members that the mutant uses and nothing in its module has: it would not compile."""
    used = set(re.findall(r"\b[a-z]\w*_\b", " ".join(mutant["after"])))
    return sorted(member for member in used if not re.search(rf"\b{member}\b", module))


def stale(list_path, root):
    mutants, texts = read(list_path, root)
    names = []
    modules = {}
    for mutant in mutants:  # Each on top of those before it, as `write` does.
        mutated = apply(texts[mutant["source"]], mutant, 0)
        if mutated is None:
            names.append(f"{list_path}: {mutant['name']}: not once in {mutant['source']}")
        folder = (root / mutant["source"]).parent
        if folder not in modules:
            modules[folder] = "\n".join(path.read_text(encoding="utf-8") for path in folder.rglob("*.?pp"))
        for member in unknown_members(mutant, modules[folder]):
            names.append(f"{list_path}: {mutant['name']}: nothing in {folder.relative_to(root)} has '{member}'")
        texts[mutant["source"]] = mutated or texts[mutant["source"]]
    return names


def write(list_path, root, out):
    mutants, texts = read(list_path, root)
    rows = []
    for number, mutant in enumerate(mutants, 1):
        mutated = apply(texts[mutant["source"]], mutant, number)
        why = " ".join(mutant["why"]).replace("\\", "\\\\").replace('"', '\\"')
        rows.append(f'{{"{mutant["name"]}", "{mutant["source"]}", "{why}", {"false" if mutated else "true"}}},')
        texts[mutant["source"]] = mutated or texts[mutant["source"]]
    for source, text in texts.items():
        target = out / source
        target.parent.mkdir(parents=True, exist_ok=True)
        line = f'extern int cairn_mutant;\n#line 1 "{root / source}"\n'
        target.write_text(line + text, encoding="utf-8")
    (out / "mutants.inc").write_text("\n".join(rows) + "\n", encoding="utf-8")


def self_test():
    mutants = parse("# all\n@ early a.cpp\n  Too early.\n-  if (a) {\n-    b();\n+if (a && !MUTANT) {\n+b();\n")
    assert mutants[0]["why"] == ["Too early."], mutants
    source = "void f() {\n    if (a) {\n      b();\n    }\n}\n"
    mutated = apply(source, mutants[0], 7)
    assert "if (a && !(::cairn_mutant == 7)) {\nb();" in mutated, mutated
    assert apply(source + source, mutants[0], 7) is None
    assert apply("", mutants[0], 7) is None
    assert unknown_members({"after": ["gone_.set(); kept_ = MUTANT;"]}, "int kept_;") == ["gone_"]
    for wrong in ("no mutant yet\n", "@ a b.cpp\nnonsense\n"):
        try:
            parse(wrong)
        except ValueError:
            continue
        raise AssertionError(wrong)


def main(arguments):
    if arguments == ["--self-test"]:
        self_test()
    elif len(arguments) == 2 and arguments[0] == "--files":
        mutants = parse(pathlib.Path(arguments[1]).read_text(encoding="utf-8"))
        print(";".join(sorted({mutant["source"] for mutant in mutants})), end="")
    elif len(arguments) > 2 and arguments[0] == "--stale":
        names = [name for path in arguments[2:] for name in stale(path, pathlib.Path(arguments[1]))]
        print(*names, f"{len(names)} stale mutants", sep="\n")
        sys.exit(1 if names else 0)
    elif len(arguments) == 3:
        write(arguments[0], pathlib.Path(arguments[1]), pathlib.Path(arguments[2]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
