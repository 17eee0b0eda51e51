"""Embeddings: rows of a weight matrix picked by index, alone or summed up in bags.

The gradient of the weight is dense; ``sparse=True``, which asks for PyTorch's sparse tensors, is refused.
"""

from typing import Any, Self

from fgrad.mutable.context.modes import no_grad
from fgrad.torch import ops
from fgrad.torch.nn import functional as F, init
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter


def _checked_padding_idx(padding_idx: int | None, num_embeddings: int, name: str) -> int | None:
    """``padding_idx``, made non-negative."""
    if padding_idx is None:
        return None
    if not -num_embeddings <= padding_idx < max(num_embeddings, 1):
        raise AssertionError(f"{name} must be within num_embeddings")
    return padding_idx + num_embeddings if padding_idx < 0 else padding_idx


def _refuse_sparse(sparse: bool) -> None:
    if sparse:
        raise NotImplementedError(
            "sparse=True makes the weight's gradient a sparse tensor, and fgrad.torch has dense tensors only; leave "
            "it out: the gradient has the same values."
        )


class _Table(Module):
    """The weight matrix of an embedding."""

    padding_idx: int | None
    weight: Any

    def _make_weight(
        self, num_embeddings: int, embedding_dim: int, weight: Any, trained: bool, device: Any, dtype: Any
    ) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if weight is None:
            empty = ops.empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=trained)
            self.reset_parameters()
            return
        if list(weight.shape) != [num_embeddings, embedding_dim]:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        self.weight = Parameter(weight, requires_grad=trained)

    def reset_parameters(self) -> None:
        """Draw new weights from the standard normal distribution, with zeros at ``padding_idx``."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Looks up a row of ``weight`` for each index.

    Arguments:
      num_embeddings, embedding_dim: the shape of ``weight``.
      padding_idx: a row whose gradient is zero; it starts as zeros.
      max_norm: rows that are looked up and have a larger norm are scaled down to it, in place.
      norm_type: the exponent of this norm.
      scale_grad_by_freq: whether to divide a row's gradient by how often it was looked up in the batch.
      sparse: refused.

    Raises:
      AssertionError: ``padding_idx`` is not a row.
      NotImplementedError: ``sparse=True``.

    >>> import fgrad.torch as torch
    >>> torch.nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))(torch.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])

    Source: `torch.nn.Embedding <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Embedding.html>`_.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Any = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _refuse_sparse(sparse)
        self.padding_idx: int | None = _checked_padding_idx(padding_idx, num_embeddings, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._make_weight(num_embeddings, embedding_dim, _weight, not _freeze, device, dtype)
        self.sparse = sparse

    def forward(self, input: Any) -> Any:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding whose weight is ``embeddings``, not trained unless ``freeze`` is False.

        Raises:
          AssertionError: ``embeddings`` is not a matrix.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows of ``weight`` that each bag of indices picks.

    Arguments:
      mode: ``"sum"``, ``"mean"`` or ``"max"``.
      include_last_offset: whether the offsets end with the number of indices.
      The others are those of ``Embedding``; the row ``padding_idx`` does not count in a bag.

    Raises:
      AssertionError: ``padding_idx`` is not a row.
      NotImplementedError: ``sparse=True``.

    >>> import fgrad.torch as torch
    >>> bag = torch.nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0], [3.0]]), mode="sum")
    >>> bag(torch.tensor([[0, 1], [1, 1]]))
    tensor([[4.],
            [6.]])

    Source: `torch.nn.EmbeddingBag <https://docs.pytorch.org/docs/2.13/generated/torch.nn.EmbeddingBag.html>`_.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Any = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _refuse_sparse(sparse)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx: int | None = _checked_padding_idx(padding_idx, num_embeddings, "padding_idx")
        self._make_weight(num_embeddings, embedding_dim, _weight, True, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """An embedding bag whose weight is ``embeddings``, not trained unless ``freeze`` is False.

        Raises:
          AssertionError: ``embeddings`` is not a matrix.
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        bag = cls(
            num_embeddings=rows,
            embedding_dim=columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
