"""Loops whose turns do several rounds, where a driver lets a thread take only so many turns."""

from __future__ import annotations

from hologram.atlas.rewrite import rewrite
from hologram.compiler.passes import Pass, Stage

UNROLL = Pass(
    "unroll what takes too many turns",
    "a turn does several rounds, and a second loop those that are left",
    Stage.LANGUAGE,
    lambda program, goal: rewrite(program, unrolled=goal.unrolled),
    wanted=lambda goal: bool(goal.unrolled),
)
