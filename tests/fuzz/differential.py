#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what Cairn and the reference implementation of safetensors read in the same files, most of them damaged.

usage: differential.py VENV PROGRAM CORPUS MUTATIONS OUT

PROGRAM (cairn_header_cases) writes the files and Cairn's verdicts to OUT. What the reference refuses Cairn must refuse;
what it accepts Cairn must read the same, or refuse for one of the reasons that docs/format.md lists. Exits 77 (skipped)
with the reason when the package is not to be had, 1 when the two disagree.
"""
import json
import os
import re
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "formats"))
import reference_reader

SKIPPED = 77
# Where Cairn is stricter, and why. The pattern is that of its message.
STRICTER = {
    "the first byte is not '{'": r"does not start with '\{'",
    "a name is given twice: which tensor it means would depend on the reader": r"is given twice",
    "a tensor is written as a JSON array": r"expected '\{'",
    "more dimensions than an array has": r"more than 64 dimensions",
    "extents beside a 0 that no strides could be computed of": r"not a whole number of bytes below 2\^63|too many elements",
}


def cases(path):
    with open(path, "rb") as file:
        while length := file.read(8):
            yield file.read(struct.unpack("<Q", length)[0])


def reference_reading(content, path):
    """Returns ({name: (dtype, shape, bytes)}, metadata), or what the reference says against the file."""
    from safetensors import SafetensorError, deserialize, safe_open

    try:
        tensors = {name: (info["dtype"], list(info["shape"]), bytes(info["data"]))
                   for name, info in deserialize(content)}
    except (SafetensorError, ValueError) as error:
        return str(error), None
    if b"__metadata__" not in content:
        return tensors, {}
    with open(path, "wb") as file:
        file.write(content)
    with safe_open(path, framework="np") as opened:
        return tensors, opened.metadata() or {}


def why_stricter(message):
    return next((why for why, pattern in STRICTER.items() if re.search(pattern, message)), None)


def disagreement(content, ours, path, reasons):
    """Says how the two differ over a file; None when they agree, or when Cairn may be stricter."""
    tensors, metadata = reference_reading(content, path)
    if isinstance(tensors, str):
        return None if "refused" in ours else f"the reference refuses: {tensors}"
    if "refused" in ours:
        why = why_stricter(ours["refused"])
        reasons[why] = reasons.get(why, 0) + 1
        return None if why else f"the reference accepts, Cairn: {ours['refused']}"
    read = {name: (dtype, shape, content[begin:end]) for name, (dtype, shape, begin, end) in ours["tensors"].items()}
    if read != tensors:
        return f"other tensors: {read} instead of {tensors}"
    return None if ours["metadata"] == metadata else f"other metadata: {ours['metadata']} instead of {metadata}"


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    venv, program, corpus, mutations, out = sys.argv[1:]
    try:
        python = reference_reader.find_python(venv)
    except subprocess.TimeoutExpired:
        python = None
    if python is None:
        print("SKIPPED: the Python package 'safetensors' is not installed and cannot be installed")
        sys.exit(SKIPPED)
    if python != sys.executable:
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:]])
    subprocess.run([program, corpus, mutations, out], check=True)
    counts, reasons, differences = {"accepted": 0, "refused": 0}, {}, []
    with open(os.path.join(out, "verdicts"), encoding="ascii") as verdicts:
        for content, line in zip(cases(os.path.join(out, "cases")), verdicts, strict=True):
            ours = json.loads(line)
            counts["refused" if "refused" in ours else "accepted"] += 1
            if why := disagreement(content, ours, os.path.join(out, "case.safetensors"), reasons):
                differences.append((content, why))
    for content, why in differences[:10]:
        print(f"{content[:300]!r}\n  {why}")
    for why, count in sorted(reasons.items(), key=str):
        print(f"stricter in {count} files: {why}")
    print(f"differential: {sum(counts.values())} files, {counts['accepted']} accepted, {counts['refused']} refused, "
          f"{len(differences)} disagreements")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
