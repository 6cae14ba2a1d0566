"""Factorisations and what is solved by them: by LAPACK on the host, always; `torch.hologram.fallbacks()` lists them."""

from __future__ import annotations

from hologram_torch.fallback import on_host_by_design
from hologram_torch.kernels.operators import present

BY_LAPACK = """
_cholesky_solve_helper _linalg_det _linalg_det.result _linalg_eigh _linalg_eigh.eigenvalues _linalg_eigvals
_linalg_slogdet _linalg_slogdet.sign _linalg_solve_ex _linalg_solve_ex.result _linalg_svd _linalg_svd.U cholesky
cholesky.out cholesky_inverse cholesky_inverse.out geqrf geqrf.a linalg_cholesky_ex linalg_cholesky_ex.L
linalg_householder_product linalg_householder_product.out linalg_inv_ex linalg_inv_ex.inverse linalg_ldl_factor_ex
linalg_ldl_factor_ex.out linalg_ldl_solve linalg_ldl_solve.out linalg_lstsq linalg_lstsq.out linalg_lu linalg_lu.out
linalg_lu_factor_ex linalg_lu_factor_ex.out linalg_lu_solve linalg_lu_solve.out linalg_matrix_exp linalg_qr
linalg_qr.out linalg_solve_triangular linalg_solve_triangular.out lu_unpack lu_unpack.out ormqr ormqr.out
triangular_solve triangular_solve.X
"""

for _operator in present(BY_LAPACK):
    on_host_by_design(_operator)
