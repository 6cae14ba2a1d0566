"""tinygrad's own decoder of GGUF files on its WEBGPU device (Dawn): seconds of each token."""

# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import sys
import time
from itertools import islice
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).parent))
import contenders.with_tinygrad  # noqa: F401  (chooses the device, before tinygrad is imported)
from tinygrad import nn

# Its wheel lacks the module of kernels for AMD's GPUs, which its decoder imports whatever the device is.
kernels = ModuleType("tinygrad.llm.kernels.amd")
vars(kernels).update(
    Linear=nn.Linear,
    gated_delta_prefill=None,
    flash_attention=None,
    amd_custom_kernels_supported=lambda device: False,
)
try:
    import tinygrad.llm.kernels.amd  # noqa: F401
except ImportError:
    sys.modules |= {"tinygrad.llm.kernels": ModuleType("kernels"), kernels.__name__: kernels}
from tinygrad.llm.model import Transformer  # noqa: E402


def times(path: Path, tokens: list[int], count: int) -> list[float]:
    """Seconds until each of so many tokens is known, the first with the prompt."""
    model, _ = Transformer.from_gguf(path, max_context=256)
    found, begun = [], time.perf_counter()
    for _ in islice(model.generate(list(tokens)), count):
        now = time.perf_counter()
        found.append(now - begun)
        begun = now
    return found
