"""The backend that torch.compile calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from hologram_torch.compile.compiled import whole
from hologram_torch.compile.decompositions import DECOMPOSITIONS
from hologram_torch.compile.graph import CHECKPOINTS
from hologram_torch.compile.stages import any_apart, depends, of_host, staged
from hologram_torch.reach import reach, settle

settle("rng-states", "torch._prims.rng_prims, and how it traces", CHECKPOINTS, "compile.repeated")
settle(
    "fake-strides",
    "torch._subclasses.fake_impls.op_implementations_dict",
    "compiled graphs copy results of convolutions whose channels lie side by side",
    "compile.strides",
)


def compiled(graph: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    """A graph of ATen's operators as a function of a list of its arguments, which it empties."""

    def apart(node: torch.fx.Node) -> bool:
        return depends(node) or of_host(node)

    return staged(graph, whole, apart) if any_apart(graph, apart) else whole(graph)


def _aot() -> Callable[..., Callable[..., Any]]:
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    return aot_autograd(
        fw_compiler=compiled,
        bw_compiler=compiled,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=DECOMPOSITIONS,
        keep_inference_input_mutations=True,  # a graph writes to its arguments itself, over their memory where it can
    )


_differentiated = reach(
    "aot-autograd",
    "torch._dynamo.backends.common.aot_autograd",
    "compiled models run operator by operator",
    _aot,
    lambda graph, example_inputs: graph.forward,
)


def hologram(
    graph: torch.fx.GraphModule, example_inputs: Sequence[Any], *, mode: str = "default", options: Any = None
) -> Callable[..., Any]:
    """A graph that torch.compile found, compiled for its arguments' device; the host's for the current one.

    Modes are a matter of how long Inductor searches and of CUDA graphs: there is one way here, which replays launches
    in any of them. There are no options.
    """
    if options:
        raise ValueError(f"hologram: torch.compile has no options for this backend, got {sorted(options)}")
    host = any(isinstance(x, torch.Tensor) and x.device.type == "cpu" for x in example_inputs)
    with sdpa_kernel(SDPBackend.MATH) if host else nullcontext():  # the host's own kernels are not ours
        return _differentiated(graph, example_inputs)
