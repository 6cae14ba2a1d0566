"""Each rule refuses a program that breaks it, with the line and the rule."""

import re
from typing import Any

import pytest

from hologram.atlas.builder import Builder
from hologram.atlas.opcodes import STRUCTURED, Opcode
from hologram.atlas.rules import RULES
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.foundation.errors import ProgramError

HEAD = "program p rank 1 reduced 0"
GROUP = HEAD + " workgroup 64"
X = "buffer x : f32 read_write"
I = "%0 = coordinate 0 : index"
LOAD = "%1 = load x %0 : f32"

REFUSED = [
    ([HEAD, X, X], "line 3: names must be unique, got x twice"),
    ([HEAD, "buffer 3x : f32 read"], "line 2: a name must start with a letter"),
    ([HEAD, "buffer a__b : f32 read"], "line 2: a name must start with a letter"),
    ([HEAD, "buffer x : index read"], "line 2: memory must hold one of the dtypes"),
    (["program p rank 1 reduced 2"], "line 1: rank must be at least 1 and reduced at most rank"),
    (["program p rank 1 reduced 0 workgroup 0"], "line 1: a workgroup must have at least 1 thread"),
    (
        ["program p rank 1 reduced 1 workgroup 8"],
        "line 1: a program with reduced axes must leave its workgroup",
    ),
    ([HEAD, "shared s : f32 64"], "line 2: a shared array must have a size"),
    ([HEAD, X, LOAD], "line 3: load: an operand must be defined earlier"),
    ([HEAD, X, I, I], "line 4: coordinate: a value must be defined once"),
    ([HEAD, "%0 = coordinate 1 : index"], "line 2: coordinate: the axis must be below the rank of 1, got 1"),
    ([HEAD, I, "%1 = load y %0 : f32"], "line 3: load: it must name a buffer of the program, got y"),
    ([HEAD, "%1 = scalar y : f32"], "line 2: scalar: it must name a scalar of the program, got y"),
    ([HEAD, X, I, "%1 = load x %0 : i32"], "line 4: load: index -> M: M must be f32, got i32"),
    ([HEAD, X, I, LOAD, "%2 = add %1, %0 : f32"], "line 5: add: T T -> T: T must be f32, got index"),
    ([HEAD, X, I, LOAD, "%2 = add %1 : f32"], r"line 5: add: operands must be 2 \(T T\), got 1"),
    ([HEAD, X, I, LOAD, "%2 = and %1, %1 : f32"], "line 5: and: the dtype must be one of bool i16"),
    ([HEAD, I, "%2 = and %0, %0 : index"], "line 3: and: the dtype must be one of bool i16"),
    ([HEAD, X, I, LOAD, "%2 = mulhi %1, %1 : f32"], "line 5: mulhi: the dtype must be one of i32 u32"),
    ([HEAD, X, I, LOAD, "%2 = eq %1, %1 : f32"], "line 5: eq: T T -> bool: bool must be bool, got f32"),
    ([HEAD, I, "%1 = convert %0 : bool"], "line 3: convert: index converts to numbers, and only integers"),
    ([HEAD, X, I, LOAD, "%2 = convert %1 : index"], "line 5: convert: index converts to numbers, and only"),
    (
        [HEAD, X, I, LOAD, "%2 = bitcast %1 : i16"],
        "line 5: bitcast: both dtypes must be numbers of one width",
    ),
    ([HEAD, "%0 = constant 300 : u8"], "line 2: constant: the number must fit u8, got 300"),
    ([HEAD, "buffer x : f32 read", I, LOAD, "store x %0, %1"], "line 5: store: a buffer that is written"),
    (
        [HEAD, "buffer x : f32 write", I, LOAD],
        "line 4: load: a buffer that is read must not have access write",
    ),
    ([HEAD, X, I, LOAD, "%2 = atomic_min x %0, %1 : f32"], "line 5: atomic_min: an atomic must be on i32"),
    ([HEAD, X, I, LOAD, "%2 = reduce_add %1 : f32"], "line 5: reduce_add: a reduction must stand outside"),
    (
        ["program p rank 1 reduced 1", I, "%1 = reduce_add %0 : index"],
        "line 3: reduce_add: the dtype must be",
    ),
    ([HEAD, "%0 = thread : index"], "line 2: thread: the program must name its workgroup"),
    ([HEAD, "barrier"], "line 2: barrier: the program must name its workgroup"),
    (
        [GROUP, I, "%1 = eq %0, %0 : bool", "if %1", "barrier", "else", "end"],
        "line 5: barrier: a barrier must not stand where lanes of a workgroup part",
    ),
    (
        [GROUP, I, "%1 = constant 1 : index", "loop %1, %0, %1 (%2 : index)", "barrier", "end"],
        "line 5: barrier: a barrier must not stand",
    ),
    (
        [GROUP, "shared s : i32 1", I, "%1 = shared_agreed s %0 : i32"],
        "line 4: shared_agreed: the position must be the same for all lanes",
    ),
    (
        [GROUP, "shared s : f32 1", "%0 = constant 0 : index", "%1 = shared_agreed s %0 : f32"],
        "line 4: shared_agreed: the array must be of i32, got f32",
    ),
    (
        [
            GROUP,
            "shared s : i32 1",
            I,
            "%1 = eq %0, %0 : bool",
            "%2 = constant 0 : index",
            "if %1",
            "%3 = shared_agreed s %2 : i32",
            "else",
            "end",
        ],
        "line 7: shared_agreed: a shared_agreed must not stand where lanes of a workgroup part",
    ),
    ([HEAD, I, "if %0", "else", "end"], "line 3: if: it must take one bool"),
    (
        [HEAD, I, "%1 = eq %0, %0 : bool", "%2 = if %1 : index", "yield %0", "else", "end"],
        "line 4: if: each block",
    ),
    (
        [HEAD, I, "%1 = constant 0 : index", "loop %0, %0, %1 (%2 : index)", "end"],
        "line 4: loop: the step must be",
    ),
    ([HEAD, I, "loop %0, %0, %0 (%2 : i32)", "end"], "line 3: loop: its block must take"),
    (
        [HEAD, X, I, LOAD, "loop %1, %1, %1 (%2 : f32)", "end"],
        "line 5: loop: start, stop and step must be of one",
    ),
    (
        [
            HEAD,
            I,
            "loop %0, %0, %0 (%2 : index)",
            "%3 = add %2, %2 : index",
            "end",
            "%4 = add %3, %3 : index",
        ],
        "line 6: add: an operand must be defined earlier",
    ),
]


@pytest.mark.parametrize(("lines", "message"), REFUSED)
def test_a_rule_refuses(lines: list[str], message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        verify(parse_program("\n".join(lines)))


def test_every_opcode_has_a_rule() -> None:
    assert RULES.keys() | STRUCTURED == set(Opcode)


def test_a_barrier_in_uniform_control_flow_is_accepted() -> None:
    text = "\n".join(
        [GROUP, "scalar n : index", "%0 = scalar n : index", "%1 = constant 1 : index"]
        + ["loop %1, %0, %1 (%2 : index)", "barrier", "end"]
    )
    verify(parse_program(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: a program must start with"),
        ("program p rank 1 reduced 0\n\n%0 = frob : f32", "line 3: 'frob' is no opcode"),
        ("program p rank 1 reduced 0\n%0 = constant x : f32", "line 2: 'x' is no number of f32"),
        ("program p rank 1 reduced 0\nbuffer x : f33 read", "line 2: a dtype must be one of"),
        ("program p rank 1 reduced 0\n%0 = lane", "line 2: each result must have a dtype"),
        ("program p rank 1 reduced 0\nend", "line 2: an instruction must stand here"),
        ("program p rank 1 reduced 0\n%0 = constant true : bool\nif %0", "line 3: an if must have an `else`"),
    ],
)
def test_the_parser_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse_program(text)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "-0.0", "0.1", "1e-45", "3.4028234663852886e+38"])
def test_floats_survive_the_text_form(number: str) -> None:
    text = f"program p rank 1 reduced 0\n%0 = constant {number} : f32\n"
    assert format_program(parse_program(text)) == text


def test_comments_and_hexadecimal_numbers_are_read() -> None:
    text = (
        "# a note\nprogram p rank 1 reduced 0 # more\n\n%0 = constant 0x1.8p1 : f32\n%1 = constant 0xff : u8"
    )
    written = format_program(parse_program(text))
    assert written.splitlines()[1:] == ["%0 = constant 3.0 : f32", "%1 = constant 255 : u8"]


@pytest.mark.parametrize("workgroup", [(16, 16), 2.5, "64"])
def test_a_workgroup_is_one_number(workgroup: Any) -> None:
    with pytest.raises(ProgramError, match=re.escape(f"one whole number, got {workgroup!r}")):
        Builder("tiled", workgroup=workgroup)
