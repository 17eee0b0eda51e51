"""``jvp``, ``linearize`` and ``vjp`` at references: what these hold is an argument and a result of the function.

A reference of derivatives stands beside each.  In forward mode it holds the tangent of what the reference holds.  In
reverse mode it holds the cotangent of what the reference holds in the end, and afterwards of what it held at first.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.ref
import numpy as np
from attrs import define, frozen
from jax import tree_util

from fgrad import errors
from fgrad.api.arguments import flattened, path_of
from fgrad.api.pullback import VJP, ad, zero
from fgrad.api.recorded import split_aux
from fgrad.graph.references import held_type
from fgrad.jaxcore import ShapedArray, current_trace, is_inexact, is_reference, tangent_dtype, typeof
from fgrad.record.references import Cell


@frozen(eq=False)
class Opened:
    """A function of what its references hold, which gives ``((output, what they hold in the end), aux)``.

    ``at`` says where the references stand among the flat arguments.  Where the output has references, ``returned``
    says which of these it is, None for one that the function made; the function of values gives what it holds.
    """

    fun: Callable[..., Any]
    flat: list[Any]
    tree: Any
    at: tuple[int, ...]
    has_aux: bool
    what: str
    #: those that the function must not reach in another way: what JAX gives then depends on the order of accesses
    excluded: list[Any]
    returned: dict[int, int | None]

    @staticmethod
    def of(fun: Callable[..., Any], primals: Any, has_aux: bool, what: str) -> "Opened":
        flat, tree = flattened(primals, "primals", what)
        at = tuple([i for i, x in enumerate(flat) if isinstance(x, jax.ref.Ref)])
        _check_once(flat, "primals", what)
        return Opened(fun, flat, tree, at, has_aux, what, [flat[i] for i in at], {})

    @property
    def contents(self) -> Any:
        return contents(self.flat, self.tree)

    def __call__(self, *args: Any) -> Any:
        current_trace().excluded = self.excluded
        new = tree_util.tree_leaves(args)
        cells = {i: jax.new_ref(new[i]) for i in self.at}
        result = self.fun(*tree_util.tree_unflatten(self.tree, [cells.get(i, x) for i, x in enumerate(new)]))
        out, aux = split_aux(result, self.has_aux, self.what)
        flat, tree = flattened(out, "output", f"{self.what}: the function's output")
        self.returned.clear()
        for k, x in enumerate(flat):
            if isinstance(x, Cell):
                self.returned[k] = next((i for i in self.at if cells[i] is x), None)
                flat[k] = x[...]
        return (tree_util.tree_unflatten(tree, flat), [cells[i][...] for i in self.at]), aux

    def write(self, new: Sequence[Any]) -> None:
        """Leave in the references what they hold in the end."""
        for i, value in zip(self.at, new, strict=True):
            self.flat[i][...] = value

    def along(self, tangents: Any) -> tuple[list[Any], Any]:
        """The leaves and the structure of tangents, a reference beside each that moves."""
        flat, tree = flattened(tangents, "tangents", self.what)
        _check_once(flat, "tangents", self.what)
        if tree == self.tree:
            for i in self.at:
                held = held_type(typeof(self.flat[i]))
                _check(flat[i], held, lambda i=i: path_of(tangents, i, "tangents"))
                if not is_inexact(held):
                    flat[i] = np.zeros(held.shape, jax.dtypes.float0)
        return flat, tree

    def write_along(self, along: Sequence[Any], new: Sequence[Any]) -> None:
        """Leave in the references of tangents what they hold in the end."""
        for i, derivative in zip(self.at, new, strict=True):
            if isinstance(along[i], jax.ref.Ref):
                along[i][...] = derivative

    def push(self, jvp_fun: Callable[..., Any], *tangents: Any) -> Any:
        """The linear function of ``linearize``, from that which takes values only."""
        along, tree = self.along(tangents)
        tangent, new = jvp_fun(*contents(along, tree))
        self.write_along(along, new)
        return tangent

    def with_references(self, output: Any, passed: Sequence[Any]) -> Any:
        """An output with its references; ``passed`` are those that stand beside the flat arguments."""
        flat, tree = tree_util.tree_flatten(output)
        for k, i in self.returned.items():
            flat[k] = jax.new_ref(flat[k]) if i is None else passed[i]
        return tree_util.tree_unflatten(tree, flat)


def _check_once(flat: Sequence[Any], name: str, what: str) -> None:
    """Refuse a reference at two places: what it holds in the end would be that of one of them."""
    references = [id(x) for x in flat if isinstance(x, jax.ref.Ref)]
    if len(set(references)) < len(references):
        raise ValueError(f"{what}: a reference stands at two places of {name}. Way out: pass it once.")


def contents(flat: Sequence[Any], tree: Any) -> Any:
    """A pytree with what its references hold in their places."""
    return tree_util.tree_unflatten(tree, [x[...] if isinstance(x, jax.ref.Ref) else x for x in flat])


def jvp_of_references(jvp: Callable[..., Any], fun: Any, primals: Any, tangents: Any, has_aux: bool) -> Any:
    """``jvp``, which takes values only, where some of the primals are references."""
    opened = Opened.of(fun, primals, has_aux, "jvp")
    along, along_tree = opened.along(tangents)
    opened.excluded.extend([x for x in along if isinstance(x, jax.ref.Ref)])
    values = jvp(opened, opened.contents, contents(along, along_tree), has_aux=True)
    (output, new), (tangent, new_tangents), aux = values
    opened.write(new)
    opened.write_along(along, new_tangents)
    output, tangent = opened.with_references(output, opened.flat), opened.with_references(tangent, along)
    return (output, tangent, aux) if has_aux else (output, tangent)


def linearize_of_references(linearize: Callable[..., Any], fun: Any, primals: Any, has_aux: bool) -> Any:
    """``linearize``, which takes values only, where some of the primals are references."""
    opened = Opened.of(fun, primals, has_aux, "linearize")
    (output, new), jvp_fun, aux = linearize(opened, *opened.contents, has_aux=True)
    if opened.returned:
        raise errors.reference_argument("the function's output", "linearize")
    opened.write(new)
    push = tree_util.Partial(opened.push, jvp_fun)
    return (output, push, aux) if has_aux else (output, push)


def vjp_of_references(vjp: Callable[..., Any], fun: Any, primals: Any, has_aux: bool) -> Any:
    """``vjp``, which takes values only, where some of the primals are references."""
    opened = Opened.of(fun, primals, has_aux, "vjp")
    (output, new), pull, aux = vjp(opened, *opened.contents, has_aux=True)
    if opened.returned:
        raise errors.reference_argument("the function's output", "vjp")
    opened.write(new)
    vjp_fun = VJPOfReferences(pull, opened.at)
    return (output, vjp_fun, aux) if has_aux else (output, vjp_fun)


@tree_util.register_pytree_node_class
@define(eq=False)
class VJPOfReferences:
    """What ``vjp`` returns where primals are references: ``with_refs`` takes a reference for the cotangent of each."""

    pull: VJP
    at: tuple[int, ...]

    @property
    def in_tree(self) -> Any:
        return self.pull.in_tree

    @property
    def out_tree(self) -> Any:
        return tree_util.treedef_children(self.pull.out_tree)[0]

    def __call__(self, ct: Any) -> Any:
        raise errors.reference_cotangent(self._path(self.at[0]))

    def with_refs(self, *refs: Any) -> Any:
        """The function of the output's cotangent, told where the others are.

        Arguments:
          refs: as for ``VJP.with_refs``.  For a primal that is a reference, a reference to the cotangent of what it
            holds in the end, which then holds that of what it held at first; or ``jax.ad.DontWant()``, for zeros.
        """
        flat, tree = tree_util.tree_flatten(refs, is_leaf=lambda x: isinstance(x, ad.GradValue | ad.DontWant))
        types = self.pull.pullback.in_types
        if tree == self.in_tree:
            _check_once([flat[i] for i in self.at], "refs", "vjp")
            for i in self.at:
                if not isinstance(flat[i], ad.DontWant):
                    _check(flat[i], types[i], lambda i=i: path_of(refs, i, "refs"))
        plain = [ad.GradValue() if i in self.at else x for i, x in enumerate(flat)]
        inner = self.pull.with_refs(*tree_util.tree_unflatten(tree, plain))

        def with_refs_fun(ct: Any) -> Any:
            last = [zero(types[i]) if isinstance(flat[i], ad.DontWant) else _held(flat[i], types[i]) for i in self.at]
            unwanted = ad.GradRef | ad.DidntWant
            cotangents = tree_util.tree_leaves(inner((ct, last)), is_leaf=lambda x: isinstance(x, unwanted))
            for i in self.at:
                if isinstance(flat[i], ad.DontWant):
                    cotangents[i] = ad.DidntWant()
                    continue
                if is_inexact(types[i]):
                    flat[i][...] = cotangents[i]
                cotangents[i] = ad.GradRef()
            return tree_util.tree_unflatten(self.in_tree, cotangents)

        return with_refs_fun

    def _path(self, i: int) -> str:
        return path_of(tree_util.tree_unflatten(self.in_tree, range(self.in_tree.num_leaves)), i, "primals")

    def tree_flatten(self) -> tuple[tuple[VJP], tuple[int, ...]]:
        return (self.pull,), self.at

    @classmethod
    def tree_unflatten(cls, at: tuple[int, ...], children: tuple[VJP]) -> "VJPOfReferences":
        return cls(*children, at)


def _held(reference: Any, type: ShapedArray) -> Any:
    return reference[...] if is_inexact(type) else zero(type)


def _check(reference: Any, held: ShapedArray, path: Callable[[], str]) -> None:
    """Refuse what is no reference to derivatives of ``held``; there is nothing in one to those of integers."""
    expected = ShapedArray(held.shape, tangent_dtype(held.dtype))
    got = typeof(reference) if not isinstance(reference, ad.GradValue) else None
    inner = None if got is None else held_type(got)
    fits = inner is not None and inner.shape == expected.shape and inner.dtype == expected.dtype
    if fits and (is_reference(got) or not is_inexact(held)):
        return
    got_text = "GradValue()" if got is None else got.str_short()
    raise errors.mismatch(path(), f"Ref{{{expected.str_short()}}}", got_text, "the primal")
