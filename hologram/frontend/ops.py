"""The out-parameter functions: `hg.ops.vector_add(ex, a, b, c)`, `hg.ops.softmax(ex, x, out, dim=-1)`, ...

Each takes the executor, the inputs, the outputs, then attributes. See hologram.frontend.out_parameter.
"""

from typing import TYPE_CHECKING, Any

from hologram.frontend import out_parameter

if TYPE_CHECKING:  # the functions follow from declarations, which checkers do not run

    def __getattr__(name: str) -> Any: ...


globals().update(out_parameter.functions())
