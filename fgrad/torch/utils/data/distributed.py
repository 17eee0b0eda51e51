"""The samples of a data set divided among replicas of a program."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

from fgrad.torch.ops.random.random import randperm
from fgrad.torch.random.public import Generator
from fgrad.torch.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """The indices of one of several replicas, equally many for each.

    Arguments:
      dataset: the data set.
      num_replicas: how many replicas there are.
      rank: which of them this is.
      shuffle: whether the order is random, and different in each epoch.
      seed: of the order, the same for all replicas.
      drop_last: drop indices, rather than repeat some, to have equally many for each.

    Raises:
      RuntimeError: the number of replicas or the rank is not given: there are no process groups here.
      ValueError: the rank is out of range.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]

    Source: `torch.utils.data.distributed.DistributedSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.distributed.DistributedSampler>`_.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples: int = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size: int = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        indices: Any = range(len(self.dataset))
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(len(indices), generator=generator).tolist()
        # padded with the first ones
        return itertools.islice(itertools.cycle(indices), self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, on which the random order depends."""
        self.epoch: int = epoch
