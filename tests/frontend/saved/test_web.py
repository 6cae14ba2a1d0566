"""Exported folders in a browser: pages compute what the functions do, and say what is wrong with a download."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.saved.export import FORMAT, PLANS
from hologram.frontend.tree import leaves
from tests.frontend.saved import functions
from tests.frontend.saved.pages import browsed, needs_browser, with_arguments


def weighed(ex: hg.Executor) -> functions.Case:
    """Much that is made of weights alone, in turns with what is not, and of the results of both."""
    w = ex.tensor(np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32))

    def function(x: hg.Tensor) -> hg.Tensor:
        own = hg.softmax(hg.cumsum(w, axis=1), dim=0)
        return hg.cumsum(x @ own, axis=1) @ hg.sort(own @ own, axis=0)

    return function, (ex.tensor(np.linspace(-1, 1, 80, dtype=np.float32).reshape(2, 40)),)


CASES = (
    weighed,
    functions.perceptron,
    functions.packed,
    functions.written,
    functions.complex_numbers,
    functions.random,
)


def kept(ex: hg.Executor) -> functions.Case:
    """State: sums that begin with something, rows that are written in place, and two that change places."""

    def step(x: hg.Tensor, at: hg.Tensor, state: dict[str, hg.Tensor]) -> dict[str, Any]:
        total = state["total"] + x
        rows = hg.scatter(state["rows"], at.unsqueeze(0).expand((1, 5)), total.unsqueeze(0), dim=0)
        changed = {"total": total, "rows": rows, "a": state["b"], "b": state["a"] * 2.0}
        return {"seen": hg.sum(rows, axis=0) + state["a"], "state": changed}

    begin = {"total": np.arange(5), "rows": np.zeros((4, 5)), "a": np.ones(5), "b": np.full(5, 3)}
    state = {name: ex.tensor(array.astype(np.float32)) for name, array in begin.items()}
    return step, (
        ex.tensor(np.linspace(0, 1, 5, dtype=np.float32)),
        ex.tensor(np.array([2], np.int32)),
        state,
    )


@pytest.fixture(scope="module")
def ex() -> Iterator[hg.Executor]:
    with hg.Executor(backend="cpu") as executor:
        yield executor


@needs_browser
def test_pages_compute_what_functions_do(ex: hg.Executor, tmp_path: Path) -> None:
    site = tmp_path / "site"
    programs, wanted = {}, {}
    for case in CASES:
        function, args = case(ex)
        hg.export_web(site / case.__name__, function, *args)
        programs[case.__name__] = with_arguments(site / case.__name__, args)
        results = hg.jit(function)(*args)
        wanted[case.__name__] = [x.to_numpy() for x in leaves(results) if isinstance(x, hg.Tensor)]
    step, (x, at, state) = kept(ex)
    hg.export_web(site / "kept", step, x, at, state, state="state")
    programs["kept"] = with_arguments(site / "kept", (x, at))
    again = step(x, at, step(x, at, state)["state"])  # a page calls twice
    wanted["kept"] = [again["seen"].to_numpy()]
    bad = {
        "short": "bytes are needed, got",
        "changed": "its checksum is another",
        "later": f"format {FORMAT} is needed, got {FORMAT + 1}",
        "cut": ".json: it is not whole",
        "unbegun": ".json: it has no begin",
    }
    for name in bad:
        shutil.copytree(site / "perceptron", site / name)
    weights = (site / "perceptron" / "weights.bin").read_bytes()
    (site / "short" / "weights.bin").write_bytes(weights[:-5])
    (site / "changed" / "weights.bin").write_bytes(bytes([weights[0] ^ 1]) + weights[1:])
    for plan in PLANS:
        whole = (site / "perceptron" / plan).read_text()
        (site / "later" / plan).write_text(json.dumps(programs["perceptron"] | {"format": FORMAT + 1}))
        (site / "cut" / plan).write_text(whole[: len(whole) // 2])
        (site / "unbegun" / plan).write_text(whole.replace('"begin"', '"began"'))
    posted = browsed(site, [*programs, *bad, "missing"], tmp_path / "profile")
    for name, program in programs.items():
        assert f"{name}/error" not in posted, posted[f"{name}/error"]
        assert b"got nothing" in posted[f"{name}/without"]
        for described, host in zip(program["outputs"], wanted[name], strict=True):
            assert tuple(described["shape"]) == host.shape
            found = np.frombuffer(posted[f"{name}/{described['name']}"], host.dtype).reshape(host.shape)
            atol = 2e-4 * float(np.abs(host.astype(np.float64)).max(initial=1.0))
            np.testing.assert_allclose(found, host, rtol=2e-5, atol=atol, err_msg=name)
    for name, said in bad.items():
        assert said in posted[f"{name}/error"].decode()
    assert "404" in posted["missing/error"].decode()


def test_what_a_folder_holds(ex: hg.Executor, tmp_path: Path) -> None:
    w = ex.ones((8, 4))
    hg.export_web(
        tmp_path / "m",
        lambda x, other: {"y": (x["a"] @ w, other[0].T, "fixed")},
        {"a": ex.ones((3, 8))},
        [ex.ones((2, 5))],
    )
    program = json.loads((tmp_path / "m" / "program.json").read_text())
    assert [(x["name"], x["shape"]) for x in program["inputs"]] == [("x.a", [3, 8]), ("other.0", [2, 5])]
    assert [(x["name"], x["shape"]) for x in program["outputs"]] == [("y.0", [3, 4]), ("y.1", [5, 2])]
    assert program["weightsBytes"] == (tmp_path / "m" / "weights.bin").stat().st_size == 128
    text = "".join((tmp_path / "m" / name).read_text() for name in program["shaders"])
    assert "enable" not in text  # what not every browser has
    assert "var<immediate>" not in text
    assert {"model.js", "model.d.ts"} <= {p.name for p in (tmp_path / "m").iterdir()}


def test_named_arguments_keep_their_names(ex: hg.Executor, tmp_path: Path) -> None:
    x, y, z = ex.ones((2,)), ex.ones((3, 2)), ex.ones((4, 1, 1))
    hg.export_web(
        tmp_path / "m", lambda x, *, other, by: x * other["y"] + by, hg.Arguments(x, other={"y": y}, by=z)
    )
    program = json.loads((tmp_path / "m" / "program.json").read_text())
    found = {each["name"]: each["shape"] for each in program["inputs"]}
    assert found == {"x": [2], "by": [4, 1, 1], "other.y": [3, 2]}
    with pytest.raises(hg.TraceError, match="a folder has one signature, got 2"):
        hg.export_web(tmp_path / "two", lambda x: x + 1.0, hg.Arguments(x), hg.Arguments(y))


def test_an_export_replaces_the_one_before(ex: hg.Executor, tmp_path: Path) -> None:
    for function in (lambda x: hg.sort(x), lambda x: x + 1.0):
        hg.export_web(tmp_path / "m", function, ex.ones((5000,)))
        programs = [json.loads((tmp_path / "m" / plan).read_text()) for plan in PLANS]
        shaders = {name for program in programs for name in program["shaders"]}
        assert {p.name for p in (tmp_path / "m").glob("*.wgsl")} == shaders


def test_state_is_named_by_arguments_and_results(ex: hg.Executor, tmp_path: Path) -> None:
    step, (x, at, state) = kept(ex)
    hg.export_web(tmp_path / "m", step, x, at, state, state=("state.rows", "state.total"))
    program = json.loads((tmp_path / "m" / "program.json").read_text())
    assert [each["name"] for each in program["inputs"]] == ["x", "at", "state.a", "state.b"]
    assert [each["name"] for each in program["state"]] == ["state.rows", "state.total"]
    assert {each["name"] for each in program["outputs"]} == {"seen", "state.a", "state.b"}
    assert program["weightsBytes"] == 32  # what is zeros is not written
    rows = next(each["buffer"] for each in program["state"] if each["name"] == "state.rows")
    assert all(rows not in copy[:2] for copy in program["copies"])  # it is written in place
    with pytest.raises(
        hg.TraceError, match=r"state names arguments with tensors, x, at, state\.a.*got 'rows'"
    ):
        hg.export_web(tmp_path / "m", step, x, at, state, state="rows")
    with pytest.raises(
        hg.ShapeError, match=r"takes the place of 'x' must be f32 of \(5,\), got f32 of \(1,\)"
    ):
        hg.export_web(tmp_path / "m", lambda x: {"x": x[:1]}, x, state="x")


def test_no_dispatch_sees_more_than_a_browser_binds(ex: hg.Executor, tmp_path: Path) -> None:
    """Rows that are written in place are no further buffers, but are buffers."""
    x, at = [ex.ones((1, 4)) for _ in range(6)], ex.tensor(np.zeros((1, 4), np.int32))
    state = [ex.zeros((8, 4)) for _ in x]

    def step(x: list[hg.Tensor], at: hg.Tensor, state: list[hg.Tensor]) -> dict[str, Any]:
        return {"state": [hg.scatter(s, at, 2.0 * new, dim=0) for new, s in zip(x, state, strict=True)]}

    hg.export_web(tmp_path / "m", step, x, at, state, state="state")
    for plan in PLANS:
        program = json.loads((tmp_path / "m" / plan).read_text())
        assert max(len(step["bindings"]) for step in program["steps"]) <= 8
        assert not program["copies"]


def test_what_is_made_of_weights_alone_is_computed_once(ex: hg.Executor, tmp_path: Path) -> None:
    function, args = weighed(ex)
    hg.export_web(tmp_path / "m", function, *args)
    for plan in PLANS:
        program = json.loads((tmp_path / "m" / plan).read_text())
        begin, steps = program["begin"], program["steps"]
        assert len(begin) > 2
        written = {
            binding[0]
            for step in begin
            for binding, writable in zip(step["bindings"], step["writable"], strict=True)
            if writable
        }
        read, given = (
            {binding[0] for step in steps for binding in step["bindings"]},
            {each["buffer"] for each in program["inputs"]},
        )
        assert written & read
        assert not any(binding[0] in given for step in begin for binding in step["bindings"])
        assert given <= read


def test_packed_weights_stay_packed(ex: hg.Executor, tmp_path: Path) -> None:
    """However many: room is there for one that is unpacked, not for all."""
    sizes: dict[str, list[int]] = {plan: [] for plan in PLANS}
    for count in (1, 4):
        own = [hg.Packed.quantize(ex.ones((256, 256)), "int4g32", ex) for _ in range(count)]

        def function(x: hg.Tensor, own: list[Any] = own) -> hg.Tensor:
            for w in own:
                x = hg.linear(x, w)
            return x

        hg.export_web(tmp_path / "m", function, ex.ones((64, 256)))
        for plan in PLANS:
            sizes[plan].append(sum(json.loads((tmp_path / "m" / plan).read_text())["buffers"]))
    for one, four in sizes.values():
        assert four - one < 256 * 256 * 4


def test_what_no_page_runs_is_refused(ex: hg.Executor, tmp_path: Path) -> None:
    x = ex.ones((3,))
    with pytest.raises(hg.TraceError, match="has a number of the call: give it as an array"):
        hg.export_web(tmp_path / "m", lambda x, n: x * n, x, 2.0)
    with pytest.raises(hg.TraceError, match="has a loop or a choice"):
        hg.export_web(tmp_path / "m", lambda x: hg.scan(lambda c, _: (c + 1.0, c), x, None, length=3), x)
    with pytest.raises(hg.UnsupportedDType, match="f64"):
        hg.export_web(tmp_path / "m", lambda x: x.astype("f64") * 2.0, x)
    with pytest.raises(hg.UnsupportedDType, match="no array of a page holds f8e5m2, of 'x'"):
        hg.export_web(tmp_path / "m", lambda x: x.astype("f32"), x.astype("f8e5m2"))
    with pytest.raises(hg.TraceError, match=r"two results that a page would call 'a\.b'"):
        hg.export_web(tmp_path / "m", lambda x: {"a.b": x + 1.0, "a": {"b": x + 2.0}}, x)
    with pytest.raises(hg.TraceError, match=r"two arguments that a page would call 't\.a\.b'"):
        hg.export_web(tmp_path / "m", lambda t: t["a.b"] + t["a"]["b"], {"a.b": x, "a": {"b": x}})
    assert not (tmp_path / "m").exists()
