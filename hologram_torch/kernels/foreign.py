"""Operators that other libraries declare. Ours are found once such a library, which nothing here imports, is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from hologram_torch.kernels.plain import Plain
from hologram_torch.kernels.registry import KEY

F = TypeVar("F", bound=Callable[..., Any])


class Foreign:
    """The operators of a namespace."""

    def __init__(self, namespace: str) -> None:
        self.library = torch.library.Library(namespace, "IMPL")

    def implements(self, name: str) -> Callable[[F], F]:
        """Makes a function of PyTorch's tensors the device's kernel for an operator; errors become PyTorch's."""

        def declare(function: F) -> F:
            self.library.impl(name, Plain(name, function), KEY)
            return function

        return declare
