"""What `hologram explain` says of a saved program: what is in the file, and what each of its signatures runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from hologram.backends import registry
from hologram.foundation.frozen import frozen
from hologram.frontend.executor import Executor
from hologram.frontend.jit.explain import Explanation
from hologram.frontend.saved.program import SavedProgram


@frozen
class ExplainedFile:
    """A saved program on a backend: its function, the version that saved it, its signatures and weights, launches."""

    file: str
    function: str
    hologram: str
    signatures: tuple[str, ...]
    weights: tuple[str, ...]
    weights_bytes: int
    contents: str
    explanations: tuple[Explanation, ...]

    def text(self, *, source: bool = True) -> str:
        """For people; with or without the generated source."""
        return "\n\n".join([self.contents, *(e.text(source=source) for e in self.explanations)])

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain_file(path: Path, backend: str) -> ExplainedFile:
    """What is in a file, and what it runs on a backend, which need not be here; raises FormatError."""
    here = backend == "auto" or registry.probe(backend).available
    with Executor(backend=backend if here else "cpu") as executor:
        program = SavedProgram(path, executor)
        numbers = range(len(program.signatures))
        weights = program.weights.values()
        return ExplainedFile(
            file=str(path),
            function=program.name,
            hologram=program.version,
            signatures=tuple(map(str, program.signatures)),
            weights=tuple(f"{w.dtype}[{w.size}]" for w in weights),
            weights_bytes=sum(w.nbytes for w in weights),
            contents=str(program),
            explanations=tuple(program.explain(n, None if here else backend) for n in numbers),
        )
