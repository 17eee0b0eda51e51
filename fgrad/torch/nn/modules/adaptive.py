"""Softmax over many classes, the rare ones in clusters (Grave et al., 2016)."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad.torch import ops
from fgrad.torch.nn import functional as F
from fgrad.torch.nn.modules.container import ModuleList, Sequential
from fgrad.torch.nn.modules.linear import Linear
from fgrad.torch.nn.modules.module import Module


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probability of each target, and the loss: a head for frequent classes and clusters for the others.

    Arguments:
      in_features: the number of features.
      n_classes: the number of classes, the frequent ones first.
      cutoffs: where the clusters begin.
      div_value: by which the number of features shrinks from cluster to cluster.
      head_bias: whether the head adds one.

    Raises:
      ValueError: ``cutoffs`` are not increasing numbers of classes.
      RuntimeError: at the call, shapes that do not fit, or a target that is not a class.

    >>> import fgrad.torch as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 10, cutoffs=[4])
    >>> output, loss = layer(torch.ones(2, 8), torch.tensor([0, 7]))
    >>> output.shape, loss.shape
    (torch.Size([2]), torch.Size([]))

    Source: `torch.nn.AdaptiveLogSoftmaxWithLoss
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.AdaptiveLogSoftmaxWithLoss.html>`_.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = all(int(cut) == cut for cut in cutoffs) and cutoffs == sorted(set(cutoffs))
        if not increasing or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs: list[int] = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail: ModuleList = ModuleList()
        for i, (start, stop) in enumerate(itertools.pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, device=device, dtype=dtype),
                    Linear(hidden, stop - start, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new weights."""
        self.head.reset_parameters()
        for reduce, classify in self.tail:
            reduce.reset_parameters()
            classify.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        _check(input_, target_)
        batched = target_.dim() == 1
        input = input_ if batched else input_.unsqueeze(0)
        target = target_ if batched else target_.unsqueeze(0)
        used = 0
        output = input.new_zeros(target.size(0))
        columns = target.new_empty(target.size(0))
        for i, (low, high) in enumerate(itertools.pairwise([0, *self.cutoffs])):
            chosen = (target >= low) & (target < high)
            rows = chosen.nonzero().squeeze()
            if rows.numel() == 0:
                continue
            if i == 0:
                columns.index_copy_(0, rows, target[chosen])
            else:
                columns.index_fill_(0, rows, self.shortlist_size + i - 1)
                log_prob = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
                picked = log_prob.gather(1, (target[chosen] - low).unsqueeze(1))
                output.index_copy_(0, rows, picked.squeeze(1))
            used += rows.numel()
        if used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        head = F.log_softmax(self.head(input), dim=1)
        output += head.gather(1, columns.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _full_log_prob(self, input: Any, head_output: Any) -> Any:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            within = F.log_softmax(cluster(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return ops.cat(parts, dim=1)

    def log_prob(self, input: Any) -> Any:
        """The log-probability of every class."""
        return self._full_log_prob(input, self.head(input))

    def predict(self, input: Any) -> Any:
        """The most probable class; the clusters are looked into only for inputs that the head sends there."""
        head_output = self.head(input)
        output = ops.argmax(head_output, dim=1)
        rare = output >= self.shortlist_size
        if rare.any():
            output[rare] = ops.argmax(self._full_log_prob(input[rare], head_output[rare]), dim=1)
        return output


def _check(input: Any, target: Any) -> None:
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with size "
            f"{input.size()}"
        )
