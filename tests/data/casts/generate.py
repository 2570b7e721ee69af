# SPDX-License-Identifier: Apache-2.0
"""Writes the tables that tests/array/cast_test.cpp compares with: see README.md.

Needs numpy and ml_dtypes. Usage: python generate.py [FOLDER]
"""

import csv
import math
import pathlib
import sys
from fractions import Fraction

import ml_dtypes
import numpy as np

FORMATS = {
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
    "F8_E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "F8_E8M0": ml_dtypes.float8_e8m0fnu,
    "F6_E2M3": ml_dtypes.float6_e2m3fn,
    "F6_E3M2": ml_dtypes.float6_e3m2fn,
    "F4": ml_dtypes.float4_e2m1fn,
}
HALVES = {"F16": np.float16, "BF16": ml_dtypes.bfloat16}
BITS = {"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "F16": 16, "BF16": 16}
FNV_OFFSET, FNV_PRIME, WORD = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1


def fnv(words):
    """FNV-1a over 32-bit words, one step a word."""
    value = FNV_OFFSET
    for word in words:
        value = ((value ^ int(word)) * FNV_PRIME) & WORD
    return value


def canonical(values):
    """The bits of float32 values, every NaN as 0x7fc00000: payloads are not compared."""
    values = np.asarray(values, dtype=np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def patterns(name, dtype):
    bits = BITS.get(name, 8)
    return np.arange(1 << bits, dtype=np.uint16 if bits == 16 else np.uint8).view(dtype)


def write_decode(folder):
    """Every pattern of the 8-bit and smaller types as a float32."""
    with open(folder / "decode.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["dtype", "pattern", "float32"])
        for name, dtype in FORMATS.items():
            for pattern, bits in enumerate(canonical(patterns(name, dtype).astype(np.float32))):
                rows.writerow([name, f"{pattern:02x}", f"{bits:08x}"])


def encode_inputs(name, dtype):
    """Values, midpoints between neighbours, the float32 on each side of both, and what lies beyond."""
    decoded = patterns(name, dtype).astype(np.float64)
    finite = np.unique(decoded[np.isfinite(decoded)])
    middles = (finite[:-1] + finite[1:]) / 2
    largest = finite[-1]
    # Half a step past the largest value, where overflow begins, and farther.
    step = finite[-1] - finite[-2]
    beyond = [largest + step / 4, largest + step / 2, largest + step, 2 * largest, 1e30, 3.4e38, math.inf]
    beyond += [-value for value in beyond] + [1e-45, -1e-45, 1e-40, 1.1754943e-38, 0.0, -0.0]
    exact = np.concatenate([finite, middles, beyond]).astype(np.float32)
    around = [exact, np.nextafter(exact, np.float32(np.inf)), np.nextafter(exact, np.float32(-np.inf))]
    return np.unique(np.concatenate(around).view(np.uint32))


def write_encode(folder):
    """float32 to the 8-bit and smaller types."""
    with open(folder / "encode.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["dtype", "float32", "pattern"])
        for name, dtype in FORMATS.items():
            inputs = encode_inputs(name, dtype)
            if name == "F8_E8M0":
                # ml_dtypes 0.6.0 rounds these subnormals up to 2^-126, though 2^-127 is nearer.
                inputs = inputs[(inputs <= 0x00400000) | (inputs >= 0x00600000)]
            outputs = inputs.view(np.float32).astype(dtype).view(np.uint8)
            for bits, pattern in zip(inputs, outputs):
                rows.writerow([name, f"{bits:08x}", f"{pattern:02x}"])


def spread(count):
    """float32 bit patterns all over the range: multiples of a large odd number."""
    return (np.arange(count, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)


def half_inputs(dtype):
    """For every pattern h: the midpoint of h and h + 1 where both are finite and of one sign, and its neighbours."""
    lower = np.concatenate([np.arange(0x7FFF), np.arange(0x8000, 0xFFFF)]).astype(np.uint16)
    low = lower.view(dtype).astype(np.float64)
    high = (lower + 1).astype(np.uint16).view(dtype).astype(np.float64)
    keep = np.isfinite(low) & np.isfinite(high)
    middle = ((low[keep] + high[keep]) / 2).astype(np.float32)
    bits = middle.view(np.uint32)
    return np.stack([bits - 1, bits, bits + 1], axis=1).reshape(-1)


def write_hashes(folder):
    """The 16-bit types, whose tables would be too long: hashes of blocks of results."""
    with open(folder / "hashes.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["what", "dtype", "block", "fnv1a"])

        def write(what, name, words, block):
            for number, begin in enumerate(range(0, len(words), block)):
                rows.writerow([what, name, number, f"{fnv(words[begin:begin + block]):016x}"])

        for name, dtype in HALVES.items():
            write("decode", name, canonical(patterns(name, dtype).astype(np.float32)), 1024)
            for what, inputs in (("spread", spread(1 << 18)), ("midpoint", half_inputs(dtype))):
                values = inputs.view(np.float32)
                outputs = values.astype(dtype).view(np.uint16)
                # NaNs as 0x7fff: payloads are not compared.
                write(what, name, np.where(np.isnan(values), np.uint16(0x7FFF), outputs), 4096)


def nearest(value, finite, largest, overflow):
    """The pattern of the exact value nearest to `value`, ties to the even pattern; by search, not by arithmetic."""
    if value > largest:
        return overflow
    low, high = 0, len(finite) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if finite[middle][0] <= value else (low, middle)
    below, above = value - finite[low][0], finite[high][0] - value
    if below == above:
        return min(finite[low], finite[high], key=lambda row: row[1] % 2)[1]
    return finite[low][1] if below < above else finite[high][1]


def write_wide(folder):
    """float64 and int64 to narrow types, where rounding first to float32 or float64 gives another result."""
    with open(folder / "wide.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["dtype", "from", "value", "pattern"])
        for name, dtype in {**HALVES, "F8_E4M3": FORMATS["F8_E4M3"], "F8_E5M2": FORMATS["F8_E5M2"]}.items():
            decoded = patterns(name, dtype).astype(np.float64)
            positive = np.isfinite(decoded) & ~np.signbit(decoded)
            finite = sorted((Fraction(float(decoded[p])), int(p)) for p in np.flatnonzero(positive))
            # One step past the largest finite value stands for what overflows when it is the nearest.
            step = finite[-1][0] - finite[-2][0]
            finite.append((finite[-1][0] + step, finite[-1][1] + 1))
            overflow = finite[-1][1]
            for index in range(0, len(finite) - 1, max(1, len(finite) // 60)):
                middle = (finite[index][0] + finite[index + 1][0]) / 2
                for shift in (-1, 0, 1):
                    value = math.nextafter(float(middle), math.inf * shift) if shift else float(middle)
                    pattern = nearest(Fraction(value), finite, finite[-1][0], overflow)
                    rows.writerow([name, "F64", value.hex(), f"{pattern:04x}"])
            for bit in range(12, 63):
                for low_bits in (2, 3, 5, 9, 13):
                    if bit <= low_bits:
                        continue
                    base = (1 << bit) + (1 << (bit - low_bits))
                    for value in (base - 1, base, base + 1):
                        pattern = nearest(Fraction(value), finite, finite[-1][0], overflow)
                        rows.writerow([name, "I64", str(value), f"{pattern:04x}"])


def main():
    np.seterr(all="ignore")  # Overflows and NaNs are what the tables are about.
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
    write_decode(folder)
    write_encode(folder)
    write_hashes(folder)
    write_wide(folder)


if __name__ == "__main__":
    main()
