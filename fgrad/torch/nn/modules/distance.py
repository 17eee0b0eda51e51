"""Distances and similarities of vectors."""

from typing import Any

from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.module import Module


class PairwiseDistance(Module):
    """The norm of the difference of vectors, over the last dimension.

    >>> import fgrad.torch as torch
    >>> torch.nn.PairwiseDistance()(torch.tensor([3.0, 4.0]), torch.zeros(2))
    tensor(5.0000)

    Source: `torch.nn.PairwiseDistance
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.PairwiseDistance.html>`_.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors, over dimension ``dim``.

    >>> import fgrad.torch as torch
    >>> torch.nn.CosineSimilarity(dim=0)(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0]))
    tensor(0.)

    Source: `torch.nn.CosineSimilarity
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.CosineSimilarity.html>`_.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Any, x2: Any) -> Any:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
