"""``torch.backends``: queries and settings of libraries, without effect: XLA computes everything.

Source: `torch.backends <https://docs.pytorch.org/docs/2.13/backends.html>`_.
"""

from typing import TYPE_CHECKING

from fgrad.torch.stand_ins import submodules

if TYPE_CHECKING:
    from fgrad.torch.backends import (
        cuda as cuda,
        cudnn as cudnn,
        mkl as mkl,
        mkldnn as mkldnn,
        mps as mps,
        openmp as openmp,
        opt_einsum as opt_einsum,
    )
else:
    __getattr__, __dir__ = submodules(
        __name__,
        {
            __name__: "cuda cudnn mkl mkldnn mps openmp opt_einsum",
        },
    )
