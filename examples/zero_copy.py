"""One memory, three libraries: arrays of NumPy's, tensors of PyTorch's and of hologram's that are views of one another.

python examples/zero_copy.py --backend cpu prints who sees whose changes. A GPU of its own memory needs one copy each
way between it and NumPy; PyTorch's device "hologram" and hologram's tensors share memory everywhere.
"""

from __future__ import annotations

import numpy as np
import torch

import hologram as hg
import hologram_torch.module  # it makes the device
from hologram.demo.gallery import run
from hologram_torch.utils import buffer_to_tensor, tensor_to_buffer


def main() -> None:
    hologram_torch.module.set_backend(hg.default_executor().backend)
    executor = hologram_torch.module.executor()

    ours = executor.zeros((2, 3))
    theirs = buffer_to_tensor(ours)  # PyTorch's, on the device "hologram"
    theirs[0] += 1  # by PyTorch's kernels for it, which are hologram's
    ours[:, 2] = 5
    print("hologram and PyTorch share:", theirs.tolist() == ours.tolist() == [[1, 1, 5], [0, 0, 5]])
    buffer = tensor_to_buffer(executor, theirs)
    print("and have one buffer:", hg.sum(executor.as_tensor(buffer)).item() == theirs.sum().item() == 12)

    if executor.limits.host_resident:
        array = ours.to_numpy(copy=False)
        array[1, 0] = 7  # by the host
        print("NumPy writes into it too:", ours[1, 0].item() == theirs[1, 0].item() == 7)
        on_host = torch.from_dlpack(ours)  # a tensor of PyTorch's CPU
        on_host.mul_(2)
        print("and PyTorch on the CPU:", array.tolist() == [[2, 2, 10], [14, 0, 10]])
        there = np.arange(4096, dtype=np.float32)
        print(
            "and arrays come in as they are:",
            np.shares_memory(hg.from_dlpack(there).to_numpy(copy=False), there),
        )
    else:
        print("NumPy gets a copy:", np.array_equal(ours.to_numpy(), theirs.cpu().numpy()))


if __name__ == "__main__":
    run(main)
