"""Explanations: what a jitted function becomes, in words and as data."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.atlas.text import parse_program
from hologram.backends import registry
from hologram.cli.calls import parse_arguments
from hologram.compiler.pipeline import identity
from hologram.foundation.errors import TraceError
from hologram.frontend.jit.explain import ExplainedLaunch, Explanation, explained_elsewhere


@hg.jit
def network(x: Any, weight: Any, bias: Any) -> Any:
    hidden = hg.gelu(x @ weight + bias)
    return hg.softmax(hidden, dim=-1), hidden


@pytest.fixture
def arguments(executor: Any) -> list[Any]:
    return [executor.ones(shape) for shape in ((64, 32), (32, 16), (16,))]


@pytest.fixture
def explanation(arguments: list[Any]) -> Explanation:
    return network.explain(*arguments)


def test_the_launches_are_those_that_run(
    explanation: Explanation, arguments: list[Any], executor: Any
) -> None:
    network(*arguments)
    with executor.profile() as profile:
        network(*arguments)
    launched = [(t.subject.kernel, t.subject.grid) for t in profile.launches]
    assert [(e.kernel, e.grid) for e in explanation.launches] == launched


def test_it_says_what_goes_in_and_out(explanation: Explanation, executor: Any) -> None:
    assert (explanation.function, explanation.backend) == ("network", executor.backend)
    assert explanation.device == executor.device.info.name
    assert sorted(explanation.inputs) == ["f32[16]", "f32[32,16]", "f32[64,32]"]
    assert explanation.outputs == ("f32[64,16]", "f32[64,16]")
    assert explanation.scratch_bytes > 0
    read = {name for launch in explanation.launches for name in launch.reads}
    written = {name for launch in explanation.launches for name in launch.writes}
    assert {"input 0", "input 1", "input 2"} <= read
    assert {"output 0", "output 1"} <= written


def test_groups_hold_every_operation_and_a_reason(explanation: Explanation) -> None:
    operations = [name for group in explanation.groups for name in group.operations]
    assert sorted(operations) == sorted(["matmul", "add", "gelu", "softmax"])
    assert explanation.operations == 4
    for group in explanation.groups:
        assert group.reasons
        assert all(": " in reason for reason in group.reasons)


def test_generated_kernels_come_with_their_canonical_form(explanation: Explanation) -> None:
    generated = [launch for launch in explanation.launches if not launch.tile]
    assert generated
    for launch in generated:
        program = parse_program(launch.form)
        assert program.name == launch.kernel
        assert identity(program) == launch.identity


def test_hand_written_kernels_are_named(explanation: Explanation) -> None:
    (product,) = (launch for launch in explanation.launches if launch.tile)
    assert product.tile.startswith("matmul")
    assert product.identity == ""
    assert "buffers a: f32 (read), b: f32 (read), out: f32 (write)" in product.form


def test_source_is_that_of_the_device(explanation: Explanation) -> None:
    assert all(launch.kernel in launch.source for launch in explanation.launches)


def test_the_text_holds_all_of_it(explanation: Explanation) -> None:
    text = str(explanation)
    for launch in explanation.launches:
        assert launch.source.splitlines()[-1].strip() in text
    for group in explanation.groups:
        assert all(f"apart because: {reason}" in text for reason in group.reasons)
    brief = explanation.text(source=False)
    assert len(brief) < len(text)
    assert "source" not in brief
    assert not [line for line in text.splitlines() if line != line.rstrip() and not line.strip()]


def test_it_is_plain_data(explanation: Explanation) -> None:
    found = json.loads(json.dumps(explanation.as_dict()))
    assert found["function"] == "network"
    launches = [launch for group in found["groups"] for launch in group["launches"]]
    assert [launch["kernel"] for launch in launches] == [e.kernel for e in explanation.launches]
    assert set(launches[0]) == set(ExplainedLaunch.__dataclass_fields__)


def test_nothing_is_computed(executor: Any) -> None:
    x = executor.ones((8,))
    calls: list[int] = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return hg.exp(x)

    jitted = hg.jit(counted)
    with executor.profile() as profile:
        jitted.explain(x)
        jitted.explain(x)
    assert profile.launches == ()
    assert calls == [1]


def test_donations_are_told(executor: Any) -> None:
    def update(x: Any, y: Any) -> Any:
        return x - 0.5 * y

    found = hg.jit(update, donate=0).explain(executor.ones((64,)), executor.ones((64,)))
    assert found.donations == ((0, found.inputs.index("f32[64]")),)
    assert "output 0 takes the memory of input 0" in str(found)


def test_rows_that_a_device_spreads_stay_with_their_group(executor: Any) -> None:
    x = executor.ones((2, 1 << 20))
    found = hg.jit(lambda x: hg.exp(hg.sum(x, axis=1))).explain(x)
    with executor.profile() as profile:
        hg.jit(lambda x: hg.exp(hg.sum(x, axis=1)))(x)
    assert [e.kernel for e in found.launches] == [t.subject.kernel for t in profile.launches]
    assert sum(len(group.launches) for group in found.groups) == len(profile.launches)


@pytest.mark.parametrize("name", list(registry.discover()))
def test_a_backend_that_is_not_here_can_be_asked(name: str) -> None:
    with hg.Executor("cpu") as executor:
        compiled = network.compiled(*[executor.ones(shape) for shape in ((64, 32), (32, 16), (16,))])
        found = explained_elsewhere(compiled, name)
    assert (found.backend, found.device) == (name, "a reference device")
    assert all(launch.kernel in launch.source for launch in found.launches)
    assert [g.operations for g in found.groups]


def test_explaining_inside_of_a_trace_is_refused(executor: Any) -> None:
    inner = hg.jit(hg.exp)
    with pytest.raises(TraceError, match="explain"):
        hg.jit(lambda x: inner.explain(x))(executor.ones((8,)))


def test_tensors_are_spelled_as_the_command_takes_them(executor: Any) -> None:
    explanation = hg.jit(lambda a, b: a * b).explain(executor.ones(()), executor.ones((2, 3)))
    assert explanation.inputs == ("f32", "f32[2,3]")
    given = parse_arguments(", ".join(explanation.inputs))
    assert [t.shape for t in given.positional] == [(), (2, 3)]


def test_kernels_that_differ_have_names_that_differ(executor: hg.Executor) -> None:
    x = executor.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6))
    functions = [
        hg.jit(f)
        for f in (
            lambda t: hg.exp(t) * 2 + 1,
            lambda t: hg.exp(t) * 5 + t,
            lambda t: hg.relu(t @ t.mT) * 2,
            lambda t: hg.relu(t @ t.mT) * 3,
            lambda t: t @ t.mT,
        )
    ]
    for f in functions:
        f(x)
    with executor.profile() as profile:
        for f in functions:
            f(x)
    kernels = {step.kernel for f in functions for step in f.compiled(x).assembly.plan.steps}
    assert len({t.subject.kernel for t in profile.launches}) == len(kernels) >= 5
    again = hg.jit(lambda u: 1 + 2 * hg.exp(u))
    with executor.profile() as profile:
        again(x)
        functions[0](x)
    assert [k.count for k in profile.kernels] == [2]


def test_passes_come_with_laws_times_and_sizes(explanation: Explanation) -> None:
    for launch in explanation.launches:
        names = [p.name for p in launch.passes]
        assert len(set(names)) == len(names)
        if not launch.tile:
            assert names[0] == "simplify and order"
            assert "expand functions" in names
            assert launch.passes[-1].after >= sum(1 for _ in parse_program(launch.form).body.walk())
        for before, after in pairwise(launch.passes):
            assert before.after == after.before
        for p in launch.passes:
            assert p.law
            assert p.microseconds >= 0
            assert f"{p.name} " in str(explanation)
            assert f"{p.before} -> {p.after} instructions" in str(explanation)
