"""The available memory, and PyTorch's errors for tensors that would need more.

Sizes are checked before anything is computed: XLA aborts the process if an allocation fails.

Source: PyTorch's ``c10/core/impl/alloc_cpu.cpp`` and ``aten/src/ATen/EmptyTensor.cpp``.
"""

import os
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.layout.geometry import Ints, contiguous_strides, extent
from fgrad.mutable.values.device_of_value import Absent
from fgrad.mutable.values.evaluation import Routine
from fgrad.seam import Graph

#: the numbers that fit in 64 bits with a sign
LARGEST = (1 << 63) - 1
MOST_AXES = 64
#: the limit if the system reports none: the address space of today's processors
ADDRESSES = 1 << 47


@cache
def memory() -> int:
    """How many bytes can be allocated at once: the machine's memory, as under Linux's default overcommit."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return ADDRESSES


def room(accelerator: Any = None) -> int:
    """How many bytes this process can still allocate at once: in its address space, or on an accelerator of JAX's."""
    if accelerator is not None:
        statistics = accelerator.memory_stats() or {}
        return statistics.get("bytes_limit", ADDRESSES) - statistics.get("bytes_in_use", 0)
    try:
        limit = re.search(r"Max address space +(\d+)", Path("/proc/self/limits").read_text())
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return memory()
    return memory() if limit is None else min(memory(), int(limit[1]) - pages * os.sysconf("SC_PAGE_SIZE"))


def check_room(size: int, most: int | None = None) -> None:
    """Raise PyTorch's error for a number of bytes that cannot be allocated.

    Arguments:
      most: the limit, if not the machine's memory.

    Raises:
      RuntimeError: it is negative, or more than that.
      ValueError: it has more than 64 bits.
    """
    if 0 <= size <= (memory() if most is None else most):
        return
    if not -LARGEST - 1 <= size <= LARGEST:
        raise ValueError("Overflow when unpacking long long")
    if size < 0:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:98] ((ptrdiff_t)nbytes) >= 0. alloc_cpu() seems to have been called with "
            f"negative number: {size + (1 << 64)}"
        )
    raise RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
        f"allocate {size} bytes. Error code 12 (Cannot allocate memory)"
    )


@lru_cache(1 << 14)
def storage_size(sizes: Ints, strides: Ints | None, offset: int, itemsize: int) -> int:
    """The bytes of a storage for elements of these sizes and strides; row-major without ``strides``.

    Raises:
      RuntimeError: the number has more than 64 bits, or a stride has.
    """
    check_axes(sizes)
    if strides is not None and 0 in sizes:
        return 0
    if strides is not None and strides != contiguous_strides(sizes):
        size = extent(sizes, strides, offset) * itemsize
        text = f"{list(sizes)} and strides={list(strides)}"
    else:
        size, text = itemsize, f"{list(sizes)}"
        for n in sizes:
            size *= n
            if size > LARGEST:
                break
        if not size:
            check_strides(sizes)
        size += offset * itemsize if size else 0
    if size > LARGEST:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={text}")
    return size


def check_axes(sizes: Ints) -> None:
    """Raise an error, PyTorch's for its reductions, for more axes than an array of NumPy's can have."""
    if len(sizes) > MOST_AXES:
        raise RuntimeError(f"only tensors with up to {MOST_AXES} dims are supported")


def check_strides(sizes: Ints) -> None:
    """Raise PyTorch's error if the strides of elements in row-major order have more than 64 bits."""
    if max(contiguous_strides(sizes), default=0) > LARGEST:
        raise RuntimeError("Stride calculation overflowed")


def number_of_elements(sizes: Ints) -> int:
    """How many elements there are.

    Raises:
      RuntimeError: the number has more than 64 bits, or a size is negative.
    """
    count = 1
    for n in sizes:
        count *= n
        if n < 0 or count > LARGEST:
            raise RuntimeError("numel: integer multiplication overflow")
    return count


def check_storage(sizes: Ints, itemsize: int) -> None:
    """Raise PyTorch's error for a new tensor that needs more memory than there is."""
    check_room(storage_size(sizes, None, 0, itemsize))


@frozen(eq=False)
class Vast:
    """Replaces a routine whose results exceed the memory: it runs on ``meta`` only, where nothing is computed."""

    routine: Routine
    #: nothing that is computed waits for it
    joins: ClassVar[bool] = False
    defers: ClassVar[bool] = False

    @property
    def graph(self) -> Graph:
        return self.routine.graph

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        if not any(x.__class__ is Absent for x in values):
            for t in self.routine.graph.out_types:
                check_storage(t.shape, t.dtype.itemsize)
        return self.routine(values)

    def reading(self, readings: Any) -> "Vast":
        """Itself: it reads nothing."""
        return self


def checked_for_capacity(routine: Routine) -> Any:
    """The routine, or a ``Vast`` if its results are too large for the machine's memory."""
    vast = any(t.size * t.dtype.itemsize > memory() for t in routine.graph.out_types)
    return Vast(routine) if vast else routine
