"""Numba on the CPU: the gallery of kernels, compiled before the clock runs."""

# pyright: reportMissingImports=false

from __future__ import annotations

from bench.contenders import numba_gallery
from hologram.benchmark.jobs import Job
from hologram.benchmark.models.declared import Arrays
from hologram.benchmark.works import Work


class Numba:
    device = "CPU"

    def prepare(self, work: Work, inputs: Arrays) -> Job | None:
        make = numba_gallery.MAKERS.get(work.name)
        return None if make is None else Job(*make(*inputs.values()))


def open_contender(name: str, where: str) -> Numba:
    return Numba()
