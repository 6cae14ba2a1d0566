"""Tuning results that outlive the process: a record of plain values (what JSON can hold) under a key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hologram import store

KIND = "tunings"


def get(key: str) -> dict[str, Any] | None:
    """The record kept under a key, or None; make keys with `store.key`."""
    shelf = store.shared()
    content = shelf.get(KIND, key)
    if content is None:
        return None
    try:
        record = json.loads(content)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        shelf.discard(KIND, key)
        return None
    return record


def put(key: str, record: Mapping[str, Any]) -> None:
    """Keeps a record under a key, for this and later processes; where the disk does not allow it, nothing happens."""
    store.shared().put(KIND, key, json.dumps(dict(record)).encode())
