"""Programs as keys: equal ones have equal hashes, which do not travel to another process."""

from __future__ import annotations

import pickle
from dataclasses import replace

from hologram.atlas.text import parse_program

TEXT = """program scaled rank 1 reduced 0
buffer x : f32 read_write
%0 = lane : index
%1 = load x %0 : f32
%2 = add %1, %1 : f32
store x %0, %2
"""


def test_equal_programs_are_one_key() -> None:
    one, other = parse_program(TEXT), parse_program(TEXT)
    assert {one: 1}[other] == 1
    assert hash(replace(one, name="other")) != hash(one)


def test_a_pickled_program_leaves_its_hash_behind() -> None:
    program = parse_program(TEXT)
    hash(program)
    travelled = pickle.loads(pickle.dumps(program))
    assert vars(travelled).keys() == vars(parse_program(TEXT)).keys()
    assert travelled == program
