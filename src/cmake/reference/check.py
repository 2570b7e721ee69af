# SPDX-License-Identifier: Apache-2.0
"""Checks what Doxygen has read: check.py ROOT XML. A name such as `Tree::as` in a comment is that of something declared, and a
document or a heading that a comment names is there. Prints a line of figures.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

NAME = re.compile(r"(?<![\w:])[A-Za-z]\w*(?:::~?\w+)+")
FOREIGN = {"std", "Eigen", "fmt", "nlohmann", "boost", "asio", "google", "testing"}
TEXTS = ("briefdescription", "detaileddescription")
DOCUMENT = re.compile(r"\b(?P<path>docs/\w+\.md)(?:, \"(?P<heading>[^\"]+)\")?")


def names_of(root):
    """Yields the qualified names of what a file of Doxygen's declares."""
    for compound in root.iter("compounddef"):
        yield compound.findtext("compoundname").partition("<")[0].strip()
    for member in root.iter("memberdef"):
        yield member.findtext("qualifiedname") or member.findtext("name")
        parent = member.findtext("qualifiedname") or ""
        for value in member.iter("enumvalue"):
            yield f"{parent}::{value.findtext('name')}"


def inherited_names(roots):
    """Yields the names of members as those of the classes that inherit them."""
    bases = {compound.findtext("compoundname"): [base.text for base in compound.findall("basecompoundref")]
             for root in roots for compound in root.iter("compounddef")}
    members = {}
    for root in roots:
        for name in names_of(root):
            members.setdefault(name.rpartition("::")[0], set()).add(name.rpartition("::")[2])
    for name in bases:
        todo = list(bases[name])
        while todo:
            base = todo.pop()
            todo += bases.get(base, [])
            yield from (f"{name}::{member}" for member in members.get(base, ()))


def mentions_of(root):
    """Yields (where, name) of the qualified names in the words of a file of Doxygen's; examples are no words."""
    for element in [*root.iter("memberdef"), *root.iter("compounddef")]:
        location = element.find("location")
        where = f"include/{location.get('file')}:{location.get('line')}" if location is not None else "?"
        for tag in TEXTS:
            for text in element.findall(tag):
                for listing in [*text.iter("programlisting")]:
                    listing.clear()
                for name in NAME.findall("".join(text.itertext())):
                    yield where, name


def ends_of(name):
    """All that a qualified name may be called: `cairn::Tree::as`, `Tree::as`, `as`."""
    parts = name.split("::")
    return {"::".join(parts[at:]) for at in range(len(parts))}


def check_names(roots):
    known = {end for names in (inherited_names(roots), *map(names_of, roots)) for name in names for end in ends_of(name)}
    for where, name in sorted({mention for root in roots for mention in mentions_of(root)}):
        if name.split("::")[0] not in FOREIGN and name not in known:
            yield f"{where}: '{name}' is not declared in a public header"


def check_documents(path, text, documents):
    # A heading may be broken over two lines of a comment.
    joined = re.sub(r"\n\s*/// *", " ", text)
    for found in DOCUMENT.finditer(joined):
        document = documents.get(found["path"])
        if document is None:
            yield f"{path}: there is no {found['path']}"
        elif found["heading"] and not re.search(rf"^#+ {re.escape(found['heading'])}$", document, re.MULTILINE):
            yield f"{path}: {found['path']} has no heading '{found['heading']}'"


CLASS = """<doxygen><compounddef kind="class"><compoundname>cairn::Oak</compoundname><basecompoundref>cairn::Tree</basecompoundref>
</compounddef><compounddef kind="class"><compoundname>cairn::Tree</compoundname><sectiondef>
<memberdef kind="function"><qualifiedname>cairn::Tree::as</qualifiedname><name>as</name>
<detaileddescription>As {}.<programlisting>gone::gone()</programlisting></detaileddescription>
<location file="a.hpp" line="7"/></memberdef></sectiondef></compounddef></doxygen>"""


def self_test():
    failures = []
    for name in ("Tree::as", "cairn::Tree::as", "Oak::as", "std::gone", "::gone"):
        failures += [f"refused {name}: {message}" for message in check_names([xml.fromstring(CLASS.format(name))])]
    for name in ("Tree::at", "cairn::as"):
        if not list(check_names([xml.fromstring(CLASS.format(name))])):
            failures.append(f"accepted {name}")
    documents = {"docs/a.md": "# A\n\n## One thing\n"}
    for text in ("/// docs/a.md.", '/// docs/a.md, "One\n  /// thing".'):
        failures += [f"refused {text}: {message}" for message in check_documents("a.hpp", text, documents)]
    for text in ("/// docs/b.md", '/// docs/a.md, "Two"'):
        if not list(check_documents("a.hpp", text, documents)):
            failures.append(f"accepted {text}")
    print("\n".join(failures) or "as expected")
    return 1 if failures else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    root, folder = map(pathlib.Path, arguments)
    roots = [xml.parse(path).getroot() for path in sorted(folder.glob("*.xml")) if path.name != "index.xml"]
    documents = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in (root / "docs").glob("*.md")}
    headers = sorted((root / "include").rglob("*.hpp"))
    messages = list(check_names(roots))
    for header in headers:
        path = header.relative_to(root).as_posix()
        messages += check_documents(path, header.read_text(encoding="utf-8"), documents)
    print("\n".join(messages), file=sys.stderr, end="\n" if messages else "")
    kinds = [compound.get("kind") for each in roots for compound in each.iter("compounddef")]
    functions = {member.get("id") for each in roots for member in each.iter("memberdef") if member.get("kind") == "function"}
    print(f"reference: {len(headers)} headers in {kinds.count('group')} groups, {kinds.count('class') + kinds.count('struct')} types, "
          f"{len(functions)} functions, {len(messages)} names that lead nowhere")
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
