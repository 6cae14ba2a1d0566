"""The arguments of a call, taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from hologram.frontend.tensor import Tensor
from hologram.runtime.launches.validation import cache_key
from hologram_torch.tensors.dtypes import dtype_of
from hologram_torch.tensors.memory import hologram_tensor


class Taken:
    """Arguments taken apart: hologram's tensors for PyTorch's, and the key of the signature."""

    __slots__ = ("index", "key", "known", "name", "sources", "tensors")

    def __init__(self, name: str, known: Mapping[int, Tensor] | None = None) -> None:
        self.name = name
        # Of a call that is traced, what is computed with in the place of tensors, by their `id`.
        self.known = known
        self.key: list[Any] = [torch.get_default_dtype()]  # which integers become where floats are needed
        self.tensors: list[Tensor] = []
        self.sources: list[torch.Tensor] = []
        self.index: int | None = None

    def of(self, x: Any, is_number: bool) -> Any:
        """What the kernel is given for an argument."""
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, (list, tuple)):
            self.key.append(len(x))
            return [
                self._tensor(item, listed=True)
                if isinstance(item, torch.Tensor)
                else self.of(item, is_number)
                for item in x
            ]
        self.key.append(type(x))
        if isinstance(x, complex):
            self.key.append(cache_key(x))
        elif not is_number:
            self.key.append(x)
            if isinstance(x, torch.dtype):
                return dtype_of(x)
        return x

    def written(self, x: torch.Tensor) -> None:
        """Takes an output, which is part of the signature, but no operand."""
        if not isinstance(self._tensor(x), Tensor):
            raise self._apart(x)
        del self.tensors[-1], self.sources[-1]

    def _tensor(self, x: torch.Tensor, listed: bool = False) -> Any:
        try:
            known = None if self.known is None else self.known.get(id(x))
            tensor = hologram_tensor(x) if known is None else known
        except AttributeError:
            return self._foreign(x, listed)
        except KeyError:
            raise TypeError(f"hologram, {self.name}: {x.dtype} is not supported") from None
        self.tensors.append(tensor)
        self.sources.append(x)
        self.key.append(tensor.layout)
        if self.index is None:
            self.index = x.device.index
        elif self.index != x.device.index:
            raise self._apart(x)
        return tensor

    def _foreign(self, x: torch.Tensor, listed: bool) -> Any:
        """A tensor of the host without axes is a number, but not in a list of tensors: so it is on CUDA."""
        if x.device.type == "hologram":
            raise RuntimeError(
                f"hologram, {self.name}: a tensor of the device whose memory hologram did not make, shape "
                f"{tuple(x.shape)}"
            )
        if x.device.type != "cpu" or x.ndim or listed:
            raise self._apart(x)
        self.key += ("host", x.dtype)
        number = x.item()
        if isinstance(number, complex):
            self.key.append(cache_key(number))
        return number

    def refuse(self, x: torch.Tensor) -> None:
        """Raises for a tensor that is on another device than the kernel's."""
        raise self._apart(x)

    def _apart(self, x: torch.Tensor) -> RuntimeError:
        first = f"hologram:{self.index}" if self.index is not None else "a device of hologram"
        return RuntimeError(
            f"hologram, {self.name}: Expected all tensors to be on the same device, but found at least two "
            f"devices, {first} and {x.device}!"
        )
