"""Values inside a module: the outputs of its submodules, and their gradients, by path."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from attrs import define, frozen

from fgrad.mutable.backward.engine import run_backward
from fgrad.mutable.explain.names import location
from fgrad.mutable.tensor.hooks import RemovableHandle
from fgrad.mutable.tensor.tensor import Tensor, gradient_edge, gradient_function, is_tracked, new_tensor
from fgrad.seam import RawSource, Records, Table

#: how many elements of a value are shown
SHOWN = 4


@define(eq=False)
class Record:
    """One output of a module, or a parameter.

    Attributes:
      path: the path of the module or parameter, followed by ``[0]`` and the like for a part of an output.
      value: its value when the module returned.
      gradient: its gradient; None until there is one.
      source: the line of the call.
    """

    path: str
    value: Tensor
    gradient: Tensor | None
    source: RawSource | None


@frozen(repr=False, str=False)
class Watched(Records):
    """The watched values: for each path the records in order, one per call.

    Attributes:
      records: the records by path.
    """

    records: dict[str, list[Record]]

    def parts(self) -> Iterator[str | Table]:
        rows = [
            (
                record.path or "(the model)",
                "x".join(map(str, record.value._type.shape)) or "scalar",
                _shown(record.value),
                "-" if record.gradient is None else _shown(record.gradient),
                location(record.source) if record.source is not None else "",
            )
            for record in self.findings()
        ]
        yield Table(("path", "shape", "value", "gradient", "line"), rows)


def _shown(tensor: Tensor) -> str:
    array = np.asarray(tensor._value()).reshape(-1)
    elements = " ".join(f"{x:.4g}" if array.dtype.kind not in "biu" else str(x) for x in array[:SHOWN])
    if array.size <= SHOWN:
        return f"[{elements}]"
    return f"[{elements} ...] norm {np.linalg.norm(array.astype(np.complex128)):.4g}"


class watch:
    """Record values inside a module, and their gradients, by path; no hook is left behind.

    Called with the model's arguments, it runs the model and sends a gradient of ones back from its output; no ``.grad``
    is written.  As a context manager it watches what happens in the block, a loss and its backward too.

    Arguments:
      model: the module.
      paths: paths of modules in it, or of parameters, as ``named_modules`` and ``named_parameters`` have them; with
        ``*`` and ``?`` they stand for several.  ``""`` is the model itself.  Without any, all modules are watched.

    Returns:
      Called, a ``Watched``: a mapping from each path to a list of records with ``value`` and ``gradient``, one for each
      call of the module.  The context manager gives one that fills as the block runs.

    Raises:
      NameError: there is no such path; the message says which there are.

    >>> import fgrad.torch as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> seen = torch.watch(model, "1")(torch.ones(4, 2))
    >>> seen["1"][0].value.shape, seen["1"][0].gradient.shape
    (torch.Size([4, 3]), torch.Size([4, 3]))
    >>> with torch.watch(model, "0", "*.weight") as seen:
    ...     model(torch.ones(4, 2)).square().mean().backward()
    >>> list(seen)
    ['0', '0.weight', '2.weight']
    """

    def __init__(self, model: Any, *paths: str):
        if not hasattr(type(model), "named_modules"):
            raise TypeError(
                f"watch takes a module, and then paths in it, not {type(model).__name__}. For a tensor outside of "
                "modules: tensor.register_hook(print)."
            )
        self.model = model
        modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
        self._chosen: dict[str, Any] = {}
        for path in paths or modules:
            matches = [name for name in (*modules, *parameters) if name == path or fnmatchcase(name, path)]
            if not matches:
                there = ", ".join(repr(name) for name in (*modules, *parameters))
                raise NameError(f"watch: {type(model).__name__} has no module or parameter {path!r}. It has: {there}.")
            self._chosen |= {name: modules.get(name, parameters.get(name)) for name in matches}
        self._handles: list[RemovableHandle] = []
        self._outputs: list[tuple[Tensor, Record]] = []
        self._seen = Watched({})

    def __enter__(self) -> Watched:
        self._outputs = []
        self._seen = Watched({path: [] for path in self._chosen})
        for path, what in self._chosen.items():
            if isinstance(what, Tensor):
                self._note(path, what, path)
            else:
                self._handles.append(what.register_forward_hook(self._hook(path)))
        return self._seen

    def __exit__(self, *raised: Any) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._outputs.clear()

    def __call__(self, *args: Any, **kwargs: Any) -> Watched:
        with self as watched:
            output = self.model(*args, **kwargs)
            self._differentiate(output)
        return watched

    def _differentiate(self, output: Any) -> None:
        """Note the gradients of all watched values."""
        roots = [(edge, _ones(x)) for _, x in _tensors(output, "") if (edge := gradient_edge(x)) is not None]
        edges = [gradient_edge(tensor) for tensor, _ in self._outputs]
        if roots:
            grads = run_backward(roots, False, False, edges, accumulate=False)
            for (_, record), grad in zip(self._outputs, grads, strict=True):
                record.gradient = grad

    def _hook(self, path: str) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            for part, tensor in _tensors(output, path):
                self._note(path, tensor, part)

        return hook

    def _note(self, path: str, tensor: Tensor, called: str) -> None:
        """Note a value as it is now, and its gradient when it arrives."""
        node = gradient_function(tensor)
        record = Record(called, new_tensor(tensor._value(), tensor._type), None, None if node is None else node._source)
        self._seen.records[path].append(record)
        if is_tracked(tensor) and tensor._type.inexact:
            self._outputs.append((tensor, record))
            self._handles.append(_on_gradient(tensor, record))


def _on_gradient(tensor: Tensor, record: Record) -> RemovableHandle:
    def hook(grad: Tensor) -> None:
        record.gradient = grad

    return tensor.register_hook(hook)


def _ones(tensor: Tensor) -> Tensor:
    type = tensor._type
    return new_tensor(np.ones(type.shape, type.dtype.numpy), type)


def _tensors(output: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of an output, with their paths."""
    if isinstance(output, Tensor):
        yield path, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from _tensors(value, f"{path}[{key!r}]")
    elif isinstance(output, tuple | list):
        for k, value in enumerate(output):
            yield from _tensors(value, f"{path}[{k}]")
