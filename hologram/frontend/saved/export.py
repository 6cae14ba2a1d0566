"""`hg.export_web`: a function as a folder that a page loads: shaders, weights, and the module that runs them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hologram
from hologram.atlas.program import Access
from hologram.backends.webgpu.exported import LIMITS, Exported, exported, seen_twice
from hologram.compiler.fusion.assemble import assemble
from hologram.compiler.fusion.memory import arrange
from hologram.foundation.dtypes import u32
from hologram.foundation.errors import TraceError, UnsupportedDType
from hologram.frontend.jit.jitted import Jitted
from hologram.frontend.jit.traced import Traced
from hologram.frontend.saved.container import ALIGNMENT, aligned
from hologram.frontend.saved.saving import Case, calls_of, case_of
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, paths
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.plan import Plan, Target
from hologram.opset.forms.map import copy_plan
from hologram.runtime.launches.launcher import settled

FORMAT = 1
MODULE = Path(__file__).parent / "web"


def export_web(path: str | os.PathLike[str], function: Callable[..., Any], *examples: Any) -> None:
    """Writes a function, with the tensors that it closes over, to a folder that a page runs by WebGPU.

        hg.export_web("digits", classify, images)

    A page then has `import {load} from "./digits/model.js"`, `const model = await load("digits")` and
    `await model.run({images: new Float32Array(...)})`. The folder has shaders (WGSL), `program.json`, `weights.bin`,
    and the module, which needs nothing else. See docs/saved.md.

    Args:
        path: the folder, which is made; files of an earlier export in it are replaced.
        function: jitted or not; it gives tensors, in tuples, lists or dicts.
        examples: arrays and tensors like those of each call, or one `hg.Arguments(...)` of them; other values are
            fixed.

    Raises:
        TraceError: the function has loops or choices that stay on the device, or takes numbers of each call.
        UnsupportedDType, UnsupportedOperation: it needs what no browser has: f64, say.
    """
    call, *others = calls_of(examples)
    if others:
        raise TraceError(f"export_web: a folder has one signature, got {len(examples)}")
    case = case_of(_contiguous(function), call)
    graph = case.trace.graph
    if graph.controls or case.trace.formulas.wanted or case.trace.formulas.returned:
        what = "a loop or a choice" if graph.controls else "a number of the call: give it as an array"
        raise TraceError(f"export_web: {case.jitted.who} has {what}")
    folder = Path(path)
    program, texts, weights = _program(case)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*_*.wgsl"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "weights.bin").write_bytes(weights)
    for module in MODULE.iterdir():
        shutil.copyfile(module, folder / module.name)
    (folder / "program.json").write_text(json.dumps(program, allow_nan=False), encoding="utf-8")


def _contiguous(function: Any) -> Jitted:
    """The function with results whose elements lie in order."""
    jitted = function if isinstance(function, Jitted) else Jitted(function)

    def run(*args: Any, **kwargs: Any) -> Any:
        return mapped(
            jitted.function(*args, **kwargs), lambda x: x.contiguous() if isinstance(x, Tensor) else x
        )

    run.__name__ = jitted.who
    run.__wrapped__ = jitted.function  # type: ignore[attr-defined]  # its names are those of the arguments
    return Jitted(run, fast_math=jitted.fast_math)


def _program(case: Case) -> tuple[dict[str, Any], dict[str, str], bytes]:
    """What program.json says, shaders by file, and the weights' bytes."""
    trace, graph = case.trace, case.trace.graph
    layouts = [*graph.inputs.values(), *(graph.layouts[v] for v in graph.outputs)]
    plan = settled(assemble(graph, Target(LIMITS), case.jitted.fast_math).plan, len(layouts), LIMITS)
    buffers = [_bytes(layout.reach_bytes) for layout in layouts]
    areas = [Binding(k, 0, layout.reach_bytes) for k, layout in enumerate(layouts)]
    arenas = arrange(plan, len(layouts), LIMITS)
    for place, scratch in zip(arenas.places, plan.scratch, strict=True):
        areas.append(Binding(len(layouts) + place.arena, place.offset, scratch.size * scratch.dtype.itemsize))
    buffers += map(_bytes, arenas.sizes)
    texts: dict[str, str] = {}
    steps = [_step(each, texts) for each in _steps(plan, areas, buffers)]
    tensors = len(case.call.tensors)
    weights, placed = bytearray(), []
    for k, x in enumerate(trace.captured, tensors):
        raw = _memory(x)
        weights += bytes(aligned(len(weights), ALIGNMENT) - len(weights))
        placed.append({"buffer": k, "at": len(weights), "bytes": len(raw)})
        weights += raw
    first = len(graph.inputs)
    shown = [
        _described(n, x, k) for k, (n, x) in enumerate(zip(_names(case), layouts[:tensors], strict=True))
    ]
    every = zip(paths(trace.tree), leaves(trace.tree), strict=True)
    results = [(path, leaf) for path, leaf in every if isinstance(leaf, Traced)]
    given = [
        _described(_plain(path) or "result", x.layout, first + place)
        for (path, x), place in zip(results, trace.positions, strict=True)
    ]
    _check(case.jitted.who, shown, "arguments")
    _check(case.jitted.who, given, "results")
    program = {
        "format": FORMAT,
        "hologram": hologram.__version__,
        "name": case.jitted.who,
        "limits": {
            "maxStorageBufferBindingSize": max(buffers, default=16),
            "maxBufferSize": max(buffers, default=16),
        },
        "buffers": buffers,
        "inputs": shown,
        "outputs": given,
        "weights": placed,
        "weightsBytes": len(weights),
        "weightsSha256": hashlib.sha256(weights).hexdigest(),
        "shaders": list(texts),
        "steps": steps,
    }
    return program, texts, bytes(weights)


def _steps(plan: Plan, areas: list[Binding], buffers: list[int]) -> Iterator[Exported]:
    """The dispatches, and copies, in new buffers, of what one may not see twice."""
    for step in plan.steps:
        seen = [areas[k] for k in step.operands]
        for k in seen_twice(step, seen):
            assert step.kernel.buffers[k].access is Access.READ
            words = Layout.contiguous(u32, (_bytes(seen[k].nbytes) // 4,))
            copy = Binding(len(buffers), 0, 4 * words.size)
            buffers.append(copy.nbytes)
            (copying,) = settled(copy_plan(words, words), 2, LIMITS).steps
            yield from filter(None, [exported(copying, [replace(seen[k], nbytes=copy.nbytes), copy])])
            seen[k] = copy
        yield from filter(None, [exported(step, seen)])


def _step(step: Exported, texts: dict[str, str]) -> dict[str, Any]:
    """A step as JSON; shaders of the same text are one file."""
    number = next((k for k, text in enumerate(texts.values()) if text == step.text), len(texts))
    if number == len(texts):
        texts[f"{number:03d}_{step.entry[:80]}.wgsl"] = step.text
    return {
        "shader": number,
        "entry": step.entry,
        "writable": step.writable,
        "bindings": step.bindings,
        "parameters": step.parameters,
        "groups": step.groups,
    }


def _memory(x: Tensor) -> bytes:
    """What a tensor sees of its buffer, from the beginning on, in whole vectors."""
    flat = Tensor(x.buffer, Layout.contiguous(x.dtype, (x.layout.span[1],))).to_numpy()
    raw = np.ascontiguousarray(flat).tobytes()
    return raw + bytes(_bytes(len(raw)) - len(raw))


def _bytes(nbytes: int) -> int:
    return max(16, aligned(nbytes, 16))


def _described(name: str, layout: Layout, buffer: int) -> dict[str, Any]:
    nbytes = layout.size * layout.dtype.itemsize
    return {
        "name": name,
        "dtype": layout.dtype.name,
        "shape": layout.shape,
        "bytes": nbytes,
        "buffer": buffer,
    }


def _check(who: str, described: list[dict[str, Any]], what: str) -> None:
    """Refuses what a page could not tell apart, or has no arrays for."""
    names = [each["name"] for each in described]
    arrays = re.findall(r"(\w+): \w+Array\b", (MODULE / "model.js").read_text(encoding="utf-8"))
    for name, each in zip(names, described, strict=True):
        if names.count(name) > 1:
            raise TraceError(
                f"export_web: {who} has two {what} that a page would call {name!r}: rename a key"
            )
        if each["dtype"] not in arrays:
            raise UnsupportedDType(
                f"export_web: {who}: no array of a page holds {each['dtype']}, of {name!r}"
            )


def _names(case: Case) -> list[str]:
    """Of the tensors among the arguments: the parameter's, and keys behind dots."""
    named = [
        *zip(case.names, case.example.args, strict=True),
        *sorted(case.example.kwargs.items()),
    ]
    return [
        _plain(path)
        for k, (name, tree) in enumerate(named)
        for path, leaf in zip(paths(tree, name or str(k)), leaves(tree), strict=True)
        if isinstance(leaf, (Tensor, np.ndarray))
    ]


def _plain(path: str) -> str:
    return path.replace("['", ".").replace("[", ".").replace("']", "").replace("]", "").lstrip(".")
