# SPDX-License-Identifier: Apache-2.0
"""Finds commands of the tool and public functions that take a path and stand in neither list of tests/cli/left_out_test.cpp: whoever reads
files names what is left out of them, and the next one that does is in that test."""
import re
import sys

from source_text import Finding, run

TEST = "tests/cli/left_out_test.cpp"
MAIN = "src/cli/main.cpp"
HEADERS = ("include/cairn/api", "include/cairn/tools")
COMMAND = re.compile(r'(?:add_command\(\s*app,|app\.add_subcommand\()\s*"([a-z]+)"')
FUNCTION = re.compile(r"\b([A-Za-z_]+)\(const std::filesystem::path& ")


def part(text, name):
    begin, end = text.find(f"// {name}:begin\n"), text.find(f"// {name}:end\n")
    return text[text.index("\n", begin) : end] if 0 <= begin < end else ""


def listed(test):
    """The names in both lists."""
    exits = set(re.findall(r'^ *\{"(\w+)",', part(test, "exits"), re.MULTILINE))
    others = {name for names in re.findall(r"^// ([\w, ]+):", part(test, "no exits"), re.MULTILINE) for name in names.split(", ")}
    return exits, others


def check(test, commands, functions):
    """What is in neither list or in both, and what is listed and is not there."""
    exits, others = listed(test)
    there = commands | functions
    yield from (f"'{name}' is in neither list: does it name what is left out?" for name in sorted(there - exits - others))
    yield from (f"'{name}' is in both lists" for name in sorted(exits & others))
    yield from (f"'{name}' is listed, and there is no such command or function" for name in sorted((exits | others) - there))


def check_tree(root):
    commands = set(COMMAND.findall((root / MAIN).read_text()))
    functions = {name for folder in HEADERS for path in sorted((root / folder).glob("*.hpp")) for name in FUNCTION.findall(path.read_text())}
    return [Finding(TEST, 0, message) for message in check((root / TEST).read_text(), commands, functions)]


SAMPLE = '// exits:begin\n  {"ls", x},\n// exits:end\n// no exits:begin\n// show, load: why.\n// no exits:end\n'


def self_test():
    failed = [f"{message!r} of lists that agree" for message in check(SAMPLE, {"ls", "show"}, {"load"})]
    for commands, functions in (({"ls", "show", "move"}, {"load"}), ({"ls", "show"}, {"load", "take"}), ({"ls"}, {"load"}), (set(), set())):
        if not list(check(SAMPLE, commands, functions)):
            failed.append(f"{commands} and {functions} were accepted")
    return failed


if __name__ == "__main__":
    sys.exit(run(check_tree, self_test))
