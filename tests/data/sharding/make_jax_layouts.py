# SPDX-License-Identifier: Apache-2.0
"""Writes which boxes JAX gives the ranks of a mesh: a table that our shardings are compared with. Needs jax, on any machine.

Usage: make_jax_layouts.py > jax_layouts.txt

A line for each case: mesh|rule|shape|box of rank 0|box of rank 1|…; a box is begin:end for each dimension. The rule is the
PartitionSpec: dimensions joined by ";", their axes (d0, d1, …) by ",".
"""

import itertools
import os


def shown(values):
    return "x".join(str(value) for value in values)


def shown_box(slices):
    return ",".join(f"{begin}:{end}" for begin, end, _ in slices)


def jax_layouts():
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy

    print(f"# What JAX {jax.__version__} says (NamedSharding.devices_indices_map); see make_jax_layouts.py.")
    devices = numpy.array(jax.devices())
    for mesh in [(1,), (2,), (8,), (2, 4), (4, 2), (2, 2, 2)]:
        axes = [f"d{i}" for i in range(len(mesh))]
        count = int(numpy.prod(mesh))
        named = jax.sharding.Mesh(devices[:count].reshape(mesh), axes)
        for shape in [(8,), (16, 8), (8, 16, 3)]:
            for spec in specs(axes, len(shape)):
                sharding = jax.sharding.NamedSharding(named, jax.sharding.PartitionSpec(*[d or None for d in spec]))
                try:
                    held = sharding.devices_indices_map(shape)
                except ValueError:
                    continue  # JAX divides evenly or not at all.
                boxes = []
                for device in devices[:count]:
                    boxes.append(shown_box(s.indices(n) for s, n in zip(held[device], shape)))
                rule = ";".join(",".join(axes_of) for axes_of in spec)
                print("|".join([shown(mesh), rule, shown(shape), *boxes]))


def specs(axes, dimensions):
    """All ways to give each axis to a dimension or to none; several to one in both orders."""
    for places in itertools.product(range(-1, dimensions), repeat=len(axes)):
        for order in (axes, axes[::-1]):
            spec = [tuple(axis for axis in order if places[axes.index(axis)] == d) for d in range(dimensions)]
            if order is axes or any(len(axes_of) > 1 for axes_of in spec):
                yield spec


if __name__ == "__main__":
    jax_layouts()
