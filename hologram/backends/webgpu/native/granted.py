"""What a driver grants of what its adapter offers: asking for more gives no device at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

Features: TypeAlias = frozenset[str]
Numbers: TypeAlias = Mapping[str, int]


def granted(
    features: Features, limits: Numbers, grants: Callable[[Features, Numbers], bool]
) -> tuple[Features, Numbers]:
    """What to ask for where all that is offered is refused; `grants` tries a request.

    All but what is refused when it is asked for alone; where the rest is refused together, no features; and last
    nothing: that request says why there is no device.
    """
    none: Features = frozenset()
    if not grants(features, {}):
        features = frozenset(f for f in features if grants(frozenset((f,)), {}))
    if not grants(none, limits):
        limits = {name: value for name, value in limits.items() if grants(none, {name: value})}
    requests = ((features, limits), (none, limits))
    return next((pair for pair in requests if grants(*pair)), (none, {}))
