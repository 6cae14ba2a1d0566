"""Kernels that write their result over their first argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hologram_torch.kernels.kernel import Expected, Kernel
from hologram_torch.kernels.overlap import refuse_overlap
from hologram_torch.kernels.results import write
from hologram_torch.kernels.taken import Taken
from hologram_torch.tensors.memory import is_ours


class InPlace(Kernel):
    """An operator that writes its result over its first argument."""

    def _taken(
        self, args: Sequence[Any], kwargs: dict[str, Any], taken: Taken
    ) -> tuple[Sequence[Any], list[Any], dict[str, Any], Taken]:
        if not is_ours(args[0]):  # but an operand is, or PyTorch would not have called
            taken.refuse(args[0])
        return super()._taken(args, kwargs, taken)

    def deliver(self, results: Any, expected: Expected, taken: Taken, outputs: Sequence[torch.Tensor]) -> Any:
        result = results[0] if isinstance(results, (tuple, list)) else results
        self._refuse_fractions((result,), expected.results)
        refuse_overlap(self.name.partition(".")[0], taken.sources[:1], taken.sources[1:])
        target = taken.tensors[0]
        if result.shape != target.shape:
            raise RuntimeError(
                f"hologram, {self.name}: output with shape {list(target.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}"
            )
        write(result, target)
        return taken.sources[0]

    def _targets(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
        return [args[0]]
