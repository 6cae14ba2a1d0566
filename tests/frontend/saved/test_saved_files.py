"""Files that are cut short, changed or made up: each is refused by file, field and offset, and takes no memory."""

from __future__ import annotations

import gc
import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram.frontend.saved.container import HEAD, LINES_AT, PAGE, aligned, sealed
from tests.frontend.saved.functions import CASES

MUTATIONS, TRACED = 10_000, 1_000  # files, and of these, those whose memory is looked at
MOST_BYTES = 64 << 20  # that reading a small file takes, whatever it says


@pytest.fixture(scope="module")
def ex() -> Iterator[hg.Executor]:
    with hg.Executor(backend="cpu") as executor:
        yield executor


@pytest.fixture(scope="module")
def files(ex: hg.Executor, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Of every case."""
    found = []
    for case in CASES:
        path = tmp_path_factory.mktemp("saved") / "f.holo"
        function, args = case(ex)
        hg.save_program(path, function, *args)
        found.append(path.read_bytes())
    return found


def refused(path: Path, content: bytes, ex: hg.Executor) -> hg.FormatError:
    path.write_bytes(content)
    with pytest.raises(hg.FormatError) as caught:
        hg.load(path, device=ex)
    assert caught.value.file == str(path)
    assert f"{caught.value.field} at byte {caught.value.offset}: " in str(caught.value)
    assert 0 <= caught.value.offset <= max(len(content), LINES_AT)
    return caught.value


def lines_of(content: bytes) -> list[Any]:
    size = HEAD.unpack(content[: HEAD.size])[3]
    return [json.loads(line) for line in content[LINES_AT : LINES_AT + size].splitlines()]


def resealed(content: bytes, text: bytes) -> bytes:
    """A file with other lines, and checksums that are right."""
    magic, version, _, _, begin, weights = HEAD.unpack(content[: HEAD.size])
    start = aligned(LINES_AT + len(text), PAGE)
    head = HEAD.pack(magic, version, text.count(b"\n"), len(text), start, weights)
    return head + sealed(head, text) + text + bytes(start - LINES_AT - len(text)) + content[begin:]


def rewritten(content: bytes, lines: list[Any]) -> bytes:
    return resealed(content, b"".join(json.dumps(line).encode() + b"\n" for line in lines))


def test_what_is_cut_short_is_refused(ex: hg.Executor, files: list[bytes], tmp_path: Path) -> None:
    content = files[0]
    for size in (0, 1, 7, 8, 39, LINES_AT - 1, LINES_AT, LINES_AT + 100, PAGE, len(content) - 1):
        refused(tmp_path / "f.holo", content[:size], ex)
    assert refused(tmp_path / "f.holo", content + b"\0", ex).field == "weights"


@pytest.mark.parametrize(
    ("place", "new", "field"),
    [
        (0, b"GGUF", "magic"),
        (8, b"\x02\0\0\0", "version"),
        (12, b"\xff\xff\xff\x7f", "checksum"),
        (16, b"\xff" * 7 + b"\x7f", "lines"),
        (24, b"\0" * 8, "weights"),
        (32, b"\xff" * 7 + b"\x7f", "weights"),
        (40, b"\0" * 32, "checksum"),
        (LINES_AT + 30, b"#", "checksum"),
        (-1, b"\x77", "weight of line"),
    ],
)
def test_each_field_of_the_head(
    ex: hg.Executor, files: list[bytes], tmp_path: Path, place: int, new: bytes, field: str
) -> None:
    content = bytearray(files[0])
    place %= len(content)
    content[place : place + len(new)] = new
    assert refused(tmp_path / "f.holo", bytes(content), ex).field.startswith(field)


def test_a_change_of_any_byte_is_noticed(ex: hg.Executor, files: list[bytes], tmp_path: Path) -> None:
    """In the lines, between weights, and in weights."""
    rng = np.random.default_rng(5)
    content = files[0]
    for place in {
        *rng.integers(0, len(content), 150),
        *range(LINES_AT),
        *range(len(content) - 8, len(content)),
    }:
        changed = bytearray(content)
        changed[place] ^= 1 << int(rng.integers(8))
        refused(tmp_path / "f.holo", bytes(changed), ex)


def test_lines_that_lie(ex: hg.Executor, files: list[bytes], tmp_path: Path) -> None:
    """Files whose checksums are right."""
    path = tmp_path / "f.holo"

    def said(change: Any, case: int = 0) -> str:
        lines = lines_of(files[case])
        change(lines)
        return str(refused(path, rewritten(files[case], lines), ex))

    def of(lines: list[Any], kind: str) -> Any:
        return next(line for line in lines if line["is"] == kind)

    def inputs(lines: list[Any], layout: Any) -> None:
        of(lines, "inputs")["layouts"][0][1] = layout

    assert "size" in said(lambda x: of(x, "weight").update(size=1 << 63))
    assert "do not follow" in said(lambda x: of(x, "weight").update(size=1 << 40))
    assert "do not follow" in said(lambda x: of(x, "weight").update(at=4096))
    assert "a dtype must be one of" in said(lambda x: of(x, "weight").update(dtype="f31"))
    assert "has no operation 'system'" in said(lambda x: of(x, "node").update(operation="system"))
    assert "is not known yet" in said(lambda x: of(x, "node")["operands"][0]["read"].__setitem__(0, 99))
    assert "does not lie in value" in said(
        lambda x: of(x, "node")["operands"][0]["read"].__setitem__(1, ["f32", [4, 8], [8, 1], 1, False])
    )
    assert "its inputs must be" in said(lambda x: inputs(x, ["f32", [5, 8]]))
    assert "fewer than 2^62 bytes" in said(lambda x: inputs(x, ["f32", [1 << 60, 1 << 60]]))
    assert "line 0" in said(lambda x: x.pop(0))
    assert "they end before a signature" in said(lambda x: x.pop())
    assert "no such line may stand here" in said(lambda x: x.insert(1, {"is": "python"}))
    assert "no such line may stand here" in said(lambda x: x.insert(1, of(x, "outputs")))
    assert "numbered in the order" in said(lambda x: of(x, "node").update(results=[0]))
    assert "does not lie in weights" in said(lambda x: x[-1]["captured"][0].__setitem__(0, 0))
    assert "does not lie in an output" in said(lambda x: x[-1]["results"].update(output=5))
    assert "only arguments can be donated" in said(lambda x: of(x, "outputs").update(donated=[1]))
    loops = [case.__name__ for case in CASES].index("loops")
    assert "reads of" in said(lambda x: of(x, "loop").update(length=1 << 39), loops)
    assert "what it carries on must be" in said(lambda x: of(x, "loop").update(carried=2), loops)
    kernels = [case.__name__ for case in CASES].index("kernels")
    text = of(lines_of(files[kernels]), "program")["text"]
    assert "a dtype must be" in said(
        lambda x: of(x, "program").update(text=text.replace("f32", "q8")), kernels
    )
    assert "grid" in said(lambda x: of(x, "launch").update(grid=[-1]), kernels)
    deep = b'{"is":"head","name":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"
    assert "line 0" in str(refused(path, resealed(files[0], deep), ex))


def nested(ex: hg.Executor, path: Path, depth: int, times: int) -> list[Any]:
    """Lines of loops in one another: in each body so many, of the one body before."""
    hg.save_program(path, lambda x: hg.fori_loop(0, 3, lambda i, c: c * 1.5 + i * 0, x), ex.ones((3,)))
    lines = lines_of(path.read_bytes())
    (place,) = [k for k, line in enumerate(lines) if line["is"] == "loop"]
    loop, last = lines[place], lines[place - 2 :]
    body, lines = loop["body"], lines[: place - 2]
    layouts = [["i32", []], ["f32", [3]]]
    for _ in range(depth):
        lines.append({"is": "inputs", "layouts": list(enumerate(layouts))})
        for k in range(0, 2 * times, 2):
            operands = [{"read": [k + n, layout]} for n, layout in enumerate(layouts)]
            lines.append(loop | {"body": body, "operands": operands, "results": [k + 2, k + 3]})
        lines.append({"is": "outputs", "values": [2 * times, 2 * times + 1], "donated": []})
        body = len(lines) - 1
    loop["body"] = body
    last[-1]["graph"] = len(lines) + len(last) - 2
    return [*lines, *last]


def test_loops_in_one_another(ex: hg.Executor, tmp_path: Path) -> None:
    """Without depth that a reader falls into, and without parts that are used twice, which would double and double."""
    path = tmp_path / "f.holo"
    few, deep, wide = (nested(ex, path, *size) for size in ((3, 1), (5000, 1), (40, 2)))
    content = path.read_bytes()
    path.write_bytes(rewritten(content, few))
    np.testing.assert_allclose(hg.load(path, device=ex)(ex.ones((3,))).to_numpy(), 1.5**81, rtol=1e-5)
    assert "at most 64 loops" in str(refused(path, rewritten(content, deep), ex))
    assert "of no other part" in str(refused(path, rewritten(content, wide), ex))


def test_what_turns_out_wrong_when_it_is_compiled(ex: hg.Executor, tmp_path: Path) -> None:
    """An axis that a result's layout does not tell of."""
    path, x = tmp_path / "f.holo", ex.ones((2, 3))
    hg.save_program(path, lambda x: hg.softmax(x, dim=-1), x)
    content = path.read_bytes()
    lines = lines_of(content)
    (node,) = [line for line in lines if line["is"] == "node"]
    node["attributes"]["dim"] = 1 << 40
    path.write_bytes(rewritten(content, lines))
    with pytest.raises(
        hg.FormatError, match=r"line \d \(signature\) at byte \d+: .* softmax: axis must lie in"
    ):
        hg.load(path, device=ex)(x)


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    """A file with something else in its lines, and checksums that are right."""
    lines = lines_of(content)
    text = [json.dumps(line).encode() for line in lines]
    place = int(rng.integers(len(text)))
    line = bytearray(text[place])
    match rng.integers(5):
        case 0:
            line[int(rng.integers(len(line)))] = int(rng.integers(32, 127))
        case 1:
            del text[place]
            line = bytearray(text[place - 1])
            place -= 1
        case 2:
            line = bytearray(text[int(rng.integers(len(text)))])
        case _:  # a value becomes another
            value = _other(rng, lines[place])
            line = bytearray(json.dumps(value).encode())
    text[place] = bytes(line)
    return resealed(content, b"".join(each + b"\n" for each in text))


VALUES = (
    None, True, -1, 0, 1, 3, 2**31, 2**62, 2**200, 1.5, "", "f64", "x", [], {}, [0], [[0]], {"read": [0, ["f32", []]]},
)  # fmt: skip


def _other(rng: np.random.Generator, value: Any) -> Any:
    """A value with one of its parts, somewhere within, replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        return value | {key: _other(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        return [*value[:place], _other(rng, value[place]), *value[place + 1 :]]
    return VALUES[int(rng.integers(len(VALUES)))]


def test_ten_thousand_mutations(ex: hg.Executor, files: list[bytes], tmp_path: Path) -> None:
    """Each is refused as it should be, or is a program; none crashes, or has memory taken for what it promises."""
    rng = np.random.default_rng(27)
    path, refusals = tmp_path / "f.holo", 0
    path.touch()
    often = np.array([1 / len(lines_of(content)) ** 2 for content in files])  # short ones more
    chosen = rng.choice(len(files), MUTATIONS, p=often / often.sum())
    tracemalloc.start()
    for k in range(MUTATIONS):
        with path.open("r+b") as file:  # written over: emptying a file waits for the disk
            file.write(mutated(rng, files[chosen[k]]))
            file.truncate()
        try:
            hg.load(path, device=ex)
        except hg.FormatError:
            refusals += 1
        if k == TRACED:
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
            tracemalloc.stop()
    assert refusals > 0.6 * MUTATIONS


def test_a_name_by_which_no_program_is_loaded_is_refused(ex: hg.Executor, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the name must end in \.holo, .*f\.bin"):
        hg.save_program(tmp_path / "f.bin", lambda x: x + 1.0, ex.ones((3,)))
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_there_stays_until_the_new_one_is_whole(ex: hg.Executor, tmp_path: Path) -> None:
    x = ex.ones((3,))
    hg.save_program(tmp_path / "f.holo", lambda x: x + 1.0, x)
    before = hashlib.sha256((tmp_path / "f.holo").read_bytes()).digest()
    with pytest.raises(hg.TraceError):
        hg.save_program(tmp_path / "f.holo", lambda x: object(), x)
    assert hashlib.sha256((tmp_path / "f.holo").read_bytes()).digest() == before
    assert [p.name for p in tmp_path.iterdir()] == ["f.holo"]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not list what is mapped")
def test_a_file_is_let_go_of_when_it_is_loaded(ex: hg.Executor, files: list[bytes], tmp_path: Path) -> None:
    """Without waiting until cycles are collected."""
    path = tmp_path / "loaded.holo"
    path.write_bytes(files[0])
    gc.disable()
    try:
        program = hg.load(path, device=ex)
        mapped = str(path) in Path("/proc/self/maps").read_text()
    finally:
        gc.enable()
    assert program.weights
    assert not mapped
