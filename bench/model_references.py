"""What models must give: scores in NumPy, losses in torch, which only who asks for them needs."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from hologram.benchmark.models.declared import Arrays, Model, first_losses, split
from hologram.benchmark.models.with_numpy import WORDS


def scores(model: Model, inputs: Arrays) -> NDArray[np.float64]:
    """What the forward pass gives, in NumPy and double precision."""
    x, _, parameters = split(inputs)
    wide = {n: a.astype(np.float64) for n, a in parameters.items()}
    return model.forward(WORDS, wide, x.astype(np.float64) if x.dtype.kind == "f" else x)


def losses(model: Model, inputs: Arrays) -> NDArray[np.float64]:
    """The loss at each of the first steps, in torch."""
    return first_losses(import_module("hologram.benchmark.models.with_torch").trained(model, inputs))
