"""The function that ``vjp`` returns: a linear function of cotangents, and its residuals."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from attrs import define, frozen
from jax import lax, tree_util

from fgrad import errors
from fgrad.api.arguments import as_tree, matching, path_of, sole_cotangent, stripped
from fgrad.api.recorded import with_weakness
from fgrad.graph.graph import Graph
from fgrad.graph.references import value_type
from fgrad.jaxcore import ShapedArray, tangent_dtype, typeof
from fgrad.jaxtypes import explicit_sharding, is_inexact, is_reference, strong
from fgrad.run.executable import run

ad: Any = jax.ad  # type: ignore[attr-defined]


def zero(type: ShapedArray) -> Any:
    """The zero cotangent of a value of this type; NumPy's ``float0`` zeros if it has no derivatives."""
    dtype = tangent_dtype(type.dtype)
    if dtype == jax.dtypes.float0:
        return np.zeros(type.shape, dtype)
    return with_weakness(lax.full(type.shape, 0, dtype, sharding=explicit_sharding(type)), type)


@frozen
class Pullback:
    """The linear function that ``vjp`` returns, without its residuals; equal for equal structure, for ``jit``."""

    graph: Graph
    results: tuple[int | None, ...]
    in_types: tuple[ShapedArray, ...]
    out_types: tuple[ShapedArray, ...]
    in_tree: Any
    out_tree: Any
    #: for each output, whether it depends on the inputs
    out_nonzero: tuple[bool, ...]

    def __call__(self, residuals: Sequence[Any], *cts: Any) -> Any:
        what = "the cotangent given to vjp's function"
        ct = sole_cotangent(cts, self.out_tree, "vjp's function")
        flat = matching(ct, self.out_tree, self.out_types, what, "the output", "any")
        live = [(x, t) for x, t in zip(flat, self.out_types, strict=True) if is_inexact(t)]
        cotangents = run(self.graph, [*residuals, *[stripped(x) for x, _ in live]])
        # As in JAX, a weak value is converted on its way to a strong output, and its cotangent back on the way back.
        # So a weak primal has a weak cotangent, unless the cotangent of a weak output is strong.
        weak = all(typeof(x).weak_type or not t.weak_type for x, t in live)
        grads = [
            zero(t) if k is None else with_weakness(cotangents[k], t if weak else strong(t))
            for k, t in zip(self.results, self.in_types, strict=True)
        ]
        return tree_util.tree_unflatten(self.in_tree, grads)

    def __repr__(self) -> str:
        return f"Pullback({self.out_tree} -> {self.in_tree})"


@tree_util.register_static
@frozen
class NotNeeded:
    """In ``VJP.args_res``, an argument that is not a residual."""


@tree_util.register_static
@frozen
class NotSaveable:
    """In ``VJP.args_res``, a residual that is to be put there before the cotangents are computed."""


@tree_util.register_pytree_node_class
@define(eq=False)
class VJP:
    """The function that ``vjp`` returns: from the output's cotangent to a tuple of cotangents of the primals.

    It is a pytree.  ``args_res`` has the structure of the primals, with ``NotNeeded()`` where they are not residuals,
    and ``NotSaveable()`` where they are but may not be saved; ``opaque_residuals`` are the other residuals.
    ``in_tree`` and ``out_tree`` are the structures of the primals and of the output.

    Source: `jax.vjp <https://docs.jax.dev/en/latest/_autosummary/jax.vjp.html>`_.
    """

    pullback: Pullback
    #: for each residual its position among the primals, None for the others
    arg_positions: tuple[int | None, ...]
    args_res: Any
    opaque_residuals: list[Any]

    @staticmethod
    def of(
        pullback: Pullback, residuals: Sequence[Any], positions: Sequence[int], saveable: Sequence[bool] | None
    ) -> "VJP":
        """``positions``: those of the residuals in the graph, in which the primals come first."""
        count = len(pullback.in_types)
        arg_positions = tuple([i if i < count else None for i in positions])
        args: list[Any] = [NotNeeded()] * count
        for i, x in zip(arg_positions, residuals, strict=True):
            if i is not None:
                args[i] = x if saveable is None or saveable[i] else NotSaveable()
        opaque = [x for i, x in zip(arg_positions, residuals, strict=True) if i is None]
        return VJP(pullback, arg_positions, list(tree_util.tree_unflatten(pullback.in_tree, args)), opaque)

    @property
    def in_tree(self) -> Any:
        return self.pullback.in_tree

    @property
    def out_tree(self) -> Any:
        return self.pullback.out_tree

    @property
    def out_nzs(self) -> Any:
        """For each output, whether it depends on the primals: a tree of bools."""
        return as_tree(self.pullback.out_nonzero, self.out_tree)

    @property
    def residuals(self) -> list[Any]:
        """All residuals, in the order in which the pull-back takes them."""
        args = tree_util.tree_leaves(tuple(self.args_res), is_leaf=lambda x: isinstance(x, NotNeeded | NotSaveable))
        if len(args) != len(self.pullback.in_types):
            raise errors.MismatchError(
                f"args_res of vjp's function must have the structure of the primals, {self.in_tree}, "
                f"and has {len(args)} leaves."
            )
        absent = [i for i in self.arg_positions if i is not None and isinstance(args[i], NotSaveable)]
        if absent:
            places = tree_util.tree_unflatten(self.in_tree, range(len(args)))
            raise errors.MismatchError(
                "saveable_args kept vjp from saving primals that its function needs: "
                f"{', '.join([path_of(places, i, 'args_res') for i in absent])}.\n"
                "Way out: put them there before calling it."
            )
        opaque = iter(self.opaque_residuals)
        return [next(opaque) if i is None else args[i] for i in self.arg_positions]

    def __call__(self, *cts: Any) -> Any:
        return self.pullback(self.residuals, *cts)

    def with_refs(self, *refs: Any) -> Any:
        """The same function, with a choice for each primal's cotangent.

        Arguments:
          refs: of the structure of the primals, for each array: a ``jax.Ref``, to which the cotangent is added;
            ``jax.ad.GradValue()``, to have it returned; or ``jax.ad.DontWant()``.

        Returns:
          A function like this one, with ``jax.ad.GradRef()`` or ``jax.ad.DidntWant()`` for each cotangent that is not
          returned.

        Raises:
          MismatchError: another structure, or a reference of another type than the cotangent.

        >>> import fgrad, jax, jax.numpy as jnp
        >>> total = jax.new_ref(1.0)
        >>> y, vjp_fun = fgrad.vjp(jnp.sin, 0.0)
        >>> vjp_fun.with_refs(total)(2.0)
        (GradRef(),)
        >>> total[...]
        Array(3., dtype=float32, weak_type=True)
        """
        flat, tree = tree_util.tree_flatten(refs, is_leaf=_is_choice)
        if tree != self.in_tree:
            raise errors.MismatchError(
                "with_refs takes an entry for each array of the primals: a jax.Ref, jax.ad.GradValue() or "
                f"jax.ad.DontWant().\n  expected: {self.in_tree}\n  got:      {tree}"
            )
        for i, (ref, type) in enumerate(zip(flat, self.pullback.in_types, strict=True)):
            _check_reference(ref, type, lambda i=i: path_of(refs, i, "refs"))

        def with_refs_fun(*cts: Any) -> Any:
            cotangents = tree_util.tree_leaves(self(*cts))
            leaves = [_deliver(ref, ct) for ref, ct in zip(flat, cotangents, strict=True)]
            return tree_util.tree_unflatten(self.in_tree, leaves)

        return with_refs_fun

    def tree_flatten(self) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        return (self.args_res, self.opaque_residuals), (self.pullback, self.arg_positions)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, Any], children: tuple[Any, Any]) -> "VJP":
        return cls(*static, *children)


def _is_choice(entry: Any) -> bool:
    return isinstance(entry, jax.ref.Ref | ad.GradValue | ad.DontWant)


def _check_reference(ref: Any, type: ShapedArray, path: Any) -> None:
    if not is_reference(typeof(ref) if isinstance(ref, jax.ref.Ref) else None):
        return
    got, wanted = value_type(typeof(ref)), ShapedArray(type.shape, tangent_dtype(type.dtype))
    if (got.shape, got.dtype) != (wanted.shape, wanted.dtype):
        raise errors.mismatch(path(), wanted.str_short(), got.str_short(), "the primal")


def _deliver(ref: Any, cotangent: Any) -> Any:
    if isinstance(ref, ad.DontWant):
        return ad.DidntWant()
    if not isinstance(ref, jax.ref.Ref):
        return cotangent
    if tangent_dtype(cotangent.dtype) != jax.dtypes.float0:
        jax.ref.addupdate(ref, ..., cotangent)
    return ad.GradRef()
