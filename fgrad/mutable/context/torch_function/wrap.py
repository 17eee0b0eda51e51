"""The wrappers through which users call functions, operators and attributes.

See NOTE [Overriding] in ``protocol.py``.
"""

import inspect
import re
from collections.abc import Callable, Sequence
from functools import wraps
from types import BuiltinFunctionType
from typing import Any

from fgrad.mutable.context.torch_function.protocol import (
    IN_PYTHON,
    Override,
    Rule,
    cast,
    has_override,
    is_overridden,
    plain,
    watch,
)
from fgrad.mutable.ports import AT_ENTRANCE
from fgrad.mutable.types.type_names import type_name
from fgrad.seam import is_hidden


def overridable(
    function: Callable[..., Any],
    name: str,
    rule: Rule = Rule.PARSED,
    called: Callable[[], Any] | None = None,
    like: Callable[..., Any] | None = None,
    autocast: Any = None,
) -> Any:
    """Wrap a function for users: modes and the classes of its arguments may override it.

    Arguments:
      function: the implementation.
      name: its name in errors, with PyTorch's namespace ("torch.add").
      called: returns the function that handlers are passed, if that is another one.
      like: has PyTorch's signature, if that of ``function`` differs.
      autocast: what ``torch.autocast`` does with its arguments.
    """
    plainly = raw(function)
    if plainly is not function and function.override.name == name:  # type: ignore[attr-defined]
        return function  # another name for the same function
    override = override_of(like or plainly, name, rule, autocast)
    return _entrance(_ENTRANCES.get(rule, _general)(plainly, override, called), plainly, override)


class BuiltIn:
    """A function that stays what it is as an attribute of a class, as those that PyTorch has in C++.

    >>> import fgrad.torch as torch
    >>> class Layer:
    ...     activation = torch.relu
    >>> Layer().activation is torch.relu
    True
    """

    # ``__call__`` is a slot that holds the function: a call of the instance has no frame between
    __slots__ = ("__call__", "__dict__", "__weakref__")

    def __init__(self, function: Callable[..., Any], home: str, name: str):
        """Arguments: what is called, and the module and name under which pickles find this object."""
        self.__call__: Callable[..., Any] = function
        self.__dict__.update(vars(function))
        self.__dict__.update(__doc__=function.__doc__, __name__=function.__name__, __qualname__=name, __module__=home)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What ``isinstance`` and ``inspect`` are told."""
        return BuiltinFunctionType

    def __reduce__(self) -> str:
        return self.__dict__["__qualname__"]

    def __repr__(self) -> str:
        return f"<built-in function {self.__dict__['__name__']}>"


def built_in(
    function: Callable[..., Any],
    name: str,
    home: str,
    short_name: str,
    rule: Rule = Rule.PARSED,
    like: Callable[..., Any] | None = None,
    autocast: Any = None,
) -> Any:
    """``overridable`` for a function that PyTorch has in C++: see ``BuiltIn``."""
    public = overridable(function, name, rule, lambda: itself, like, autocast)
    if public is function:
        return function
    itself = BuiltIn(public, home, short_name)
    itself.__dict__["entrance"] = itself, raw(public)
    return itself


def _general(function: Callable[..., Any], override: Override, called: Callable[[], Any] | None) -> Any:
    known: Any = getattr(function, "bound", None)
    if known is not None and known[0] is function:  # functools.wraps copies attributes to the decorated function
        return _of_bound(function, known[1], known[2], override, called)

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if not watch.on:
                for x in (*args, *kwargs.values()) if kwargs else args:
                    if x.__class__ not in plain:
                        break
                else:
                    return function(*args, **kwargs) if kwargs else function(*args)
            return _unless_overridden(function, override, public if called is None else called(), args, kwargs)
        except Exception as error:
            refusal = not_a_tensor(error, function, override, args, kwargs)
            AT_ENTRANCE.call(error, (*args, *kwargs.values()))
            if refusal is not None:
                raise refusal from None
            raise

    return public


def binds(function: Any, bindings: dict[tuple[type, ...], Any], bound: Callable[[Any, tuple[Any, ...]], Any]) -> None:
    """Let a function's wrapper bind calls by the classes of their arguments.

    Arguments:
      bindings: the known bindings, by the classes of positional arguments; none of these has a handler.
      bound: from a binding and the arguments to what the function returns.
    """
    function.bound = function, bindings, bound


def _of_bound(
    function: Any,
    bindings: dict[tuple[type, ...], Any],
    bound: Callable[[Any, tuple[Any, ...]], Any],
    override: Override,
    called: Callable[[], Any] | None,
) -> Any:
    """The wrapper of a function that ``binds``.

    It handles errors itself, as ``_general`` does: what explains them looks at the frame that called the wrapper.
    """

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if not (watch.on or kwargs):
                binding = bindings.get(tuple(map(type, args)))
                if binding is not None:
                    return bound(binding, args)
            return _unless_overridden(function, override, public if called is None else called(), args, kwargs)
        except Exception as error:
            refusal = not_a_tensor(error, function, override, args, kwargs)
            AT_ENTRANCE.call(error, (*args, *kwargs.values()))
            if refusal is not None:
                raise refusal from None
            raise

    return public


def _unless_overridden(
    function: Callable[..., Any], override: Override, passed: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call a function, unless a handler overrides the call; that is ``passed`` to the handler."""
    if not watch.on and ((plain.issuperset(map(type, args)) and not kwargs) or not has_override(args, kwargs)):
        return function(*args, **kwargs)
    if is_overridden(args, kwargs):
        return override.dispatch(passed, args, kwargs)
    return cast(override, function, args, kwargs) if watch.on else function(*args, **kwargs)


#: the namespaces that PyTorch leaves out in errors
_UNNAMED = re.compile(r"torch\.(Tensor\.|nn\.functional\.|nn\.init\.|functional\.)?")


def not_a_tensor(
    error: Exception, function: Callable[..., Any], override: Override, args: Sequence[Any], kwargs: dict[str, Any]
) -> TypeError | None:
    """PyTorch's error for an operand that is not a tensor, detected by a missing attribute."""
    if not isinstance(error, AttributeError) or error.name is None:
        return None
    if override.rule in IN_PYTHON and not error.name.startswith("_"):
        return None  # PyTorch's function fails the same way
    raised = error.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    if raised is None or not is_hidden(raised.tb_frame.f_code) or hasattr(error.obj, "__torch_function__"):
        return None
    for position, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind is parameter.VAR_POSITIONAL:
            at = next((k for k, x in enumerate(args[position:]) if x is error.obj), None)
            if at is not None:
                return TypeError(f"expected Tensor as element {at} in argument 0, but got {type_name(error.obj)}")
        argument = args[position] if position < len(args) else kwargs.get(parameter.name, parameter)
        # parameters with a default are not operands
        if argument is error.obj and parameter.default is parameter.empty:
            called = _UNNAMED.sub("", override.name, count=1).replace(".", "_")
            name = "input" if parameter.name == "self" else parameter.name
            index = position if override.name.startswith("torch.Tensor.") else position + 1
            return TypeError(
                f"{called}(): argument '{name}' (position {index}) must be Tensor, not {type_name(argument)}"
            )
    return None


def _of_itself(function: Callable[..., Any], override: Override, called: Callable[[], Any] | None) -> Any:
    @wraps(function)
    def public(self: Any) -> Any:
        try:
            if not watch.on:
                return function(self)
            if is_overridden((self,), {}):
                return override.dispatch(public if called is None else called(), (self,), {})
            return cast(override, function, (self,), {})
        except Exception as error:
            AT_ENTRANCE.call(error, (self,))
            raise

    return public


def _of_method(function: Callable[..., Any], override: Override, called: Callable[[], Any] | None) -> Any:
    @wraps(function)
    def public(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if watch.on and is_overridden((self,), {}):
                return override.dispatch(public, (self, *args), kwargs)
            return function(self, *args, **kwargs)
        except Exception as error:
            AT_ENTRANCE.call(error, (self, *args, *kwargs.values()))
            raise

    return public


def _of_anything(function: Callable[..., Any], override: Override, called: Callable[[], Any] | None) -> Any:
    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        try:
            if watch.on and is_overridden((), {}):
                return override.dispatch(public if called is None else called(), args, kwargs)
            return function(*args, **kwargs)
        except Exception as error:
            AT_ENTRANCE.call(error, (*args, *kwargs.values()))
            raise

    return public


_ENTRANCES = {Rule.OWN: _of_itself, Rule.METHOD: _of_method, Rule.FACTORY: _of_anything}


def operator(
    function: Callable[[Any, Any], Any], name: str, rule: Rule, called: Callable[[Any], Any], autocast: Any = None
) -> Any:
    """Wrap a binary operator for users; an operand that is neither tensor nor number may implement it itself.

    Arguments:
      called: returns, for the left operand, the function that handlers are passed.
    """
    function = raw(function)
    override = override_of(function, name, rule, autocast)

    @wraps(function)
    def public(self: Any, other: Any) -> Any:
        try:
            if not watch.on:
                result = function(self, other)
                if result is not NotImplemented:
                    return result
            if not is_overridden((self, other), {}):
                return cast(override, function, (self, other), {})
        except Exception as error:
            AT_ENTRANCE.call(error, (self, other))
            raise
        wrapper = called(self) or public
        try:
            return getattr(wrapper, "override", override).dispatch(wrapper, (self, other), {})
        except TypeError:
            return NotImplemented  # as PyTorch does for every TypeError here: Python then tries the other operand

    return _entrance(public, function, override)


def override_of(function: Callable[..., Any], name: str, rule: Rule, autocast: Any = None) -> Override:
    """How calls of a function are dispatched."""
    return Override(name, rule, function if rule in IN_PYTHON else None, autocast)


def _entrance(public: Any, function: Callable[..., Any], override: Override) -> Any:
    public.__name__ = override.name.rpartition(".")[2]
    public.override = override
    public.entrance = (public, function)
    return public


def raw(function: Callable[..., Any]) -> Callable[..., Any]:
    """The implementation behind a public function, which runs if nothing overrides it."""
    public, behind = getattr(function, "entrance", (None, None))
    # functools.wraps copies attributes to the decorated function
    return function if behind is None or public is not function else behind


def is_entrance(function: Any) -> bool:
    """Whether something is a public function of this layer, and not one that it decorates for the user."""
    return raw(function) is not function and raw(function).__module__.partition(".")[0] == "fgrad"


def behind(function: Any) -> Callable[..., Any]:
    """The implementation behind a function passed to handlers, which may be an attribute's getter or setter."""
    attribute = getattr(function, "__self__", None)
    return getattr(attribute.plain, function.__name__) if isinstance(attribute, Attribute) else raw(function)


class Attribute(property):
    """An attribute of tensors: reading, setting and deleting it are calls of its ``__get__`` and so on."""

    __name__: str
    #: how its calls are dispatched
    override: Override
    #: the implementation
    plain: property

    @classmethod
    def of(cls, name: str, plain: property) -> "Attribute":
        """The attribute with this implementation."""
        override = Override(f"torch.Tensor.{name}.__get__", Rule.OWN)
        read, write, delete = plain.fget, plain.fset, plain.fdel
        assert read is not None

        def get(self: Any) -> Any:
            if watch.on and is_overridden((self,), {}):
                return override.dispatch(attribute.__get__, (self,), {})
            return read(self)

        def put(self: Any, value: Any) -> None:
            assert write is not None
            try:
                if watch.on and is_overridden((self,), {}):
                    override.dispatch(attribute.__set__, (self, value), {})
                else:
                    write(self, value)
            except Exception as error:
                AT_ENTRANCE.call(error, (self, value))
                raise

        def remove(self: Any) -> None:
            assert delete is not None
            if watch.on and is_overridden((self,), {}):
                override.dispatch(attribute.__delete__, (self,), {})
            else:
                delete(self)

        attribute = cls(get, write and put, delete and remove, plain.__doc__)
        attribute.__name__ = name
        attribute.override = override
        attribute.plain = plain
        return attribute
