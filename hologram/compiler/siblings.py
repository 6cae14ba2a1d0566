"""Kernels beside each other become one: reductions of the same rows, updates of many tensors in one launch."""

from __future__ import annotations

from hologram.compiler.fuse import Fusion, Group


def merged(fusion: Fusion) -> list[Group]:
    """The groups of a fusion, those over one domain joined where none waits for the other.

    Where a launch is dear (any GPU) that holds for all of them; where it is cheap, on a CPU, for those that read a
    value in common, which is then read once.
    """
    dear = not fusion.limits.spreads_rows
    left: list[Group] = []
    for group in fusion.groups:
        host = next((other for other in left if _joins(fusion, other, group, dear)), None)
        if host is None:
            left.append(group)
        else:
            _join(fusion, host, group)
    return left


def _joins(fusion: Fusion, host: Group, group: Group, dear: bool) -> bool:
    if host.anchor or group.anchor or (host.shape, host.reduced) != (group.shape, group.reduced):
        return False
    shared = host.sources & group.sources
    if not (dear or shared):
        return False
    together = host.streams + group.streams - len(shared)
    return together <= fusion.most_streams and not fusion.waits(host, group) and not fusion.waits(group, host)


def _join(fusion: Fusion, host: Group, group: Group) -> None:
    for value, layouts in group.needs.items():
        for layout in layouts:
            host.need(value, layout)
    host.inlined |= group.inlined
    host.reasons += group.reasons
    for value, layout in group.stores.items():
        fusion.store(host, value, layout)
