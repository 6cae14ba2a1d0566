"""The knobs: read when asked for, with their defaults, refusing what they do not take."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hologram.foundation.config import Config, config, knobs
from hologram.foundation.errors import ConfigError

ROOT = Path(__file__).parents[2]


def test_unset_and_empty_give_the_default(monkeypatch):
    for text in (None, "", "  "):
        for knob in knobs():
            monkeypatch.delenv(knob.variable, raising=False)
            if text is not None:
                monkeypatch.setenv(knob.variable, text)
            assert knob.read() == knob.default()
    assert (config.backend, config.device, config.debug, config.torch_fallback) == ("auto", None, 0, False)
    assert config.cache_dir.name == "hologram"


def test_the_environment_is_read_at_each_access(monkeypatch):
    monkeypatch.setenv("HOLOGRAM_DEBUG", "3")
    assert config.debug == 3
    monkeypatch.setenv("HOLOGRAM_DEBUG", "4")
    assert config.debug == 4
    monkeypatch.setenv("HOLOGRAM_BACKEND", "CPU")
    assert config.backend == "cpu"
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", "~/kernels")
    assert config.cache_dir == Path.home() / "kernels"
    monkeypatch.setenv("HOLOGRAM_CACHE_DIR", "kernels")
    assert config.cache_dir == Path.cwd() / "kernels"
    monkeypatch.setenv("HOLOGRAM_TORCH_FALLBACK", "Yes")
    assert config.torch_fallback is True


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("debug", "6"),
        ("debug", "-1"),
        ("debug", "loud"),
        ("cpu_threads", "two"),
        ("torch_fallback", "maybe"),
        ("cache_dir", "~nobody-of-that-name/kernels"),
    ],
)
def test_bad_values_are_refused_by_name(monkeypatch, name, text):
    knob = vars(Config)[name]
    monkeypatch.setenv(knob.variable, text)
    with pytest.raises(ConfigError, match=re.escape(f"{knob.variable} must be {knob.takes}, got {text!r}")):
        getattr(config, name)
    with pytest.raises(ValueError, match=knob.variable):
        knob.read()


def test_no_variable_is_used_outside_the_table():
    known = {knob.variable for knob in knobs()}
    for path in (ROOT / "hologram").rglob("*.py"):
        used = set(re.findall(r"\bHOLOGRAM_[A-Z_]+\b", path.read_text()))
        assert used <= known, f"{path}: {used - known} should be a knob of hologram/foundation/config.py"
