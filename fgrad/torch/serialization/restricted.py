"""Reads pickles of data only: see NOTE [Only data] in ``allowed``.

The machine keeps its own stack, so nesting in a file does not nest calls here; where Python itself recurses, as in the
hash of a tuple, the depth is limited.

Source: the opcodes and the texts of errors are those of PyTorch's `weights-only unpickler
<https://github.com/pytorch/pytorch/blob/main/torch/_weights_only_unpickler.py>`_.
"""

import pickle
import struct
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, Any

from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.parameter import Parameter
from fgrad.torch.serialization.allowed import BLOCKED, CALLABLE, TENSOR, added, is_added, table

#: the greatest depth of nested tuples
_DEEPEST = 100
#: how many elements calls may copy per byte of the pickle; those of ``torch.save`` copy at most one
_COPIED_PER_BYTE = 4

_CALLABLE = {id(each) for each in CALLABLE.values()}
#: the errors that damaged bytes may cause
_DAMAGE = (
    *(IndexError, KeyError, ValueError, TypeError, AttributeError, EOFError, OverflowError),
    *(struct.error, RecursionError, AssertionError),
)


class Unpickler:
    """Reads one pickle from a stream.

    Arguments:
      persistent_load: returns the storage of a persistent id.

    Raises:
      UnpicklingError: it contains more than data, or is damaged.
    """

    def __init__(self, stream: IO[bytes], persistent_load: Callable[[Any], Any], encoding: str = "utf-8"):
        self._stream = stream
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._memo: dict[int, Any] = {}
        self._marks: list[list[Any]] = []
        self._stack: list[Any] = []
        #: the depths of nested tuples by id, and the tuples, to keep their ids valid
        self._depths: dict[int, tuple[int, Any]] = {}
        self._copies = 0

    def load(self) -> Any:
        """The object."""
        try:
            return self._run()
        except pickle.UnpicklingError:
            raise
        except _DAMAGE as error:
            raise pickle.UnpicklingError(f"the pickle is damaged: {type(error).__name__}: {error}") from error

    def _run(self) -> Any:
        while True:
            code = self._read(1)
            if code == pickle.STOP:
                return self._stack.pop()
            action = _ACTIONS.get(code)
            if action is None:
                raise pickle.UnpicklingError(f"Unsupported operand {code[0]}")
            action(self)

    def _read(self, count: int) -> bytes:
        data = self._stream.read(count)
        if len(data) < count:
            raise pickle.UnpicklingError("pickle data was truncated")
        return data

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._read(struct.calcsize(form)))[0]

    def _items(self) -> list[Any]:
        items, self._stack = self._stack, self._marks.pop()
        return items

    # ----------------------------------------------------------------------------------------------------------------
    # the dangerous instructions

    def _global(self) -> None:
        module, name = (self._stream.readline()[:-1].decode() for _ in range(2))
        if (module, name) in NAME_MAPPING:
            module, name = NAME_MAPPING[module, name]
        else:
            module = IMPORT_MAPPING.get(module, module)
        self._stack.append(_meaning(module, name))

    def _call(self) -> None:
        arguments = self._stack.pop()
        function = self._stack[-1]
        if type(arguments) is not tuple or not (id(function) in _CALLABLE or is_added(function)):
            raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {_shown(function)}")
        self._count(arguments)
        self._stack[-1] = function(*arguments)

    def _count(self, arguments: tuple[Any, ...]) -> None:
        self._copies += sum(len(each) for each in arguments if isinstance(each, list | dict | str | bytes))
        if self._copies > _COPIED_PER_BYTE * self._stream.tell() + 4096:
            raise pickle.UnpicklingError("the pickle copies its own contents again and again, which no data need")

    def _new(self) -> None:
        arguments = self._stack.pop()
        cls = self._stack.pop()
        if cls is CALLABLE["torch.nn.parameter.Parameter"] or cls is CALLABLE["collections.OrderedDict"]:
            self._stack.append(cls(*arguments))
        elif is_added(cls):
            self._stack.append(cls.__new__(cls, *arguments))
        else:
            raise pickle.UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` but got "
                + _shown(cls)
            )

    def _build(self) -> None:
        state = self._stack.pop()
        built = self._stack[-1]
        if type(built) is OrderedDict:
            if type(state) is not dict or any(type(name) is not str or hasattr(OrderedDict, name) for name in state):
                raise pickle.UnpicklingError("an OrderedDict has attributes that stand for its own methods")
            vars(built).update(state)
        elif not is_added(type(built)):
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, but got "
                + _shown(type(built))
            )
        elif hasattr(built, "__setstate__"):
            built.__setstate__(state)
        else:
            attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
            vars(built).update(attributes or {})
            for name, value in (slots or {}).items():
                setattr(built, name, value)

    def _mentioned(self) -> None:
        mention = self._stack.pop()
        if type(mention) is not tuple or not mention:
            raise pickle.UnpicklingError(f"persistent_load id must be tuple or int, but got {type(mention)}")
        if mention[0] not in ("storage", b"storage"):
            raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {mention[0]!r:.60}")
        self._stack.append(self._persistent_load(mention))

    # ----------------------------------------------------------------------------------------------------------------
    # containers

    def _append(self) -> None:
        self._extend([self._stack.pop()], "append to")

    def _appends(self) -> None:
        self._extend(self._items(), "extend")

    def _extend(self, items: list[Any], verb: str) -> None:
        if type(self._stack[-1]) is not list:
            raise pickle.UnpicklingError(f"Can only {verb} lists, but got {_shown(type(self._stack[-1]))}")
        self._stack[-1].extend(items)

    def _set_item(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value], "SETITEM")

    def _set_items(self) -> None:
        self._set(self._items(), "SETITEMS")

    def _set(self, items: list[Any], action: str) -> None:
        target = self._stack[-1]
        if type(target) not in (dict, OrderedDict, Counter):
            raise pickle.UnpicklingError(
                f"Can only {action} for dict, collections.OrderedDict, collections.Counter, but got "
                + _shown(type(target))
            )
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def _mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def _tuple(self) -> None:
        self._tuple_of(self._items())

    def _last(self, count: int) -> None:
        items = self._stack[-count:]
        if len(items) < count:
            raise IndexError("the stack is empty")
        del self._stack[-count:]
        self._tuple_of(items)

    def _tuple_of(self, items: list[Any]) -> None:
        result = tuple(items)
        inner = [self._depths.get(id(each), (1, None))[0] for each in items if type(each) is tuple]
        if inner:
            if max(inner) >= _DEEPEST:
                raise pickle.UnpicklingError(f"tuples lie in tuples more than {_DEEPEST} deep")
            self._depths[id(result)] = (max(inner) + 1, result)
        self._stack.append(result)

    # ----------------------------------------------------------------------------------------------------------------
    # leaves

    def _text(self) -> None:
        self._stack.append(str(self._read(self._number("<I")), "utf-8", "surrogatepass"))

    def _short_bytes(self) -> None:
        data = self._read(self._number("B"))
        self._stack.append(data if self._encoding == "bytes" else data.decode(self._encoding))

    def _long(self) -> None:
        self._stack.append(int.from_bytes(self._read(self._number("B")), "little", signed=True))

    def _get(self, form: str) -> None:
        self._stack.append(self._memo[self._number(form)])

    def _put(self, form: str) -> None:
        self._memo[self._number(form)] = self._stack[-1]

    def _protocol(self) -> None:
        protocol = self._number("B")
        if protocol != 2:
            raise pickle.UnpicklingError(f"the pickle is of protocol {protocol}, and only data of protocol 2 are read")


def _meaning(module: str, name: str) -> Any:
    """The value of a name.

    Raises:
      UnpicklingError: it is not allowed.
    """
    path = f"{module}.{name}"
    if module in BLOCKED:
        raise pickle.UnpicklingError(f"Trying to load unsupported GLOBAL {path} whose module {module} is blocked.")
    if path in table():
        return table()[path]
    try:
        return added(path)
    except KeyError:
        path = path.removeprefix("builtins.")
        raise pickle.UnpicklingError(
            f"Unsupported global: GLOBAL {path} was not an allowed global by default. Please use "
            f"`torch.serialization.add_safe_globals([{path}])` or the `torch.serialization.safe_globals([{path}])` "
            "context manager to allowlist this global if you trust this class/function."
        ) from None


def _shown(value: Any) -> str:
    """A value as messages show it, without calling its ``repr``."""
    if value is TENSOR or isinstance(value, Tensor | Parameter):
        return "a tensor"
    return f"{value!r:.80}" if isinstance(value, type) else f"a {type(value).__name__}"


def _pushes(make: Callable[[], Any]) -> Callable[[Unpickler], None]:
    return lambda machine: machine._stack.append(make())


def _pushes_number(form: str) -> Callable[[Unpickler], None]:
    return lambda machine: machine._stack.append(machine._number(form))


_ACTIONS: dict[bytes, Callable[[Unpickler], Any]] = {
    pickle.GLOBAL: Unpickler._global,
    pickle.REDUCE: Unpickler._call,
    pickle.NEWOBJ: Unpickler._new,
    pickle.BUILD: Unpickler._build,
    pickle.BINPERSID: Unpickler._mentioned,
    pickle.APPEND: Unpickler._append,
    pickle.APPENDS: Unpickler._appends,
    pickle.SETITEM: Unpickler._set_item,
    pickle.SETITEMS: Unpickler._set_items,
    pickle.MARK: Unpickler._mark,
    pickle.TUPLE: Unpickler._tuple,
    pickle.TUPLE1: lambda machine: machine._last(1),
    pickle.TUPLE2: lambda machine: machine._last(2),
    pickle.TUPLE3: lambda machine: machine._last(3),
    pickle.NONE: _pushes(lambda: None),
    pickle.NEWFALSE: _pushes(lambda: False),
    pickle.NEWTRUE: _pushes(lambda: True),
    pickle.EMPTY_TUPLE: _pushes(tuple),
    pickle.EMPTY_LIST: _pushes(list),
    pickle.EMPTY_DICT: _pushes(dict),
    pickle.EMPTY_SET: _pushes(set),
    pickle.BININT: _pushes_number("<i"),
    pickle.BININT1: _pushes_number("B"),
    pickle.BININT2: _pushes_number("<H"),
    pickle.BINFLOAT: _pushes_number(">d"),
    pickle.BINUNICODE: Unpickler._text,
    pickle.SHORT_BINSTRING: Unpickler._short_bytes,
    pickle.LONG1: Unpickler._long,
    pickle.BINGET: lambda machine: machine._get("B"),
    pickle.LONG_BINGET: lambda machine: machine._get("<I"),
    pickle.BINPUT: lambda machine: machine._put("B"),
    pickle.LONG_BINPUT: lambda machine: machine._put("<I"),
    pickle.PROTO: Unpickler._protocol,
}
