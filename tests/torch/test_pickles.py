"""What other processes get of hologram_torch: its public names."""

from __future__ import annotations

import copy
import functools
import pickle
from types import ModuleType
from typing import Any

import torch

import hologram_torch
from hologram_torch import functional, nn, utils


def _same(a: Any, b: Any) -> bool:
    if isinstance(b, functools.partial):  # partials are equal to themselves alone
        return (a.func, a.args, a.keywords) == (b.func, b.args, b.keywords)
    return a is b or a == b


def test_public_names_are_pickled_and_copied() -> None:
    theirs: Any = torch
    modules = [theirs.hologram, theirs.hologram.amp, hologram_torch, functional, nn, utils]
    for module in modules:
        names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
        assert names, module.__name__
        for name in names:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                continue
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                assert _same(pickle.loads(pickle.dumps(value, protocol)), value), (module.__name__, name)
            assert _same(copy.deepcopy(value), value), (module.__name__, name)
