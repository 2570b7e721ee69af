# SPDX-License-Identifier: Apache-2.0
"""Reads checkpoints by what docs/format.md says, with Python's standard library and libxxhash alone: `format_reader.py CHECKPOINT`.

`read(path)` verifies every byte and returns {name: value}. An array is an `Array`: dtype, shape, and its bytes.
"""

import ctypes
import ctypes.util
import json
import math
import os
import struct
import sys
from typing import NamedTuple

CHUNK = 1 << 20
BITS = {"BOOL": 8, "U8": 8, "U16": 16, "U32": 32, "U64": 64, "I8": 8, "I16": 16, "I32": 32, "I64": 64, "F16": 16, "BF16": 16,
        "F32": 32, "F64": 64, "C64": 64, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F8_E8M0": 8,
        "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C128": 128}  # In the order of their numbers, which count from 1.
DTYPES = [None, *BITS]
COLUMNS = [("version", None), ("names", "B"), ("name_ends", "I"), ("kinds", "B"), ("values", "Q"), ("dtypes", "B"), ("dims", "Q"),
           ("dims_ends", "I"), ("slice_ends", "I"), ("slice_files", "I"), ("slice_offsets", "Q"), ("boxes", "Q"), ("box_ends", "I"),
           ("file_names", "B"), ("file_name_ends", "I"), ("blobs", "B"), ("blob_ends", "I"), ("layout_numbers", "I"), ("layouts", "B"),
           ("layout_ends", "I"), ("policy", "B"), ("policy_ends", "I"), ("file_policies", "I"), ("aliases", "B"), ("alias_ends", "I")]
REQUIRED = 17  # Columns; the others may be missing.


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_xxhash = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
_xxhash.XXH3_128bits.restype = Hash128
_xxhash.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh64(data):
    return _xxhash.XXH3_64bits(data, len(data))


def xxh128(data):
    value = _xxhash.XXH3_128bits(data, len(data))
    return value.high, value.low


def require(claim, what):
    if not claim:
        raise ValueError(what)


class Array(NamedTuple):
    dtype: str
    shape: tuple
    data: bytes


# The chain of hashes.

def read_file(path):
    with open(path, "rb") as file:
        return file.read()


def read_manifest(path):
    commit = read_file(os.path.join(path, "COMMIT"))
    require(len(commit) == 80 and commit[:8] == b"CAIRNCMT", "COMMIT is not one")
    require(struct.unpack_from("<I", commit, 8) == (1,), "a version that this reader does not know")
    size, high, low = struct.unpack_from("<QQQ", commit, 32)
    require(struct.unpack_from("<Q", commit, 72)[0] == xxh64(commit[:72]), "COMMIT is damaged")
    text = read_file(os.path.join(path, "checkpoint.json"))
    require(len(text) == size and xxh128(text) == (high, low), "checkpoint.json is damaged")
    return json.loads(text)


def verified_files(path, manifest):
    """The bytes of all files by their paths."""
    tables, contents = {}, {}
    for entry in manifest["files"]:
        rank = entry.get("rank", 0)
        if rank not in tables:
            name = f".chunks/r{rank:05}.xxh3" if rank else "chunks.xxh3"
            tables[rank] = [read_file(os.path.join(path, name)), 0]
        table, at = tables[rank]
        data = read_file(os.path.join(path, entry["path"]))
        require(len(data) == entry["size"], f"{entry['path']} has another size")
        end = at + 8 * math.ceil(len(data) / CHUNK)
        hashes = table[at:end]
        root = xxh128(hashes + struct.pack("<Q", len(data)))
        require("%016x%016x" % root == entry["xxh3"], f"the chunk hashes of {entry['path']} are damaged")
        for number in range(len(hashes) // 8):
            chunk = data[number * CHUNK : (number + 1) * CHUNK]
            require(struct.unpack_from("<Q", hashes, 8 * number)[0] == xxh64(chunk), f"chunk {number} of {entry['path']} is damaged")
        tables[rank][1] = end
        contents[entry["path"]] = data
    for rank, (table, at) in tables.items():
        require(at == len(table), f"the chunk table of rank {rank} has more than its files")
    return contents


# Arrays and values.

def read_columns(data):
    require(data[4:8] == b"CRNI", "not an index")
    table = struct.unpack_from("<I", data, 0)[0]
    vtable = table - struct.unpack_from("<i", data, table)[0]
    vtable_bytes = struct.unpack_from("<H", data, vtable)[0]
    columns = {}
    for number, (name, code) in enumerate(COLUMNS):
        slot = 4 + 2 * number
        offset = struct.unpack_from("<H", data, vtable + slot)[0] if slot < vtable_bytes else 0
        if not offset:
            require(number >= REQUIRED, f"the index has no {name}")
            columns[name] = ()
            continue
        place = table + offset
        if code is None:
            columns[name] = struct.unpack_from("<I", data, place)[0]
            require(columns[name] == 1, "a version of the index that this reader does not know")
            continue
        vector = place + struct.unpack_from("<I", data, place)[0]
        count = struct.unpack_from("<I", data, vector)[0]
        columns[name] = struct.unpack_from(f"<{count}{code}", data, vector + 4)
    return columns


def run(columns, column, ends, number):
    begin = columns[ends][number - 1] if number else 0
    return columns[column][begin : columns[ends][number]]


def text_of(columns, column, ends, number):
    return bytes(run(columns, column, ends, number)).decode()


def copy_box(target, shape, bits, box, data):
    """Puts the dense bytes of a box into those of the whole array."""
    offsets, extents = box[: len(shape)], box[len(shape) :]
    width = (extents[-1] if extents else 1) * bits // 8
    rows = math.prod(extents[:-1])
    for row in range(rows):
        index, rest = 0, row
        places = []
        for extent, offset in zip(reversed(extents[:-1]), reversed(offsets[:-1])):
            places.append(offset + rest % extent)
            rest //= extent
        for extent, place in zip(shape[:-1], reversed(places)):
            index = index * extent + place
        begin = (index * shape[-1] + offsets[-1]) * bits // 8 if shape else 0
        target[begin : begin + width] = data[row * width : (row + 1) * width]


def read_header(data):
    """The tensors of a data file, and where its data section starts."""
    size = struct.unpack_from("<Q", data, 0)[0]
    require(size <= len(data) - 8 and data[8:9] == b"{", "not a data file")
    return json.loads(data[8 : 8 + size]), 8 + size


def check_tensors(columns, files):
    """Whether the headers of the data files say the same as the index of where each slice lies, under which name."""
    names = {columns["values"][i]: text_of(columns, "names", "name_ends", i) for i, kind in enumerate(columns["kinds"]) if kind == 1}
    seen = {}
    for number, name in names.items():
        name = "~__metadata__" if name == "__metadata__" else name
        dtype = DTYPES[columns["dtypes"][number]]
        shape = run(columns, "dims", "dims_ends", number)
        further = {}
        for each in range(columns["slice_ends"][number - 1] if number else 0, columns["slice_ends"][number]):
            file = text_of(columns, "file_names", "file_name_ends", columns["slice_files"][each])
            tensors, start = read_header(files[file])
            suffix = f"~s{further[file]}" if further.setdefault(file, 0) else ""
            further[file] += 1
            require(name + suffix in tensors, f"{file} has no tensor {name + suffix}")
            tensor = tensors[name + suffix]
            box = run(columns, "boxes", "box_ends", each)
            extents = list(box[len(shape) :] or shape)
            size = math.prod(extents) * BITS[dtype] // 8
            begin = columns["slice_offsets"][each] - start
            as_pairs = dtype == "C128"  # For which the files have F64, and one more axis.
            expected = {"dtype": "F64" if as_pairs else dtype, "shape": extents + [2] * as_pairs, "data_offsets": [begin, begin + size]}
            require(tensor == expected, f"{name + suffix} of {file} is {tensor}, not as the index says")
            seen.setdefault(file, set()).add(name + suffix)
    for file, data in files.items():
        if file.endswith(".safetensors"):
            require(read_header(data)[0].keys() - {"__metadata__"} == seen.get(file, set()), f"{file} has tensors that the index has not")


def read_array(columns, number, files):
    dtype = DTYPES[columns["dtypes"][number]]
    shape = run(columns, "dims", "dims_ends", number)
    data = bytearray(math.prod(shape) * BITS[dtype] // 8)
    first = columns["slice_ends"][number - 1] if number else 0
    for each in range(first, columns["slice_ends"][number]):
        box = run(columns, "boxes", "box_ends", each) or (*[0] * len(shape), *shape)
        size = math.prod(box[len(shape) :]) * BITS[dtype] // 8
        name = text_of(columns, "file_names", "file_name_ends", columns["slice_files"][each])
        begin = columns["slice_offsets"][each]
        copy_box(data, shape, BITS[dtype], box, files[name][begin : begin + size])
    return Array(dtype, tuple(shape), bytes(data))


def read_value(columns, kind, value, files):
    if kind == 1:
        return read_array(columns, value, files)
    if kind in (6, 7):
        blob = bytes(run(columns, "blobs", "blob_ends", value))
        return blob.decode() if kind == 6 else blob
    return {2: lambda: struct.unpack("<q", struct.pack("<Q", value))[0], 3: lambda: value,
            4: lambda: struct.unpack("<d", struct.pack("<Q", value))[0], 5: lambda: value != 0,
            8: lambda: None, 9: dict, 10: lambda: [None] * value}[kind]()


def read_aliases(columns):
    """Further names of arrays, each with the number of its array."""
    begin = 0
    for end, number in zip(columns["alias_ends"][::2], columns["alias_ends"][1::2]):
        yield bytes(columns["aliases"][begin:end]).decode(), number
        begin = end


def unescape(key):
    return "" if key == "~2" else key.replace("~1", "/").replace("~0", "~")


def place(tree, path, value):
    """Puts a value at its path; lists come before what is in them, as names are sorted."""
    *keys, last = path.split("/")
    for key in keys:
        if isinstance(tree, list):
            number = int(key)
            tree[number] = {} if tree[number] is None else tree[number]
            tree = tree[number]
        else:
            tree = tree.setdefault(unescape(key), {})
    if isinstance(tree, list):
        tree[int(last)] = value
    else:
        tree[unescape(last)] = value


def read_tree(folder, contents):
    files = {os.path.basename(path): data for path, data in contents.items() if os.path.dirname(path) == folder}
    columns = read_columns(files["index.fb"])
    check_tensors(columns, files)
    tree = {}
    for number, (kind, value) in enumerate(zip(columns["kinds"], columns["values"])):
        path = text_of(columns, "names", "name_ends", number)
        found = read_value(columns, kind, value, files)
        if path == "":
            return found
        place(tree, path, found)
    for path, number in read_aliases(columns):
        place(tree, path, read_array(columns, number, files))
    return tree


def fields_of(message):
    """Yields number and value of each field in wire format; those that have a length as bytes."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            if size > len(message) - at:
                raise ValueError("a field ends behind its message")
            at += size
            yield tag >> 3, message[at - size : at]
        else:
            raise ValueError(f"a field of wire type {tag & 7}")


def read_tag(field_index):
    """Returns a field as a number, an index as [number], and a key as (key,)."""
    ((kind, value),) = fields_of(field_index)
    if kind == 2:
        ((key_kind, key),) = fields_of(value)
        return (key.decode() if key_kind == 1 else bool(key) if key_kind == 2 else key - (key >> 63 << 64) if key_kind > 4 else key,)
    return [value] if kind == 3 else value


def place_chunks(node, path):
    """Yields path and number of each chunk in the tree, in the order of merging."""
    fields = []
    for number, value in fields_of(node):
        if number == 1:
            yield path, value
        elif number == 2:
            tags = [read_tag(each) for field, each in fields_of(value) if field == 1]
            fields.append((tags, next((each for field, each in fields_of(value) if field == 3), b"")))

    def order(field):
        tags, message = field
        kinds = [(isinstance(tag, list), isinstance(tag, tuple), tag) for tag in tags]
        return kinds, next((value for number, value in fields_of(message) if number == 1), 0)

    for tags, message in sorted(fields, key=order):
        yield from place_chunks(message, [*path, *tags])


def read_chunks(metadata, data):
    """Returns path, type and bytes of each chunk of a message."""
    infos, tree = [], b""
    for number, value in fields_of(metadata):
        if number == 1 and dict(fields_of(value)).get(2, 0) > 0:
            raise ValueError("the chunks are for later readers")
        if number == 2:
            infos.append(dict(fields_of(value)))
        elif number == 3:
            tree = value
    chunks = []
    for path, number in place_chunks(tree, []):
        begin, size = infos[number].get(3, 0), infos[number].get(2, 0)
        if begin + size > len(data):
            raise ValueError(f"chunk {number} ends behind its file")
        chunks.append((path, {1: "MESSAGE", 2: "BYTES"}[infos[number][1]], data[begin : begin + size]))
    return chunks


def read(path):
    manifest = read_manifest(path)
    contents = verified_files(path, manifest)
    items = {}
    for item in manifest["checkpointables"]:
        folder, handler = item["directory"], item["handler"]
        if handler in ("cairn.tree/1", "cairn.array/1", "cairn.sharded_array/1"):
            items[item["name"]] = read_tree(folder, contents)
        elif handler == "cairn.json/1":
            items[item["name"]] = json.loads(contents[f"{folder}/data.json"])
        elif handler == "cairn.proto/1":
            items[item["name"]] = (contents[f"{folder}/type.txt"].decode(), contents[f"{folder}/message.binpb"])
        elif handler == "cairn.proto/2":
            chunks = read_chunks(contents[f"{folder}/chunks.binpb"], contents[f"{folder}/message.chunks"])
            items[item["name"]] = (contents[f"{folder}/type.txt"].decode(), chunks)
        else:
            items[item["name"]] = {each: data for each, data in contents.items() if each.startswith(folder + "/")}
    return items


if __name__ == "__main__":
    for name, value in read(sys.argv[1]).items():
        print(f"{name}: {value}")
