"""Random programs: they verify, their text parses back, and evaluating them twice or in chunks gives the same."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from hologram.atlas import evaluate as evaluator
from hologram.atlas.evaluate import evaluate
from hologram.atlas.text import digest, format_program, parse_program
from hologram.atlas.verify import verify
from tests.programs import Case, programs

RELAXED = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@RELAXED
@given(programs())
def test_a_random_program_verifies_and_its_text_parses_back(case: Case) -> None:
    verify(case.program)
    again = parse_program(format_program(case.program))
    assert format_program(again) == format_program(case.program)
    assert digest(again) == digest(case.program)
    verify(again)


def run(case: Case) -> dict[str, bytes]:
    buffers = {name: array.copy() for name, array in case.buffers.items()}
    evaluate(case.program, buffers, case.scalars, case.grid)
    return {name: array.tobytes() for name, array in buffers.items()}


@pytest.mark.filterwarnings("error")
@RELAXED
@given(programs())
def test_chunks_do_not_change_the_result(case: Case) -> None:
    whole = run(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluator, "CHUNK", 3)
        assert run(case) == whole
    for name, array in case.buffers.items():
        if name.startswith("in_"):
            assert whole[name] == np.ascontiguousarray(array).tobytes()
