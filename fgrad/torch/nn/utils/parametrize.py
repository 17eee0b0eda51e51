"""Parameters computed from others: a module's tensor becomes a property, the value of modules called on an original.

>>> import fgrad.torch as torch
>>> from fgrad.torch.nn.utils import parametrize
>>> class Positive(torch.nn.Module):
...     def forward(self, x):
...         return x.abs()
>>> layer = parametrize.register_parametrization(torch.nn.Linear(1, 2), "weight", Positive())
>>> bool((layer.weight >= 0).all())
True
>>> [name for name, _ in layer.named_parameters()]
['bias', 'parametrizations.weight.original']

Source: `torch.nn.utils.parametrize
<https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.register_parametrization.html>`_.
"""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from attrs import define, field

from fgrad.mutable.context.modes import no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.nn.modules.container import ModuleDict, ModuleList
from fgrad.torch.nn.modules.registration import buffers_of, parameters_of
from fgrad.torch.nn.parameter import Parameter


@define
class _Cache:
    """The values computed within ``cached``."""

    depth: int = 0
    values: dict[tuple[int, str], Any] = field(factory=dict)


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """A context in which each parametrised tensor is computed only once.

    >>> from fgrad.torch.nn.utils import parametrize
    >>> with parametrize.cached():
    ...     pass

    Source: `torch.nn.utils.parametrize.cached
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.cached.html>`_.
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and the original: ``original``, or ``original0`` and so on.

    Raises:
      ValueError: there is none, or one changes dtype or shape and ``unsafe`` is not set.

    Source: `torch.nn.utils.parametrize.ParametrizationList
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.ParametrizationList.html>`_.
    """

    def __init__(self, modules: Sequence[Any], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        dtype, shape = original.dtype, original.shape
        new = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor: bool = isinstance(new, Tensor)
        self.ntensors: int = 1 if isinstance(new, Tensor) else len(new)
        if isinstance(new, Tensor):
            self._keep(original, new)
        else:
            self._keep_several(original, new)
        if not unsafe:
            _check_like(
                self(), "A parametrization must return a tensor", "Registering a parametrization may not change the "
                "{} of the tensor, unless `unsafe` flag is enabled.\nunparametrized {}: {}\nparametrized {}: {}",
                dtype, shape,
            )  # fmt: skip

    def _keep(self, original: Any, new: Any) -> None:
        for name in ("dtype", "device"):
            if getattr(original, name) != getattr(new, name):
                raise ValueError(
                    f"When `right_inverse` outputs one tensor, it may not change the {name}.\noriginal.{name}: "
                    f"{getattr(original, name)}\nright_inverse(original).{name}: {getattr(new, name)}"
                )
        with no_grad():
            original.set_(new)
        _register(self, "original", original)

    def _keep_several(self, original: Any, new: Sequence[Any]) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(part).__name__}."
                )
            tensor = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part
            _register(self, f"original{i}", tensor.requires_grad_(original.requires_grad))

    def _originals(self) -> list[Any]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the original so that the parametrised tensor is ``value``: called by assigning to it.

        Raises:
          RuntimeError: a parametrization has no ``right_inverse``.
          ValueError: one returns another type, dtype or shape than the original's.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} while `original` has dtype "
                        f"{self.original.dtype}"
                    )
                self.original.set_(value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for i, (original, part) in enumerate(zip(self._originals(), value, strict=True)):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a sequence of tensors or reference-type opaques. Got element "
                        f"{i} of type {type(part).__name__}."
                    )
                if original.dtype != part.dtype:
                    raise ValueError(
                        f"Tensor {i} returned by `right_inverse` has dtype {part.dtype} while `original{i}` has dtype "
                        f"{original.dtype}"
                    )
                original.set_(part)

    def forward(self) -> Any:
        first, *others = self
        x = first(*self._originals())
        for module in others:
            x = module(x)
        return x


def _register(module: Any, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_like(value: Any, no_tensor: str, changed: str, dtype: Any, shape: Any) -> None:
    """Check that ``value`` is a tensor with this dtype and shape."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{no_tensor}. Got {type(value).__name__}.")
    for name, wanted in (("dtype", dtype), ("shape", shape)):
        if getattr(value, name) != wanted:
            raise ValueError(changed.format(name, name, wanted, name, getattr(value, name)))


# --------------------------------------------------------------------------------------------------------------------
# the module: an own class, on which the tensor is a property


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _getstate(self: Any) -> NoReturn:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). "
        "See:\nhttps://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _give_class(module: Any) -> None:
    """Give the module a class of its own."""
    cls = type(module)
    body: dict[str, Any] = {"__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _property(tensor_name: str) -> property:
    def get(self: Any) -> Any:
        parametrization = self.parametrizations[tensor_name]
        if not _cache.depth:
            return parametrization()
        key = (id(self), tensor_name)
        if key not in _cache.values:
            _cache.values[key] = parametrization()
        return _cache.values[key]

    def set(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    return property(get, set)


def register_parametrization(module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False) -> Any:
    """Replace the tensor ``tensor_name`` of ``module`` by ``parametrization`` of it; returns the module.

    Arguments:
      module: the module.
      tensor_name: the name of a parameter or buffer, which may be parametrised already.
      parametrization: a module; if it has a ``right_inverse``, that gives the original from the tensor.
      unsafe: whether dtype and shape may change.

    Raises:
      ValueError: the tensor does not exist, or dtype or shape change.

    Source: `torch.nn.utils.parametrize.register_parametrization
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.register_parametrization.html>`_.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
        return module
    if tensor_name not in buffers_of(module) and tensor_name not in parameters_of(module):
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        _give_class(module)
        module.parametrizations = ModuleDict()
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = parametrizations
    return module


def _check_further(module: Any, name: str, parametrization: Any) -> None:
    """Check a parametrization that follows others."""
    before = getattr(module, name)
    after = parametrization(before)
    _check_like(
        after, "A parametrization must return a tensor", "Registering a parametrization may not change the {} of the "
        f"tensor, unless the `unsafe` flag is enabled.\nmodule.{name}.{{}}: {{}}\nparametrization(module.{name}).{{}}: "
        "{}", before.dtype, before.shape,
    )  # fmt: skip
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(after)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    _check_like(
        inverse, "", "The tensor returned by parametrization.right_inverse must have the same {} as "
        f"module.{name}, unless the `unsafe` flag is enabled.\nmodule.{name}.{{}}: {{}}\nreturned {{}}: {{}}",
        before.dtype, before.shape,
    )  # fmt: skip


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether ``module``, or its tensor ``tensor_name``, is parametrised.

    Source: `torch.nn.utils.parametrize.is_parametrized
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.is_parametrized.html>`_.
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make the tensor an ordinary one again, with its present or its original value; returns the module.

    Raises:
      ValueError: it is not parametrised, or by several originals without ``leave_parametrized``.

    Source: `torch.nn.utils.parametrize.remove_parametrizations
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.remove_parametrizations.html>`_.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                original.set_(getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class that ``module`` had before it was parametrised.

    Source: `torch.nn.utils.parametrize.type_before_parametrizations
    <https://docs.pytorch.org/docs/2.13/generated/torch.nn.utils.parametrize.register_parametrization.html>`_.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Parametrise ``to_module`` as another module is, with its parameters; returns ``to_module``.

    Arguments:
      from_module: the parametrised module; otherwise nothing happens.
      to_module: the other one, which gets the parameters that it lacks.
      tensor_name: the only parameter to transfer; without it, all that are parametrised.

    >>> import fgrad.torch as torch
    >>> from fgrad.torch.nn.utils import parametrize
    >>> first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    >>> _ = torch.nn.utils.parametrizations.weight_norm(first)
    >>> _ = parametrize.transfer_parametrizations_and_params(first, second)
    >>> bool((first.weight == second.weight).all())
    True

    Source: `torch.nn.utils.parametrize
    <https://docs.pytorch.org/docs/2.13/nn.html#parametrizations-implemented-using-the-new-parametrization-functionality>`_.
    """
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        parametrizations = from_module.parametrizations[name]
        for parametrization in parametrizations:
            register_parametrization(to_module, name, parametrization)
        for original, value in (*parameters_of(parametrizations).items(), *buffers_of(parametrizations).items()):
            setattr(to_module.parametrizations[name], original, value)
    return to_module
