"""Which tests a run takes: those that a change touches, and a part of the others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.harness import choice
from tests.harness import map as mapping
from tests.harness.choice import Choice, Map, group_of, packed, unpacked

TESTS = [f"tests/a/test_{k}.py::test[{case}]" for k in range(40) for case in range(25)]


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Map:
    """The map, of 40 files of tests that take a second each; the k-th touches the k-th source."""
    groups = [f"tests/a/test_{k}.py" for k in range(40)]
    others = ["hologram/a/shader.wgsl", "hologram/a/common.py", "hologram/b/common.py"]
    sources = [f"hologram/a/{k}.py" for k in range(40)]
    made = Map(
        {
            "seconds": {"tests/a/test_0.py::test": 0.04},
            "total": dict.fromkeys(groups, 1.0),
            "hashes": dict.fromkeys([*sources, *others], "0"),
            "groups": groups,
            "touches": {source: packed([k]) for k, source in enumerate(sources)},
        }
    )
    monkeypatch.setattr(choice, "known", lambda: made)
    return made


@pytest.mark.parametrize("numbers", [[], [0], [7, 8], [0, 63, 64, 1000, 4097]])
def test_packed_numbers_come_back(numbers: list[int]) -> None:
    assert unpacked(packed(numbers)) == numbers


def test_all_parts_together_are_all_tests(suite: Map) -> None:
    for every in (1, 2, 5, 13):
        parts = [{t for t in TESTS if Choice(every, residue).takes(t)} for residue in range(every)]
        assert sum(map(len, parts)) == len(TESTS)
        assert set().union(*parts) == set(TESTS)
        assert max(map(len, parts)) < 1.3 * len(TESTS) / every + 10


def test_what_a_change_touches_runs_whatever_the_part(suite: Map) -> None:
    for residue in range(6):
        chosen = suite.choice(["hologram/a/3.py"], seconds=8, residue=residue)
        assert chosen.groups == {"tests/a/test_3.py"}
        assert chosen.touched_every == 1
        assert chosen.every == 6  # 39 seconds of others into the 7 that are left
        assert all(chosen.takes(t) for t in TESTS if "test_3.py" in t)
    only = suite.choice(["hologram/a/3.py"], seconds=8, residue=0, only=True)
    assert {t.partition("::")[0] for t in TESTS if only.takes(t)} == {"tests/a/test_3.py"}


def test_too_much_that_is_touched_is_thinned_out_as_well(suite: Map) -> None:
    chosen = suite.choice([f"hologram/a/{k}.py" for k in range(30)], seconds=10, residue=0)
    assert chosen.touched_every == 5  # 30 seconds into 6
    assert chosen.every == 3
    assert str(chosen) == "1 in 5 of the tests that changes touch (30 groups), 1 in 3, part 1 of the others"


def test_files_that_no_interpreter_goes_through_are_known_by_their_folder(suite: Map) -> None:
    assert len(suite.touching(["hologram/a/shader.wgsl"])) == 40
    assert len(suite.touching(["hologram/a/new.py"])) == 40
    assert len(suite.touching(["hologram/a/common.py"])) == 40  # all tests touch it: those of its folder
    assert not suite.touching(["hologram/b/common.py"])
    assert suite.touching(["tests/a/test_5.py"]) == {"tests/a/test_5.py"}


def test_what_the_map_does_not_know_is_new_and_runs(suite: Map) -> None:
    assert "tests/b/test_new.py" in suite.touching(["tests/b/test_new.py"])
    chosen = suite.choice(["tests/b/test_new.py"], seconds=4, residue=1)
    assert chosen.takes("tests/b/test_new.py::test[cpu-1]")
    assert chosen.takes("tests/a/test_1.py::test[cpu-sinh]")  # a group that was not there: a new operation
    whole = suite.choice(["tests/a/test_7.py"], seconds=4, residue=1)
    assert all(whole.takes(f"tests/a/test_7.py::test[{k}-sinh]") for k in range(9))


def test_what_coverage_does_not_see_touches_tests_too(suite: Map) -> None:
    suite.total.update({"tests/test_documents.py": 1.0, "tests/shaders/test_tiles.py": 1.0})
    assert suite.touching(["docs/design/cpu.md", "README.md"]) == {"tests/test_documents.py"}
    assert suite.touching(["shaders/wgsl/matmul.wgsl"]) == {"tests/shaders/test_tiles.py"}


def test_changed_files_are_new_others_or_gone(suite: Map) -> None:
    now = {path: choice.fingerprint(path) for path in choice.sources()}
    assert {"docs/README.md", "README.md", "hologram/__init__.py", "tests/conftest.py"} <= now.keys()
    suite.hashes = now | {"hologram/gone.py": "0", "README.md": "0"}
    del suite.hashes["docs/README.md"]
    assert choice.changed() == ["README.md", "docs/README.md", "hologram/gone.py"]


def test_marks_take_turns_when_all_parts_had_theirs() -> None:
    """Were both the same part, cases of a mark of 4 would never meet three parts of 4."""
    met = {(chosen.residue % chosen.every, chosen.turn % 4) for chosen in (Choice(4, r) for r in range(16))}
    assert len(met) == 16


def test_without_a_map_all_is_unknown_and_a_part_of_it_runs() -> None:
    empty = Map({"seconds": {}, "total": {}, "hashes": {}, "groups": [], "touches": {}})
    assert empty.choice(["hologram/a/3.py"], seconds=60, residue=0) == Choice()
    assert choice.choose(math.inf, 2, residue=3) == Choice(residue=3)


def test_a_choice_is_told_to_other_processes(suite: Map) -> None:
    chosen = suite.choice(["hologram/a/3.py"], seconds=8, residue=2)
    assert Choice.of(json.loads(json.dumps(chosen.told()))) == chosen


def test_groups_are_files_and_operations() -> None:
    assert group_of("tests/test_ops.py::test_operation[cpu-sinh-f32]") == "tests/test_ops.py[sinh]"
    assert group_of("tests/test_leaks.py::test_nothing_is_left[cpu-numbers]") == "tests/test_leaks.py"
    assert group_of("tests/test_needs.py::test_it") == "tests/test_needs.py"


def test_a_map_is_made_of_a_profile(tmp_path: Path) -> None:
    lines = [
        {"test": "tests/test_ops.py::test_operation[cpu-sinh-f32]", "cpu": 1.5, "children": 0.5},
        {"test": "tests/test_ops.py::test_operation[cpu-cosh-f32]", "cpu": 1.0},
        {"test": "tests/test_needs.py::test_it", "cpu": 0.01},
        {"test": "collecting", "cpu": 9.0},
    ]
    (profile := tmp_path / "profile.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    seconds, total = mapping.took(profile)
    assert seconds == {"tests/test_ops.py::test_operation": 1.5}
    assert total == {
        "tests/test_needs.py": 0.01,
        "tests/test_ops.py[cosh]": 1.0,
        "tests/test_ops.py[sinh]": 2.0,
    }


def test_the_map_of_this_checkout_names_tests_that_are_there() -> None:
    files = {group.partition("[")[0] for group in choice.known().total}
    assert files
    gone = [file for file in files if not (choice.ROOT / file).exists()]
    assert len(gone) < len(files) / 20, f"`make map` is due: {gone}"
