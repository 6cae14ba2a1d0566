"""A program shows itself as its text, which parses back, and in a line where many are listed."""

from __future__ import annotations

import pytest

from hologram.atlas.text import format_program, parse_program
from tests.golden.programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_its_text(name: str) -> None:
    program = PROGRAMS[name]
    assert parse_program(str(program)) == program
    assert f"{program}\n" == format_program(program)
    assert repr(program).startswith(f"Program({program.name}(")
    assert "\n" not in repr(program)
