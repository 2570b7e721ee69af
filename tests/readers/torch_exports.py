# SPDX-License-Identifier: Apache-2.0
"""Reads what `cairn export` makes of torch's files with safetensors and torch: `torch_exports.py CAIRN DATA`.

DATA is the folder with `torch`, `torch_more` and `megatron`. Every tensor that their expected.json name has its dtype,
shape and bytes in all forms of export, by safetensors, by torch's reader of Hugging Face's folders, by torch.load with
weights_only and by torch.distributed.checkpoint. Values of training states are what they were.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

try:
    import safetensors.torch
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemReader
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

NOT_BY_TORCH = "dtypes.pt"  # Its reader of folders has no F4, and export refuses it for a distributed checkpoint.
WITH_VALUES = ("state_dict.pt", "training.pt")


def sources(data):
    """Yields (path, {name: what is said of the tensor}); names are those of export."""
    expected = {folder: json.loads((data / folder / "expected.json").read_text()) for folder in ("torch", "torch_more", "megatron")}
    yield data / "torch/state_dict.pt", {f"model/{name}": each for name, each in expected["torch"]["state_dict.pt"]["model"].items()}
    yield data / "torch/dcp", expected["torch"]["dcp"]["tensors"]
    for name, tensors in expected["torch_more"]["pt"].items():
        said = {each: about for each, about in tensors.items() if isinstance(about, dict) and "sha256" in about} if isinstance(tensors, dict) else {}
        if said:
            yield data / "torch_more" / name, said
    for name, tensors in expected["torch_more"]["dcp"].items():
        yield data / "torch_more" / name, tensors
    for name, each in expected["megatron"]["sets"].items():
        yield data / "megatron" / name, each["tensors"]


def about(tensor):
    flat = tensor.contiguous().reshape(-1).view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return str(tensor.dtype).removeprefix("torch."), list(tensor.shape), hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def compare(source, tensors, said):
    for name, each in said.items():
        if name not in tensors:
            sys.exit(f"{source}: '{name}' is not among {sorted(tensors)}")
        if about(tensors[name]) != (each["dtype"], each["shape"], each["sha256"]):
            sys.exit(f"{source}: '{name}' is {about(tensors[name])}, not {each}")


def load_folder(folder):
    described = HuggingFaceStorageReader(folder).read_metadata().state_dict_metadata
    state = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in described.items()}
    dcp.load(state, storage_reader=HuggingFaceStorageReader(folder), no_dist=True)
    return state


def load_distributed(folder):
    described = FileSystemReader(folder).read_metadata().state_dict_metadata
    state = {name: torch.empty(each.size, dtype=each.properties.dtype) for name, each in described.items() if hasattr(each, "size")}
    dcp.load(state, storage_reader=FileSystemReader(folder), no_dist=True)
    return state


def leaves(node, path=()):
    """Yields (path, leaf) of a state dict."""
    if isinstance(node, dict):
        entries = node.items()
    elif isinstance(node, (list, tuple)):
        entries = enumerate(node)
    else:
        yield "/".join(path), node
        return
    for key, child in entries:
        yield from leaves(child, (*path, str(key)))


def pointed(tensors):
    """Gives names as torch.distributed.checkpoint joins them."""
    return {name.replace("/", "."): each for name, each in tensors.items()}


def compare_values(source, loaded):
    found = dict(leaves(loaded))
    for path, value in leaves(torch.load(source, weights_only=True)):
        if type(value) in (bool, int, float, str, bytes, type(None)) and repr(found.get(path, "missing")) != repr(value):
            sys.exit(f"{source}: '{path}' is {found.get(path, 'missing')!r}, not {value!r}")


def compare_with_torch(cairn, source, target, said):
    """Exports to the forms of torch, and has torch read both."""
    for form, path in (("torch", f"{target}.pt"), ("dcp", f"{target}.dcp")):
        if form == "dcp" and source.name == NOT_BY_TORCH:
            continue
        done = subprocess.run([cairn, "export", source, path, "--format", form], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{source}: {done.stderr}")
        if form == "dcp":
            compare(source, pointed(load_distributed(path)), pointed(said))
            continue
        loaded = torch.load(path, weights_only=True)
        compare(source, {name: each for name, each in leaves(loaded) if isinstance(each, torch.Tensor)}, said)
        if source.name in WITH_VALUES:
            compare_values(source, loaded)


def main(cairn, data):
    files = tensors = 0
    with tempfile.TemporaryDirectory() as made:
        for source, said in sources(Path(data)):
            target = Path(made) / source.name
            for form, path in (("hf", str(target)), ("safetensors", f"{target}.safetensors")):
                done = subprocess.run([cairn, "export", source, path, "--format", form], capture_output=True, text=True, check=False)
                if done.returncode:
                    sys.exit(f"{source}: {done.stderr}")
                if form == "hf":
                    if source.name != NOT_BY_TORCH:
                        compare(source, load_folder(path), said)
                    path = f"{path}/model.safetensors"
                compare(source, safetensors.torch.load_file(path), said)
            compare_with_torch(cairn, source, target, said)
            files += 1
            tensors += len(said)
    print(f"torch: {tensors} tensors of {files} of torch's and Megatron's files, exported: as they were")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # Of torch.distributed, which is not there.
    main(*sys.argv[1:])
