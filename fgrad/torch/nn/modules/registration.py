"""The parameters, buffers and submodules of a module, registered by assigning attributes."""

import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any, NoReturn

from fgrad.mutable.ports import AT_OUTERMOST
from fgrad.mutable.tensor.changes import NotedDict, NotedOrderedDict, changes, noted, set_entry
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.modules.hooks import buffer_registration, module_registration, parameter_registration
from fgrad.torch.nn.parameter import Buffer, Parameter

_Hooks = OrderedDict[int, Callable[..., Any]]


def typename(value: Any) -> str:
    """The type's name as PyTorch's messages spell it: ``torch.FloatTensor`` of tensors, ``torch.nn...`` of modules."""
    if isinstance(value, Tensor):
        return value.type()
    named = value if hasattr(value, "__qualname__") else type(value)
    module = (getattr(named, "__module__", None) or "").removeprefix("fgrad.")
    return named.__qualname__ if module in ("", "builtins") else f"{module}.{named.__qualname__}"


#: the tables of a new module
_TABLES: dict[str, Callable[[], Any]] = {
    "_parameters": dict,  # optree and JAX flatten dicts, and no subclasses of dict
    "_buffers": dict,
    "_non_persistent_buffers_set": set,
    "_backward_pre_hooks": NotedOrderedDict,
    "_backward_hooks": NotedOrderedDict,
    "_is_full_backward_hook": lambda: None,
    "_forward_hooks": NotedOrderedDict,
    "_forward_hooks_with_kwargs": NotedOrderedDict,
    "_forward_hooks_always_called": NotedOrderedDict,
    "_forward_pre_hooks": NotedOrderedDict,
    "_forward_pre_hooks_with_kwargs": NotedOrderedDict,
    "_state_dict_hooks": NotedOrderedDict,
    "_state_dict_pre_hooks": NotedOrderedDict,
    "_load_state_dict_pre_hooks": NotedOrderedDict,
    "_load_state_dict_post_hooks": NotedOrderedDict,
    "_modules": NotedDict,
}


class _Attributes:
    """Has the attributes of a module, which Python keeps in a dict."""


#: the dict of a module's attributes, without a word to NOTE [Changes]
attributes_of: Callable[[Any], dict[str, Any]] = vars(_Attributes)["__dict__"].__get__
#: the modules whose ``__dict__``, ``_parameters`` or ``_buffers`` has been accessed, and may be written to
_shown: "weakref.WeakValueDictionary[int, Registry]" = weakref.WeakValueDictionary()


def parameters_of(module: "Registry") -> dict[str, Any]:
    """The parameters of a module by name, to be read; written by ``set_entry`` and ``pop_entry`` (NOTE [Changes])."""
    return _table(module, "_parameters")


def buffers_of(module: "Registry") -> dict[str, Any]:
    """The buffers of a module by name, as ``parameters_of``."""
    return _table(module, "_buffers")


def _table(module: "Registry", name: str) -> dict[str, Any]:
    try:
        return attributes_of(module)[name]
    except KeyError:
        raise AttributeError(f"'{type(module).__name__}' object has no attribute '{name}'") from None


class _Shown:
    """An attribute that gives a table to be read and written: from now on compiled calls look at the module."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, module: Any, cls: type) -> dict[str, Any]:
        if module is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{self._name}'")
        table = _table(module, self._name)
        if _shown.get(id(module)) is not module:
            _shown[id(module)] = module
            changes.attributes = object()
        return table

    def __set__(self, module: Any, table: dict[str, Any]) -> None:
        attributes_of(module)[self._name] = table

    def __delete__(self, module: Any) -> None:
        del attributes_of(module)[self._name]


def notes_writes(module: "Registry") -> bool:
    """Whether all writes to a module's attributes, parameters and buffers are noted (NOTE [Changes])."""
    cls = type(module)
    return (
        cls.__setattr__ is Registry.__setattr__
        and cls.__delattr__ is Registry.__delattr__
        and next(base for base in cls.__mro__ if "__dict__" in vars(base)) is Registry
        and _shown.get(id(module)) is not module
    )


class Registry(_Attributes):
    """The attributes of a module, in a table for each kind."""

    #: whether ``Module.__init__`` calls the next class's ``__init__`` with the arguments it got
    call_super_init: bool = False

    training: bool
    _parameters = _Shown()
    _buffers = _Shown()
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Any]
    _is_full_backward_hook: bool | None
    _backward_pre_hooks: _Hooks
    _backward_hooks: _Hooks
    _forward_hooks: _Hooks
    _forward_hooks_with_kwargs: dict[int, bool]
    _forward_hooks_always_called: dict[int, bool]
    _forward_pre_hooks: _Hooks
    _forward_pre_hooks_with_kwargs: dict[int, bool]
    _state_dict_hooks: _Hooks
    _state_dict_pre_hooks: _Hooks
    _load_state_dict_pre_hooks: _Hooks
    _load_state_dict_post_hooks: _Hooks

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if not self.call_super_init and kwargs:
            raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
        if not self.call_super_init and args:
            raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # straight into the dict: the module's own __setattr__ needs these tables
        namespace = attributes_of(self)
        namespace["training"] = True
        for table, fresh in _TABLES.items():
            namespace[table] = fresh()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """The attributes; as in PyTorch, a copy of a module that ``Module.compile`` has compiled is not compiled."""
        state = attributes_of(self).copy()
        compiled = state.pop("_compiled_call_impl", None)
        if compiled is not None and state.get("forward") is compiled:
            state["forward"] = compiled._torchdynamo_orig_callable
            if state["forward"] == MethodType(type(self).forward, self):  # type: ignore[attr-defined]
                del state["forward"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        namespace = attributes_of(self)
        namespace.update(state)
        for table, fresh in _TABLES.items():
            empty = fresh()
            if table not in namespace:
                namespace[table] = empty
            elif fresh is NotedOrderedDict and namespace[table]:
                pass  # handles that were copied or pickled with the hooks refer to this dict
            elif namespace[table].__class__ in (dict, OrderedDict) and namespace[table].__class__ is not type(empty):
                namespace[table] = type(empty)(namespace[table])
        changes.attributes = object()

    @property
    def __dict__(self) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The attributes, to be read and written: from now on compiled calls look at them (NOTE [Changes])."""
        _shown[id(self)] = self
        changes.attributes = object()
        return attributes_of(self)

    @__dict__.setter
    def __dict__(self, attributes: dict[str, Any]) -> None:
        _shown[id(self)] = self
        vars(_Attributes)["__dict__"].__set__(self, attributes)
        changes.attributes = object()

    # ----------------------------------------------------------------------------------------------------------------
    # registration by name

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register ``tensor`` (or None) as state that is not trained; in ``state_dict`` only if ``persistent``.

        Raises:
          TypeError: ``name`` is not a string, or ``tensor`` not a tensor.
          KeyError: ``name`` is empty, has a dot, or is another attribute already.
          AttributeError: ``Module.__init__`` was not called.
        """
        if "_buffers" not in attributes_of(self):
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, buffers_of(self))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        set_entry(buffers_of(self), name, buffer_registration(self, name, tensor))
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Any) -> None:
        """Register ``param`` (a ``Parameter`` or None).

        Raises:
          TypeError: ``name`` is not a string, or ``param`` not a parameter.
          KeyError: ``name`` is empty, has a dot, or is another attribute already.
          ValueError: ``param`` is not a leaf.
          AttributeError: ``Module.__init__`` was not called.
        """
        if "_parameters" not in attributes_of(self):
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, parameters_of(self))
        if param is None:
            set_entry(parameters_of(self), name, None)
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                f"To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        set_entry(parameters_of(self), name, parameter_registration(self, name, param))

    def add_module(self, name: str, module: Any) -> None:
        """Register ``module`` (or None) as a child called ``name``.

        Raises:
          TypeError: ``name`` is not a string, or ``module`` not a module.
          KeyError: ``name`` is empty, has a dot, or is another attribute already.
        """
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = module_registration(self, name, module)

    def register_module(self, name: str, module: Any) -> None:
        """Another name of ``add_module``."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    # ----------------------------------------------------------------------------------------------------------------
    # registration by assignment

    def __getattr__(self, name: str) -> Any:
        attributes = attributes_of(self)
        for table in ("_parameters", "_buffers", "_modules"):
            members = attributes.get(table)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        now = object()
        try:
            self._set(name, value)
        except Exception as error:
            AT_OUTERMOST.call(error, (value,))
            raise
        finally:
            changes.attributes = now

    def _set(self, name: str, value: Any) -> None:
        parameters = attributes_of(self).get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, attributes_of(self), buffers_of(self), self._modules)
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                _refuse(value, f"parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        else:
            self._set_module_or_other(name, value)

    def _set_module_or_other(self, name: str, value: Any) -> None:
        modules, buffers = attributes_of(self).get("_modules"), attributes_of(self).get("_buffers")
        if isinstance(value, Registry):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, attributes_of(self), parameters_of(self), buffers_of(self))
            modules[name] = module_registration(self, name, value)
        elif modules is not None and name in modules:
            if value is not None:
                _refuse(value, f"child module '{name}' (torch.nn.Module or None expected)")
            modules[name] = module_registration(self, name, value)
        elif isinstance(value, Buffer) or (buffers is not None and name in buffers):
            if value is not None and not isinstance(value, Tensor):
                _refuse(value, f"buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _set_buffer(self, name: str, value: Any) -> None:
        persistent = value.persistent if isinstance(value, Buffer) else name not in self._non_persistent_buffers_set
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            # a subclass's own method with PyTorch's older signature
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    def _forget(self, name: str, *tables: dict[str, Any]) -> None:
        for table in tables:
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    @noted
    def __delattr__(self, name: str) -> None:
        for table in (parameters_of(self), buffers_of(self), self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = [*dir(type(self)), *attributes_of(self), *parameters_of(self), *self._modules, *buffers_of(self)]
        # the children of a Sequential are called 0, 1, ..., which no attribute access can spell
        return sorted(name for name in names if not name[0].isdigit())


def _refuse(value: Any, role: str) -> NoReturn:
    raise TypeError(f"cannot assign '{typename(value)}' as {role}")
