"""hologram: the out-parameter forms on buffers that are there, and functions of Tensors, under hg.jit or eagerly."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import hologram as hg
from hologram.benchmark.contenders.arrays import ArrayLibrary, uncompiled
from hologram.benchmark.jobs import Call, Job
from hologram.benchmark.models.declared import Arrays, Words
from hologram.benchmark.works import Work

WORDS = Words(
    linear=lambda x, weight, bias: x @ weight if bias is None else x @ weight + bias,
    relu=hg.relu,
    gelu=hg.gelu,
    layer_norm=lambda x, scale, bias: hg.layer_norm(x, scale, bias),
    attention=lambda q, k, v: hg.scaled_dot_product_attention(q, k, v),
    swap=lambda x: x.permute(0, 2, 1, 3),
    embedding=lambda table, tokens: hg.embedding(tokens, table),
    conv=lambda x, weight, bias: hg.conv2d(x, weight, bias, padding=1),
    pool=lambda x: hg.max_pool2d(x, 2),
    cross_entropy=lambda scores, classes: hg.cross_entropy_loss(scores, classes),
    softmax=lambda x: hg.softmax(x, dim=-1),
    sigmoid=hg.sigmoid,
    running_minimum=lambda x: hg.cummin(x, axis=0)[0],
    loops=hg,
    xp=hg,
)


def waited(executor: hg.Executor, call: Call) -> Call:
    """A call that returns when the work is done."""
    if executor.limits.host_resident:  # which it then is anyway
        return call
    synchronize = executor.synchronize

    def called() -> Any:
        result = call()
        synchronize()
        return result

    return called


class Ours:
    """The out-parameter forms."""

    def __init__(self, executor: hg.Executor) -> None:
        self.executor, self.device = executor, executor.device.info.name

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        if not work.operation:
            return None
        ex = self.executor
        given = [ex.allocate(a.shape, a.dtype).from_numpy(a) for a in inputs.values()]
        out = ex.allocate(work.result(inputs))
        call = partial(getattr(hg.ops, work.operation), ex, *given, out, **work.attributes)
        return Job(waited(ex, call), lambda: np.array(out.to_numpy()))


def functions(executor: hg.Executor, jit: bool = True) -> ArrayLibrary:
    """Functions of Tensors, under `hg.jit` or called as they are."""
    return ArrayLibrary(
        WORDS,
        executor.tensor,
        lambda x: np.array(x.to_numpy()),
        hg.jit if jit else uncompiled,
        hg.value_and_grad,
        waited=partial(waited, executor),
        executor=executor,
        device=executor.device.info.name,
    )


def open_contender(name: str, where: str) -> Ours | ArrayLibrary:
    backend, _, number = where.partition(":")
    executor = hg.Executor(backend, int(number) if number else None)
    return functions(executor) if name == "hologram jit" else Ours(executor)
