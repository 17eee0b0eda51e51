"""``torch.futures``: values to be set later."""

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from fgrad.mutable.types.devices import device as _device

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")


class Future(Generic[T]):
    """A value set later, usually by another thread.

    Arguments:
      devices: accepted as in PyTorch.

    >>> future = Future()
    >>> twice = future.then(lambda done: 2 * done.value())
    >>> future.set_result(3)
    >>> twice.wait()
    6
    """

    def __init__(self, *, devices: Sequence[Any] | None = None):
        for each in map(_device, devices or ()):
            if each.index is None:
                raise ValueError(f"Expected devices to have indices, got {each}")
        self._promise: concurrent.futures.Future[T] = concurrent.futures.Future()

    def done(self) -> bool:
        """Whether the value or an error is set."""
        return self._promise.done()

    def wait(self) -> T:
        """Wait for the value.

        Raises:
          Exception: the error set instead.
        """
        return self._promise.result()

    def value(self) -> T:
        """The value.

        Raises:
          RuntimeError: it is not set yet.
          Exception: the error set instead.
        """
        if not self.done():
            raise RuntimeError("The Future is not completed: wait() for it, or ask in a callback.")
        return self._promise.result()

    def add_done_callback(self, callback: Callable[["Future[T]"], Any]) -> None:
        """Call a function of this future once it is done; its errors are logged."""
        self._promise.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[["Future[T]"], Any]) -> "Future[Any]":
        """The future of a function of this one, called once this is done."""
        after: Future[Any] = Future()

        def follow(future: "Future[T]") -> None:
            try:
                after.set_result(callback(future))
            except Exception as error:
                text = f"Got the following error when running the callback: {type(error).__name__}: {error}"
                after.set_exception(RuntimeError(text))

        self.add_done_callback(follow)
        return after

    def set_result(self, result: T) -> None:
        """Set the value.

        Raises:
          RuntimeError: the future is already done.
        """
        self._check_open()
        self._promise.set_result(result)

    def set_exception(self, result: Exception) -> None:
        """Set an error instead of the value.

        Raises:
          AssertionError: it is not an exception.
          RuntimeError: the future is already done.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._check_open()
        self._promise.set_exception(result)

    def _check_open(self) -> None:
        if self.done():
            raise RuntimeError(
                "Attempting to mark a completed Future as complete again. Note that a Future can only be marked "
                "completed once."
            )


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """The future that is done once all of these are; its value is the list of them.

    >>> one, two = Future(), Future()
    >>> both = collect_all([one, two])
    >>> one.set_result(1), both.done(), two.set_result(2), both.done()
    (None, False, None, True)
    """
    futures = list(futures)
    collected: Future[list[Future[Any]]] = Future()
    if not futures:
        collected.set_result(futures)
    open_ = set(futures)

    def strike(future: Future[Any]) -> None:
        open_.discard(future)
        if not open_:
            collected.set_result(futures)

    for future in set(futures):
        future.add_done_callback(strike)
    return collected


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """Wait for the values of all.

    Raises:
      Exception: an error set instead of a value.
    """
    return [future.wait() for future in collect_all(futures).wait()]
