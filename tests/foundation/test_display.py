"""Sizes and times as people read them, and tables as text."""

from __future__ import annotations

import pytest

from hologram.foundation import display


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2.00 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.50 µs"), (2e-9, "2 ns"), (123.4, "123 s")],
)
def test_duration(seconds: float, text: str) -> None:
    assert display.duration(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (1 << 30, "1 GiB")])
def test_size(count: int, text: str) -> None:
    assert display.size(count) == text


def test_a_table_as_text_has_no_colours_and_no_trailing_spaces() -> None:
    made = display.table("kernel", "count", numbers=("count",))
    made.add_row("atlas_add_f32", "5")
    assert display.plain(made).splitlines() == ["kernel         count", "atlas_add_f32      5"]
