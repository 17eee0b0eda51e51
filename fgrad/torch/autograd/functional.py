"""``torch.autograd.functional``: Jacobians and Hessians of functions, and their products with vectors.

Source: `torch.autograd.functional
<https://docs.pytorch.org/docs/stable/autograd.html#functional-higher-level-api>`_.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fgrad.mutable.context.modes import enable_grad
from fgrad.mutable.operation.operation_node import zeros
from fgrad.mutable.tensor.tensor import Tensor, is_tracked
from fgrad.mutable.transforms.levels import cross_in, cross_out, mapping_gradients
from fgrad.torch import ops
from fgrad.torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from fgrad.torch.autograd.products import hvp, jvp, vhp, vjp
from fgrad.torch.autograd.strictness import (
    Tensors,
    check_dependent,
    gradients,
    prepared,
    released,
    tupled,
    untupled,
)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function.

    Arguments:
      func: takes tensors and returns a tensor or a tuple of them.
      inputs: a tensor or a tuple of them.
      create_graph: whether the Jacobian can be differentiated again.
      strict: whether an output that does not depend on the inputs is an error; else its derivative is zero.
      vectorize: compute all rows, or columns, in one mapped pass.
      strategy: "reverse-mode", or "forward-mode" (which needs ``vectorize``).

    Returns:
      A tensor of shape ``output.shape + input.shape``; a tuple of them if there are several outputs or several inputs,
      a tuple (outputs) of tuples (inputs) if both.

    Raises:
      TypeError: an argument or result is not a tensor.
      RuntimeError: an output does not depend on an input, with ``strict``; or options that ``strict`` excludes.
      AssertionError: unknown ``strategy``.
      NotImplementedError: forward mode with ``create_graph`` or without ``vectorize``, as in PyTorch.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.jacobian(lambda x: x ** 2, torch.tensor([1., 2.]))
    tensor([[2., 0.],
            [0., 4.]])

    Source: `torch.autograd.functional.jacobian
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html>`_.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        return _by_columns(func, inputs, strict, vectorize)
    with enable_grad():
        several, tensors = tupled(inputs, "inputs", "jacobian")
        primals = prepared(tensors, create_graph, True)
        several_out, outputs = tupled(func(*primals), "outputs of the user-provided function", "jacobian")
        if strict:
            check_dependent(outputs, "outputs")
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        if vectorize:
            rows = _rows_at_once(outputs, primals, create_graph)
        else:
            rows = _rows(outputs, primals, create_graph, strict)
    rows = released(rows, create_graph)
    return untupled(tuple([untupled(row, several) for row in rows]), several_out)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a scalar-valued function.

    Arguments are those of ``jacobian``; ``outer_jacobian_strategy`` is the strategy of the second derivative.

    Returns:
      A tensor of shape ``input.shape + input.shape``, or a tuple of tuples of them.

    Raises:
      RuntimeError: the function does not return a single number; or as ``jacobian``.

    >>> import fgrad.torch as torch
    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])

    Source: `torch.autograd.functional.hessian
    <https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.hessian.html>`_.
    """
    several, tensors = tupled(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def number(*args: Tensor) -> Tensor:
        output = func(*args)
        several_out, outputs = tupled(output, "outputs of the user-provided function", "hessian")
        if strict:
            check_dependent(outputs, "outputs")
        if several_out:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if output.nelement() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return output.squeeze()

    def gradient(*args: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            for x in args:
                x._requires_grad = True
        grads = jacobian(number, args, create_graph=True)
        if strict:
            check_dependent(grads, "jacobian")
        return grads

    matrices = jacobian(gradient, tensors, create_graph, strict, vectorize, outer_jacobian_strategy)
    return matrices if several else matrices[0][0]


def _rows(outputs: Tensors, inputs: Tensors, create_graph: bool, strict: bool) -> tuple[Tensors, ...]:
    """The Jacobian, row by row."""
    matrices = []
    for i, out in enumerate(outputs):
        rows: list[list[Tensor]] = [[] for _ in inputs]
        for j in range(out.nelement()):
            row = gradients((out.reshape(-1)[j],), inputs, retain_graph=True, create_graph=create_graph)
            for k, (part, x) in enumerate(zip(row, inputs, strict=True)):
                if part is None and strict:
                    raise RuntimeError(
                        f"Output {i} of the user-provided function is independent of input {k}. This is not allowed in "
                        "strict mode."
                    )
                if part is not None and strict and create_graph and not is_tracked(part):
                    raise RuntimeError(
                        f"The jacobian of the user-provided function is independent of input {i}. This is not allowed "
                        "in strict mode when create_graph=True."
                    )
                rows[k].append(zeros(x._type) if part is None else part)
        matrices.append(
            tuple([ops.stack(parts).view(out.size() + x.size()) for parts, x in zip(rows, inputs, strict=True)])
        )
    return tuple(matrices)


def _basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The standard basis of the space of all elements: a matrix for each tensor, with a row for each vector."""
    sizes = [x.numel() for x in tensors]
    blocks = []
    begin = 0
    for x, size in zip(tensors, sizes, strict=True):
        block = x.new_zeros(sum(sizes), size)
        block.diagonal(-begin).fill_(1)
        blocks.append(block)
        begin += size
    return blocks


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> Tensors:
    """The same by PyTorch's name, which libraries import with the three below."""
    return tuple(_basis(tensors))


_as_tuple, _grad_postprocess = tupled, released


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """The inverse of ``_as_tuple``, for nested tuples in both ranks."""
    outer, inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack, True)
    return untupled(tuple([untupled(each, inner) for each in res]), outer)


def _rows_at_once(outputs: Tensors, inputs: Tensors, create_graph: bool) -> tuple[Tensors, ...]:
    """The Jacobian, by one batched backward."""
    sizes = [x.numel() for x in outputs]
    flat = tuple([x.reshape(-1) for x in outputs])
    grads = gradients(flat, inputs, _basis(outputs), create_graph=create_graph, batched=True)
    batches = [
        x.new_zeros(sum(sizes), *x.shape) if part is None else part for part, x in zip(grads, inputs, strict=True)
    ]
    parts = [part.split(sizes, dim=0) for part in batches]
    return tuple(
        [
            tuple([part[i].view(out.shape + x.shape) for part, x in zip(parts, inputs, strict=True)])
            for i, out in enumerate(outputs)
        ]
    )


def _by_columns(func: Callable[..., Any], inputs: Any, strict: bool, vectorize: bool) -> Any:
    """The Jacobian, by one batched forward pass."""
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    several, primals = tupled(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for "
            "`vectorize=True`."
        )
    sizes = [x.numel() for x in primals]
    with mapping_gradients(sum(sizes)) as level, dual_level():
        tangents = [cross_in(block, level).view_as(x) for x, block in zip(primals, _basis(primals), strict=True)]
        duals = [make_dual(x, tangent) for x, tangent in zip(primals, tangents, strict=True)]
        outputs = func(*duals)
        several_out, listed = tupled(outputs, "outputs", "None")
        pairs = [unpack_dual(x) for x in listed]
        columns = [cross_out(zeros(primal._type) if tangent is None else tangent, level) for primal, tangent in pairs]
    # like PyTorch, lists if there are several of both
    matrices: Any = [
        [
            part.permute(*range(1, part.ndim), 0).reshape(primal.shape + x.shape)
            for part, x in zip(column.split(sizes, dim=0), primals, strict=True)
        ]
        for column, (primal, _) in zip(columns, pairs, strict=True)
    ]
    if not several:
        matrices = tuple([row[0] for row in matrices])
    return untupled(matrices, several_out)


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
