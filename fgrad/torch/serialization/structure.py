"""Nested lists, tuples and dictionaries in JSON, with descriptions of tensors as leaves.

NOTE [Structures in files]: What JSON has represents itself: ``None``, booleans, integers, finite floats, texts, lists.
Everything else is an object with a tag: ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}`` (keys need not be
texts), ``{"OrderedDict": [[key, value], ...], "_metadata": ...}`` (a ``state_dict`` has that attribute), ``{"set":
[...]}``, ``{"float": "nan"}``, ``{"complex": [real, imaginary]}``, ``{"bytes": hexadecimal}``, ``{"tensor": name,
...}``, and attributes of tensors: ``{"Size": [...]}``, ``{"dtype": name}``, ``{"device": name}``, ``{"layout": name}``.
"""

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
#: makes a tensor from its description, a JSON object with the key ``"tensor"``
Make = Callable[[dict[str, Any]], Any]


def decode(code: Code, make: Make) -> Any:
    """The value of a JSON document; ``make`` turns descriptions into tensors.

    Raises:
      ValueError: it is not a valid structure.

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
            mapping = OrderedDict(_pairs(items, make))
            if rest:
                mapping._metadata = decode(rest["_metadata"], make)  # type: ignore[attr-defined]
            return mapping
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
