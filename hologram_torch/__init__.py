"""PyTorch on any GPU: `import hologram_torch`, then `model.to("hologram")`."""

from hologram_torch import requirement  # noqa: F401,I001  before what needs it
from hologram_torch import registration  # noqa: F401
from hologram_torch import aten  # noqa: F401
from hologram_torch import autocast, distributed, functional, nn, utils  # noqa: F401
from hologram_torch.custom_op import custom_op

__all__ = ["custom_op", "distributed", "functional", "nn", "utils"]
