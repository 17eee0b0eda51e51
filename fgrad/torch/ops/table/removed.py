"""Functions that PyTorch has removed: their errors name the replacements.

Source: the texts are PyTorch's (torch/_linalg_utils.py, torch/_tensor.py).
"""

from typing import Any, NoReturn

from fgrad.torch.ops.table.dispatch import PARSED, UNLISTED_METHOD, Dispatch
from fgrad.torch.ops.table.table import composite

_START = "This function was deprecated since version 1.9 and is now removed. "


def _removed(name: str, text: str, dispatch: Dispatch = UNLISTED_METHOD) -> None:
    def function(input: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(text)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise PyTorch's error: the function was removed."
    composite(dispatch=dispatch)(function)


_removed(
    "matrix_rank",
    "This function was deprecated since version 1.9 and is now removed.\nPlease use the `torch.linalg.matrix_rank` "
    "function instead. The parameter 'symmetric' was renamed in `torch.linalg.matrix_rank()` to 'hermitian'.",
    PARSED,
)
_removed(
    "solve",
    _START + "`torch.solve` is deprecated in favor of `torch.linalg.solve`. `torch.linalg.solve` has its arguments "
    "reversed and does not return the LU factorization.\n\nTo get the LU factorization see `torch.lu`, which can be "
    "used with `torch.lu_solve` or `torch.lu_unpack`.\nX = torch.solve(B, A).solution should be replaced with:\n"
    "X = torch.linalg.solve(A, B)",
)
_removed(
    "lstsq",
    _START
    + "`torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.\n`torch.linalg.lstsq` has reversed arguments "
    "and does not return the QR decomposition in the returned tuple (although it returns other information about the "
    "problem).\n\nTo get the QR decomposition consider using `torch.linalg.qr`.\n\nThe returned solution in "
    "`torch.lstsq` stored the residuals of the solution in the last m - n columns of the returned value whenever "
    "m > n. In torch.linalg.lstsq, the residuals are in the field 'residuals' of the returned named tuple.\n\nThe "
    "unpacking of the solution, as in\nX, _ = torch.lstsq(B, A).solution[:A.size(1)]\nshould be replaced with:\n"
    "X = torch.linalg.lstsq(A, B).solution",
)
_removed(
    "symeig",
    _START
    + "The default behavior has changed from using the upper triangular portion of the matrix by default to using "
    "the lower triangular portion.\n\nL, _ = torch.symeig(A, upper=upper) should be replaced with:\n"
    "L = torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')\n\nand\n\n"
    "L, V = torch.symeig(A, eigenvectors=True) should be replaced with:\n"
    "L, V = torch.linalg.eigh(A, UPLO='U' if upper else 'L')",
)
_removed(
    "eig",
    _START
    + "`torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking "
    "complex tensors.\n\nL, _ = torch.eig(A) should be replaced with:\nL_complex = torch.linalg.eigvals(A)\n\nand\n\n"
    "L, V = torch.eig(A, eigenvectors=True) should be replaced with:\nL_complex, V_complex = torch.linalg.eig(A)",
)
