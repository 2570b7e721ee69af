#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles a source that must not compile, and fails unless the compiler refuses each line that says so, with its words.

expect_errors.py FILE COMPILER [OPTIONS…]: FILE comes last on the command line. A line says so by `// refused: words`;
`// never said: words` are not among what it says.
"""

import re
import subprocess
import sys


def main():
    name, command = sys.argv[1], sys.argv[2:]
    with open(name, encoding="utf-8") as source:
        wanted = {number: match.group(1) for number, text in enumerate(source, 1)
                  if (match := re.search(r"// refused: (.*)", text))}
    run = subprocess.run(command + [name], stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode == 0:
        sys.exit(f"{name} compiles")
    mentioned = {int(number) for number in re.findall(re.escape(name) + r":(\d+):", run.stderr)}
    missing = [f"{name}:{number}: '{words}' is not said" for number, words in wanted.items()
               if number not in mentioned or words not in run.stderr]
    with open(name, encoding="utf-8") as source:
        missing += [f"{name}: '{words}' is said" for words in re.findall(r"// never said: (.*)", source.read())
                    if words in run.stderr]
    if missing:
        sys.exit("\n".join(missing) + "\n" + run.stderr)


main()
