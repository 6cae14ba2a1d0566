"""Libraries of functions of arrays, compiled or not: hologram and JAX, and NumPy as it is.

One is a place for whole programs and a contender for works alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hologram.benchmark.jobs import Call, Job, as_it_is
from hologram.benchmark.models.declared import MOMENTUM, RATE, Arrays, Model, Words, split
from hologram.benchmark.programs.declared import Array
from hologram.benchmark.works import Work, model_job


def uncompiled(function: Any, donate: tuple[int, ...] = ()) -> Any:
    return function


def without_gradients(function: Any) -> Any:
    raise NotImplementedError("it has no derivatives")


@dataclass(eq=False)
class ArrayLibrary:
    """Its words, its memory, its compiler, and its derivatives.

    `owned` gives memory that may be donated; `waited` makes a call return once its work is done.
    """

    words: Words
    tensor: Callable[[Array], Any]
    read: Callable[[Any], Array] = np.asarray
    compiled: Callable[..., Any] = uncompiled
    value_and_grad: Callable[[Any], Any] = without_gradients
    owned: Callable[[Array], Any] | None = None
    waited: Callable[[Call], Call] = as_it_is
    executor: Any = None  # where it is ours
    device: str = "cpu"

    @property
    def xp(self) -> Any:
        """The namespace of the array API."""
        return self.words.xp

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        if work.model is not None:
            return model_job(work, inputs, self._forward, self._trained, self.read, self.waited)
        if work.function is None:
            return None
        function = partial(work.function, self.words)
        if work.lists:
            return self._lists(function, inputs)
        compiled = self.compiled(function)
        arguments = [self.tensor(array) for array in inputs.values()]
        call, count = partial(compiled, *arguments), getattr(compiled, "dispatches", None)
        return Job(
            self.waited(call), lambda: self._flat(call()), partial(count, *arguments) if count else None
        )

    def _flat(self, result: Any) -> Array:
        """One result, or several in a row."""
        if isinstance(result, tuple):
            return np.concatenate([self.read(one).reshape(-1) for one in result])
        return self.read(result)

    def _lists(self, function: Callable[..., Any], inputs: Arrays) -> Job:
        """Lists of tensors, all but the last replaced by their successors, whose memory they give."""
        *names, last = inputs
        given = [self.tensor(row) for row in inputs[last]]

        def fresh() -> list[Any]:
            return [[(self.owned or self.tensor)(row) for row in inputs[name]] for name in names]

        donated = tuple(range(len(names)))
        compiled, state = self.compiled(function, donate=donated), fresh()
        count = getattr(compiled, "dispatches", None)

        def step() -> Any:
            nonlocal state
            state = compiled(*state, given)
            return state

        def result() -> Array:
            nonlocal state
            state = fresh()
            return np.stack([[self.read(tensor) for tensor in held] for held in step()])

        return Job(self.waited(step), result, (lambda: count(*state, given)) if count else None)

    def _placed(self, inputs: Arrays) -> tuple[Any, Any, dict[str, Any]]:
        x, y, parameters = split(inputs)
        owned = self.owned or self.tensor
        return self.tensor(x), self.tensor(y), {n: owned(a) for n, a in parameters.items()}

    def _forward(self, model: Model, inputs: Arrays) -> Call:
        x, _, parameters = self._placed(inputs)
        return partial(self.compiled(partial(model.forward, self.words)), parameters, x)

    def _trained(self, model: Model, inputs: Arrays) -> Call:
        """A step, which gives the loss before it."""
        x, y, parameters = self._placed(inputs)
        velocities = {
            name: (self.owned or self.tensor)(np.zeros(p.shape, np.float32)) for name, p in parameters.items()
        }
        compiled = self.compiled(self.update(model), donate=(0, 1))

        def step() -> Any:
            nonlocal parameters, velocities
            parameters, velocities, loss = compiled(parameters, velocities, x, y)
            return loss

        return step

    def update(self, model: Model) -> Callable[..., Any]:
        """A step as a function of parameters, velocities, the batch and its classes."""
        words = self.words

        def loss_of(p: Any, x: Any, y: Any) -> Any:
            return words.cross_entropy(model.forward(words, p, x), y)

        def updated(p: Any, v: Any, x: Any, y: Any) -> Any:
            loss, g = self.value_and_grad(lambda p: loss_of(p, x, y))(p)
            v = {name: MOMENTUM * v[name] + g[name] for name in p}
            return {name: p[name] - RATE * v[name] for name in p}, v, loss

        return updated
