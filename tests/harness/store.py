"""Where a run keeps what it compiles."""

from __future__ import annotations

import shutil
import tempfile

import pytest

ROOM = 1 << 30  # bytes: kernels take half of it, files of tests the rest


def store(room: int = ROOM) -> tempfile.TemporaryDirectory[str]:
    """A directory for a run; raises UsageError where none can be had, or with less room."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="hologram-tests-")
    except OSError as error:
        raise pytest.UsageError(
            f"the suite keeps what it compiles in a temporary directory: {error}"
        ) from None
    free = shutil.disk_usage(folder.name).free
    if free < room:
        where = folder.name
        folder.cleanup()
        raise pytest.UsageError(
            f"the suite keeps what it compiles in {where}: {room >> 20} MiB must be free there, {free >> 20} are; "
            "TMPDIR names another place"
        )
    return folder
