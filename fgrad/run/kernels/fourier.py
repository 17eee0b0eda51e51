"""Kernels of Fourier transforms: SciPy's, which are as precise as XLA's on a CPU.

SciPy imports ``fft`` on attribute access, here at the first use.
"""

from typing import Any

import jax
import scipy

from fgrad.graph.op import Op
from fgrad.run.kernels.kernel import ARITHMETIC, TABLE, Kernel

_NAMES = {
    jax.lax.FftType.FFT: "fftn",
    jax.lax.FftType.IFFT: "ifftn",
    jax.lax.FftType.RFFT: "rfftn",
    jax.lax.FftType.IRFFT: "irfftn",
}


def _fft(op: Op) -> Kernel | None:
    name, lengths = _NAMES.get(op.params["fft_type"]), op.params["fft_lengths"]
    if name is None or any(t.size == 0 for t in (*op.in_types, *op.out_types)):
        return None
    axes = tuple(range(-len(lengths), 0))

    def compute(x: Any) -> Any:
        return getattr(scipy.fft, name)(x, lengths, axes)

    return Kernel(compute, compute, ARITHMETIC, exact=False)


FOURIER = {"fft": _fft}
TABLE.update(FOURIER)
