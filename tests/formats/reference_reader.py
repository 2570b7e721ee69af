#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens safetensors files with the reference implementation and compares what it finds with their headers.

usage: reference_reader.py VENV FILE...

The package is imported where it is installed, else installed into the virtual environment VENV. Exits 77 (skipped)
with the reason when neither works, 1 when a file is refused or read otherwise.
"""
import json
import os
import struct
import subprocess
import sys

SKIPPED = 77
ITEM_BITS = {"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
             "U64": 64, "I64": 64, "F64": 64, "C64": 64}


def has_reference(python):
    return subprocess.run([python, "-c", "import safetensors, numpy"], capture_output=True).returncode == 0


def find_python(venv):
    """An interpreter that can import the reference, or None."""
    if has_reference(sys.executable):
        return sys.executable
    python = os.path.join(venv, "bin", "python")
    if not os.path.exists(python):
        if subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True).returncode != 0:
            return None
    if not has_reference(python):
        subprocess.run([python, "-m", "pip", "install", "--quiet", "safetensors", "numpy"], capture_output=True,
                       timeout=100)
    return python if has_reference(python) else None


def own_reading(path):
    """The tensors of a file by name: dtype, shape, bytes; read without the reference."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length:]
    return {name: (info["dtype"], info["shape"], data[slice(*info["data_offsets"])]) for name, info in header.items()}


def check(path):
    from safetensors import deserialize

    with open(path, "rb") as file:
        found = {name: (info["dtype"], list(info["shape"]), bytes(info["data"]))
                 for name, info in deserialize(file.read())}
    if found != own_reading(path):
        sys.exit(f"{path}: the reference reads other tensors")
    for name, (dtype, shape, data) in found.items():
        bits = ITEM_BITS.get(dtype, 0)
        for extent in shape:
            bits *= extent
        if dtype in ITEM_BITS and len(data) * 8 != bits:
            sys.exit(f"{path}: tensor '{name}' has {len(data)} bytes")
    print(f"{path}: {len(found)} tensors")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    venv, files = sys.argv[1], sys.argv[2:]
    try:
        python = find_python(venv)
    except subprocess.TimeoutExpired:
        python = None
    if python is None:
        print("SKIPPED: the Python package 'safetensors' is not installed and cannot be installed")
        sys.exit(SKIPPED)
    if python != sys.executable:
        os.execv(python, [python, os.path.abspath(__file__), venv, *files])
    for path in files:
        check(path)


if __name__ == "__main__":
    main()
