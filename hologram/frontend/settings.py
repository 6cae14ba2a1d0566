"""Knobs of the environment, set from Python."""

from __future__ import annotations

import os

from hologram.foundation.config import Config, Knob
from hologram.foundation.errors import ConfigError


def config(**values: bool | int | str | None) -> None:
    """Sets knobs of this process by their names: `hg.config(reproducible=True)`; None unsets one.

    It sets the environment variable that `hologram info` lists, for what is opened afterwards. Raises ConfigError for a
    name or a value that there is not, and changes nothing then.
    """
    texts: dict[str, str] = {}
    for name, value in values.items():
        knob = vars(Config).get(name)
        if not isinstance(knob, Knob):
            known = ", ".join(name for name, knob in vars(Config).items() if isinstance(knob, Knob))
            raise ConfigError(f"config: the name of a knob is needed, one of {known}, got {name!r}")
        text = "" if value is None else str(int(value) if isinstance(value, bool) else value)
        knob.parsed(text)
        texts[knob.variable] = text
    os.environ.update(texts)
