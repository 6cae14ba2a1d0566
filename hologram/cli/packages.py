"""Installed packages that do not go together, told from their metadata: nothing of theirs is imported."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib import metadata

OLDEST_TORCH, NEWEST_TORCH = (2, 10), (2, 15)  # those that hologram_torch was tested with
BINDINGS, COMPILER = "cuda-bindings", re.compile(r"nvidia-cuda-nvrtc(-cu\d+)?$")


def findings(path: Sequence[str] | None = None) -> Iterator[str]:
    """What is wrong with the packages on a path (sys.path), each with what to do."""
    installed: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for distribution in metadata.distributions(path=list(sys.path if path is None else path)):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        installed[name].add((distribution.version, str(distribution.locate_file(""))))
    for name in ("torch", "wgpu", BINDINGS, "llvmlite"):
        if len(installed[name]) > 1:
            places = ", ".join(f"{version} in {place}" for version, place in sorted(installed[name]))
            remedy = f"pip uninstall {name} until none is left, then install one"
            times = f"{len(installed[name])} times ({places})"
            yield f"{name} is installed {times}, of which Python takes the first: {remedy}"
    for version, _ in installed["torch"]:
        oldest, newest = (".".join(map(str, numbers)) for numbers in (OLDEST_TORCH, NEWEST_TORCH))
        if _numbers(version) < OLDEST_TORCH:
            yield f"PyTorch {version} is too old for hologram_torch, which needs {oldest}: pip install --upgrade torch"
        elif _numbers(version) > NEWEST_TORCH:
            known = f"PyTorch {version} is newer than those that hologram_torch was tested with ({oldest} to {newest})"
            yield f"{known}: `hologram doctor --torch` tries it; where it fails, pip install 'torch=={newest}.*'"
    compilers = {
        _numbers(version)[0] for name in installed if COMPILER.match(name) for version, _ in installed[name]
    }
    for version, _ in installed[BINDINGS]:
        if compilers and _numbers(version)[0] not in compilers:
            others = ", ".join(map(str, sorted(compilers)))
            remedy = f"pip install --upgrade {BINDINGS} nvidia-cuda-nvrtc"
            yield f"{BINDINGS} {version} is of another CUDA than the installed NVRTC ({others}): {remedy}"


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
