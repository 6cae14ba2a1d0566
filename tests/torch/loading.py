"""A process of its own that loads a folder's weights onto the device and says what memory that took, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import hologram_torch  # noqa: F401


def memory(field: str) -> int:
    """Bytes that the process has: VmRSS now, VmHWM at most so far. (ru_maxrss begins with the parent's.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


def loaded(folder: Path, way: str, dtype: str) -> dict[str, Any]:
    if way == "from_pretrained":
        return dict(MODELS.from_pretrained(folder, device_map="hologram", dtype=dtype).state_dict())
    found: dict[str, Any] = {}
    for shard in sorted(folder.glob("*.safetensors")):
        found |= load_file(shard, device=torch.accelerator.current_device_index())
    return found


if __name__ == "__main__":
    if sys.argv[2] == "from_pretrained":
        from tests.torch.test_models import transformers  # takes longer to import than all else here

        MODELS = transformers().LlamaForCausalLM
    (torch.zeros(1 << 20, device="hologram") + 1).sum().item()
    before = memory("VmRSS")
    weights = loaded(Path(sys.argv[1]), *sys.argv[2:])
    grown = memory("VmHWM") - before
    sums = {n: x.double().sum().item() for n, x in weights.items()}
    print(
        json.dumps(
            {"grown": grown, "sums": sums, "devices": sorted({str(x.device) for x in weights.values()})}
        )
    )
