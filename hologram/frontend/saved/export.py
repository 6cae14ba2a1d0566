"""`hg.export_web`: a function as a folder that a page loads: shaders, weights, and the module that runs them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import hologram
from hologram.atlas.program import Access
from hologram.backends.webgpu.exported import LIMITS, SOFTWARE, Exported, exported, seen_twice
from hologram.compiler.fusion.assemble import assemble
from hologram.compiler.fusion.graph import Graph
from hologram.compiler.fusion.memory import arrange
from hologram.foundation.dtypes import u32
from hologram.foundation.errors import ShapeError, TraceError, UnsupportedDType
from hologram.frontend.jit.jitted import Jitted
from hologram.frontend.jit.traced import Traced
from hologram.frontend.saved.container import ALIGNMENT, aligned
from hologram.frontend.saved.saving import Case, calls_of, case_of
from hologram.frontend.tensor import Tensor
from hologram.frontend.tree import leaves, mapped, paths
from hologram.machine.kernel import Binding
from hologram.machine.layout import Layout
from hologram.machine.limits import Limits
from hologram.machine.plan import Plan, Step, Target
from hologram.opset.forms.map import copy_plan
from hologram.runtime.launches.launcher import settled

FORMAT = 3
MODULE = Path(__file__).parent / "web"
PLANS = {"program.json": LIMITS, "software.json": SOFTWARE}  # for GPUs, and for adapters that are software
SMALL = 1 << 16  # bytes that are kept beside weights whatever they were made of


def export_web(
    path: str | os.PathLike[str],
    function: Callable[..., Any],
    *examples: Any,
    state: str | Sequence[str] = (),
) -> None:
    """Writes a function, with the tensors that it closes over, to a folder that a page runs by WebGPU.

        hg.export_web("digits", classify, images)

    A page then has `import {load} from "./digits/model.js"`, `const model = await load("digits")` and
    `await model.run({images: new Float32Array(...)})`. The folder has shaders (WGSL), `program.json` and
    `software.json` (plans for GPUs, and for adapters that are none), `weights.bin`, and the module, which needs nothing
    else. See docs/pages.md.

    Args:
        path: the folder, which is made; files of an earlier export in it are replaced.
        function: jitted or not; it gives tensors, in tuples, lists or dicts.
        examples: arrays and tensors like those of each call, or one `hg.Arguments(...)` of them; other values are
            fixed.
        state: names of arguments that stay on the page's device from call to call. They begin as in the examples, or
            as the page says when it loads; a result of the same name takes an argument's place, in its memory where
            kernels may.

    Raises:
        ShapeError: a result is not of the dtype and the shape of the state whose place it takes.
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
    kept = (state,) if isinstance(state, str) else tuple(state)
    texts: dict[str, str] = {}
    programs = {file: _program(case, kept, limits, texts) for file, limits in PLANS.items()}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9]*_*.wgsl"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "weights.bin").write_bytes(next(weights for _, weights in programs.values()))
    for module in MODULE.iterdir():
        shutil.copyfile(module, folder / module.name)
    for file, (program, _) in programs.items():
        (folder / file).write_text(json.dumps(program, allow_nan=False), encoding="utf-8")


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


def _program(
    case: Case, state: tuple[str, ...], limits: Limits, texts: dict[str, str]
) -> tuple[dict[str, Any], bytes]:
    """What program.json says of a plan for such adapters, and the weights' bytes; adds to shaders, by file."""
    trace, graph = case.trace, case.trace.graph
    who, first = case.jitted.who, len(graph.inputs)
    names, results = _names(case), _results(case)
    kept = _kept(who, state, names)
    replaced = {kept[name]: place for name, _, place in results if name in kept}
    _check_state(who, {name: case.call.tensors[k] for name, k in kept.items()}, results)
    graph = _carrying(graph, replaced)
    layouts = [*graph.inputs.values(), *(graph.layouts[v] for v in graph.outputs)]
    assembly = assemble(graph, Target(limits), case.jitted.fast_math)
    plan = settled(assembly.plan, len(layouts), limits)
    areas, buffers = _homes(layouts, {first + k: source for k, source in assembly.donations.items()})
    arenas, own = arrange(plan, len(layouts), limits), len(buffers)
    for place, scratch in zip(arenas.places, plan.scratch, strict=True):
        areas.append(Binding(own + place.arena, place.offset, scratch.size * scratch.dtype.itemsize))
    buffers += map(_bytes, arenas.sizes)
    once = _once(plan, frozenset(range(len(names), first)), range(len(layouts), len(areas)), areas)
    rest = [step for step in plan.steps if not any(step is each for each in once)]
    read = {k for step in rest for k in step.operands}
    for k in sorted(read & {k for step in once for k in _written(step)}):
        # What is computed once is kept beside the arenas, but for what `begin` alone reads.
        areas[k] = Binding(len(buffers), 0, areas[k].nbytes)
        buffers.append(_bytes(areas[k].nbytes))
    begin, steps = (
        [_step(each, texts) for each in _steps(part, areas, buffers, limits)] for part in (once, rest)
    )
    shown = [_described(n, x, areas[k].memory) for k, (n, x) in enumerate(zip(names, layouts, strict=False))]
    given = [
        _described(name, x.layout, areas[first + place].memory)
        for name, x, place in results
        if name not in kept
    ]
    _check(who, shown, "arguments")
    _check(who, given, "results")
    captured = zip(areas[len(names) :], map(_memory, trace.captured), strict=False)
    begun = [(areas[k], _memory(case.call.tensors[k])) for k in kept.values()]
    weights, placed = _together(
        [*captured, *(pair for pair in begun if any(pair[1]))]
    )  # buffers begin as zeros
    copied = [(k, first + place) for k, place in replaced.items() if assembly.donations.get(place) != k]
    program = {
        "format": FORMAT,
        "hologram": hologram.__version__,
        "name": who,
        "limits": {
            "maxStorageBufferBindingSize": max(buffers, default=16),
            "maxBufferSize": max(buffers, default=16),
        },
        "buffers": buffers,
        "inputs": [each for each in shown if each["name"] not in kept],
        "outputs": given,
        "state": [each for each in shown if each["name"] in kept],
        "weights": placed,
        "weightsBytes": len(weights),
        "weightsSha256": hashlib.sha256(weights).hexdigest(),
        "shaders": sorted({each["shader"] for each in (*begin, *steps)}),
        "begin": begin,
        "steps": steps,
        "copies": [(areas[new].memory, areas[old].memory, buffers[areas[old].memory]) for old, new in copied],
    }
    return program, weights


def _homes(layouts: Sequence[Layout], taken: Mapping[int, int]) -> tuple[list[Binding], list[int]]:
    """Where tensors lie, and the sizes of buffers; `taken` are those that take the place of others before them."""
    areas: list[Binding] = []
    buffers: list[int] = []
    for k, layout in enumerate(layouts):
        if k in taken:
            areas.append(areas[taken[k]])
        else:
            areas.append(Binding(len(buffers), 0, layout.reach_bytes))
            buffers.append(_bytes(layout.reach_bytes))
    return areas, buffers


def _together(parts: Sequence[tuple[Binding, bytes]]) -> tuple[bytes, list[dict[str, int]]]:
    """The contents of buffers one after the other, and where each is."""
    whole, placed = bytearray(), []
    for area, raw in parts:
        whole += bytes(aligned(len(whole), ALIGNMENT) - len(whole))
        placed.append({"buffer": area.memory, "at": len(whole), "bytes": len(raw)})
        whole += raw
    return bytes(whole), placed


def _check_state(who: str, state: Mapping[str, Tensor], results: Sequence[tuple[str, Traced, int]]) -> None:
    """Raises ShapeError where a result cannot take the place of the state of its name."""
    for name, x, _ in results:
        old = state.get(name)
        if old is not None and (x.dtype, x.shape) != (old.dtype, old.shape):
            raise ShapeError(
                f"export_web: {who}: what takes the place of {name!r} must be {old.dtype} of {old.shape}, "
                f"got {x.dtype} of {x.shape}"
            )


def _kept(who: str, state: tuple[str, ...], names: Sequence[str]) -> dict[str, int]:
    """The arguments that are state, or parts of it, by name."""
    for each in state:
        if not any(name == each or name.startswith(f"{each}.") for name in names):
            raise TraceError(
                f"export_web: {who}: state names arguments with tensors, {', '.join(names)}, got {each!r}"
            )
    inside = tuple(f"{each}." for each in state)
    return {name: k for k, name in enumerate(names) if name in state or name.startswith(inside)}


def _carrying(graph: Graph, replaced: Mapping[int, int]) -> Graph:
    """The graph, some of whose outputs may take the memory of the inputs that they replace."""
    inputs = list(graph.inputs)
    carried = {graph.outputs[place]: inputs[k] for k, place in replaced.items()}
    return replace(graph, donated=frozenset(carried.values()), carried=carried)


def _results(case: Case) -> list[tuple[str, Traced, int]]:
    """Of the tensors that are returned the name, the tensor, and the output's number."""
    trace = case.trace
    every = zip(paths(trace.tree), leaves(trace.tree), strict=True)
    found = [(dotted(path) or "result", leaf) for path, leaf in every if isinstance(leaf, Traced)]
    return [(name, x, place) for (name, x), place in zip(found, trace.positions, strict=True)]


def _written(step: Step) -> list[int]:
    """The operands that a step writes."""
    accesses = (buffer.access for buffer in step.kernel.buffers)
    return [k for k, access in zip(step.operands, accesses, strict=True) if access is not Access.READ]


def _once(plan: Plan, weights: frozenset[int], scratch: range, areas: Sequence[Binding]) -> list[Step]:
    """The steps that see nothing but weights, and what such steps alone have made of them: the same at each call.

    Not those that make much more than they read: weights that are packed would all be there unpacked at once.
    """
    counts = Counter(k for step in plan.steps for k in _written(step))
    known, found = set(weights), list[Step]()
    for step in plan.steps:
        made = _written(step)
        seen = set(step.operands) - set(made)
        grown = sum(areas[k].nbytes for k in made) > max(sum(areas[k].nbytes for k in seen), SMALL)
        if known >= seen and not grown and all(k in scratch and counts[k] == 1 for k in made):
            known.update(made)
            found.append(step)
    return found


def _steps(
    steps: Sequence[Step], areas: list[Binding], buffers: list[int], limits: Limits
) -> Iterator[Exported]:
    """The dispatches, and copies, in new buffers, of what one may not see twice."""
    for step in steps:
        seen = [areas[k] for k in step.operands]
        for k in seen_twice(step, seen):
            assert step.kernel.buffers[k].access is Access.READ
            words = Layout.contiguous(u32, (_bytes(seen[k].nbytes) // 4,))
            copy = Binding(len(buffers), 0, 4 * words.size)
            buffers.append(copy.nbytes)
            (copying,) = settled(copy_plan(words, words), 2, limits).steps
            yield from filter(None, [exported(copying, [replace(seen[k], nbytes=copy.nbytes), copy], limits)])
            seen[k] = copy
        yield from filter(None, [exported(step, seen, limits)])


def _step(step: Exported, texts: dict[str, str]) -> dict[str, Any]:
    """A step as JSON; shaders of the same text are one file."""
    name = next((name for name, text in texts.items() if text == step.text), "")
    if not name:
        name = f"{len(texts):03d}_{step.entry[:80]}.wgsl"
        texts[name] = step.text
    return {
        "shader": name,
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
        dotted(path)
        for k, (name, tree) in enumerate(named)
        for path, leaf in zip(paths(tree, name or str(k)), leaves(tree), strict=True)
        if isinstance(leaf, (Tensor, np.ndarray))
    ]


def dotted(path: str) -> str:
    """A path that Python writes, as pages do: keys behind dots."""
    return path.replace("['", ".").replace("[", ".").replace("']", "").replace("]", "").lstrip(".")
