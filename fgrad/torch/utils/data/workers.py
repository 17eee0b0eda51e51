"""Workers that load data, taking turns in this process.

NOTE [Workers]
PyTorch's workers are processes.  Here they are not: JAX arrays do not survive a fork, and results would have to be sent
back.  But the order of the samples and the draws of random transformations are PyTorch's: each worker has a shallow
copy of the data set and its own streams of random numbers (``torch``'s, ``random``'s and NumPy's), seeded as PyTorch
seeds them, which are in force during its turn.
"""

import contextlib
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import define, frozen

from fgrad.torch.random.default import default_generator

_HALF = 2**32


@frozen
class WorkerInfo:
    """A worker's number, the number of workers, its seed, and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@define
class _Turn:
    """Whose turn it is."""

    info: WorkerInfo | None = None


_turn = _Turn()


def get_worker_info() -> WorkerInfo | None:
    """The current worker; None outside of workers.

    It has the attributes ``id``, ``num_workers``, ``seed`` and ``dataset``.

    >>> get_worker_info() is None
    True

    Source: `torch.utils.data.get_worker_info
    <https://docs.pytorch.org/docs/2.13/data.html#torch.utils.data.get_worker_info>`_.
    """
    return _turn.info


def _streams() -> tuple[Any, Any, Any]:
    return default_generator.get_state(), random.getstate(), np.random.get_state()


def _continue(streams: tuple[Any, Any, Any]) -> None:
    default_generator.set_state(streams[0])
    random.setstate(streams[1])
    np.random.set_state(streams[2])


def _seed(base_seed: int, number: int) -> None:
    default_generator.manual_seed(base_seed + number)
    random.seed(base_seed + number)
    np.random.seed(_generate_state(base_seed, number))


def _generate_state(base_seed: int, worker_id: int) -> np.ndarray:
    """The seed of a worker's NumPy generator."""
    return np.random.SeedSequence([worker_id, base_seed % _HALF, base_seed // _HALF, 0]).generate_state(4)


class Worker:
    """A worker: see NOTE [Workers].

    Arguments:
      number: counted from 0.
      count: how many there are.
      dataset: the data set, of which it takes a shallow copy.
      base_seed: the seed from which all workers' seeds are derived.
      begin: makes of the copy the function that loads an index.
      init: called with the number first.
    """

    def __init__(
        self,
        number: int,
        count: int,
        dataset: Any,
        base_seed: int,
        begin: Callable[[Any], Callable[[Any], Any]],
        init: Callable[[int], Any] | None,
    ):
        self.info: WorkerInfo = WorkerInfo(number, count, base_seed + number, copy.copy(dataset))
        self._begin = begin
        outside = _streams()
        _seed(base_seed, number)
        self._own = _streams()
        _continue(outside)
        if init is not None:
            with self._turn():
                init(number)
        self.begin()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        outside, other = _streams(), _turn.info
        _continue(self._own)
        _turn.info = self.info
        try:
            yield
        finally:
            self._own = _streams()
            _turn.info = other
            _continue(outside)

    def begin(self) -> None:
        """Start from the beginning of the data."""
        with self._turn():
            self._fetch = self._begin(self.info.dataset)

    def fetch(self, index: Any) -> Any:
        """The collated samples at an index or a list of indices."""
        with self._turn():
            return self._fetch(index)
