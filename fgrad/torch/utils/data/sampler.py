"""Orders of the samples of a data set; random ones are PyTorch's, number for number."""

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from fgrad.mutable.types.dtypes import float64, int64
from fgrad.torch.ops.creation.creation import empty
from fgrad.torch.ops.creation.data import as_tensor
from fgrad.torch.ops.random.random import randint, random_, randperm
from fgrad.torch.ops.random.sampling import multinomial
from fgrad.torch.random.public import Generator

T_co = TypeVar("T_co", covariant=True)


def fresh_seed(generator: Generator | None = None) -> int:
    """A seed drawn at random."""
    return int(random_(empty((), dtype=int64), generator=generator).item())


def _check_positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _check_boolean(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """An order of indices, or of lists of them: subclasses define ``__iter__``, and usually ``__len__``.

    >>> class Backwards(Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...
    ...     def __iter__(self):
    ...         return iter(range(len(self.data) - 1, -1, -1))
    >>> list(Backwards("abc"))
    [2, 1, 0]

    Source: `torch.utils.data.Sampler <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.Sampler>`_.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """All indices in order.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]

    Source: `torch.utils.data.SequentialSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.SequentialSampler>`_.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order.

    Arguments:
      data_source: the data set.
      replacement: whether indices are drawn with replacement.
      num_samples: how many are drawn, by default as many as there are.
      generator: the generator; by default a new one, seeded by the default generator.

    Raises:
      TypeError: ``replacement`` is not a bool.
      ValueError: ``num_samples`` is not positive.

    >>> import fgrad.torch as torch
    >>> list(RandomSampler(range(5), generator=torch.Generator().manual_seed(0)))
    [4, 0, 1, 3, 2]

    Source: `torch.utils.data.RandomSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.RandomSampler>`_.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_boolean("replacement", replacement, TypeError)
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """The number of indices drawn."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = Generator().manual_seed(fresh_seed()) if self.generator is None else self.generator
        count, among = self.num_samples, len(self.data_source)
        if self.replacement:
            # in chunks, as PyTorch draws them
            for portion in itertools.chain(itertools.repeat(32, count // 32), (count % 32,)):
                yield from randint(among, (portion,), dtype=int64, generator=generator).tolist()
        else:
            for _ in range(count // among):
                yield from randperm(among, generator=generator).tolist()
            yield from randperm(among, generator=generator).tolist()[: count % among]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order.

    >>> import fgrad.torch as torch
    >>> list(SubsetRandomSampler([10, 20, 30], generator=torch.Generator().manual_seed(0)))
    [30, 10, 20]

    Source: `torch.utils.data.SubsetRandomSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.SubsetRandomSampler>`_.
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn by weight.

    Arguments:
      weights: of the indices 0, 1, ...; they need not sum up to 1.
      num_samples: how many are drawn.
      replacement: whether indices are drawn with replacement.
      generator: the generator.

    Raises:
      ValueError: ``num_samples`` is not positive, ``replacement`` is not a bool, or the weights are not
        one-dimensional.

    >>> list(WeightedRandomSampler([0.0, 1.0], 3))
    [1, 1, 1]

    Source: `torch.utils.data.WeightedRandomSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.WeightedRandomSampler>`_.
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        _check_positive("num_samples", num_samples)
        _check_boolean("replacement", replacement)
        self.weights: Any = as_tensor(weights, dtype=float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        yield from multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler in lists.

    Arguments:
      sampler: a sampler, or any iterable.
      batch_size: the length of the lists.
      drop_last: drop the last list if it is shorter.

    Raises:
      ValueError: ``batch_size`` is not positive, or ``drop_last`` is not a bool.

    >>> list(BatchSampler(SequentialSampler(range(5)), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]

    Source: `torch.utils.data.BatchSampler
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.BatchSampler>`_.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        _check_boolean("drop_last", drop_last)
        self.sampler: Iterable[int] = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
