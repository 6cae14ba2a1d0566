"""PyTorch's operator database, which here asks nobody for which unittest its samples are."""

from __future__ import annotations

from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

__all__ = ["op_db"]


def _no_unittest() -> None:
    """In place of a search through all modules for each frame, which took longer than what samples are for."""


for module in (common_utils, core):
    module.extract_test_fn = _no_unittest  # pyright: ignore[reportAttributeAccessIssue]
