"""The table of operations, in Markdown: what docs/operations.md holds, made from the declarations."""

from __future__ import annotations

import inspect
from pathlib import Path

from hologram import opset
from hologram.opset import OPERATIONS
from hologram.opset.forms import description
from hologram.opset.forms.operation import Operation

HEAD = """# Operations

Made from the declarations in `hologram/opset` by `python docs/operations.py > docs/operations.md`; a test holds it to
them. Every operation is a function of tensors (`hg.softmax(x, dim=-1)`), most are methods (`x.softmax(dim=-1)`), and
each is an out-parameter function under its own name and those given (`hg.ops.softmax(ex, x, out, dim=-1)`). Without a
tensor to start from they take an executor first (`hg.random_uniform(ex, (4,), seed=1)`), or run on the default one.

ULP bounds the error of float results in units in the last place of the result's dtype. Devices differ: WebGPU promises
neither exact division nor a fused multiply-add, a CPU has both (`hologram info --json`). "+ n eps" adds n epsilons of
the dtype times the largest operand (of products of operands their largest product) times the number of elements behind
a result, 2048 at most; "(n eps beyond)" n such epsilons for each of the others, however many; "+ n a factor" n ULP for
each element behind a result. Exact means correctly rounded, or integers. Of [complex numbers](complex.md) the bound is
that of each part, in units in the last place of the larger one. `tests/test_ops.py` holds every backend to it, and
`tests/opset/test_long_sums.py` to what it says of many elements.

Sums, products, counts and means are made in an accumulator that the dtype names, by derivatives and by what is composed
of operations too, and rounded once: f32 for f16 and bf16, 64 bits for integers. Long sums are made in blocks, whose
sums are added up. Updates of one place are too, where places have 4,096 of them on average (65,536 on a CPU, which adds
these up in f64); otherwise they are added one by one, and each may be off by half a ULP of the sum so far.

On `cpu`, `cuda` and `metal` the arithmetic beneath is that of IEEE 754: denormal numbers, NaN, infinities and the signs
of zeros count, but in products of bf16 on processors with AVX512_BF16, whose instruction takes numbers below 2^-126 in
magnitude for 0, operands, sums and results alike (`HOLOGRAM_CPU_WITHOUT=avx512bf16` does without it, and so do
[reproducible executors](reproducible.md)). WebGPU's standard leaves much to the driver, so each is asked when it is
first opened, and `hologram doctor` says what it does not keep. Of WebGPU is promised:

- NaN, choices, division by any number, remainders, a product rounded before it is added: everywhere. Where the driver
  does otherwise they are computed in another way. (`mad` in programs of your own may be rounded once or twice.)
- Sums and products in the order written: in functions that live on it (`exp`, `sin`, powers, compensated sums)
  everywhere, elsewhere as the driver does.
- Infinities, and the signs of zeros: where the driver keeps them. Choices keep signs everywhere.
- Numbers below 2^-126 in magnitude: where the driver keeps denormals. Else operands and results may be taken for 0.
- Quotients and square roots to the nearest, `fma` rounded once: where the driver does so. Else within the larger bound.
- Loops of any length: where the driver ends none. Else they are unrolled or, where nobody can count them, refused.

Shapes are those of a call that the tests make, operands → result. Derivatives are those with respect to the operands
named, "its parts'" where an operation is composed of others, 0 where it is constant between jumps; "none" raises
GradientError ([gradients](gradients.md)). The last column names the declaration's file below `hologram/opset`, whose
comments name the source of a formula or an algorithm.

| operation, its other out-parameter names | | shapes | dtypes | error, ULP | derivative | declared in |
|---|---|---|---|---|---|---|
"""


def _signature(operation: Operation) -> str:
    parts = [f"{name}=None" if name in operation.optional else name for name in operation.operands]
    parts = parts or ["executor"]
    for name, default in operation.attributes.items():
        parts.append(name if default is inspect.Parameter.empty else f"{name}={default!r}")
    return f"{operation.name}({', '.join(parts)})"


def table() -> str:
    """The whole document."""
    rows = []
    for operation in sorted(OPERATIONS.values(), key=lambda o: o.name):
        summary = (
            (inspect.getdoc(operation.function) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        )
        names = "".join(f", `{n}`" for n in operation.out_names)
        sample = description.telling(operation)
        folder = Path(opset.__file__).parent
        declared = Path(inspect.getfile(operation.function)).relative_to(folder).as_posix()
        rows.append(
            f"| `{_signature(operation)}`{names} | {summary} | {description.shapes(operation, sample)} "
            f"| {description.dtypes(operation)} | {description.accuracy(operation)} "
            f"| {description.derivative(operation, sample)} | {declared} |"
        )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(table(), end="")
