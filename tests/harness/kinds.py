"""The kinds of process that one run of the suite has: what is chosen when a process starts, and the tests that ask it.

Half of the suite's time would go into compilers. Most tests do without optimised code; those about optimised code,
demos, language models and the documents run as users have them, with one operation in four. Operations run on other
drivers of WebGPU and on emulated cards as well, thinned out, since clang compiles each kernel there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

NAME = "HOLOGRAM_TESTS_KIND"  # which of them a process is
# Debian's chromium has it.
SWIFTSHADER = os.environ.get("SWIFTSHADER", "/usr/lib/chromium/vk_swiftshader_icd.json")
OPERATIONS = "tests/test_ops.py"
PROGRAMS = "tests/test_random_programs.py"
AS_USERS = (
    "tests/backends/cpu/",
    "tests/cli/",
    "tests/demo/",
    "tests/llm/",
    "tests/opset/test_long_sums.py",
    "tests/test_documents.py",
    "tests/torch/test_gguf.py",
)


@dataclass(frozen=True)
class Kind:
    """A kind of process: its environment, and its tests."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()  # how the paths of its tests begin; all where it is empty
    others: tuple[str, ...] = ()  # the same of tests that it leaves to other kinds
    thinned: tuple[str, ...] = ()  # files of which it runs one case in `every`
    every: int = 1
    backends: tuple[str, ...] = ()  # those that it runs; all that are here where it is empty
    whole: bool = False  # whether marks that thin tests out do not count
    alone: bool = False  # one process is enough

    def runs(self, path: str) -> bool:
        """Whether tests of a file are its own."""
        asked = not self.files or path.startswith((*self.files, *self.thinned))
        return asked and not (self.others and path.startswith(self.others))

    def every_of(self, path: str) -> int:
        """Of how many cases of a file it runs one."""
        return self.every if path in self.thinned else 1

    @property
    def specification(self) -> str:
        """As xdist's option `tx` has it."""
        return "//".join(
            ["popen", *(f"env:{k}={v}" for k, v in ({NAME: self.name} | self.environment).items())]
        )

    @property
    def missing(self) -> str:
        """Why it cannot run here; nothing if it can."""
        driver = self.environment.get("VK_DRIVER_FILES")
        if driver and not Path(driver).exists():
            return f"{driver} does not exist (apt-get install chromium, or SWIFTSHADER=its ICD file)"
        if "webgpu" in self.backends and find_spec("wgpu") is None:
            return "wgpu is not installed; it needs Python 3.11 or newer"
        if any("emulated" in name for name in self.backends) and sys.platform != "linux":
            return "cards are emulated on Linux alone"
        return ""


LACKING = "int64,float64,float16,subgroups,immediates,limits,division,choices,contraction,remainder"


def _driver(name: str, environment: dict[str, str]) -> Kind:
    """Operations on another driver of WebGPU."""
    return Kind(
        name,
        environment,
        files=(OPERATIONS,),
        thinned=(OPERATIONS,),
        every=48,
        backends=("webgpu",),
        whole=True,
        alone=True,
    )


KINDS = (
    Kind(
        "unoptimised",
        {"HOLOGRAM_CPU_OPTIMISE": "0", "GALLIVM_PERF": "nopt"},
        others=AS_USERS,
    ),
    Kind("as-users", files=AS_USERS, thinned=(OPERATIONS, PROGRAMS), every=4),
    Kind(
        "emulated",
        files=(OPERATIONS,),
        thinned=(OPERATIONS,),
        every=16,
        backends=("cuda-emulated", "metal-emulated"),
        whole=True,
    ),
    _driver("lacking", {"HOLOGRAM_WITHOUT": LACKING}),
    _driver("swiftshader", {"VK_DRIVER_FILES": SWIFTSHADER, "VK_ICD_FILENAMES": SWIFTSHADER}),
)


def of_process() -> Kind | None:
    """The kind of this process, if it is one."""
    return next((kind for kind in KINDS if kind.name == os.environ.get(NAME)), None)


def asked(names: str | None) -> list[Kind]:
    """Those that a command names, with commas between; all where it names none."""
    wanted = names.split(",") if names else [kind.name for kind in KINDS]
    unknown = set(wanted).difference(kind.name for kind in KINDS)
    if unknown:
        raise ValueError(
            f"kinds must be among {', '.join(k.name for k in KINDS)}, got {', '.join(sorted(unknown))}"
        )
    return [kind for kind in KINDS if kind.name in wanted]


def specifications(of: list[Kind], workers: int) -> Iterator[str]:
    """The processes of a run, as xdist's option `tx` has them: `workers` of each kind, or one."""
    for kind in of:
        if not kind.missing:
            yield from [kind.specification] * (1 if kind.alone else workers)
