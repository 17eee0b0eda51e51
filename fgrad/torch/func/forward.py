"""``jvp`` and ``linearize``: forward mode as a transformation of functions."""

from collections.abc import Callable
from typing import Any

from fgrad.graph.source import boundary
from fgrad.mutable.context.modes import ITSELF, Scope, modes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.transforms.forward import level_opened, tangent_of
from fgrad.mutable.transforms.levels import deriving
from fgrad.torch.autograd.forward_ad import make_dual, unpack_dual
from fgrad.torch.func.arguments import Argnums, check_outputs, chosen, others, replaced, split_aux, undone
from fgrad.torch.func.entries import GradLevel, Unvaried
from fgrad.torch.trees import flatten, unflatten

_JVP = "jvp(f, primals, tangents)"


class JvpLevel(Scope):
    """Opens a level of forward mode for a block, unaffected by ``no_grad`` and ``inference_mode`` around it."""

    as_value = ITSELF

    def values(self) -> dict[str, Any]:
        opened = level_opened()
        self.number: int = opened["dual_level"]
        return {
            "transforms": (*modes.transforms, self),
            "forward_grad": True,
            "inference": False,
            **deriving(),
            **opened,
        }

    def reaches(self, tensor: Tensor) -> bool:
        """Whether a tensor has a tangent at this level."""
        return tangent_of(tensor, self.number) is not None


@boundary
def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The value of ``func`` at ``primals``, and its derivative there in the direction ``tangents``.

    Arguments:
      func: takes the primals, trees of tensors, and returns a tree of tensors.
      primals: a tuple of arguments.
      tangents: as the primals.
      strict: raise if an output does not depend on the primals; else its tangent is zero.
      has_aux: ``func`` returns a pair, and only its first part is differentiated.

    Returns:
      The output, its tangent, and with ``has_aux`` the second part of the pair.

    Raises:
      RuntimeError: primals and tangents differ in structure, or a leaf or an output is not a tensor.

    >>> import fgrad.torch as torch
    >>> torch.func.jvp(lambda x: x ** 2, (torch.tensor(3.),), (torch.tensor(1.),))
    (tensor(9.), tensor(6.))

    Source: `torch.func.jvp <https://docs.pytorch.org/docs/stable/generated/torch.func.jvp.html>`_.
    """
    return jvp_at(func, primals, tangents, None, strict, has_aux)


def jvp_at(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    argnums: Argnums | None,
    strict: bool,
    has_aux: bool,
) -> tuple[Any, ...]:
    """``jvp`` with respect to some of the primals, of all if ``argnums`` is None."""
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_JVP}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    varied = primals if argnums is None else chosen(primals, argnums)
    varied_tangents = (tangents[0] if isinstance(argnums, int) else tangents) if argnums is not None else tangents
    leaves, structure = flatten(varied)
    directions, directions_structure = flatten(varied_tangents)
    if structure != directions_structure:
        raise RuntimeError(
            f"{_JVP}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structure} and tangents with "
            f"structure {directions_structure}"
        )
    for each, name in ((leaves, "primals"), (directions, "tangents")):
        if not each:
            raise RuntimeError(f"{_JVP}: Expected {name} to contain at least one Tensor.")
        for x in each:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{_JVP}: Expected {name} to only contain Tensors, got {type(x)}")
    unvaried = Unvaried()
    with JvpLevel():
        duals = unflatten([_dual(p, t) for p, t in zip(leaves, directions, strict=True)], structure)
        args = duals if argnums is None else replaced(others(unvaried.enter, primals, argnums), argnums, duals)
        result, aux = split_aux(func(*args), has_aux, _JVP)
        outputs, out_structure = flatten(result)
        check_outputs(outputs, _JVP)
        pairs = [_unpacked(x, strict) for x in outputs]
        aux = undone(lambda x: unpack_dual(x).primal, aux) if has_aux else None
    unvaried.write_back()
    pair = unflatten([p for p, _ in pairs], out_structure), unflatten([t for _, t in pairs], out_structure)
    return (*pair, aux) if has_aux else pair


def _dual(primal: Tensor, tangent: Tensor) -> Tensor:
    dual = make_dual(primal, tangent)
    dual._inference = False
    return dual


def _unpacked(dual: Tensor, strict: bool) -> tuple[Tensor, Tensor]:
    primal, tangent = unpack_dual(dual)
    if tangent is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
                "allowed with strict=True."
            )
        tangent = primal.new_zeros(primal.shape)
    return primal, tangent


@boundary
def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of ``func`` at ``primals``, and its derivative there as a function of tangents.

    ``func`` runs once; the derivative is the transpose of the pull-back.

    Arguments:
      func: takes the primals, trees of tensors, and returns a tree of tensors.

    Returns:
      The output, and a function of tangents like the primals.

    Raises:
      RuntimeError: the tangents differ from the primals in structure, shapes or dtypes.

    >>> import fgrad.torch as torch
    >>> value, derivative = torch.func.linearize(torch.sin, torch.tensor(0.))
    >>> derivative(torch.tensor(2.))
    tensor(2.)

    Source: `torch.func.linearize <https://docs.pytorch.org/docs/stable/generated/torch.func.linearize.html>`_.
    """
    leaves, structure = flatten(primals)
    with GradLevel() as outer:
        entered = [outer.enter(x) for x in leaves]
        outputs, out_structure = flatten(func(*unflatten(entered, structure)))
        check_outputs(outputs, "linearize(f, *primals)")
        values = unflatten([outer.leave(x) for x in outputs], out_structure)
        cotangents = [outer.enter(x.new_zeros(x.shape)) for x in outputs]
        pulled = outer.gradients(outputs, entered, cotangents, True, True)
        kept = outer.cut([*pulled, *cotangents])
        pulled, cotangents = kept[: len(pulled)], kept[len(pulled) :]
    recorded = any(outer.leads_out(x) for x in pulled)

    def derivative(*tangents: Any) -> Any:
        directions, given_structure = flatten(tangents)
        if given_structure != structure:
            raise RuntimeError(
                f"Expected the tangents {given_structure} to have the same argspec as the primals {structure}"
            )
        for i, (t, p) in enumerate(zip(directions, leaves, strict=True)):
            for name, one, other in (
                ("shape", t.shape, p.shape),
                ("device", t.device, p.device),
                ("dtype", t.dtype, p.dtype),
            ):
                if one != other:
                    raise RuntimeError(
                        f"tangent:{i} with {name} {one} in flattened pytree doesn't match the {name} {other} of the "
                        "corresponding primal."
                    )
        create = modes.grad and (recorded or any(t.requires_grad for t in directions))
        pushed = outer.gradients(pulled, cotangents, directions, True, create)
        return unflatten([outer.leave(x) for x in pushed], out_structure)

    return values, derivative
