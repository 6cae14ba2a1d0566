"""Every HOLOGRAM_* environment variable, in one table; each is read when it is asked for, never at import."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from hologram.foundation import lazy
from hologram.foundation.conduct import CONDUCT
from hologram.foundation.errors import ConfigError
from hologram.foundation.frozen import frozen

if TYPE_CHECKING:
    import pathlib

    import platformdirs
else:
    pathlib, platformdirs = lazy.module("pathlib"), lazy.module("platformdirs")

T = TypeVar("T")
PRECISIONS = ("highest", "high")  # of products of f32
# That an adapter may lack (limits: those beyond WebGPU's own), and what its arithmetic may not keep.
FEATURES = ("float16", "float64", "int64", "subgroups", "immediates", "float_atomics", "limits", *CONDUCT)


@frozen
class Knob(Generic[T]):
    """An environment variable: how its text is read, what holds where it is unset or empty, and what it does."""

    variable: str
    parse: Callable[[str], T]
    default: Callable[[], T]
    takes: str
    doc: str

    def read(self) -> T:
        """The value now; raises ConfigError for text the knob does not take."""
        return self.parsed(os.environ.get(self.variable, "").strip())

    def parsed(self, text: str) -> T:
        """The value of a text; raises as `read`."""
        if not text:
            return self.default()
        try:
            return self.parse(text)
        except ValueError as error:
            raise ConfigError(f"{self.variable} must be {self.takes}, got {text!r}") from error

    @overload
    def __get__(self, instance: None, owner: type) -> Knob[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Knob[T] | T:
        return self if instance is None else self.read()


def _within(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"{value} is not in {low}..{high}")
        return value

    return parse


def _flag(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }
    if text.lower() not in words:
        raise ValueError(text)
    return words[text.lower()]


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.lower() not in words:
            raise ValueError(text)
        return text.lower()

    return parse


def _several_of(*words: str) -> Callable[[str], frozenset[str]]:
    def parse(text: str) -> frozenset[str]:
        found = frozenset(_words(text))
        if not found <= {*words}:
            raise ValueError(text)
        return found

    return parse


def _number_of(*numbers: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        return int(_one_of(*map(str, numbers))(text))

    return parse


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip().lower() for word in text.split(",") if word.strip())


def _optional_text(text: str) -> str | None:
    return text


def _cache_path(text: str) -> pathlib.Path:
    try:
        return pathlib.Path(text).expanduser().absolute()
    except RuntimeError as error:  # there is no such user, or no home
        raise ValueError(text) from error


class Config:
    """The knobs: an attribute gives the value the environment holds now, `Config.<name>` the knob itself."""

    backend = Knob(
        "HOLOGRAM_BACKEND",
        str.lower,
        lambda: "auto",
        "a backend's name or auto",
        "the backend that 'auto' stands for",
    )
    device = Knob(
        "HOLOGRAM_DEVICE",
        _optional_text,
        lambda: None,
        "an index or part of a name",
        "the device, where none is named",
    )
    cpu_threads = Knob(
        "HOLOGRAM_CPU_THREADS",
        _within(0, 4096),
        lambda: 0,
        "0..4096",
        "threads of the CPU backend; 0: one per core",
    )
    cpu_activation_bits = Knob(
        "HOLOGRAM_CPU_ACTIVATION_BITS",
        _number_of(8, 16),
        lambda: 16,
        "8 or 16",
        "to how many bits the CPU backend rounds more than 2 rows that it multiplies packed weights by",
    )
    cpu_without = Knob(
        "HOLOGRAM_CPU_WITHOUT",
        _words,
        lambda: (),
        "names of LLVM's features, or how they begin, or llvm, with commas between",
        "instructions that the CPU backend's code does without, to test what other processors run: avx512,avxvnni; "
        "llvm: programs are interpreted, as where there is no compiler",
    )
    cpu_optimise = Knob(
        "HOLOGRAM_CPU_OPTIMISE",
        _flag,
        lambda: True,
        "0 or 1",
        "whether LLVM optimises the CPU backend's code; 0 compiles in a tenth of the time what runs many times slower",
    )
    debug = Knob(
        "HOLOGRAM_DEBUG",
        _within(0, 5),
        lambda: 0,
        "0..5",
        "print 1 devices, 2 launches with times, 3 programs, 4 source, 5 rewrites",
    )
    check = Knob(
        "HOLOGRAM_CHECK",
        _flag,
        lambda: False,
        "0 or 1",
        "run each program on small data before and after each pass of the compiler, and name the pass that is wrong",
    )
    without = Knob(
        "HOLOGRAM_WITHOUT",
        _several_of(*FEATURES),
        frozenset,
        "any of " + ", ".join(FEATURES) + ", with commas",
        "what WebGPU adapters are taken not to have, to test how they do without",
    )
    webgpu_max_binding = Knob(
        "HOLOGRAM_WEBGPU_MAX_BINDING",
        _within(0, 1 << 62),
        lambda: 0,
        "a number of bytes",
        "lowers the binding size, to test paging; 0: the adapter's own",
    )
    cache_dir = Knob(
        "HOLOGRAM_CACHE_DIR",
        _cache_path,
        lambda: platformdirs.user_cache_path("hologram", appauthor=False),
        "a directory",
        "where compiled kernels and tuning results persist",
    )
    cache = Knob(
        "HOLOGRAM_CACHE", _flag, lambda: True, "0 or 1", "whether compiled kernels and tuning results persist"
    )
    cache_bytes = Knob(
        "HOLOGRAM_CACHE_BYTES",
        _within(0, 1 << 62),
        lambda: 512 << 20,
        "a number of bytes",
        "how large the cache directory may grow; the entries unused for longest go first",
    )
    tune = Knob(
        "HOLOGRAM_TUNE",
        _flag,
        lambda: False,
        "0 or 1",
        "measure tiles for the sizes that a program uses, in the background, and keep the fastest",
    )
    matmul_precision = Knob(
        "HOLOGRAM_MATMUL_PRECISION",
        _one_of(*PRECISIONS),
        lambda: "highest",
        " or ".join(PRECISIONS),
        "of products of f32, where none is named: high lets matrix units round operands to tf32",
    )
    reproducible = Knob(
        "HOLOGRAM_REPRODUCIBLE",
        _flag,
        lambda: False,
        "0 or 1",
        "the same bits on every backend, where nothing else is said; what cannot have them is refused",
    )
    bounds = Knob(
        "HOLOGRAM_BOUNDS",
        _flag,
        lambda: False,
        "0 or 1",
        "check indices and asserts of @hg.kernel on the device, raise for the first that fails, and print",
    )
    kernels = Knob(
        "HOLOGRAM_KERNELS",
        _one_of("device", "python"),
        lambda: "device",
        "device or python",
        "where @hg.kernel runs: python runs the function itself, point by point, with bounds checked",
    )
    torch_fallback = Knob(
        "HOLOGRAM_TORCH_FALLBACK",
        _flag,
        lambda: False,
        "0 or 1",
        "run PyTorch operators without an implementation on the CPU",
    )
    torch_without = Knob(
        "HOLOGRAM_TORCH_WITHOUT",
        _words,
        lambda: (),
        "names of reaches that `hologram doctor --torch` prints, with commas, or all (then -name keeps one)",
        "private parts of PyTorch's that are taken not to be there, to test the plain ways beside them",
    )
    host_linalg = Knob(
        "HOLOGRAM_HOST_LINALG",
        _flag,
        lambda: False,
        "0 or 1",
        "run on the host what a device's hg.linalg lacks, with one copy each way",
    )


def knobs() -> Iterator[Knob[Any]]:
    """Every knob, in the order of the table."""
    return (knob for knob in vars(Config).values() if isinstance(knob, Knob))


config = Config()
