"""Products of vectors with Jacobians and Hessians: ``vjp``, ``jvp``, ``vhp``, ``hvp``.

NOTE [Double backward]
``jvp`` here needs no forward mode: the pull-back is linear in its cotangent, so its own pull-back, taken with respect
to the cotangent, is the push-forward.
"""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import enable_grad, is_grad_enabled, recording
from fgrad.torch.autograd.strictness import (
    Tensors,
    check_dependent,
    filled,
    gradients,
    prepared,
    released,
    tracked_zeros,
    tupled,
    untupled,
    vector,
)

Function = Callable[..., Any]


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output of a function, and the product of a vector with its Jacobian.

    Arguments:
      func: takes tensors and returns a tensor or a tuple of them.
      inputs: a tensor or a tuple of them.
      v: the vector, like the output; optional if that is one number.
      create_graph: whether the results can be differentiated again.
      strict: whether an output that does not depend on the inputs is an error; else its derivative is zero.

    Raises:
      TypeError: an argument or result is not a tensor.
      RuntimeError: ``v`` is missing or does not fit, or a result is independent with ``strict``.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.vjp(lambda x: x ** 2, torch.tensor([1., 2.]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))

    Source: `torch.autograd.functional.vjp
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.vjp.html>`_.
    """
    with enable_grad():
        several, tensors = tupled(inputs, "inputs", "vjp")
        primals = prepared(tensors, create_graph, True)
        several_out, outputs = _evaluated(func, primals, "vjp", strict)
        vectors = vector(v, outputs, several_out, "vjp", create_graph)
    with recording(create_graph or is_grad_enabled()):
        cotangents = gradients(outputs, primals, vectors, create_graph=create_graph)
        products = filled(cotangents, primals, strict, create_graph, "back")
    return (
        untupled(released(outputs, create_graph), several_out),
        untupled(released(products, create_graph), several),
    )


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output of a function, and the product of its Jacobian with a vector, by NOTE [Double backward].

    Arguments and errors are those of ``vjp``, except that ``v`` is like the inputs.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.jvp(lambda x: x ** 2, torch.tensor([1., 2.]), torch.ones(2))
    (tensor([1., 4.]), tensor([2., 4.]))

    Source: `torch.autograd.functional.jvp
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jvp.html>`_.
    """
    with enable_grad():
        several, tensors = tupled(inputs, "inputs", "jvp")
        primals = prepared(tensors, create_graph, True)
        vectors = vector(v, primals, several, "jvp", create_graph)
        several_out, outputs = _evaluated(func, primals, "jvp", strict)
        zeros = tracked_zeros(outputs)
        pulled = gradients(outputs, primals, zeros, create_graph=True)
        if strict:
            check_dependent(pulled, "grad_inputs")
    with recording(create_graph or is_grad_enabled()):
        tangents = gradients(pulled, zeros, vectors, create_graph=create_graph)
        products = filled(tangents, outputs, strict, create_graph, "back_trick")
    return (
        untupled(released(outputs, create_graph), several_out),
        untupled(released(products, create_graph), several_out),
    )


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output of a scalar-valued function, and the product of a vector with its Hessian.

    Arguments and errors are those of ``vjp``, except that ``v`` is like the inputs.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.vhp(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]), torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))

    Source: `torch.autograd.functional.vhp
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.vhp.html>`_.
    """
    several, primals, vectors, outputs, jacobian = _jacobian(func, inputs, v, create_graph, strict, "vhp")
    with recording(create_graph or is_grad_enabled()):
        row = gradients(jacobian, primals, vectors, create_graph=create_graph)
        products = filled(row, primals, strict, create_graph, "double_back")
    return released(outputs, create_graph)[0], untupled(released(products, create_graph), several)


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The output of a scalar-valued function, and the product of its Hessian with a vector.

    Arguments and errors are those of ``vhp``, which is cheaper and, the Hessian being symmetric, the same.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]), torch.ones(2))
    (tensor(9.), tensor([ 6., 12.]))

    Source: `torch.autograd.functional.hvp
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.hvp.html>`_.
    """
    several, primals, vectors, outputs, jacobian = _jacobian(func, inputs, v, create_graph, strict, "hvp")
    with enable_grad():
        zeros = tracked_zeros(primals)
        pulled = gradients(jacobian, primals, zeros, create_graph=True)
        if strict:
            check_dependent(jacobian, "hessian")
    with recording(create_graph or is_grad_enabled()):
        column = gradients(pulled, zeros, vectors, create_graph=create_graph)
        products = filled(column, primals, strict, create_graph, "double_back_trick")
    return released(outputs, create_graph)[0], untupled(released(products, create_graph), several)


def _evaluated(func: Function, inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    several, outputs = tupled(func(*inputs), "outputs of the user-provided function", name)
    if strict:
        check_dependent(outputs, "outputs")
    return several, outputs


def _jacobian(
    func: Function, inputs: Any, v: Any, create_graph: bool, strict: bool, name: str
) -> tuple[bool, Tensors, Tensors | None, Tensors, tuple[Any, ...]]:
    """The first derivative of a scalar-valued function, with history, and the prepared arguments."""
    with enable_grad():
        several, tensors = tupled(inputs, "inputs", name)
        primals = prepared(tensors, create_graph, True)
        vectors = vector(v, primals, several, name, create_graph)
        several_out, outputs = _evaluated(func, primals, name, strict)
        if several_out:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if outputs[0].nelement() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
        jacobian = gradients(outputs, primals, create_graph=True)
        if strict:
            check_dependent(jacobian, "jacobian")
    return several, primals, vectors, outputs, jacobian
