"""``jacrev``, ``jacfwd`` and ``hessian``: Jacobians, by mapping ``vjp`` or ``jvp`` over a basis."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fgrad.graph.source import boundary
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.func.arguments import Argnums, check_real, chosen
from fgrad.torch.func.forward import jvp_at
from fgrad.torch.func.maps import vmap
from fgrad.torch.func.reverse import vjp_at
from fgrad.torch.trees import flatten, unflatten


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func`` by reverse mode: one row for each element of the output.

    Arguments:
      func: takes and returns trees of tensors.
      argnums: the positions of the arguments to differentiate with respect to.
      has_aux: ``func`` returns a pair, and only its first part is differentiated.
      chunk_size: how many rows to compute at a time; all at once if None, one by one without ``vmap`` if 1.

    Returns:
      A function of the same arguments.  Its result has the structure of the output, each leaf replaced by the structure
      of the argument (a tuple if ``argnums`` is one), with leaves of shape ``output.shape + input.shape``.

    Raises:
      ValueError: ``chunk_size`` is not positive.
      RuntimeError: an input or output is complex, or not a tensor.

    >>> import fgrad.torch as torch
    >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])

    Source: `torch.func.jacrev <https://docs.pytorch.org/docs/stable/generated/torch.func.jacrev.html>`_.
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        check_real("jacrev", flatten(args)[0], "inputs")
        output, pull_back, *aux = vjp_at(func, args, argnums, has_aux)
        outputs, out_structure = flatten(output)
        check_real("jacrev", outputs, "outputs")
        primals, structure = flatten(chosen(args, argnums))

        def rows(basis: Sequence[Tensor]) -> list[Tensor]:
            if chunk_size == 1:
                pulled = pull_back(unflatten([x.squeeze(0) for x in basis], out_structure))
                return [x.unsqueeze(0) for x in flatten(pulled)[0]]
            return flatten(vmap(pull_back)(unflatten(basis, out_structure)))[0]

        blocks = [rows(basis) for basis in _bases(outputs, chunk_size)]
        stacked = blocks[0] if len(blocks) == 1 else [ops.cat(parts, 0) for parts in zip(*blocks, strict=True)]
        sizes = [x.numel() for x in outputs]
        by_input = [
            [
                part.view((*out.shape, *primal.shape))
                for part, out in zip(ops.split(stack, sizes, 0), outputs, strict=True)
            ]
            for stack, primal in zip(stacked, primals, strict=True)
        ]
        jacobian = unflatten([unflatten(row, structure) for row in zip(*by_input, strict=True)], out_structure)
        return (jacobian, *aux) if has_aux else jacobian

    return wrapper


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func`` by forward mode: one column for each element of the input.

    Arguments and results are those of ``jacrev``; ``randomness`` is that of ``vmap``.

    >>> import fgrad.torch as torch
    >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])

    Source: `torch.func.jacfwd <https://docs.pytorch.org/docs/stable/generated/torch.func.jacfwd.html>`_.
    """

    @boundary
    @functools.wraps(func)
    def wrapper(*args: Any) -> Any:
        check_real("jacfwd", flatten(args)[0], "inputs")
        varied = chosen(args, argnums)
        primals, structure = flatten(varied)
        basis = unflatten(next(_bases(primals, None)), structure)

        def column(direction: Any) -> Any:
            output, tangent, *aux = jvp_at(
                func, args, (direction,) if isinstance(argnums, int) else direction, argnums, False, has_aux
            )
            check_real("jacfwd", flatten(output)[0], "outputs")
            return (tangent, *aux) if has_aux else tangent

        columns = vmap(column, randomness=randomness)(basis)
        aux = None
        if has_aux:
            columns, aux = columns
            leaves, aux_structure = flatten(aux)
            aux = unflatten([x[0] for x in leaves], aux_structure)
        outputs, out_structure = flatten(columns)
        sizes = [x.numel() for x in primals]
        jacobian = unflatten(
            [
                unflatten(
                    [
                        part.reshape((*part.shape[:-1], *primal.shape))
                        for part, primal in zip(ops.split(out.movedim(0, -1), sizes, -1), primals, strict=True)
                    ],
                    structure,
                )
                for out in outputs
            ],
            out_structure,
        )
        return (jacobian, aux) if has_aux else jacobian

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of ``func``: forward over reverse mode.

    >>> import fgrad.torch as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.tensor([1., 2.]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])

    Source: `torch.func.hessian <https://docs.pytorch.org/docs/stable/generated/torch.func.hessian.html>`_.
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _bases(tensors: Sequence[Tensor], chunk_size: int | None) -> Iterator[list[Tensor]]:
    """The standard basis of the space of all elements of some tensors, in chunks.

    Each vector is a list of tensors like the given ones; a new first axis numbers the vectors.
    """
    sizes = [x.numel() for x in tensors]
    total = sum(sizes)
    length = min(chunk_size or total, total)
    for start in range(0, total, length) if length else (0,):
        count = min(length, total - start)
        vectors = []
        begin = 0
        for x, size in zip(tensors, sizes, strict=True):
            block = x.new_zeros(count, size)
            block.diagonal(start - begin).fill_(1)
            vectors.append(block.view((count, *x.shape)))
            begin += size
        yield vectors
