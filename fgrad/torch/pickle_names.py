"""PyTorch's names for the classes and functions of this package, as its pickles spell them, and back.

PyTorch keeps many classes together in a file that are in several files here.  A pickle says the file, so that the names
in PyTorch's files must be PyTorch's own, or it would not find its classes.
"""

from collections.abc import Iterator
from functools import cache
from pickle import PicklingError, UnpicklingError
from types import FunctionType, ModuleType
from typing import Any

from fgrad.deferred import import_at_first_use
from fgrad.mutable.context.torch_function.wrap import BuiltIn

_HERE = "fgrad.torch"

#: packages here that are single files in PyTorch
_FOLDERS = ("nn.functional", "nn.modules.loss", "optim.lr_scheduler", "serialization")
#: modules below ``fgrad.torch``, and PyTorch's module that has their classes
_FILES = {
    "nn.modules.attention": "nn.modules.activation",
    "nn.modules.lazy_conv": "nn.modules.conv",
    "nn.modules.parameter_containers": "nn.modules.container",
    "nn.modules.pooling_to_size": "nn.modules.pooling",
    "nn.modules.rnn_cell": "nn.modules.rnn",
    "nn.modules.softmax": "nn.modules.activation",
    "optim.adafactor": "optim",
    "optim.muon": "optim",
    "distributions.elementwise": "distributions.transforms",
    "distributions.parts": "distributions.transforms",
    "distributions.simplices": "distributions.transforms",
    "distributions.transform": "distributions.transforms",
}
#: classes and functions whose modules PyTorch splits
_CLASSES = {
    ("nn.modules.reshaping", "ChannelShuffle"): "nn.modules.channelshuffle",
    ("nn.modules.reshaping", "Flatten"): "nn.modules.flatten",
    ("nn.modules.reshaping", "Unflatten"): "nn.modules.flatten",
    ("nn.modules.reshaping", "Fold"): "nn.modules.fold",
    ("nn.modules.reshaping", "Unfold"): "nn.modules.fold",
    ("nn.modules.reshaping", "PixelShuffle"): "nn.modules.pixelshuffle",
    ("nn.modules.reshaping", "PixelUnshuffle"): "nn.modules.pixelshuffle",
    ("_utils", "_rebuild_from_type_v2"): "_tensor",
    ("nn.modules.loss.linear", "LinearCrossEntropyOptions"): "nn.modules.linear_cross_entropy_options",
}
#: where PyTorch's pickles look for functions written in C++
_BUILT_IN = {"_C._nn": "nn.functional", "_C._VariableFunctions": ""}
#: modules that export functions under PyTorch's names, wherever they are defined
_PUBLIC = ("", "nn.functional", "linalg", "special", "fft", "nn.init", "autograd.grad_mode")


def public_name(value: Any, name: str) -> tuple[str, str] | None:
    """PyTorch's module and name of a class or function; None for one that is not from this package.

    Raises:
      PicklingError: PyTorch has no such thing.

    >>> import fgrad.torch as torch
    >>> public_name(torch.nn.Flatten, 'Flatten')
    ('torch.nn.modules.flatten', 'Flatten')
    """
    module = getattr(value, "__module__", None) or ""
    if module.partition(".")[0] != "fgrad":
        return None
    inner = module.removeprefix(_HERE).lstrip(".")
    public = _public().get(id(value))
    if public is not None:
        return public
    if isinstance(value, FunctionType | BuiltIn) and getattr(_module(""), name, None) is value:
        return "torch", name  # imported at first use
    folder = next((each for each in _FOLDERS if inner.startswith(each + ".")), inner)
    path = _CLASSES.get((inner, name)) or _FILES.get(inner, folder)
    if any(candidate is value for candidate in _candidates(path, name)):
        return ".".join(filter(None, ("torch", path))), name
    raise PicklingError(f"Can't pickle {value!r}: PyTorch knows nothing of the name {module}.{name}.")


@cache
def _public() -> dict[int, tuple[str, str]]:
    """The names of public functions, by the identity of the function."""
    dir(_module(""))  # exports the functions that come with the layers
    return {
        id(value): (".".join(filter(None, ("torch", path))), name)
        for path in reversed(_PUBLIC)
        for name, value in sorted(vars(_module(path)).items(), reverse=True)
        if callable(value) and name[0] != "_"
        if not isinstance(value, type)
        or (path == "autograd.grad_mode" and name in getattr(_module(path), "__all__", ()))
    }


def find(module: str, name: str) -> Any:
    """The class or function that has a name in PyTorch.

    Raises:
      UnpicklingError: nothing does.

    >>> find('torch.nn.modules.flatten', 'Flatten')
    <class 'fgrad.torch.nn.modules.reshaping.Flatten'>
    """
    for value in _candidates(module.removeprefix("torch").lstrip("."), name):
        return value
    raise UnpicklingError(f"The file needs {module}.{name}, and fgrad.torch has nothing of that name.")


def _candidates(path: str, name: str) -> Iterator[Any]:
    """The values of a name in the modules that make up one of PyTorch's."""
    if (path, name) == ("_C", "_VariableFunctionsClass"):
        yield _module("")
    path = _BUILT_IN.get(path, path)
    files = [file for file, home in _FILES.items() if home == path]
    class_files = [file for (file, each), home in _CLASSES.items() if home == path and each == name]
    for file in (path, *class_files, *files):
        value: Any = _module(file)
        for part in name.split("."):
            value = getattr(value, part, None)
        if value is not None:
            yield value


def _module(path: str) -> ModuleType | None:
    try:
        return import_at_first_use(".".join(filter(None, (_HERE, path))))
    except ModuleNotFoundError:
        return None
