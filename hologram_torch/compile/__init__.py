"""`torch.compile(model, backend="hologram")`: forward and backward graphs, each one function of hg.jit's.

PyTorch finds the backend by its entry point, so that importing hologram_torch does not load the compiler.
"""

from hologram_torch.loading import whole

whole()  # graphs are taken apart into what has kernels

from hologram_torch.compile.backend import hologram as hologram  # noqa: E402
