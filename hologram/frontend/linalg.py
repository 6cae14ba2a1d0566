"""hg.linalg: the array API's extension, and what else NumPy, SciPy and PyTorch have of linear algebra.

Matrices are of f32 or f64, and may be stacks, along leading axes. What fails raises LinAlgError with the number of the
matrix: for that the device is waited for. A function that `hg.jit` traces does not wait; NaN tells of failures there.
"""

from hologram.foundation.errors import LinAlgError as LinAlgError
from hologram.frontend.linear_algebra.factors import (
    EighResult as EighResult,
)
from hologram.frontend.linear_algebra.factors import (
    LUResult as LUResult,
)
from hologram.frontend.linear_algebra.factors import (
    QRResult as QRResult,
)
from hologram.frontend.linear_algebra.factors import (
    SVDResult as SVDResult,
)
from hologram.frontend.linear_algebra.factors import (
    cholesky as cholesky,
)
from hologram.frontend.linear_algebra.factors import (
    eig as eig,
)
from hologram.frontend.linear_algebra.factors import (
    eigh as eigh,
)
from hologram.frontend.linear_algebra.factors import (
    eigvals as eigvals,
)
from hologram.frontend.linear_algebra.factors import (
    eigvalsh as eigvalsh,
)
from hologram.frontend.linear_algebra.factors import (
    lu_factor as lu_factor,
)
from hologram.frontend.linear_algebra.factors import (
    qr as qr,
)
from hologram.frontend.linear_algebra.factors import (
    svd as svd,
)
from hologram.frontend.linear_algebra.factors import (
    svdvals as svdvals,
)
from hologram.frontend.linear_algebra.norms import (
    cond as cond,
)
from hologram.frontend.linear_algebra.norms import (
    matrix_norm as matrix_norm,
)
from hologram.frontend.linear_algebra.norms import (
    norm as norm,
)
from hologram.frontend.linear_algebra.norms import (
    vector_norm as vector_norm,
)
from hologram.frontend.linear_algebra.products import (
    cross as cross,
)
from hologram.frontend.linear_algebra.products import (
    diagonal as diagonal,
)
from hologram.frontend.linear_algebra.products import (
    matmul as matmul,
)
from hologram.frontend.linear_algebra.products import (
    matrix_transpose as matrix_transpose,
)
from hologram.frontend.linear_algebra.products import (
    multi_dot as multi_dot,
)
from hologram.frontend.linear_algebra.products import (
    outer as outer,
)
from hologram.frontend.linear_algebra.products import (
    tensordot as tensordot,
)
from hologram.frontend.linear_algebra.products import (
    trace as trace,
)
from hologram.frontend.linear_algebra.products import (
    vecdot as vecdot,
)
from hologram.frontend.linear_algebra.solving import (
    LstsqResult as LstsqResult,
)
from hologram.frontend.linear_algebra.solving import (
    SlogdetResult as SlogdetResult,
)
from hologram.frontend.linear_algebra.solving import (
    cholesky_solve as cholesky_solve,
)
from hologram.frontend.linear_algebra.solving import (
    det as det,
)
from hologram.frontend.linear_algebra.solving import (
    expm as expm,
)
from hologram.frontend.linear_algebra.solving import (
    inv as inv,
)
from hologram.frontend.linear_algebra.solving import (
    lstsq as lstsq,
)
from hologram.frontend.linear_algebra.solving import (
    matrix_power as matrix_power,
)
from hologram.frontend.linear_algebra.solving import (
    matrix_rank as matrix_rank,
)
from hologram.frontend.linear_algebra.solving import (
    pinv as pinv,
)
from hologram.frontend.linear_algebra.solving import (
    slogdet as slogdet,
)
from hologram.frontend.linear_algebra.solving import (
    solve as solve,
)
from hologram.frontend.linear_algebra.solving import (
    solve_triangular as solve_triangular,
)
from hologram.frontend.linear_algebra.solving import (
    tensorinv as tensorinv,
)
from hologram.frontend.linear_algebra.solving import (
    tensorsolve as tensorsolve,
)

__all__ = [name for name in dir() if not name.startswith("_")]
