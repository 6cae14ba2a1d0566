"""How results of PyTorch's operator database lie on the device, beside those of the host, and gradients and outputs.

python -m tests.conformance.strides [--backend cpu|webgpu] [--match TEXT] [--part K/N]

Arguments are laid out in three ways: as the database has them, images and volumes in channels_last, and with axes in
the order of a transposed tensor. `nodes.py` compares strides of the first in every dtype; here it is f32.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.database import op_db
from tests.conformance.nodes import Apart, Node, apart, lies, line

SAMPLES = 4
# Entries whose results lie otherwise, with the reason.
APART = {
    "addr": "an empty output, which PyTorch composes on every device but its own, becomes rows",
    "nn.functional.conv3d": "the host keeps channels_last_3d by sizes and threads, as oneDNN is quicker; we always",
    "nn.functional.conv_transpose3d": "as conv3d",
    "nn.functional.scaled_dot_product_attention": "gradients lie as operands do, as in CUDA's fused attention",
    "nn.functional.cross_entropy": "the gradient of a transposed input lies as that, where the host's is row by row",
    "sparse.mm": "tensors are strided",
    "sparse.sampled_addmm": "tensors are strided",
    "tensor_split": "PyTorch refuses positions that are not on the host, as on every device",
    "to_sparse": "tensors are strided",
    "chalf": "no device has torch.complex32",
}  # fmt: skip


def _in_channels_last(x: torch.Tensor) -> torch.Tensor:
    kept = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim)
    return x if kept is None else x.to(memory_format=kept)


def _transposed(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.ndim > 1 else x


FORMS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (lambda x: x, _in_channels_last, _transposed)


def forms(sample: Any) -> Iterator[Any]:
    """The arguments of a sample, laid out in each way that differs."""
    met = []
    for form in FORMS:
        tree = pytree.tree_map_only(torch.Tensor, lambda x, f=form: f(x.detach()), arguments(sample))
        strides = [x.stride() for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]
        if strides not in met:
            met.append(strides)
            yield tree


def arguments(sample: Any) -> Any:
    return (sample.input, sample.args, sample.kwargs)


def _there(x: Any, device: str) -> Any:
    if isinstance(x, torch.Tensor):
        return x.detach().clone().to(device)
    return torch.device(device) if isinstance(x, torch.device) or x == "cpu" else x


def found(node: Node, given: Any, wanting: list[bool], device: str) -> list[Any]:
    """The strides of results, of gradients, and of an empty output that takes the result."""
    first, args, kwargs = pytree.tree_map(lambda x: _there(x, device), given)
    leaves = [x for x in pytree.tree_leaves((first, args, kwargs)) if isinstance(x, torch.Tensor)]
    inputs = [x.requires_grad_() for x, wants in zip(leaves, wanting, strict=True) if wants]
    torch.manual_seed(0)
    results = [
        x for x in pytree.tree_leaves(node.entry.op(first, *args, **kwargs)) if isinstance(x, torch.Tensor)
    ]
    strides = [lies(x) for x in results]
    slopes = [x for x in results if x.requires_grad and x.is_floating_point()]
    if inputs and slopes:
        grown = torch.autograd.grad(slopes, inputs, list(map(torch.ones_like, slopes)), allow_unused=True)
        strides += map(lies, grown)
    if node.entry.supports_out and len(results) == 1:
        with torch.no_grad():
            out = torch.empty(0, dtype=results[0].dtype, device=device)
            strides.append(lies(node.entry.op(first, *args, **kwargs, out=out)))
    return strides


def differences(node: Node, device: str) -> Iterator[str]:
    """What lies otherwise on a device, in words."""
    if node.entry.name in APART or apart(node.entry) is Apart.DRAWS:
        return
    torch.manual_seed(0)
    samples = node.entry.sample_inputs("cpu", node.dtype, requires_grad=node.entry.supports_autograd)
    for number, sample in enumerate(itertools.islice(samples, SAMPLES)):
        leaves = [x for x in pytree.tree_leaves(arguments(sample)) if isinstance(x, torch.Tensor)]
        if any(x.layout != torch.strided for x in leaves):
            continue
        wanting = [x.requires_grad for x in leaves]
        for given in forms(sample):
            try:
                want = found(node, given, wanting, "cpu")
            except Exception:  # noqa: BLE001  (what the host refuses)
                continue
            try:
                got = found(node, given, wanting, device)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what was found)
                got = line(error)
            if got != want:
                lay = [x.stride() for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
                yield f"{node.name}, sample {number} of strides {lay}: {got}, {want} was expected"


def of_floats() -> Iterator[Node]:
    for entry in op_db:
        if torch.float32 in entry.supported_dtypes("cpu"):
            yield Node(entry, torch.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--match", default="")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th entry from the K-th on")
    arguments = parser.parse_args()

    import hologram_torch.module

    hologram_torch.module.set_backend(arguments.backend)
    warnings.simplefilter("ignore")
    part, parts = map(int, arguments.part.split("/"))
    nodes = [n for n in of_floats() if n.name.startswith(arguments.match)][part::parts]
    count = 0
    for node in nodes:
        for difference in differences(node, "hologram:0"):
            count += 1
            print(difference, flush=True)
    print(f"{len(nodes)} entries, {count} differences")


if __name__ == "__main__":
    main()
