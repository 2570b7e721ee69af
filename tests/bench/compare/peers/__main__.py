# SPDX-License-Identifier: Apache-2.0
"""Runs one operation of one peer in this process: `python -m peers save dcp --dir D --pool FILE ...`."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import logging
import os
import pathlib
import sys
import tempfile
import warnings

from peers.operations import OPERATIONS
from peers.peer import Peer
from peers.workload import Workload


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="peers", description=__doc__)
    parser.add_argument("operation", choices=[*OPERATIONS, "probe"])
    parser.add_argument("peer", help="dcp, orbax, safetensors, tensorstore or torchsnapshot")
    parser.add_argument("--workload", default="w1", help="a name for the report")
    parser.add_argument("--dir", type=pathlib.Path, help="where checkpoints go")
    parser.add_argument("--pool", type=pathlib.Path, help="256 MiB of values, made by cairn_bench")
    for option, value in (
        ("count", 40),
        ("rows", 6400),
        ("cols", 4096),
        ("per-layer", 4),
        ("saves", 2),
        ("step", 1),
        ("keep", 3),
    ):
        parser.add_argument(f"--{option}", type=int, default=value)
    parser.add_argument("--variant", default="default")
    return parser.parse_args()


def _probe(peer: type[Peer]) -> None:
    versions = {name: importlib.metadata.version(name) for name in peer.distributions}
    print(json.dumps({"op": "probe", "versions": versions}), flush=True)


def _run(peer_class: type[Peer], arguments: argparse.Namespace) -> None:
    numbers = (
        arguments.count,
        arguments.rows,
        arguments.cols,
        arguments.per_layer,
        arguments.saves,
        arguments.step,
        arguments.keep,
    )
    workload = Workload(arguments.workload, arguments.dir.resolve(), arguments.pool, *numbers)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=workload.directory) as scratch:
        peer = peer_class(arguments.variant, pathlib.Path(scratch))
        for line in OPERATIONS[arguments.operation](peer, workload):
            head = {"workload": workload.name, "variant": arguments.variant, "peer": arguments.peer}
            print(json.dumps({**line, **head}), flush=True)
        peer.close()


def main() -> int:
    arguments = _arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    peer = importlib.import_module(f"peers.{arguments.peer}_peer").PEER
    if arguments.operation == "probe":
        _probe(peer)
    else:
        _run(peer, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
