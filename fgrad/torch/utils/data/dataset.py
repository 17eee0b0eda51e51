"""Data sets, indexed or iterable, and combinations of them."""

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.torch.ops.creation.data import tensor
from fgrad.torch.ops.random.random import randperm
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.public import Generator

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """An indexed data set: subclasses define ``__getitem__``, and usually ``__len__``.

    If it defines ``__getitems__``, this is called with the indices of a whole batch.

    >>> class Squares(Dataset):
    ...     def __getitem__(self, index):
    ...         return index**2
    ...
    ...     def __len__(self):
    ...         return 3
    >>> (Squares() + Squares())[4]
    1

    Source: `torch.utils.data.Dataset <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.Dataset>`_.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: "Dataset[T_co]") -> "ConcatDataset[T_co]":
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """An iterable data set: subclasses define ``__iter__``.

    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']

    Source: `torch.utils.data.IterableDataset
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.IterableDataset>`_.
    """

    def __add__(self, other: Dataset[T_co]) -> "ChainDataset":  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples that are slices of tensors along their first axis.

    Raises:
      AssertionError: the tensors are not of the same length.

    >>> import fgrad.torch as torch
    >>> TensorDataset(torch.tensor([1, 2]), torch.tensor([3, 4]))[1]
    (tensor(2), tensor(4))

    Source: `torch.utils.data.TensorDataset
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.TensorDataset>`_.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != each.size(0) for each in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([each[index] for each in self.tensors])

    def _batch(self, indices: Sequence[Any]) -> list[Tensor] | None:
        if type(self).__getitem__ is not TensorDataset.__getitem__ or any(map(is_tracked, self.tensors)):
            return None
        if not all(isinstance(index, int) for index in indices):
            return None
        rows = tensor(indices)
        return [each[rows] for each in self.tensors]

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Samples that are tuples of a sample of each data set, or dictionaries if they are named.

    Raises:
      ValueError: there are no data sets, only some are named, or their lengths differ.

    >>> StackDataset(x=[1, 2], y=[3, 4])[1]
    {'x': 2, 'y': 4}

    Source: `torch.utils.data.StackDataset
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.StackDataset>`_.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        lengths = [len(dataset) for dataset in args or kwargs.values()]
        if len(set(lengths)) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths[0]
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {key: dataset[index] for key, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """The samples of a batch."""
        if isinstance(self.datasets, dict):
            columns = [_items(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(zip(*[_items(dataset, indices) for dataset in self.datasets], strict=True))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    items = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}")
    return items


class ConcatDataset(Dataset[T_co]):
    """Several data sets, concatenated.

    Raises:
      AssertionError: there are no data sets, or one is iterable only.

    >>> ConcatDataset(["ab", "cde"])[3]
    'd'

    Source: `torch.utils.data.ConcatDataset
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.ConcatDataset>`_.
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx = len(self) + idx
        which = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[which][idx - self.cumulative_sizes[which - 1] if which else idx]


class ChainDataset(IterableDataset[Any]):
    """Several iterable data sets, chained.

    Raises:
      AssertionError: one is not an ``IterableDataset``.

    >>> class Letters(IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(ChainDataset([Letters(), Letters()]))
    ['a', 'b', 'a', 'b']

    Source: `torch.utils.data.ChainDataset
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.ChainDataset>`_.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(map(len, self._checked()))


class Subset(Dataset[T_co]):
    """The samples of a data set at some indices.

    >>> Subset("abc", [2, 0])[0]
    'c'

    Source: `torch.utils.data.Subset <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.Subset>`_.
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        cls = type(self)
        if cls.__getitem__ is not Subset.__getitem__ and cls.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{cls.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__ to ensure DataLoader works correctly with your "
                "custom logic. A simple implementation:\n\n"
                "def __getitems__(self, indices):\n    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """The samples of a batch."""
        chosen = [self.indices[idx] for idx in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)
        return [self.dataset[idx] for idx in chosen]

    def _batch(self, indices: Sequence[Any]) -> Any:
        if type(self).__getitem__ is not Subset.__getitem__:
            return None
        return batch_at_once(self.dataset, [self.indices[idx] for idx in indices])

    def __len__(self) -> int:
        return len(self.indices)


def batch_at_once(dataset: Any, indices: Sequence[Any]) -> Any:
    """The batch that ``default_collate`` makes of the samples at some indices, read together.

    This is much faster than reading and stacking samples one by one.  None if that is necessary: for other data sets,
    or if gradients have to flow to the samples.
    """
    at_once = getattr(dataset, "_batch", None)
    return None if at_once is None else at_once(indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """The data set split at random into subsets of these lengths, or fractions of its length.

    Raises:
      ValueError: the lengths do not sum up to the data set's, or a fraction is not between 0 and 1.

    >>> import fgrad.torch as torch
    >>> parts = random_split(range(10), [0.7, 0.3], generator=torch.Generator().manual_seed(0))
    >>> [list(part) for part in parts]
    [[4, 1, 7, 5, 3, 9, 0], [8, 6, 2]]

    Source: `torch.utils.data.random_split
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.random_split>`_.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    counts = [int(n) for n in lengths]
    indices = randperm(sum(counts), generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [Subset(dataset, indices[end - n : end]) for end, n in zip(ends, counts, strict=True)]


def _lengths_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    """The lengths that are these fractions of a total; the remainder goes to the first ones."""
    for i, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    lengths = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if not length:
            warn(f"Length of split at index {i} is 0. This might result in an empty dataset.")
    return lengths
