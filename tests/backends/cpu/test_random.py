"""Random programs give, compiled, what the evaluator gives."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings

from hologram.atlas.evaluate import evaluate
from hologram.machine.kernel import Binding
from tests.backends.cpu.llvm.launching import device, place
from tests.programs import Case, programs


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(programs(exact=True, division=True))
def test_random_programs(case: Case) -> None:
    cpu = device()
    expected = {name: array.copy() for name, array in case.buffers.items()}
    evaluate(case.program, expected, case.scalars, case.grid)
    memories = {name: place(cpu, array) for name, array in case.buffers.items()}
    bindings = [Binding(memories[b.name], 0, case.buffers[b.name].nbytes) for b in case.program.buffers]
    numbers = [case.scalars[s.name] for s in case.program.scalars]
    cpu.compile(case.program).bind(bindings, numbers, case.grid)()
    for parameter in case.program.buffers:
        wanted = expected[parameter.name]
        ours = memories[parameter.name].bytes[: wanted.nbytes].view(wanted.dtype).reshape(wanted.shape)
        if parameter.dtype.is_float:
            ours, wanted = ours.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_array_equal(ours, wanted, err_msg=parameter.name)
