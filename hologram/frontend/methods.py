"""Where operations are found by name; what checkers and editors see of them is methods.pyi and signatures.pyi, made by a script."""

from __future__ import annotations


class Methods:
    """The operations as methods: Tensor gets them when the first one is asked for."""

    __slots__ = ()
