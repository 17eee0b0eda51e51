"""What stands in ``fgrad.torch`` for functions, tensors and types of PyTorch's."""

import functools
import types
from typing import Any

import torch as theirs

import fgrad.torch as ours

#: where functions are looked for, the better names first
_MODULES = (
    "",
    "masked",
    "nn.functional",
    "linalg",
    "special",
    "fft",
    "signal.windows",
    "nn",
    "_C._nn",
    "_C._VariableFunctions",
)
_OWN = ("torch.testing", "torch.nn", "torch.functional", "torch._")


class Missing(Exception):
    """fgrad has nothing in the place of it."""


def _under(root: Any, path: str) -> Any:
    try:
        return functools.reduce(getattr, filter(None, path.split(".")), root)
    except AttributeError as error:
        raise Missing(path) from error


@functools.cache
def _paths() -> dict[int, str]:
    """The paths of PyTorch's functions and methods, by their identities."""
    found: dict[int, str] = {}
    for module in _MODULES:
        place = _under(theirs, module)
        for name in dir(place):
            value = getattr(place, name, None)
            if callable(value):
                found.setdefault(id(value), f"{module}.{name}".lstrip("."))
    for name in dir(theirs.Tensor):
        found.setdefault(id(getattr(theirs.Tensor, name, None)), f"Tensor.{name}")
    return {key: path.replace("_C._VariableFunctions.", "") for key, path in found.items()}


def twin(x: Any) -> Any:
    """What stands for a value: a tensor with the same elements in the same places, a function of the same name.

    A function that PyTorch's tests are made of is made anew, with twins of what it calls.

    Raises:
      Missing: there is nothing of the name.
    """
    if isinstance(x, theirs.Tensor):
        return tensor(x)
    if isinstance(x, theirs.Size):
        return ours.Size(x)
    if isinstance(x, tuple | list):
        made = [twin(y) for y in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    if isinstance(x, dict):
        return {key: twin(value) for key, value in x.items()}
    if isinstance(x, theirs.dtype | theirs.layout | theirs.memory_format):
        return _under(ours, str(x).removeprefix("torch."))
    if isinstance(x, theirs.nn.Module):
        raise Missing(f"an instance of {type(x).__name__}")
    if isinstance(x, theirs.device):
        return ours.device(str(x))
    if isinstance(x, theirs.Generator):
        return ours.Generator().manual_seed(x.initial_seed())
    if isinstance(x, types.ModuleType) and x.__name__.partition(".")[0] == "torch":
        return _under(ours, x.__name__.removeprefix("torch").removeprefix("."))
    if isinstance(x, theirs._ops.OpOverload | theirs._ops.OpOverloadPacket):
        return _under(ours, f"ops.{x}")
    if isinstance(x, functools.partial):
        return functools.partial(twin(x.func), *twin(x.args), **twin(x.keywords))
    if callable(x) and id(x) in _paths():
        return _under(ours, _paths()[id(x)])
    if isinstance(x, types.FunctionType) and x.__module__.startswith(_OWN):
        return _function(x)
    return x


def tensor(x: theirs.Tensor) -> Any:
    """A leaf with the elements, strides and offset of another."""
    if x.layout is not theirs.strided or x.dtype is theirs.complex32:
        raise Missing(f"{x.layout} of {x.dtype}")
    plain = x.detach().resolve_conj().resolve_neg()
    reach = [(size - 1) * stride for size, stride in zip(plain.shape, plain.stride(), strict=True)]
    count = plain.storage_offset() + 1 + sum(reach) if plain.numel() else 0
    flat = plain.as_strided((count,), (1,), 0).clone()
    wide = flat.float() if flat.dtype is theirs.bfloat16 else flat
    found = ours.tensor(wide.numpy()).to(twin(x.dtype))
    found = found.as_strided(plain.shape, plain.stride(), plain.storage_offset() if count else 0)
    return found.detach().requires_grad_(x.requires_grad)


def seeded(op: Any, *args: Any, **kwargs: Any) -> Any:
    """A call with a seed of its own, as PyTorch's tests wrap what draws random numbers."""
    ours.manual_seed(42)
    return op(*args, **kwargs)


#: what has been made anew, by identity, and what it was made of, which has to stay alive for that
_made: dict[int, tuple[Any, Any]] = {}


def _function(x: types.FunctionType) -> Any:
    if x.__name__ == "wrapper_set_seed":
        return seeded
    _, found = _made.get(id(x), (x, None))
    if found is None:
        names = dict(x.__globals__)
        cells = tuple(types.CellType(twin(cell.cell_contents)) for cell in x.__closure__ or ())
        found = types.FunctionType(x.__code__, names, x.__name__, twin(x.__defaults__), cells)
        found.__kwdefaults__ = twin(x.__kwdefaults__)
        _made[id(x)] = x, found
        for name in _names(x.__code__):
            if name in names:
                try:
                    names[name] = twin(names[name])
                except Missing:
                    names.pop(name)  # whoever calls it is told that it is not there
    return found


def _names(code: types.CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
