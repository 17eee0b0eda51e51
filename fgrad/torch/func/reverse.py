"""``grad``, ``grad_and_value`` and ``vjp``: reverse mode as a transformation of functions."""

import functools
from collections.abc import Callable
from typing import Any

from fgrad.graph.source import boundary
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.torch.autograd.backward import checked_flags, seeds
from fgrad.torch.func.arguments import Argnums, check_outputs, chosen, others, replaced, split_aux, undone
from fgrad.torch.func.entries import GradLevel, Unvaried
from fgrad.torch.trees import flatten, map_leaves, shown, unflatten


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The gradient function of a scalar-valued ``func``.

    Arguments:
      func: a function of tensors that returns a tensor without axes.
      argnums: the positions of the arguments to differentiate with respect to.
      has_aux: ``func`` returns a pair, and only its first part is differentiated.

    Returns:
      A function of the same arguments that returns the gradient, with the structure of the argument (a tuple of them if
      ``argnums`` is one), and with ``has_aux`` a pair of it and the second part.

    Raises:
      RuntimeError: the result is not a tensor without axes, or ``argnums`` does not fit the arguments.

    >>> import fgrad.torch as torch
    >>> torch.func.grad(torch.func.grad(torch.sin))(torch.tensor(1.))
    tensor(-0.8415)

    Source: `torch.func.grad <https://docs.pytorch.org/docs/stable/generated/torch.func.grad.html>`_.
    """

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradient, value = _grad_and_value(func, argnums, has_aux, args, kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func`` and its value; arguments and errors as in ``grad``.

    >>> import fgrad.torch as torch
    >>> torch.func.grad_and_value(lambda x: x ** 2)(torch.tensor(3.))
    (tensor(6.), tensor(9.))

    Source: `torch.func.grad_and_value
    <https://docs.pytorch.org/docs/stable/generated/torch.func.grad_and_value.html>`_.
    """

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _grad_and_value(func, argnums, has_aux, args, kwargs)

    return wrapper


def _grad_and_value(
    func: Callable[..., Any], argnums: Argnums, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    call = "grad_and_value(f)(*args)"
    unvaried = Unvaried()
    with GradLevel() as level:
        entered = map_leaves(level.enter, chosen(args, argnums))
        given = replaced(others(unvaried.enter, args, argnums), argnums, entered)
        output, aux = split_aux(func(*given, **unvaried.enter(kwargs)), has_aux, call)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"{call}: Expected f(*args) to return a Tensor, got {type(output)}")
        if output._type.shape:
            raise RuntimeError(
                f"{call}: Expected f(*args) to return a scalar Tensor, got tensor with {len(output._type.shape)} dims. "
                "Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if is_tracked(output) and not output._type.dtype.is_floating_point:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {output._type.dtype}"
            )
        leaves, structure = flatten(entered)
        out = level.leads_out(output)
        gradients = level.gradients([output], leaves, [output.new_ones(())], out, out)
        gradient = unflatten([level.leave(g) for g in gradients], structure)
        value = level.leave(output)
        aux = undone(level.leave, aux) if has_aux else None
        level.cut()
    unvaried.write_back()
    return gradient, (value, aux) if has_aux else value


@boundary
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of ``func`` at ``primals``, and its pull-back.

    Arguments:
      func: takes the primals, trees of tensors, and returns a tree of tensors.
      has_aux: ``func`` returns a pair, and only its first part is differentiated.

    Returns:
      The output, the pull-back (it returns a tuple, one cotangent for each primal), and with ``has_aux`` the second
      part of the pair.

    Raises:
      RuntimeError: an output is not a tensor of an inexact dtype, or the cotangents differ from it in structure.

    >>> import fgrad.torch as torch
    >>> value, pull_back = torch.func.vjp(torch.sin, torch.tensor(0.))
    >>> pull_back(torch.tensor(2.))
    (tensor(2.),)

    Source: `torch.func.vjp <https://docs.pytorch.org/docs/stable/generated/torch.func.vjp.html>`_.
    """
    return vjp_at(func, primals, None, has_aux)


def vjp_at(
    func: Callable[..., Any], primals: tuple[Any, ...], argnums: Argnums | None, has_aux: bool
) -> tuple[Any, ...]:
    """``vjp`` with respect to some of the primals, of all if ``argnums`` is None."""
    call = "vjp(f, *primals)"
    unvaried = Unvaried()
    with GradLevel() as level:
        entered = map_leaves(level.enter, primals if argnums is None else chosen(primals, argnums))
        args = entered if argnums is None else replaced(others(unvaried.enter, primals, argnums), argnums, entered)
        output, aux = split_aux(func(*args), has_aux, call)
        outputs, structure = flatten(output)
        check_outputs(outputs, call)
        for x in outputs:
            if not x._type.inexact:
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{x._type.dtype}"
                )
        value = unflatten([level.leave(x) for x in outputs], structure)
        aux = undone(level.leave, aux) if has_aux else None
        leaves, entered_structure = flatten(entered)
        kept = level.cut([*outputs, *leaves])
        outputs, leaves = kept[: len(outputs)], kept[len(outputs) :]
    unvaried.write_back()

    def pull_back(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        checked_flags(retain_graph=retain_graph, create_graph=create_graph)
        cts, given_structure = flatten(cotangents)
        if given_structure != structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {shown(given_structure)}, primal output: {shown(structure)}"
            )
        pairs = [(x, ct) for x, ct in zip(outputs, cts, strict=True) if is_tracked(x)]
        varied = [x for x, _ in pairs]
        starts = seeds(varied, [ct for _, ct in pairs], False)
        # grad mode is read now: vjp may have been called in no_grad, and this function outside
        level.recording = modes.grad
        recorded = any(level.leads_out(x) for x in outputs)
        wanted = modes.grad if create_graph is None else create_graph
        create = wanted and (recorded or any(x is not None and is_tracked(x) for x in starts))
        gradients = level.gradients(varied, leaves, starts, retain_graph or recorded, create)
        return unflatten([level.leave(g) for g in gradients], entered_structure)

    return (value, pull_back, aux) if has_aux else (value, pull_back)
