"""Nested lists, tuples and dictionaries as JSON, with tensors as leaves that somebody else describes.

NOTE [Structures in files]: What JSON has stands for itself: ``None``, booleans, integers, finite floats, texts, lists.
All else is an object with a tag: ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}`` (keys need not be texts),
``{"OrderedDict": [[key, value], ...], "_metadata": ...}`` (a ``state_dict`` has that attribute), ``{"set": [...]}``,
``{"float": "nan"}``, ``{"complex": [real, imaginary]}``, ``{"bytes": hexadecimal}``, ``{"tensor": name, ...}``, and
what describes tensors: ``{"Size": [...]}``, ``{"dtype": name}``, ``{"device": name}``, ``{"layout": name}``.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from fgrad.mutable.types import dtypes
from fgrad.mutable.types.devices import device
from fgrad.mutable.types.formats import layout
from fgrad.mutable.types.size import Size

_DTYPES = {each.name: each for each in dtypes.NAMES.values() if isinstance(each, dtypes.dtype)}
_LAYOUTS = {each.name: each for each in layout}

Code = Any
#: a tensor's description as a JSON object with the key ``"tensor"``; ``None`` for all that is no tensor
Describe = Callable[[Any, tuple[str, ...]], dict[str, Any] | None]
Make = Callable[[dict[str, Any]], Any]


class Encoder:
    """Turns values into JSON.

    >>> Encoder(lambda value, path: None).encode({'a': (1, [2.5])})
    {'dict': [['a', {'tuple': [1, [2.5]]}]]}
    """

    def __init__(self, describe: Describe):
        self._describe = describe
        self._within: set[int] = set()

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Code:
        """The JSON of a value that is found at some path of keys.

        Raises:
          TypeError: there is something in it that a file cannot hold.
          ValueError: a container contains itself.
        """
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        found = self._describe(value, path) or _described(value)
        if found is not None:
            return found
        if kind not in (list, tuple, set, dict, OrderedDict):
            raise TypeError(
                f"torch.save: {_where(path)} there is {_a(kind.__name__)}. A file holds tensors, their sizes, types "
                "and devices, numbers, texts, bytes, None, and lists, tuples, sets, dicts and OrderedDicts of them.\n"
                "Way out: of a module or an optimizer, save its state_dict()."
            )
        if id(value) in self._within:
            raise ValueError(f"torch.save: {_where(path)} there is {_a(kind.__name__)} that contains itself.")
        self._within.add(id(value))
        try:
            return self._container(value, path)
        finally:
            self._within.remove(id(value))

    def _container(self, value: Any, path: tuple[str, ...]) -> Code:
        if isinstance(value, list | tuple | set):
            items = [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
            return items if isinstance(value, list) else {type(value).__name__: items}
        items = [[self._key(key, path), self.encode(item, (*path, str(key)))] for key, item in value.items()]
        if type(value) is dict:
            return {"dict": items}
        extra = getattr(value, "_metadata", None)
        return {"OrderedDict": items} | ({} if extra is None else {"_metadata": self.encode(extra, path)})

    def _key(self, key: Any, path: tuple[str, ...]) -> Code:
        if key is not None and type(key) not in (bool, int, float, str):
            raise TypeError(
                f"torch.save: {_where(path)} there is {_a(type(key).__name__)} as a key; in a file, keys are numbers, "
                "texts and None."
            )
        return self.encode(key, path)


def _described(value: Any) -> Code:
    """The JSON of what is no container; None for all else."""
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Size):
        return {"Size": list(value)}
    if isinstance(value, dtypes.dtype | layout):
        return {"dtype" if isinstance(value, dtypes.dtype) else "layout": value.name}
    return {"device": str(value)} if isinstance(value, device) else None


def _where(path: tuple[str, ...]) -> str:
    return "at " + "".join(f"[{key}]" for key in path) if path else "at the top"


def _a(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOaeio" else f"a {name}"


def decode(code: Code, make: Make) -> Any:
    """The value that some JSON stands for; ``make`` turns descriptions into tensors.

    Raises:
      ValueError: it stands for none.

    >>> decode({'dict': [['a', {'tuple': [1, [2.5]]}]]}, make=dict)
    {'a': (1, [2.5])}
    """
    if code is None or isinstance(code, bool | int | float | str):
        return code
    if isinstance(code, list):
        return [decode(item, make) for item in code]
    match code:
        case {"tensor": str()}:
            return make(code)
        case {"tuple": list(items), **rest} if not rest:
            return tuple(decode(item, make) for item in items)
        case {"set": list(items), **rest} if not rest:
            return {decode(item, make) for item in items}
        case {"complex": [str(real), str(imaginary)], **rest} if not rest:
            return complex(_parsed(float, real), _parsed(float, imaginary))
        case {"bytes": str(text), **rest} if not rest:
            return _parsed(bytes.fromhex, text)
        case {"Size": list(items), **rest} if not rest and all(type(n) is int for n in items):
            return Size(items)
        case {"dtype": str(name), **rest} if not rest and name in _DTYPES:
            return _DTYPES[name]
        case {"layout": str(name), **rest} if not rest and name in _LAYOUTS:
            return _LAYOUTS[name]
        case {"device": str(name), **rest} if not rest:
            return _parsed(device, name)
        case {"float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case {"dict": list(items), **rest} if not rest:
            return dict(_pairs(items, make))
        case {"OrderedDict": list(items), **rest} if rest.keys() <= {"_metadata"}:
            found = OrderedDict(_pairs(items, make))
            if rest:
                found._metadata = decode(rest["_metadata"], make)  # type: ignore[attr-defined]
            return found
    raise ValueError(f"unknown structure {str(code)[:60]}")


def _parsed(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"unknown structure {text[:60]!r}") from error


def _pairs(items: list[Any], make: Make) -> list[tuple[Any, Any]]:
    pairs = []
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("an item of a dictionary is not a key and a value")
        key = decode(item[0], make)
        if key is not None and not isinstance(key, bool | int | float | str):
            raise ValueError("a key of a dictionary is neither a number nor a text nor None")
        pairs.append((key, decode(item[1], make)))
    return pairs
