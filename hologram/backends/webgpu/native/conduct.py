"""What an adapter's arithmetic does where WebGPU leaves it to the driver: measured when it is first opened, then kept.

The standards of WGSL and of Vulkan beneath allow much: denormals flushed, NaN ignored, sums rearranged. A question is
an expression of numbers that the driver cannot know, and its result by IEEE 754. What a driver answers wrong is
computed in another way there (wgsl/dialect.py), by hologram.foundation.conduct's words, never by the driver's name.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata
from typing import Any

import numpy as np

from hologram.backends.webgpu.encoder import Dispatch
from hologram.backends.webgpu.memory import Memory, Transfers
from hologram.backends.webgpu.native.library import Adapter
from hologram.backends.webgpu.native.subgroups import subgroup
from hologram.backends.webgpu.pipeline import Pipelines, Signature
from hologram.foundation import store
from hologram.foundation.conduct import CONDUCT
from hologram.foundation.config import config
from hologram.foundation.frozen import frozen
from hologram.machine.kernel import Binding
from hologram.machine.limits import Limits

KIND = "conduct"  # of entries in the store
GROUPS, THREADS = 64, 64
TURNS = 70_000  # of a loop, more than 16 bits count
SAMPLES = GROUPS * THREADS // 2  # quotients and square roots
NAN, INFINITY, LARGEST = float("nan"), float("inf"), 3.4028234663852886e38
ODD = 1 + 2.0**-12  # its square is halfway between two numbers


@frozen
class Question:
    """An expression of a, b and c, f32 or i32 by `wanted`, and what it is; one of NaN stands for all."""

    word: str
    expression: str
    given: tuple[float, ...]
    wanted: float


QUESTIONS = (
    Question("denormals", "a * b", (2.0**-130, 1.5), 1.5 * 2.0**-130),
    Question("denormals", "a + b", (2.0**-130, 2.0**-131), 1.5 * 2.0**-130),
    Question("denormals", "a - b", (1.5 * 2.0**-126, 2.0**-126), 2.0**-127),
    Question("nan", "a - a", (INFINITY,), NAN),
    Question("nan", "a / a", (0.0,), NAN),
    Question("nan", "a / a", (INFINITY,), NAN),
    Question("nan", "a * 0.0f", (NAN,), NAN),
    *(
        Question("choices", f"select(b, a, a {sign} b)", given, given[1] if not NAN < given[0] else NAN)
        for sign in ("<", "<=", ">", ">=")
        for given in ((1.0, NAN), (NAN, 1.0))
    ),
    Question("infinities", "a / b", (1.0, 0.0), INFINITY),
    Question("infinities", "a * b", (LARGEST, 2.0), INFINITY),
    Question("infinities", "-a + b", (INFINITY, LARGEST), -INFINITY),
    Question("infinities", "select(0.0f, 1.0f, a > b)", (INFINITY, LARGEST), 1.0),
    Question("infinities", "a / b", (LARGEST, INFINITY), 0.0),
    Question("zeros", "a * b", (-1.0, 0.0), -0.0),
    Question("zeros", "a + b", (-0.0, -0.0), -0.0),
    Question("zeros", "a - b", (-0.0, 0.0), -0.0),
    Question("zeros", "a + 0.0f", (-0.0,), 0.0),
    Question("zeros", "0.0f - a", (0.0,), 0.0),
    *(
        Question("choices", f"select(a, {bound}f, a {sign} {bound}f)", (NAN,), NAN)
        for sign in ("<", ">")
        for bound in ("0.0", "1.0", "89.0")
    ),
    Question("choices", "select(a, max(a, b), a == b && b > c)", (-0.0, NAN, 1.0), -0.0),
    Question("choices", "select(a, b, b == b)", (-0.0, NAN), -0.0),
    Question("order", "(a + b) - a", (2.0**24, 0.3), 0.0),
    Question("order", "(a * 0.5f) * a", (2.0**64,), 2.0**127),
    Question("order", "(1.0f / a) * a", (49.0,), float(np.float32(1) / np.float32(49) * np.float32(49))),
    Question("order", "a * 1e-30f * 1e-20f * 1e+30f", (1.0,), 0.0),
    Question("order", "(a - b * 1.5f) - b * 0.1f", (1.5 * 2.0**24, 2.0**24), -0.1 * 2.0**24),
    Question("order", "(a + 16777216.0f) - 16777216.0f", (0.3,), 0.0),
    Question("order", "a * b + a * c", (LARGEST, 2.0, -2.0), NAN),
    Question("contraction", "a * b + c", (ODD, ODD, -(1 + 2.0**-11)), 0.0),
    Question("contraction", "c - a * b", (ODD, ODD, 1 + 2.0**-11), 0.0),
    Question("contraction", "a * b - c", (ODD, ODD, 1 + 2.0**-11), 0.0),
    Question("fused", "fma(a, b, c)", (ODD, ODD, -(1 + 2.0**-11)), 2.0**-24),
    Question("division", "a / b", (LARGEST, LARGEST), 1.0),
    Question("division", "a / b", (2.0**127, 1.5 * 2.0**126), float(np.float32(4 / 3))),
    Question("division", "a / b", (-(2.0**126), 2.0**127), -0.5),
    Question("remainder", "f32(i32(a) % i32(b))", (-7.0, 3.0), -1.0),
    Question("remainder", "f32(i32(a) % i32(b))", (7.0, -3.0), 1.0),
    Question("remainder", "f32(i32(a) % i32(b))", (-7.0, -3.0), -1.0),
)
_ANSWERS = len(QUESTIONS) + 1  # the loop's turns behind them
# What no question shows: wgpu-native 29 leaves workgroup memory as it is, where a fresh card may well have zeros.
ALWAYS = frozenset({"cleared"})


def _text() -> str:
    """The shader: each thread has its quotient or root, the first one answers the questions."""
    lines = [
        "@group(0) @binding(0) var<storage, read> given: array<u32>;",
        "@group(0) @binding(1) var<storage, read_write> answers: array<atomic<u32>>;",
        "",
        "fn ask(k: u32) {",
        "    var a: f32;",
        "    var b: f32;",
        "    var c: f32;",
    ]
    for k, question in enumerate(QUESTIONS):
        lines += [f"    {x} = bitcast<f32>(given[{3 * k + n}]);" for n, x in enumerate("abc")]
        lines.append(f"    atomicStore(&answers[{k}], bitcast<u32>({question.expression}));")
    first, last = 3 * len(QUESTIONS), _ANSWERS
    lines += [
        "    var turns = 0u;",
        f"    for (var i = 0u; i < given[{first}]; i += 1u) {{ turns += 1u; }}",
        f"    atomicStore(&answers[{last - 1}], turns);",
        "}",
        "",
        f"@compute @workgroup_size({THREADS})",
        "fn main(@builtin(workgroup_id) groups: vec3<u32>, @builtin(local_invocation_index) thread_index: u32) {",
        f"    let k = groups.x * {THREADS}u + thread_index;",
        f"    let x = bitcast<f32>(given[{first + 1}u + 2u * (k / 2u)]);",
        f"    let y = bitcast<f32>(given[{first + 2}u + 2u * (k / 2u)]);",
        f"    atomicStore(&answers[{last}u + k], bitcast<u32>(select(x / y, sqrt(abs(x)), k % 2u == 1u)));",
        "    if (k == 0u) { ask(k); }",
        "}",
    ]
    return "\n".join(lines)


TEXT = _text()


@frozen
class Found:
    """What was measured of an adapter; `subgroup`: threads that run in step, 0 where it was not asked."""

    shortfalls: tuple[str, ...]
    subgroup: int

    def limits(self, limits: Limits) -> Limits:
        """An adapter's limits with what was measured."""
        own = replace(limits, shortfalls=self.shortfalls, subgroup=self.subgroup or limits.subgroup)
        seen = own.max_bindings - (not own.keeps("loops"))  # loops are watched by a buffer more
        exact, fused = own.keeps("rounding"), own.keeps("fused")
        return replace(own, max_bindings=seen, exact_division=exact, fused_multiply_add=fused)


def found(adapter: Adapter, pipelines: Pipelines, transfers: Transfers, subgroups: bool) -> Found:
    """The adapter's conduct, from the store where it was opened before; with what HOLOGRAM_WITHOUT takes away."""

    def make() -> bytes:
        size = subgroup(pipelines, transfers) if subgroups else 0
        return json.dumps([shortfalls(_asked(pipelines, transfers)), size]).encode()

    def use(content: bytes) -> Found:
        words, size = json.loads(content)
        if not CONDUCT.keys() >= {*words} or not isinstance(size, int):
            raise ValueError(content)
        words = CONDUCT.keys() & {*words, *config.without}
        return Found(tuple(sorted(words)), size)

    about = (adapter.name, adapter.vendor, adapter.driver, adapter.api, *sorted(adapter.features))
    key = store.key(TEXT, metadata.version("wgpu"), str(subgroups), *about)
    return store.shared().kept(KIND, key, make, use)


def samples() -> np.ndarray:
    """Pairs of numbers whose quotients are of every size that is promised."""
    random = np.random.default_rng(0)
    mantissas = random.uniform(1, 2, (SAMPLES, 2)) * random.choice((-1, 1), (SAMPLES, 2))
    return (mantissas * 2.0 ** random.integers(-60, 60, (SAMPLES, 2))).astype(np.float32)


def _asked(pipelines: Pipelines, transfers: Transfers) -> np.ndarray:
    """The words that the shader answers."""
    given = np.zeros((len(QUESTIONS), 3), np.float32)
    for row, question in zip(given, QUESTIONS, strict=True):
        row[: len(question.given)] = question.given
    words = np.concatenate(
        [given.reshape(-1).view(np.uint32), [np.uint32(TURNS)], samples().reshape(-1).view(np.uint32)]
    ).astype(np.uint32)
    answers = np.zeros(_ANSWERS + GROUPS * THREADS, np.uint32)
    pipeline = pipelines.compile("conduct", TEXT, "main", Signature((False, True), 0, uniform=False))
    with pipelines.encoder.lock:
        memories: list[Memory] = [transfers.allocate(a.nbytes) for a in (words, answers)]
        transfers.write(memories[0], 0, memoryview(words).cast("B"))
        bindings = [Binding(m, 0, a.nbytes) for m, a in zip(memories, (words, answers), strict=True)]
        group, offsets = pipelines.bound(pipeline.layout, bindings)
        pipelines.encoder.launch(
            [Dispatch(pipeline, group, offsets, None, 0, GROUPS, 1, 1, tuple(memories))]
        )()
        transfers.read(memories[1], 0, memoryview(answers).cast("B"))
        for memory in memories:
            pipelines.forget(memory)
            transfers.release(memory)
    return answers


def shortfalls(answers: np.ndarray) -> list[str]:
    """The words of what the answers are wrong about."""
    words = {q.word for q, bits in zip(QUESTIONS, answers, strict=False) if not _right(q.wanted, bits)}
    words |= ALWAYS
    if answers[len(QUESTIONS)] != TURNS:
        words.add("loops")
    x, y = samples().T
    quotients, roots = answers[_ANSWERS:].view(np.float32).reshape(-1, 2).T
    if (quotients != x / y).any() or (roots != np.sqrt(np.abs(x))).any():
        words.add("rounding")
    return sorted(words)


def _right(wanted: float, bits: Any) -> bool:
    if np.isnan(wanted):
        return bool(np.isnan(bits.view(np.float32)))
    return bool(bits == np.float32(wanted).view(np.uint32))
