"""Where programs run: who computes, on what, compiled by whom. Each is opened in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.programs.declared import Array
from hologram.foundation import lazy
from hologram.foundation.frozen import frozen

# Which may not be installed.
torch, jax, jnp = lazy.module("torch"), lazy.module("jax"), lazy.module("jax.numpy")
# By name: it stands above us.
hologram_torch = lazy.module("hologram_torch.module")
torch_devices = lazy.module("hologram_torch.device.devices")


def as_it_is(function: Any) -> Any:
    return function


def without_gradients(function: Any) -> Any:
    raise NotImplementedError("it has no derivatives")


@frozen(eq=False)
class TorchPlace:
    """A device of PyTorch; `executor` where it is ours."""

    device: str
    compiled: Callable[[Any], Any] = as_it_is
    executor: hg.Executor | None = None

    def model(self, make: Callable[[], Any], trained: bool = False) -> Any:
        """A model, of the same random weights everywhere."""
        torch.manual_seed(0)
        return make().train(trained).to(self.device)

    def tensor(self, array: Array) -> Any:
        return torch.from_numpy(array).to(self.device)

    def read(self, result: Any) -> Array:
        """On the host, once it is computed."""
        return result.detach().cpu().float().numpy()


@frozen(eq=False)
class ArrayPlace:
    """A library of arrays: its namespace, its compiler, and its derivatives."""

    xp: Any
    tensor: Callable[[Array], Any]
    read: Callable[[Any], Array] = np.asarray
    compiled: Callable[[Any], Any] = as_it_is
    value_and_grad: Callable[[Any], Any] = without_gradients
    executor: hg.Executor | None = None


Place = TorchPlace | ArrayPlace


def _torch(compiler: str | None, ours: bool) -> Callable[[str], TorchPlace]:
    def opened(where: str) -> TorchPlace:
        # A torchvision that was built for another PyTorch would be in transformers' way; no program asks for it.
        sys.modules.setdefault("torchvision", None)  # pyright: ignore[reportArgumentType]
        if threads := os.environ.get("BENCH_THREADS"):  # else as many as PyTorch takes by itself
            torch.set_num_threads(int(threads))
        compiled = (lambda f: torch.compile(f, backend=str(compiler))) if compiler else as_it_is
        if not ours:
            return TorchPlace("cpu", compiled)
        backend, number = parted(where)
        hologram_torch.set_backend(backend)
        names = [place.name for place in torch_devices.devices.places]
        device = "hologram" if number is None else f"hologram:{names.index(where)}"
        return TorchPlace(device, compiled, hologram_torch.executor(device))

    return opened


def parted(where: str) -> tuple[str, int | None]:
    """The backend and the number of an adapter's name; of a backend's alone no number."""
    backend, _, number = where.partition(":")
    return backend, int(number) if number else None


def _hologram(where: str) -> ArrayPlace:
    executor = hg.Executor(*parted(where))
    return ArrayPlace(
        hg, executor.tensor, lambda x: np.array(x.to_numpy()), hg.jit, hg.value_and_grad, executor
    )


def _jax(where: str) -> ArrayPlace:
    return ArrayPlace(jnp, jnp.asarray, np.asarray, jax.jit, jax.value_and_grad)


def _numpy(where: str) -> ArrayPlace:
    return ArrayPlace(np, as_it_is)


# By who computes: what opens the place for a backend of ours, or for an adapter's name.
OF_TORCH: dict[str, Callable[[str], Place]] = {
    "hologram eager": _torch(None, ours=True),
    "hologram compiled": _torch("hologram", ours=True),
    "torch": _torch(None, ours=False),
    "inductor": _torch("inductor", ours=False),
}
OF_ARRAYS: dict[str, Callable[[str], Place]] = {"hologram jit": _hologram, "jax": _jax, "numpy": _numpy}
