"""What a driver grants of what its adapter offers: asking for more gives no device at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

Features: TypeAlias = frozenset[str]
Numbers: TypeAlias = Mapping[str, int]

# What every adapter has: https://www.w3.org/TR/webgpu/#limits.
OWN = {
    "maxBufferSize": 256 << 20,
    "maxStorageBufferBindingSize": 128 << 20,
    "maxUniformBufferBindingSize": 64 << 10,
    "maxStorageBuffersPerShaderStage": 8,
    "maxUniformBuffersPerShaderStage": 12,
    "maxDynamicStorageBuffersPerPipelineLayout": 4,
    "maxDynamicUniformBuffersPerPipelineLayout": 8,
    "minStorageBufferOffsetAlignment": 256,
    "minUniformBufferOffsetAlignment": 256,
    "maxBindGroups": 4,
    "maxBindingsPerBindGroup": 1000,
    "maxComputeWorkgroupStorageSize": 16 << 10,
    "maxComputeInvocationsPerWorkgroup": 256,
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
    "maxComputeWorkgroupsPerDimension": 65535,
    "maxImmediateSize": 64,
}


def own(limits: Numbers) -> dict[str, int]:
    """An adapter's limits where it has no more than WebGPU's own."""
    fewer = {n: max(v, limits[n]) if n.startswith("min") else min(v, limits[n]) for n, v in OWN.items()}
    return {**limits, **fewer}


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
