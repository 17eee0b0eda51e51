"""Reads pickles without restriction, only for trusted files: they can run anything."""

import pickle
from collections.abc import Callable
from typing import IO, Any

from fgrad.torch.pickle_names import find


class Unpickler(pickle.Unpickler):
    """Python's unpickler, with PyTorch's names mapped to this package."""

    def __init__(self, stream: IO[bytes], persistent_load: Callable[[Any], Any], **named: Any):
        super().__init__(stream, **named)
        self._mentioned = persistent_load

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" or module.startswith("torch."):
            return find(module, name)
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        return self._mentioned(pid)
