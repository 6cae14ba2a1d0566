"""The CTC loss: how likely a network's letters spell a text, whenever it says them. A scan over time, and its gradient.

python examples/loops/ctc_loss.py webgpu
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import hologram as hg

NEVER = -1e30  # the logarithm of nothing; infinities would have no gradient


def ctc_loss(logits: Any, texts: Any, steps: Any, lengths: Any) -> Any:
    """-log of the probability of each text: of logits (time, batch, letters), where letter 0 says nothing.

    `texts` are letters (batch, most), of which the first `lengths` count; the first `steps` of the time do. The sums
    over all ways to say a text are those of Graves and others 2006, "Connectionist temporal classification": between
    letters one may stay, go on, or leave out a silence that does not part two equal letters.
    """
    batch, most = texts.shape
    silence = hg.zeros_like(texts)
    places = hg.stack([silence, texts], axis=2).reshape(batch, 2 * most)
    places = hg.concat([places, silence[:, :1]], axis=1)  # silence, letter, silence, ..., silence
    said = hg.log_softmax(logits)
    where = hg.broadcast_to(places, (logits.shape[0], *places.shape))
    emitted = hg.take_along_axis(said, where, axis=2)
    before = hg.concat([silence[:, :1] - 1, silence[:, :1] - 1, places[:, :-2]], axis=1)
    leaps = hg.where(hg.logical_or(hg.equal(places, 0), hg.equal(places, before)), NEVER, 0.0)

    def behind(x: Any, count: int) -> Any:
        nothing = hg.full_like(x[:, :count], NEVER)
        return hg.concat([nothing, x[:, :-count]], axis=1)

    def step(ways: Any, given: Any) -> tuple[Any, None]:
        number, now = given
        stayed = hg.logaddexp(hg.logaddexp(ways, behind(ways, 1)), behind(ways, 2) + leaps)
        return hg.where((number < steps)[:, None], stayed + now, ways), None

    begin = hg.where(hg.arange(2 * most + 1, device=logits.executor) < 2, emitted[0], NEVER)
    numbers = hg.arange(1, logits.shape[0], dtype="int32", device=logits.executor)
    ways, _ = hg.scan(step, begin, (numbers, emitted[1:]))
    end = 2 * lengths[:, None]
    quiet = hg.take_along_axis(ways, end, axis=1)
    loud = hg.take_along_axis(ways, hg.maximum(end - 1, 0), axis=1)
    return -hg.logaddexp(quiet, hg.where(end > 0, loud, NEVER))[:, 0]


@hg.jit
def loss_and_slope(logits: Any, texts: Any, steps: Any, lengths: Any) -> Any:
    """The losses' sum, and its gradient by the logits."""
    return hg.value_and_grad(lambda x: hg.sum(ctc_loss(x, texts, steps, lengths)))(logits)


def trained(
    executor: hg.Executor, text: list[int], time: int, letters: int, turns: int
) -> tuple[list[float], Any]:
    """Logits that learn to say one text: the losses, and the letter of each moment."""
    rng = np.random.default_rng(0)
    logits = executor.tensor(0.1 * rng.standard_normal((time, 1, letters)).astype(np.float32))
    given = [executor.tensor(np.array(x, np.int32)) for x in ([text], [time], [len(text)])]
    losses = []
    for _ in range(turns):
        loss, slope = loss_and_slope(logits, *given)
        logits = logits - 2.0 * slope
        losses.append(loss.item())
    return losses, hg.argmax(logits, axis=-1)[:, 0].tolist()


def inputs(time: int) -> tuple[np.ndarray, ...]:
    """Random logits and texts, 16 of each, to measure it."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((time, 16, 28)).astype(np.float32)
    texts = rng.integers(1, 28, (16, 20)).astype(np.int32)
    return logits, texts, np.full(16, time, np.int32), rng.integers(10, 21, 16).astype(np.int32)


if __name__ == "__main__":
    word = [8, 5, 12, 12, 15]
    losses, said = trained(hg.Executor(*sys.argv[1:]), word, 16, 27, 60)
    print(f"loss {losses[0]:.3f}, then {losses[-1]:.3f}")
    print("".join("-abcdefghijklmnopqrstuvwxyz"[letter] for letter in said))
