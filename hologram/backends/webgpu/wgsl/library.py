"""Functions in WGSL that templates call: each goes into a shader that calls it, behind those that it calls itself."""

from __future__ import annotations

import re


class Library:
    """Functions, one behind another in a text, an empty line between two; none calls one that stands below it."""

    def __init__(self, text: str) -> None:
        functions = text.strip().split("\n\n")
        self._texts = {each.partition("(")[0].removeprefix("fn "): each for each in functions}
        self._called = re.compile(rf"\b({'|'.join(self._texts)})\(")
        self.names = frozenset(self._texts)

    def called(self, template: str) -> str:
        """The text of those that a template calls."""
        found: dict[str, None] = {}

        def visit(text: str) -> None:
            for name in self._called.findall(text):
                if name not in found:
                    visit(self._texts[name].partition("{")[2])
                    found[name] = None

        visit(template)
        return "\n\n".join(self._texts[name] for name in found)
