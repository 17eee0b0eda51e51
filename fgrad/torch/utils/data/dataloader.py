"""``DataLoader``: batches of samples of a data set."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from itertools import cycle, repeat
from typing import Any, Generic, TypeVar

from attrs import define

from fgrad.mutable.context.warning import warn
from fgrad.torch.random.public import Generator
from fgrad.torch.utils.data.collate import default_collate as default_collate, default_convert as default_convert
from fgrad.torch.utils.data.dataset import IterableDataset, batch_at_once
from fgrad.torch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, fresh_seed
from fgrad.torch.utils.data.workers import Worker, get_worker_info as get_worker_info

T_co = TypeVar("T_co", covariant=True)
#: PyTorch's name, for annotations
_collate_fn_t = Callable[[list[Any]], Any]

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


@define
class _MapDatasetFetcher:
    """Loads samples by their indices."""

    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool

    def fetch(self, index: Any) -> Any:
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[index])
        batch = batch_at_once(dataset, index) if self.collate_fn is default_collate else None
        if batch is not None:
            return batch
        if getattr(dataset, "__getitems__", None):
            return self.collate_fn(dataset.__getitems__(index))
        return self.collate_fn([dataset[i] for i in index])


class _IterableDatasetFetcher:
    """Loads the next samples, one for each index."""

    def __init__(self, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool):
        self.samples = iter(dataset)
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.samples))
        batch = []
        for _ in index:
            try:
                batch.append(next(self.samples))
            except StopIteration:
                self.ended = True
                break
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return self.collate_fn(batch)


class _DatasetKind:
    """Whether the samples of a data set have indices."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> "_MapDatasetFetcher | _IterableDatasetFetcher":
        """What loads the samples of a data set, or of a worker's copy, from its beginning."""
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


def _fetching(loader: Any) -> Callable[[Any], Callable[[Any], Any]]:
    """What fetches samples from a data set as a loader says."""
    kind, auto_collation = loader._dataset_kind, loader._auto_collation
    collate_fn, drop_last = loader.collate_fn, loader.drop_last
    return lambda dataset: _DatasetKind.create_fetcher(kind, dataset, auto_collation, collate_fn, drop_last).fetch


class _BaseDataLoaderIter(Iterator[Any]):
    """The batches of one pass through a loader's data.

    Libraries have loaders of their own, with the attributes that PyTorch's iterators read.
    """

    def __init__(self, loader: Any):
        if loader.pin_memory:
            warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be "
                "used.",
            )
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        self._base_seed = fresh_seed(loader.generator)
        self._yielded = 0
        self._start()

    def _start(self) -> None:
        if self._loader.timeout:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._fetch = _fetching(self._loader)(self._loader.dataset)

    def _load(self) -> Any:
        return self._fetch(next(self._indices))

    def __next__(self) -> Any:
        batch = self._load()
        self._yielded += 1
        expected = self._loader._IterableDataset_len_called
        if expected is not None and self._yielded > expected:
            text = (
                f"Length of IterableDataset {self._loader.dataset} was reported to be {expected}(when accessing "
                f"len(dataloader)), but {self._yielded} samples have been fetched. "
            )
            if self._loader.num_workers > 0:
                text += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warn(text)
        return batch

    def __len__(self) -> int:
        return len(self._loader._index_sampler)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """The batches of one pass, loaded by workers in turn; indices are drawn ahead, as in PyTorch."""

    def _start(self) -> None:
        loader, begin = self._loader, _fetching(self._loader)
        self._workers = [
            Worker(i, loader.num_workers, loader.dataset, self._base_seed, begin, loader.worker_init_fn)
            for i in range(loader.num_workers)
        ]
        self._assign_first()

    def restart(self) -> None:
        """Start another pass with the same workers."""
        self._indices = iter(self._loader._index_sampler)
        self._yielded = 0
        for worker in self._workers:
            worker.begin()
        self._assign_first()

    def _assign_first(self) -> None:
        self._active = dict.fromkeys(self._workers, True)
        self._order = cycle(self._workers)
        self._tasks: deque[tuple[Worker, Any]] = deque()
        for _ in range(self._loader.num_workers * (self._loader.prefetch_factor or 0)):
            self._assign()

    def _assign(self) -> None:
        """Assign the next index to the next worker, if there are both."""
        try:
            index = next(self._indices)
        except StopIteration:
            return
        for _ in self._workers:
            worker = next(self._order)
            if self._active[worker]:
                self._tasks.append((worker, index))
                return

    def _load(self) -> Any:
        while self._tasks:
            worker, index = self._tasks.popleft()
            if not self._active[worker]:
                continue
            try:
                return worker.fetch(index)
            except StopIteration:
                self._active[worker] = False
            finally:
                self._assign()
        raise StopIteration


_SingleProcessDataLoaderIter = _BaseDataLoaderIter


class DataLoader(Generic[T_co]):
    """Batches of the samples of a data set; each ``iter`` begins another pass.

    Workers run in this process, in PyTorch's order: ``num_workers`` workers take turns, each with its own random
    numbers, copy of the data set and ``get_worker_info``.  Nothing is loaded ahead.

    Arguments:
      dataset: the data set, indexed or iterable.
      batch_size: the number of samples of a batch; None for single samples.
      shuffle: whether the order is random, and different in each pass.
      sampler: the order of indices.
      batch_sampler: the order of lists of indices.
      num_workers: how many workers take turns.
      collate_fn: makes a batch of a list of samples; by default ``default_collate``, or ``default_convert`` for single
        samples.
      pin_memory: has no effect; it warns, as PyTorch does without an accelerator.
      drop_last: drop the last batch if it is shorter.
      timeout: has no effect; it has to be 0 without workers.
      worker_init_fn: called with its number when a worker starts.
      multiprocessing_context: has no effect; it has to be None without workers.
      generator: the generator of random orders and the workers' seeds.
      prefetch_factor: how many batches' indices are drawn ahead for each worker; 2 by default.
      persistent_workers: keep workers, and their random numbers, for the next pass.
      pin_memory_device: has no effect.
      in_order: has no effect; batches always come in order.

    Raises:
      ValueError: arguments contradict each other.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.utils.data import DataLoader, TensorDataset
    >>> _ = torch.manual_seed(0)
    >>> [batch for (batch,) in DataLoader(TensorDataset(torch.arange(5)), batch_size=2, shuffle=True)]
    [tensor([1, 4]), tensor([2, 3]), tensor([0])]

    Source: `torch.utils.data.DataLoader <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.DataLoader>`_.
    """

    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if multiprocessing_context is not None and not num_workers:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={num_workers}"
            )
        iterable = isinstance(dataset, IterableDataset)
        self._dataset_kind: int = _DatasetKind.Iterable if iterable else _DatasetKind.Map
        if iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_sampling(batch_size, bool(shuffle), sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor: int | None = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if sampler is None:
            sampler = repeat(None) if iterable else _order(dataset, shuffle, generator)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_convert if batch_sampler is None else default_collate
        )
        self.persistent_workers = persistent_workers
        #: the claimed length of an iterable data set
        self._IterableDataset_len_called: int | None = None
        self._iterator: _MultiProcessingDataLoaderIter | None = None
        self.__initialized = True

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(f"{attr} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(attr, val)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            return _BaseDataLoaderIter(self)
        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self)
        if self._iterator is None:
            self._iterator = _MultiProcessingDataLoaderIter(self)
        else:
            self._iterator.restart()
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else math.ceil(length / self.batch_size)


def _order(dataset: Any, shuffle: bool | None, generator: Generator | None) -> Any:
    return RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not num_workers and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable "
            "multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and not num_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_iterable(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    options = [
        ("shuffle", shuffle, shuffle not in (False, None)),
        ("sampler", sampler, sampler is not None),
        ("batch_sampler", batch_sampler, batch_sampler is not None),
    ]
    for name, value, wrong in options:
        if wrong:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_sampling(batch_size: int | None, shuffle: bool, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
