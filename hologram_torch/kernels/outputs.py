"""Operators that write into outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hologram.runtime.launches.recording import Unrepeatable
from hologram_torch.kernels import refusals
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

    def __init__(self, *facts: Any) -> None:
        super().__init__(*facts)
        self._asked: set[tuple[torch.dtype, torch.dtype]] = set()

    def run(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, Expected]:
        follows = SUMMED_AS_OUTPUTS.get(self.name.partition(".")[0])
        if follows is not None and kwargs.get("dtype") is None and follows(args[0]):
            self._ask_about(args, kwargs)
            kwargs = {**kwargs, "dtype": kwargs["out"].dtype}
        return super().run(args, kwargs)

    def _ask_about(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Raises where an operator that computes in its output's dtype has no such form; asked once for two dtypes."""
        pair = (args[0].dtype, kwargs["out"].dtype)
        if pair[0] != pair[1] and pair not in self._asked:
            self._ask(refusals.of_outputs(self.overload, self.base, args, kwargs, self._outputs))
            self._asked.add(pair)

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
                if output.stride() != wanted.strides:
                    output.as_strided_(wanted.shape, wanted.strides)
            if wanted is not None and result.size == wanted.size:
                result = result.reshape(wanted.shape)
            write(result, hologram_tensor(output))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
