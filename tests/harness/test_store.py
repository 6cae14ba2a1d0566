"""A run says at once that it has no room for what it compiles."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.harness.store import store


def test_too_little_room_is_said_before_any_test() -> None:
    with pytest.raises(
        pytest.UsageError, match=r"4398046511104 MiB must be free there, \d+ are; TMPDIR names"
    ):
        store(1 << 62)


def test_a_place_that_cannot_be_written_to_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(file))
    with pytest.raises(pytest.UsageError, match=r"in a temporary directory: .*Not a directory"):
        store()


def test_the_directory_goes_at_the_end() -> None:
    with store() as name:
        assert Path(name).is_dir()
    assert not Path(name).exists()
