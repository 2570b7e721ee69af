# SPDX-License-Identifier: Apache-2.0
"""Reads what `cairn export` makes of torch's files with safetensors: `torch_exports.py CAIRN DATA`.

DATA is the folder with `torch`, `torch_more` and `megatron`. Every tensor that their expected.json name has its dtype,
shape and bytes in both forms of export, and so it has when torch's reader of Hugging Face's folders loads it.
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
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

NOT_BY_TORCH = "dtypes.pt"  # Its reader of folders has no F4.


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
            files += 1
            tensors += len(said)
    print(f"torch: {tensors} tensors of {files} of torch's and Megatron's files, exported: as they were")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # Of torch.distributed, which is not there.
    main(*sys.argv[1:])
