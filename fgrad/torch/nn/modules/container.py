"""Modules that hold others in order or by name."""

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Self

from fgrad.deferred import deferred
from fgrad.mutable.context.warning import warn
from fgrad.torch.nn.modules.module import Module

__all__ = ["Container", "ModuleDict", "ModuleList", "Sequential"]

# PyTorch has these in one file
__getattr__, __dir__ = deferred(
    __name__,
    {
        "fgrad.torch.nn.modules.parameter_containers": "ParameterDict ParameterList",
    },
)


class Container(Module):
    """The deprecated way to hold modules by name.

    Source: `torch.nn.Module <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Module.html>`_.
    """

    def __init__(self, **kwargs: Any) -> None:
        warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class _Ordered(Module):
    """Children called ``"0"``, ``"1"``, ...: what ``Sequential`` and ``ModuleList`` have in common."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _renumber(self) -> None:
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def append(self, module: Any) -> Self:
        """Append ``module``."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Remove and return a module."""
        module = self[key]  # type: ignore[index]
        del self[key]  # type: ignore[arg-type]
        return module


class Sequential(_Ordered):
    """Modules called in order, each with the result of the one before.

    Arguments:
      args: the modules; or one ``OrderedDict`` of them, whose keys are their names.

    >>> import fgrad.torch as torch
    >>> torch.nn.Sequential(torch.nn.Flatten(), torch.nn.ReLU())
    Sequential(
      (0): Flatten(start_dim=1, end_dim=-1)
      (1): ReLU()
    )

    Source: `torch.nn.Sequential <https://docs.pytorch.org/docs/2.13/generated/torch.nn.Sequential.html>`_.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def _at(self, iterable: Iterable[Any], index: Any) -> Any:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return next(islice(iterable, index % size, None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._at(self._modules.values(), index)

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._at(self._modules, index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._at(self._modules, index)]
        for name in names:
            delattr(self, name)
        self._renumber()

    def insert(self, index: int, module: Any) -> Self:
        """Put ``module`` before the one at ``index``.

        Raises:
          AssertionError: ``module`` is not a module.
          IndexError: ``index`` is out of range.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        _shift(self._modules, index + size if index < 0 else index, module)
        return self

    def extend(self, sequential: Iterable[Any]) -> Self:
        """Append all modules of ``sequential``."""
        for module in sequential:
            self.append(module)
        return self

    def __add__(self, other: Any) -> "Sequential":
        _check_addable(other)
        return Sequential().extend(self).extend(other)

    def __iadd__(self, other: Any) -> Self:
        _check_addable(other)
        offset = len(self)
        for i, module in enumerate(list(other)):
            self.add_module(str(i + offset), module)
        return self

    def _check_factor(self, other: Any) -> None:
        if not isinstance(other, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
        if other <= 0:
            raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")

    def __mul__(self, other: int) -> "Sequential":
        self._check_factor(other)
        return Sequential(*list(self) * other)

    def __rmul__(self, other: int) -> "Sequential":
        return self * other

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))


def _shift(modules: dict[str, Any], index: int, module: Any) -> None:
    """Shift the children from ``index`` on by one, and put ``module`` there."""
    for i in range(len(modules), index, -1):
        modules[str(i)] = modules[str(i - 1)]
    modules[str(index)] = module


def _check_addable(other: Any) -> None:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")


def _position(size: int, index: Any) -> str:
    """The name of the child at ``index``."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return str(index + size if index < 0 else index)


class ModuleList(_Ordered):
    """A list of modules that its owner registers.

    Raises:
      TypeError: ``modules`` is not iterable, or holds something that is not a module.

    >>> import fgrad.torch as torch
    >>> torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])
    ModuleList(
      (0-1): 2 x ReLU()
    )

    Source: `torch.nn.ModuleList <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ModuleList.html>`_.
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[_position(len(self), index)]

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, _position(len(self), index), module)

    def __delitem__(self, index: Any) -> None:
        if isinstance(index, slice):
            for position in range(len(self))[index]:
                delattr(self, str(position))
        else:
            delattr(self, _position(len(self), index))
        self._renumber()

    def insert(self, index: int, module: Any) -> None:
        """Put ``module`` before the one at ``index``."""
        _shift(self._modules, index, module)

    def extend(self, modules: Iterable[Any]) -> Self:
        """Append all of ``modules``."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self

    def __iadd__(self, modules: Iterable[Any]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Any]) -> "ModuleList":
        return ModuleList(chain(self, other))

    def __repr__(self) -> str:
        runs: list[tuple[str, int, int]] = []
        for i, text in enumerate(map(repr, self)):
            if runs and runs[-1][0] == text:
                runs[-1] = (text, runs[-1][1], i)
            else:
                runs.append((text, i, i))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for text, first, last in runs
        ]
        inner = "\n  ".join(line.replace("\n", "\n  ") for line in lines)
        return f"{self._get_name()}(\n  {inner}\n)"


class ModuleDict(Module):
    """A dictionary of modules that its owner registers.

    Raises:
      TypeError, ValueError: ``modules`` are not pairs of names and modules.

    >>> import fgrad.torch as torch
    >>> torch.nn.ModuleDict({"act": torch.nn.ReLU()})["act"]
    ReLU()

    Source: `torch.nn.ModuleDict <https://docs.pytorch.org/docs/2.13/generated/torch.nn.ModuleDict.html>`_.
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Any:
        """Remove and return the module called ``key``."""
        return self._modules.pop(key)

    def keys(self) -> Any:
        """The names."""
        return self._modules.keys()

    def items(self) -> Any:
        """The names and modules."""
        return self._modules.items()

    def values(self) -> Any:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Enter all of ``modules``, a dictionary or pairs of names and modules."""
        if not isinstance(modules, Iterable):
            kind = type(modules).__name__
            raise TypeError(f"ModuleDict.update should be called with an iterable of key/value pairs, but got {kind}")
        mapping = isinstance(modules, ModuleDict | Mapping)
        pairs = modules.items() if mapping else checked_pairs(modules, "ModuleDict")
        for name, module in pairs:
            self[name] = module


def checked_pairs(pairs: Iterable[Any], name: str) -> Iterator[Any]:
    """The elements of ``pairs``, each checked to have two of its own."""
    for j, pair in enumerate(pairs):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name} update sequence element #{j} should be Iterable; is{type(pair).__name__}")
        if len(pair) != 2:  # type: ignore[arg-type]
            raise ValueError(f"{name} update sequence element #{j} has length {len(pair)}; 2 is required")  # type: ignore[arg-type]
        yield pair
