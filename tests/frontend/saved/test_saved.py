"""Saved programs: what a file gives, here, on other backends, and in another process, is what the function gives."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.backends import registry
from hologram.foundation.dtypes import f16
from hologram.frontend.saved.operations import known
from hologram.frontend.tree import leaves, mapped
from hologram.opset.forms.operation import Operation
from tests.frontend.jit.recipe_steps import Kind
from tests.frontend.jit.recipes import Recipe, arguments, recipes, run
from tests.frontend.saved.functions import CASES, Pair


def bits(results: Any) -> list[Any]:
    """Leaves of results: dtypes with the bytes of elements, and what is no tensor."""
    return [
        (x.dtype.name, x.to_numpy().tobytes()) if isinstance(x, hg.Tensor) else x for x in leaves(results)
    ]


def elsewhere(tree: Any, executor: hg.Executor) -> Any:
    """A tree with its tensors on another executor."""
    return mapped(tree, lambda x: x.to_device(executor) if isinstance(x, hg.Tensor) else x)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_file_gives_what_the_function_gives(
    executor: hg.Executor, tmp_path: Path, case: Callable[..., Any]
) -> None:
    function, args = case(executor)
    jitted = hg.jit(function)
    hg.save_program(tmp_path / "f.holo", jitted, *args)
    program = hg.load(tmp_path / "f.holo", device=executor)
    for _ in range(2):
        assert bits(program(*args)) == bits(jitted(*args))
    assert program.dispatches() == jitted.dispatches(*args)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_file_runs_on_other_backends(
    executor: hg.Executor, tmp_path: Path, case: Callable[..., Any]
) -> None:
    function, args = case(executor)
    hg.save_program(tmp_path / "f.holo", function, *args)
    wanted = leaves(hg.jit(function)(*args))
    for name in ("cpu", "webgpu"):
        if name == executor.backend or not registry.probe(name).available:
            continue
        with hg.Executor(backend=name) as other:
            found = leaves(hg.load(tmp_path / "f.holo", device=other)(*elsewhere(args, other)))
            for ours, theirs in zip(found, wanted, strict=True):
                if isinstance(theirs, hg.Tensor):
                    host = theirs.to_numpy()
                    atol = 2e-4 * float(np.abs(host).max(initial=1.0))
                    np.testing.assert_allclose(ours.to_numpy(), host, rtol=2e-5, atol=atol)
                else:
                    assert ours == theirs


def given(recipe: Recipe, skipped: set[int], *args: Any) -> Any:
    return run(recipe, args, skipped)


@pytest.mark.parametrize("kind", Kind)
def test_random_functions(executor: hg.Executor, tmp_path: Path, kind: Kind) -> None:
    for recipe in recipes(kind, 40, 4):
        tensors, skipped = arguments(recipe, executor), set[int]()
        jitted: Any = hg.jit(partial(given, recipe, skipped))
        hg.save_program(tmp_path / "r.holo", jitted, *tensors)
        contiguous = [t.clone() for t in tensors]
        assert bits(hg.load(tmp_path / "r.holo", device=executor)(*tensors)) == bits(jitted(*contiguous)), (
            recipe
        )


SCRIPT = """
import sys
sys.modules["torch"] = None  # who asks for it is refused
import numpy as np
import hologram as hg
path, backend, out = sys.argv[1:]
with hg.Executor(backend=backend) as ex:
    program = hg.load(path, device=ex)
    np.save(out, program(np.arange(24, dtype=np.float32).reshape(4, 6) / 7).to_numpy())
assert "hologram.frontend.jit.recorder" in sys.modules and program.dispatches() < 8
"""


def test_every_operation_of_hologram_has_a_name_in_files() -> None:
    named = known()
    modules = [m for n, m in list(sys.modules.items()) if n.startswith("hologram.opset.")]
    inner = [x for m in modules for x in vars(m).values() if isinstance(x, Operation)]
    assert len(inner) > 200
    assert [x for x in inner if named[x.name] is not x] == []


def test_another_process_needs_neither_torch_nor_the_source(executor: hg.Executor, tmp_path: Path) -> None:
    w = executor.tensor(np.random.default_rng(1).standard_normal((6, 5)).astype(np.float32))
    step = hg.jit(lambda x: hg.softmax(hg.silu(x @ w), dim=-1))
    x = executor.tensor(np.arange(24, dtype=np.float32).reshape(4, 6) / 7)
    hg.save_program(tmp_path / "f.holo", step, x)
    command = [sys.executable, "-c", SCRIPT, tmp_path / "f.holo", executor.backend, tmp_path / "y.npy"]
    subprocess.run(list(map(str, command)), check=True, timeout=120)
    assert np.load(tmp_path / "y.npy").tobytes() == step(x).to_numpy().tobytes()


def test_several_signatures_share_weights(executor: hg.Executor, tmp_path: Path) -> None:
    w = executor.tensor(np.ones((64, 64), np.float32))

    def product(x: Any, scale: float = 2.0, *, mask: Any = None) -> Any:
        y = x @ w * scale
        return y if mask is None else hg.where(mask, y, 0.0)

    one, many = (executor.tensor(np.ones((n, 64), np.float32)) for n in (1, 9))
    mask = executor.tensor(np.arange(64) % 2 == 0)
    hg.save_program(
        tmp_path / "f.holo",
        product,
        hg.Arguments(one),
        hg.Arguments(many, 3.0),
        hg.Arguments(many, mask=mask),
    )
    assert (tmp_path / "f.holo").stat().st_size < 2 * w.nbytes
    program = hg.load(tmp_path / "f.holo", device=executor)
    assert len(program.signatures) == 3
    assert (program(one).shape, program(many, 0.5).to_numpy()[0, 0]) == ((1, 64), 32.0)
    assert program(many, scale=0.5).to_numpy()[0, 0] == 32.0  # by its name
    assert program(x=many, mask=mask).to_numpy()[0, :2].tolist() == [128.0, 0.0]
    assert program(many.to_numpy(), 0.5).to_numpy()[0, 0] == 32.0
    with pytest.raises(
        hg.ShapeError, match=r"takes one of\n  \(x: f32\[1,64\]\) -> f32\[1,64\], but x must be"
    ):
        program(many[:4])


def test_a_call_of_another_form_is_told_what_the_file_takes(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.tensor(np.ones((3, 4), np.float32))

    def f(pair: Any, size: int, mode: str) -> Any:
        return pair["x"].reshape(-1)[: int(size)] if mode == "flat" else pair["x"]

    hg.save_program(tmp_path / "f.holo", f, {"x": x}, 5, "flat")
    program = hg.load(tmp_path / "f.holo", device=executor)
    assert program({"x": x}, 5, "flat").shape == (5,)
    takes = r"; the file takes \(pair: \{'x': f32\[3,4\]\}, size: 5, mode: 'flat'\) -> f32\[5\]"
    for args, said in (
        (({"x": x.T}, 5, "flat"), r"pair\['x'\] must be f32\[3,4\], got f32\[4,3\]"),
        (({"x": x.astype("f16")}, 5, "flat"), r"pair\['x'\] must be f32\[3,4\], got f16\[3,4\]"),
        (({"y": x}, 5, "flat"), r"pair must be \{'x': f32\[3,4\]\}, got dict"),
        (({"x": 3.0}, 5, "flat"), r"pair\['x'\] must be f32\[3,4\], got float 3.0"),
        (({"x": x}, 6, "flat"), "size must be 5, got int 6"),  # whose value was asked for
        (({"x": x}, 5, "deep"), "mode must be 'flat', got str 'deep'"),
        (({"x": x}, 5), "what it is given must be 3 arguments, got 2 arguments"),
    ):
        with pytest.raises(hg.ShapeError, match=f"f: {said}{takes}"):
            program(*args)
    with hg.Executor(backend="cpu") as other, pytest.raises(hg.ShapeError, match="it was loaded on"):
        program({"x": other.tensor(x.to_numpy())}, 5, "flat")
    hg.save_program(tmp_path / "g.holo", lambda x: x + 1.0, x)
    plain = hg.load(tmp_path / "g.holo", device=executor)
    assert plain(x).shape == plain(x).shape  # looked up from now on
    with hg.Executor(backend="cpu") as other, pytest.raises(hg.ShapeError, match="must belong to"):
        plain(other.tensor(x.to_numpy()))


def test_views_and_arrays_are_taken_and_donated_arguments_freed(
    executor: hg.Executor, tmp_path: Path
) -> None:
    step = hg.jit(lambda p, g: (p - g * 0.5, g.sum()), donate=0)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    hg.save_program(tmp_path / "f.holo", step, executor.tensor(values), executor.tensor(values))
    program = hg.load(tmp_path / "f.holo", device=executor)
    p, g = executor.tensor(values), executor.tensor(np.ascontiguousarray(values.T)).T
    place = p.buffer.live_block().place
    result, total = program(p, g)
    np.testing.assert_array_equal(result.to_numpy(), values * 0.5)
    assert total.item() == values.sum()
    assert p.buffer.freed
    assert result.buffer.live_block().place == place
    assert not g.buffer.freed
    strided = executor.tensor(np.ascontiguousarray(values.T)).T
    np.testing.assert_array_equal(program(strided, values)[0].to_numpy(), values * 0.5)
    assert strided.buffer.freed


KINDS = (
    np.int64,
    np.uint64,
    np.longlong,
    np.int32,
    np.float16,
    np.float64,
    np.bool_,
    np.complex64,
    np.complex128,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_numbers_of_numpy_keep_their_types(tmp_path: Path, kind: type[np.generic]) -> None:
    def scaled(x: Any, by: Any) -> Any:
        return x * 2.0 if isinstance(by, np.bool_) else x * by, by

    with hg.Executor(backend="cpu") as ex:
        x, by = ex.ones((3,)), kind(1)
        wanted, _ = scaled(x, by)
        hg.save_program(tmp_path / "f.holo", scaled, x, by)
        found, returned = hg.load(tmp_path / "f.holo", device=ex)(x, by)
        assert bits(found) == bits(wanted)
        assert returned == by
        assert type(returned) is np.dtype(np.dtype(kind).name).type
        with pytest.raises(hg.ShapeError, match="by must be"):
            hg.load(tmp_path / "f.holo", device=ex)(x, 1)


def test_transformations_go_through_a_program(executor: hg.Executor, tmp_path: Path) -> None:
    w = executor.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))

    def f(x: Any, scale: float) -> Any:
        last, _ = hg.scan(lambda c, _: (hg.tanh(c @ w @ w.T) * scale, None), x, None, length=3)
        return last.sum(axis=-1)

    x = executor.tensor(np.linspace(0, 1, 20, dtype=np.float32).reshape(5, 4))
    hg.save_program(tmp_path / "f.holo", f, x, 1.5)
    program = hg.load(tmp_path / "f.holo", device=executor)
    wanted, found = (hg.grad(lambda x, g=g: hg.sum(g(x, 0.75) ** 2))(x).to_numpy() for g in (f, program))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    within = hg.jit(lambda x: program(x * 2.0, 0.75) + 1.0)
    np.testing.assert_allclose(within(x).to_numpy(), f(x * 2.0, 0.75).to_numpy() + 1, rtol=1e-5)
    many = hg.vmap(lambda x: program(x, 0.75))(hg.stack([x, x * 2.0]))
    np.testing.assert_allclose(many.to_numpy()[1], f(x * 2.0, 0.75).to_numpy(), rtol=1e-5)


def test_what_a_file_cannot_hold_is_refused_at_saving(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.tensor(np.ones(3, np.float32))
    path = tmp_path / "f.holo"
    with pytest.raises(hg.TraceError, match="keys of dicts are saved if they are text or integers"):
        hg.save_program(path, lambda d: d[1.5], {1.5: x})
    with pytest.raises(hg.TraceError, match="a result: a object cannot be saved"):
        hg.save_program(path, lambda x: (x + 1, object()), x)
    with pytest.raises(hg.TraceError, match="the elements of a traced tensor"):
        hg.save_program(path, lambda x: x.to_numpy(), x)
    assert not list(tmp_path.iterdir())


def test_text_and_long_doubles_of_numpy_are_refused_at_saving(tmp_path: Path) -> None:
    with hg.Executor(backend="cpu") as ex:
        for value in (np.str_("mean"), np.longdouble(1)):
            with pytest.raises(hg.TraceError, match=f"a {type(value).__name__} of NumPy's cannot be saved"):
                hg.save_program(tmp_path / "f.holo", lambda x, value: (x + 1.0, value), ex.ones((3,)), value)


def test_a_device_without_a_dtype_refuses_it_by_name(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.ones((3,))
    hg.save_program(tmp_path / "f.holo", lambda x: (x.astype("f16") * 2.0).astype("f32"), x)
    with hg.Executor(executor.backend, executor.device.info.index) as own:
        own.limits = replace(own.limits, dtypes=own.limits.dtypes - {f16})
        with pytest.raises(hg.UnsupportedDType, match=r"cast: .* has no f16"):
            hg.load(tmp_path / "f.holo", device=own)


class Layer:
    def __init__(self, w: hg.Tensor) -> None:
        self.w = w

    @hg.jit
    def __call__(self, x: Any, scale: float) -> Any:
        return hg.relu(x @ self.w) * scale


def test_a_method_is_saved_with_its_instance(executor: hg.Executor, tmp_path: Path) -> None:
    layer, x = Layer(executor.ones((4, 2))), executor.ones((3, 4))
    hg.save_program(tmp_path / "f.holo", layer.__call__, x, 2.0)
    program = hg.load(tmp_path / "f.holo", device=executor)
    assert program(x, scale=0.5).to_numpy().tolist() == [[2.0, 2.0]] * 3
    assert str(program.signatures[0]) == "(x: f32[3,4], scale: float) -> f32[3,2]"


def test_pairs_are_taken_as_the_tuples_that_a_file_gives(executor: hg.Executor, tmp_path: Path) -> None:
    x = executor.tensor(np.ones(3, np.float32))
    hg.save_program(tmp_path / "f.holo", lambda p: Pair(p.left + 1.0, {"a": p.right}), Pair(x, x))
    program = hg.load(tmp_path / "f.holo", device=executor)
    for given in (Pair(x, x), (x, x), [x, x]):
        left, right = program(given)
        assert (left.to_numpy()[0], right["a"].to_numpy()[0]) == (2.0, 1.0)
