"""Where operations are found by name; checkers and editors see methods.pyi and signatures.pyi, which a script makes."""

from __future__ import annotations


class Methods:
    """The operations as methods: Tensor gets them when the first one is asked for."""

    __slots__ = ()
