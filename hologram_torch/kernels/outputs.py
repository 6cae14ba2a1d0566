"""Operators that write into outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hologram.runtime.launches.recording import Unrepeatable
from hologram_torch.kernels.kernel import Expected, Kernel
from hologram_torch.kernels.overlap import refuse_overlap
from hologram_torch.kernels.results import write
from hologram_torch.kernels.taken import Taken
from hologram_torch.tensors.memory import hologram_tensor

# What sums or multiplies computes in its output's dtype where no other is named (1.5 and 1.5 are 2 as integers), for
# operands of which this holds.
SUMMED_AS_OUTPUTS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("cumprod", "cumsum", "nansum", "prod", "sum"), torch.is_tensor),
    "mean": torch.is_floating_point,
}


class Out(Kernel):
    """An operator that writes its results into arguments given by keyword."""

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Expected]:
        follows = SUMMED_AS_OUTPUTS.get(self.name.partition(".")[0])
        if follows is not None and kwargs.get("dtype") is None and follows(args[0]):
            kwargs = {**kwargs, "dtype": kwargs["out"].dtype}
        return super().run(args, kwargs)

    def deliver(self, results: Any, expected: Expected, taken: Taken, outputs: Sequence[torch.Tensor]) -> Any:
        refuse_overlap(self.name.partition(".")[0], outputs, taken.sources)
        results = results if isinstance(results, (tuple, list)) else (results,)
        if taken.known is not None:
            for result, output in zip(results, outputs, strict=True):
                target = taken.known[id(output)]
                if result.shape != target.shape:  # it is resized, or takes no such result
                    raise Unrepeatable
                write(result, target)
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        for result, output, wanted in zip(results, outputs, expected.results or results, strict=True):
            if wanted is not None and tuple(output.shape) != wanted.shape:
                output.resize_(wanted.shape)
            write(result, hologram_tensor(output))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
