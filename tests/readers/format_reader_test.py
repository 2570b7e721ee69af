# SPDX-License-Identifier: Apache-2.0
"""The golden files as a reader that was written from docs/format.md alone sees them: `format_reader_test.py TEST_DATA`."""

import os
import shutil
import struct
import sys
import tempfile
import unittest

import format_reader
from format_reader import Array, read, read_columns, read_value, text_of

DATA = sys.argv.pop(1)
CHECKPOINT = os.path.join(DATA, "golden", "checkpoint-v1")
COMPLEX = os.path.join(DATA, "golden", "complex-v1")
ALIASES = os.path.join(DATA, "golden", "aliases-v1")
RUN = os.path.join(DATA, "golden", "run-v1")
CHUNKED = os.path.join(DATA, "golden", "chunked-v1")


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


class GoldenFiles(unittest.TestCase):
    def test_a_checkpoint_has_the_values_that_were_saved(self):
        items = read(CHECKPOINT)
        state = items["state"]

        self.assertEqual(list(items), ["state", "config", "settings", "Mask/1"])
        self.assertEqual(items["Mask/1"], Array("I32", (3,), struct.pack("<3i", 1, 0, -1)))
        self.assertEqual(items["config"], {"width": 512, "layers": [64, 128], "name": None})
        self.assertEqual(items["settings"], ("google.protobuf.StringValue\n", b"\n\x04fast"))
        self.assertEqual(state["params"]["w"], Array("F32", (2, 3), floats(1, 2, 3, 4, 5, 6)))
        self.assertEqual(state["params"]["floats"]["BF16"], Array("BF16", (3,), b"\x00\x3f\x80\xbf\x00\x40"))
        self.assertEqual(state["integers"][0], Array("I8", (2,), b"\x80\x7f"))
        self.assertEqual(state["no elements"], Array("I32", (0, 4), b""))
        self.assertEqual(state["scalar"], Array("F64", (), struct.pack("<d", 0.1)))
        self.assertEqual(state["empty"], {"map": {}, "list": []})
        self.assertEqual(state["a/b"], {"": 1, "~": 2})
        rest = {"step": -7, "seed": 2**64 - 1, "rate": 0.5, "is_done": True, "note": "größer/重み", "nothing": None}
        self.assertEqual({name: state[name] for name in rest}, rest)

    def test_complex_numbers_are_pairs(self):
        state = read(COMPLEX)["state"]

        field = struct.pack("<24d", *(part for i in range(12) for part in (i, -0.1 * i)))
        self.assertEqual(state["field"], Array("C128", (3, 4), field))
        self.assertEqual(state["one"], Array("C128", (), struct.pack("<2d", 0.1, 1e300)))
        self.assertEqual(state["narrow"], Array("C64", (2,), floats(1, 2, 0, -0.5)))

    def test_an_array_has_several_names(self):
        state = read(ALIASES)["state"]

        embed = Array("F32", (3, 2), floats(1, 2, 3, 4, 5, 6))
        shared = Array("I32", (1,), struct.pack("<i", 7))
        norm = Array("F64", (1,), struct.pack("<d", 0.5))
        self.assertEqual(state, {"body": {"embed": embed, "norm": norm}, "head": embed, "layers": [shared, {"w": shared}, shared]})

    def test_a_message_has_chunks(self):
        name, chunks = read(CHUNKED)["settings"]

        # A google.protobuf.Struct: {"speed": "fast", "text": "xxx…"}.
        self.assertEqual(name, "google.protobuf.Struct\n")
        speed, text = b"\n\x0f\n\x05speed\x12\x06\x1a\x04fast", b"\n\x08\n\x04text\x12\x00"
        self.assertEqual(chunks, [([], "MESSAGE", speed + text), ([1, ("text",), 3], "BYTES", b"x" * 350000)])

    def test_a_run_has_its_steps_metrics_and_pins(self):
        steps = {int(name): read(os.path.join(RUN, name)) for name in os.listdir(RUN) if name.isdigit()}
        annotations = format_reader.read_manifest(os.path.join(RUN, "90"))["annotations"]["cairn.training"]

        self.assertEqual({step: items["state"]["step"] for step, items in steps.items()}, {90: 90, 100: 100})
        self.assertEqual(steps[90]["state"]["w"], Array("F32", (2,), floats(0.5, -1)))
        self.assertEqual(annotations, {"step": 90, "metrics": {"loss": 0.5, "accuracy": 0.875}})
        self.assertEqual(os.listdir(os.path.join(RUN, ".cairn-pins")), ["90"])

    def test_an_index_has_slices(self):
        with open(os.path.join(DATA, "formats", "index.fb"), "rb") as file:
            columns = read_columns(file.read())
        names = [text_of(columns, "names", "name_ends", number) for number in range(len(columns["kinds"]))]
        where = names.index("params/w")

        self.assertIn("a~1b/~2", names)
        self.assertEqual(columns["kinds"][where], 1)
        rows = [bytes([value]) * (2 * 1024 * 4) for value in (1, 2)]  # Of the two slices, each in a file of its own.
        files = [text_of(columns, "file_names", "file_name_ends", number) for number in range(2)]
        contents = {name: bytes(4096) + data for name, data in zip(files, rows)}
        array = read_value(columns, 1, columns["values"][where], contents)
        self.assertEqual((array.dtype, array.shape, array.data), ("F32", (4, 1024), rows[0] + rows[1]))

    def test_a_data_file_that_contradicts_the_index_is_found(self):
        folder = os.path.join(CHECKPOINT, "state")
        files = {name: format_reader.read_file(os.path.join(folder, name)) for name in os.listdir(folder)}
        columns = read_columns(files["index.fb"])
        data = files["data-r00000-000.safetensors"]

        format_reader.check_tensors(columns, files)
        for right, wrong in ((b'"params/w"', b'"params/v"'), (b'"shape":[2,3]', b'"shape":[3,2]'), (b'"F64"', b'"I64"')):
            self.assertEqual(data.count(right), 1)
            with self.assertRaisesRegex(ValueError, "data-r00000-000.safetensors"):
                format_reader.check_tensors(columns, {**files, "data-r00000-000.safetensors": data.replace(right, wrong)})

    def test_each_altered_file_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "copy")
            shutil.copytree(CHECKPOINT, copy)
            paths = [os.path.join(where, name) for where, _, names in os.walk(copy) for name in names]
            self.assertGreater(len(paths), 8)
            for path in paths:
                data = format_reader.read_file(path)
                for at in {0, len(data) // 2, len(data) - 1}:
                    with open(path, "wb") as file:
                        file.write(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
                    with self.assertRaises(ValueError, msg=f"byte {at} of {path}"):
                        read(copy)
                with open(path, "wb") as file:
                    file.write(data)
            self.assertEqual(read(copy).keys(), read(CHECKPOINT).keys())


if __name__ == "__main__":
    unittest.main()
