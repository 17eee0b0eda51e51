"""Programs on tensors for ``fgrad.compare``: pure functions of arrays, differentiated by the engine."""

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fgrad.mutable.explain.names import name_of
from fgrad.mutable.operation.capture import flatten
from fgrad.mutable.tensor.node import Node
from fgrad.mutable.tensor.tensor import AccumulateGrad, Tensor, gradient_function, is_tracked, new_tensor
from fgrad.mutable.values.evaluation import as_jax
from fgrad.questions.call import weights
from fgrad.torch.autograd.backward import grad
from fgrad.torch.func.functionalization import functionalize
from fgrad.torch.nn.modules.module import Module

PACKAGE = "fgrad.torch"


class TensorPrograms:
    """The layer of ``fgrad.torch``: see ``fgrad.questions.layers``."""

    def is_program(self, fun: Callable[..., Any]) -> bool:
        """Whether a function is a module, or mentions ``fgrad.torch``, a tensor or a module."""
        return any(map(_is_ours, _references(fun)))

    def arrays(self, tree: Any) -> Any:
        """A tree with its tensors as arrays."""
        leaves, structure = flatten(tree)
        return structure.unflatten([as_jax(x._value()) if isinstance(x, Tensor) else x for x in leaves])

    def differentiated(self, fun: Callable[..., Any]) -> Callable[..., tuple[Any, list[Any], dict[str, Any]]]:
        """The function's results, the gradients of its arguments, and those of the leaves that it closes over."""

        @functionalize
        def both(*args: Any, **kwargs: Any) -> Any:
            inputs = [x for x in flatten((args, kwargs))[0] if isinstance(x, Tensor) and x._type.inexact]
            for x in inputs:
                x.requires_grad_()
            results = fun(*args, **kwargs)
            outputs = [x for x in flatten(results)[0] if isinstance(x, Tensor) and x._type.inexact and is_tracked(x)]
            others = {name: x for name, x in _closed_over(outputs) if not any(x is each for each in inputs)}
            if not outputs:
                return results, [None] * len(inputs), {}
            seeds = [new_tensor(weights(x._type.array), x._type) for x in outputs]
            gradients = grad(outputs, [*inputs, *others.values()], seeds, allow_unused=True)
            return results, list(gradients[: len(inputs)]), dict(zip(others, gradients[len(inputs) :], strict=True))

        return both


def _references(fun: Any) -> Iterator[Any]:
    """A function, and everything that its code names or closes over."""
    yield fun
    fun = inspect.unwrap(getattr(fun, "func", fun))
    fun = getattr(fun, "__func__", fun)
    if not isinstance(fun, FunctionType):
        return
    for cell in fun.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue
    todo: list[CodeType] = [fun.__code__]
    while todo:
        code = todo.pop()
        todo += [const for const in code.co_consts if isinstance(const, CodeType)]
        for instruction in dis.get_instructions(code):
            if instruction.opname == "LOAD_GLOBAL" and instruction.argval in fun.__globals__:
                yield fun.__globals__[instruction.argval]


def _is_ours(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ == PACKAGE or value.__name__.startswith(f"{PACKAGE}.")
    return isinstance(value, Tensor | Module) or str(getattr(value, "__module__", "")).startswith(PACKAGE)


def _closed_over(outputs: list[Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The leaves that outputs were computed from, with their names."""
    todo: list[Node] = [node for node in map(gradient_function, outputs) if node is not None]
    visited = set(todo)
    while todo:
        node = todo.pop()
        if isinstance(node, AccumulateGrad):
            leaf = node.variable
            name = name_of(leaf)
            if name is not None:
                yield _path(name), leaf
            continue
        for edge in node.next_edges:
            if edge is not None and edge[0] not in visited:
                visited.add(edge[0])
                todo.append(edge[0])


def _path(name: str) -> str:
    """``'0.weight' of 'net'`` as the path that it stands for."""
    inner, _, outer = name.partition(" of ")
    inner, outer = inner.strip("'"), outer.strip("'")
    return f"{outer}.{inner}" if outer else inner
