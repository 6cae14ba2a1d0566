"""Machine code that outlives the process: object files in the store, for one LLVM, one CPU and one code generator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hologram.compiled.machine_code.engine import Code, Engine
from hologram.compiler.source.kept import kept
from hologram.foundation import store

FOLDER = Path(__file__).parent
Written = tuple[str, tuple[str, ...]]  # IR, and its functions in order


def asked(text: str) -> list[str]:
    """The functions that IR calls and does not have, but for LLVM's own."""
    lines = (line for line in text.splitlines() if line.startswith("declare") and "@llvm." not in line)
    return [line.partition("@")[2].partition("(")[0] for line in lines]


def kept_code(
    engine: Engine, name: str, identity: str, write: Callable[[], Written], folder: Path = FOLDER
) -> Code:
    """Machine code, loaded if it was compiled before, by whichever process, else compiled from the IR and kept.

    `identity` tells apart all that `write` may give under one code generator, `folder`. Raises CompileError.
    """

    def compiled() -> bytes:
        text, functions = write()
        return json.dumps(functions).encode() + b"\n" + engine.compile(name, text)

    key = store.key(identity, engine.made_for)
    return engine.once(
        f"{folder} {key}", lambda: kept(folder, key, compiled, lambda content: _loaded(engine, content))
    )


def _loaded(engine: Engine, content: bytes) -> Code:
    """Raises ValueError for what `kept_code` did not write."""
    functions, _, data = content.partition(b"\n")
    names = json.loads(functions)
    if not isinstance(names, list) or not data:
        raise ValueError("an entry must be the names of functions and an object file")
    return engine.load(data, names)
