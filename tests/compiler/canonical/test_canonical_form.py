"""Canonical form text to text: what moves, what merges, what goes, and what must stay where it is."""

from __future__ import annotations

import numpy as np
import pytest

from hologram.atlas.evaluate import evaluate
from hologram.atlas.text import format_program, parse_program
from hologram.atlas.verify import verify
from hologram.compiler.pipeline import canonical, canonical_text, identity
from tests.scramble import scramble

HEAD = """program atlas_p rank 1 reduced 0
buffer x : i32 read_write
buffer y : i32 read_write
scalar n : index
%0 = coordinate 0 : index
%1 = scalar n : index
"""

# Name: what is written after HEAD, and the body of its canonical text.
FORMS = {
    "a load stays before the store that it stands before": (
        """%2 = load x %0 : i32
        store y %0, %2
        %3 = load x %1 : i32
        store y %1, %2
        store x %0, %3""",
        """%0 = coordinate 0 : index
        %1 = load b0 %0 : i32
        store b1 %0, %1
        %2 = scalar s0 : index
        %3 = load b0 %2 : i32
        store b1 %2, %1
        store b0 %0, %3""",
    ),
    "loads of one place merge, but not past a store": (
        """%2 = load x %0 : i32
        %3 = load x %0 : i32
        %4 = mul %2, %3 : i32
        store y %0, %4
        %5 = load x %0 : i32
        store y %1, %5""",
        """%0 = coordinate 0 : index
        %1 = load b0 %0 : i32
        %2 = mul %1, %1 : i32
        store b1 %0, %2
        %3 = scalar s0 : index
        %4 = load b0 %0 : i32
        store b1 %3, %4""",
    ),
    "invariants leave a loop, and what changes in it stays": (
        """%2 = constant 0 : index
        %3 = constant 1 : index
        loop %2, %1, %3 (%4 : index)
          %5 = load x %0 : i32
          %6 = mul %0, %1 : index
          %7 = add %4, %6 : index
          store y %7, %5
        end""",
        """%0 = constant 0 : index
        %1 = scalar s0 : index
        %2 = constant 1 : index
        %3 = coordinate 0 : index
        %4 = mul %1, %3 : index
        loop %0, %1, %2 (%5 : index)
          %6 = add %4, %5 : index
          %7 = load b0 %3 : i32
          store b1 %6, %7
        end""",
    ),
    "a load leaves a loop without effects": (
        """%2 = constant 0 : index
        %3 = constant 1 : index
        %8 = constant 0 : i32
        %9 = loop %2, %1, %3, %8 (%4 : index, %10 : i32) : i32
          %5 = load x %0 : i32
          %6 = load y %4 : i32
          %7 = mul %5, %6 : i32
          %11 = add %7, %10 : i32
          yield %11
        end
        store y %0, %9""",
        """%0 = coordinate 0 : index
        %1 = constant 0 : index
        %2 = scalar s0 : index
        %3 = constant 1 : index
        %4 = constant 0 : i32
        %5 = load b0 %0 : i32
        %11 = loop %1, %2, %3, %4 (%6 : index, %7 : i32) : i32
          %8 = load b1 %6 : i32
          %9 = mul %5, %8 : i32
          %10 = add %7, %9 : i32
          yield %10
        end
        store b1 %0, %11""",
    ),
    "what one side of a branch needs is computed there, what both need before it": (
        """%2 = load x %0 : i32
        %3 = load y %0 : i32
        %4 = mul %2, %2 : i32
        %5 = mul %3, %3 : i32
        %6 = lt %0, %1 : bool
        %7 = if %6 : i32
          %8 = add %4, %5 : i32
          yield %8
        else
          yield %5
        end
        store y %0, %7""",
        """%0 = coordinate 0 : index
        %1 = scalar s0 : index
        %2 = lt %0, %1 : bool
        %3 = load b1 %0 : i32
        %4 = mul %3, %3 : i32
        %8 = if %2 : i32
          %5 = load b0 %0 : i32
          %6 = mul %5, %5 : i32
          %7 = add %4, %6 : i32
          yield %7
        else
          yield %4
        end
        store b1 %0, %8""",
    ),
    "a known branch is taken, a loop without rounds skipped, what nobody needs gone": (
        """%2 = constant true : bool
        %3 = constant 4 : index
        %4 = constant 1 : index
        %5 = constant 7 : i32
        %6 = if %2 : i32
          %7 = loop %3, %3, %4, %5 (%8 : index, %9 : i32) : i32
            %10 = load x %8 : i32
            yield %10
          end
          yield %7
        else
          %11 = load x %0 : i32
          yield %11
        end
        store y %0, %6""",
        """%0 = coordinate 0 : index
        %1 = constant 7 : i32
        store b1 %0, %1""",
    ),
    "what a loop carries unchanged, or for itself alone, is not carried": (
        """%2 = constant 0 : index
        %3 = constant 1 : index
        %4 = load x %0 : i32
        %5, %6, %7 = loop %2, %1, %3, %4, %4, %4 (%8 : index, %9 : i32, %10 : i32, %11 : i32) : i32, i32, i32
          %12 = add %9, %10 : i32
          %13 = mul %11, %11 : i32
          yield %12, %10, %13
        end
        store y %0, %5""",
        """%0 = coordinate 0 : index
        %1 = constant 0 : index
        %2 = scalar s0 : index
        %3 = constant 1 : index
        %4 = load b0 %0 : i32
        %8 = loop %1, %2, %3, %4 (%5 : index, %6 : i32) : i32
          %7 = add %4, %6 : i32
          yield %7
        end
        store b1 %0, %8""",
    ),
    "atomics that look alike are two": (
        """%2 = constant 1 : i32
        %3 = atomic_add x %0, %2 : i32
        %4 = atomic_add x %0, %2 : i32
        %5 = lt %0, %1 : bool
        %6 = if %5 : i32
          %7 = atomic_add x %0, %2 : i32
          yield %7
        else
          %8 = atomic_add x %0, %2 : i32
          yield %8
        end
        store y %0, %6""",
        """%0 = coordinate 0 : index
        %1 = constant 1 : i32
        %2 = atomic_add b0 %0, %1 : i32
        %3 = atomic_add b0 %0, %1 : i32
        %4 = scalar s0 : index
        %5 = lt %0, %4 : bool
        %8 = if %5 : i32
          %6 = atomic_add b0 %0, %1 : i32
          yield %6
        else
          %7 = atomic_add b0 %0, %1 : i32
          yield %7
        end
        store b1 %0, %8""",
    ),
}


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    source, want = FORMS[name]
    program = parse_program(HEAD + source)
    verify(program)
    head = ["program kernel rank 1 reduced 0", "buffer b0 : i32 read_write", "buffer b1 : i32 read_write"]
    assert lines(canonical_text(program)) == [*head, "scalar s0 : index", *lines(want)]
    rng = np.random.default_rng(0)
    arrays = {n: rng.integers(-9, 9, 6).astype(np.int32) for n in "xy"}
    found = []
    for p in (program, canonical(program)):
        mine = {n: a.copy() for n, a in arrays.items()}
        evaluate(p, mine, {"n": 3}, (6,))
        found.append(mine)
    for n in "xy":
        np.testing.assert_array_equal(found[1][n], found[0][n])
    for seed in range(20):
        other = scramble(program, seed)
        verify(other)
        assert identity(other) == identity(program), format_program(other)


COOPERATING = """program atlas_turn rank 1 reduced 0 workgroup 4
buffer x : f32 read
buffer out : f32 write
shared unused : f32 9
shared kept : f32 4
%0 = lane : index
%1 = thread : index
%2 = load x %0 : f32
shared_store kept %1, %2
barrier
%3 = constant 3 : index
%4 = sub %3, %1 : index
%5 = shared_load kept %4 : f32
barrier
%6 = shared_load kept %4 : f32
%7 = add %5, %6 : f32
store out %0, %7
"""


def test_shared_memory_keeps_its_order() -> None:
    program = parse_program(COOPERATING)
    form = canonical(program)
    verify(form)
    assert [s.name for s in form.shared] == ["kept"]
    opcodes = [i.opcode.value for i in form.body.walk()]
    memory = [o for o in opcodes if o.startswith("shared") or o in ("barrier", "store")]
    assert memory == ["shared_store", "barrier", "shared_load", "barrier", "shared_load", "store"]
    x = np.arange(8, dtype=np.float32)
    out = np.full(8, 77, np.float32)
    evaluate(form, {"x": x, "out": out}, {}, (8,))
    assert out.tolist() == [6, 4, 2, 0, 14, 12, 10, 8]
    assert all(identity(scramble(program, seed)) == identity(program) for seed in range(20))


SOFTMAX = """program atlas_softmax rank 2 reduced 1
buffer x : f32 read
buffer out : f32 write
%0 = coordinate 0 : index
%1 = extent 1 : index
%2 = mul %0, %1 : index
%3 = coordinate 1 : index
%4 = add %2, %3 : index
%5 = load x %4 : f32
%6 = reduce_max %5 : f32
%7 = sub %5, %6 : f32
%8 = exp %7 : f32
%9 = reduce_add %8 : f32
%12 = constant 1.0 : f32
%10 = div %12, %9 : f32
%13 = constant 3 : index
%14 = lt %3, %13 : bool
%15 = if %14 : f32
  %11 = mul %8, %10 : f32
  yield %11
else
  yield %8
end
store out %4, %15
"""


def test_what_a_row_shares_is_computed_once_a_row() -> None:
    form = canonical(parse_program(SOFTMAX))
    top = [i.opcode.value for i in form.body.instructions]
    assert "div" in top
    assert "mul" not in top[top.index("reduce_add") :]
    assert all(identity(scramble(form, seed)) == identity(form) for seed in range(20))


BASE = "%2 = load x %0 : i32\n%3 = load y %0 : i32\n%4 = sub %2, %3 : i32\nstore x %0, %4\nstore y %1, %2\n"
OTHERS = {
    "operands": ("%4 = sub %2, %3", "%4 = sub %3, %2"),
    "opcode": ("sub", "add"),
    "buffer": ("load y", "load x"),
    "place": ("%3 = load y %0", "%3 = load y %1"),
    "order of effects": ("store x %0, %4\nstore y %1, %2\n", "store y %1, %2\nstore x %0, %4\n"),
    "a store less": ("store y %1, %2\n", ""),
    "stored value": ("store y %1, %2", "store y %1, %3"),
    "stored place": ("store y %1", "store y %0"),
    "access": ("buffer y : i32 read_write\n", "buffer y : i32 read_write\nbuffer z : i32 read_write\n"),
    "scalars": ("scalar n : index\n%0", "scalar n : index\nscalar m : index\n%0"),
    "workgroup": ("reduced 0", "reduced 0 workgroup 64"),
    "rank": ("rank 1", "rank 2"),
    "lane": ("%0 = coordinate 0", "%0 = extent 0"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_programs_have_another_identity(name: str) -> None:
    text = HEAD + BASE
    old, new = OTHERS[name]
    assert text.replace(old, new) != text
    other = parse_program(text.replace(old, new))
    verify(other)
    assert identity(other) != identity(parse_program(text))


def test_names_and_the_order_of_parameters() -> None:
    """Names mean nothing, the order in which a launch gives its parameters does."""
    program = parse_program(HEAD + BASE)
    renamed = parse_program((HEAD + BASE).replace(" x ", " other ").replace("atlas_p", "atlas_q"))
    swapped = parse_program((HEAD + BASE).replace(" x ", " z ").replace(" y ", " x ").replace(" z ", " y "))
    exchanged = (
        HEAD.replace("buffer x", "buffer z").replace("buffer y", "buffer x").replace("buffer z", "buffer y")
    )
    assert identity(renamed) == identity(program)
    assert identity(swapped) == identity(program)
    assert identity(parse_program(exchanged + BASE)) != identity(program)
    assert canonical(renamed).buffers == renamed.buffers
    assert canonical(renamed).name == "atlas_q"


def test_the_lane_of_one_axis_is_its_coordinate() -> None:
    text = HEAD + BASE
    assert identity(parse_program(text.replace("coordinate 0", "lane"))) == identity(parse_program(text))
    wide = text.replace("rank 1", "rank 2")
    assert identity(parse_program(wide.replace("coordinate 0", "lane"))) != identity(parse_program(wide))


def test_flattening_sums_does_not_make_programs_much_longer() -> None:
    """Prefix sums: each stored, so that each is needed."""
    count = 60
    text = HEAD
    for k in range(2, 2 + count):
        text += f"%{k + 1000} = constant {k} : index\n%{k} = load x %{k + 1000} : i32\n"
    for k in range(3, 2 + count):
        text += (
            f"%{k + 2000} = add %{k + 1999 if k > 3 else 2}, %{k} : i32\nstore y %{k + 1000}, %{k + 2000}\n"
        )
    program = parse_program(text)
    verify(program)
    before, after = (len(p.body.instructions) for p in (program, canonical(program)))
    assert after < 1.5 * before
