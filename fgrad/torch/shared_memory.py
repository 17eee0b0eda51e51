"""``share_memory_``: memory that other processes may ask for.

An array of JAX belongs to one process.  In that process sharing changes nothing; another one to which a shared tensor
comes would not see what is written, so it is refused there instead.
"""

import os
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

from fgrad.mutable.tensor.storage import Storage
from fgrad.mutable.tensor.tensor import Tensor

REFUSED = (
    "A tensor with share_memory_() was made in another process. Arrays of JAX cannot be shared between processes: what "
    "one writes the other would not see. Send numpy() and make a tensor there."
)

_shared: "weakref.WeakSet[Storage]" = weakref.WeakSet()


def _refuse(storage: Storage, array: Any = None) -> NoReturn:
    raise RuntimeError(REFUSED)


def share(storage: Storage, cls: type = Tensor) -> None:
    """Note that a storage is shared, that of a tensor of a class."""
    ForkingPickler.register(cls, _reduced)
    _shared.add(storage)


def is_shared(storage: Storage) -> bool:
    """Whether a storage is shared."""
    return storage in _shared


def _reduced(tensor: Tensor) -> Any:
    if is_shared(tensor._storage):
        raise RuntimeError(REFUSED)
    return tensor.__reduce_ex__(2)


def _withdraw() -> None:
    """In a process that was forked: whoever reads or writes a shared storage is refused."""
    for storage in _shared:
        cls = type(storage)
        storage.__class__ = type(cls.__name__, (cls,), {"__slots__": (), "array": property(_refuse, _refuse)})


os.register_at_fork(after_in_child=_withdraw)
