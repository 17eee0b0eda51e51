"""``torch.version``: the emulated version of PyTorch.

>>> import fgrad.torch as torch
>>> torch.__version__ >= (2, 1), torch.__version__ < "3"
(True, True)
"""

import re
from typing import Any


class TorchVersion(str):
    """A version that compares, part by part, with other versions, strings and tuples of numbers.

    Source: `torch.torch_version.TorchVersion
    <https://github.com/pytorch/pytorch/blob/main/torch/torch_version.py>`_.
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _parts(self) < _parts(other)

    def __le__(self, other: Any) -> bool:
        return _parts(self) <= _parts(other)

    def __gt__(self, other: Any) -> bool:
        return _parts(self) > _parts(other)

    def __ge__(self, other: Any) -> bool:
        return _parts(self) >= _parts(other)

    def __eq__(self, other: object) -> bool:
        return _parts(self) == _parts(other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def _parts(version: Any) -> tuple[int, ...]:
    """The numbers of a version, without trailing zeros and without what follows a plus sign."""
    text = ".".join(map(str, version)) if isinstance(version, tuple | list) else str(version)
    numbers = [int(part) for part in re.findall(r"\d+", text.split("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


__version__ = TorchVersion("2.13.0")
#: the toolkits that PyTorch was built with: none
cuda = None
hip = None
debug = False
git_version = "Unknown"
