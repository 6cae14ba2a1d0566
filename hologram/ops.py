"""The out-parameter functions: `hg.ops.vector_add(ex, a, b, c)`, `hg.ops.softmax(ex, x, out, dim=-1)`, ...

Each takes the executor, the inputs, the outputs, then attributes. See hologram.frontend.out_parameter.
"""

from hologram.frontend import out_parameter

globals().update(out_parameter.functions())
