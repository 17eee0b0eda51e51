"""``torch.backends``: what programs ask of libraries and set for them; here XLA computes everything.

Source: `torch.backends <https://docs.pytorch.org/docs/2.13/backends.html>`_.
"""

from fgrad.torch.backends import (
    cuda as cuda,
    cudnn as cudnn,
    mkl as mkl,
    mkldnn as mkldnn,
    mps as mps,
    openmp as openmp,
    opt_einsum as opt_einsum,
)
