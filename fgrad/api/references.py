"""``jvp``, ``linearize`` and ``vjp`` at references, whose contents are both an argument and a result of the function.

Each has a reference to a derivative.  In forward mode that holds the tangent of the contents.  In reverse mode it holds
first the cotangent of the final contents, and afterwards that of the initial contents.
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
from fgrad.graph.references import value_type
from fgrad.jaxcore import ShapedArray, current_trace, tangent_dtype, typeof
from fgrad.jaxtypes import is_inexact, is_reference
from fgrad.record.references import Cell


@frozen(eq=False)
class OnContents:
    """A function as one of its references' contents, which returns ``((output, final contents), aux)``.

    ``positions`` are those of the references among the flat arguments.  A reference in the output is replaced by its
    contents; ``returned`` has its position among the arguments, or None if the function created it.
    """

    fun: Callable[..., Any]
    flat: list[Any]
    tree: Any
    positions: tuple[int, ...]
    has_aux: bool
    what: str
    #: references that the function must not also capture: JAX's result would depend on the order of accesses
    excluded: list[Any]
    returned: dict[int, int | None]

    @staticmethod
    def of(fun: Callable[..., Any], primals: Any, has_aux: bool, what: str) -> "OnContents":
        flat, tree = flattened(primals, "primals", what)
        positions = tuple([i for i, x in enumerate(flat) if isinstance(x, jax.ref.Ref)])
        _check_distinct(flat, "primals", what)
        return OnContents(fun, flat, tree, positions, has_aux, what, [flat[i] for i in positions], {})

    @property
    def contents(self) -> Any:
        return contents(self.flat, self.tree)

    def __call__(self, *args: Any) -> Any:
        current_trace().excluded = self.excluded
        new = tree_util.tree_leaves(args)
        cells = {i: jax.new_ref(new[i]) for i in self.positions}
        result = self.fun(*tree_util.tree_unflatten(self.tree, [cells.get(i, x) for i, x in enumerate(new)]))
        out, aux = split_aux(result, self.has_aux, self.what)
        flat, tree = flattened(out, "output", f"{self.what}: the function's output")
        self.returned.clear()
        for k, x in enumerate(flat):
            if isinstance(x, Cell):
                self.returned[k] = next((i for i in self.positions if cells[i] is x), None)
                flat[k] = x[...]
        given = {id(cells[i]): self.flat[i] for i in self.positions}
        aux = tree_util.tree_map(lambda x: given.get(id(x), x), aux)
        return (tree_util.tree_unflatten(tree, flat), [cells[i][...] for i in self.positions]), aux

    def write(self, new: Sequence[Any]) -> None:
        """Write the final contents to the references."""
        for i, value in zip(self.positions, new, strict=True):
            self.flat[i][...] = value

    def flat_tangents(self, tangents: Any) -> tuple[list[Any], Any]:
        """The leaves and the structure of the tangents; that of a reference is a reference."""
        flat, tree = flattened(tangents, "tangents", self.what)
        _check_distinct(flat, "tangents", self.what)
        if tree == self.tree:
            for i in self.positions:
                type = value_type(typeof(self.flat[i]))
                _check(flat[i], type, lambda i=i: path_of(tangents, i, "tangents"))
                if not is_inexact(type):
                    flat[i] = np.zeros(type.shape, jax.dtypes.float0)
        return flat, tree

    def write_tangents(self, tangents: Sequence[Any], new: Sequence[Any]) -> None:
        """Write the tangents of the final contents to the references among the flat tangents."""
        for i, tangent in zip(self.positions, new, strict=True):
            if isinstance(tangents[i], jax.ref.Ref):
                tangents[i][...] = tangent

    def push(self, jvp_fun: Callable[..., Any], *tangents: Any) -> Any:
        """The linear function of ``linearize``; ``jvp_fun`` is that of contents."""
        flat, tree = self.flat_tangents(tangents)
        tangent, new = jvp_fun(*contents(flat, tree))
        self.write_tangents(flat, new)
        return tangent

    def with_references(self, output: Any, args: Sequence[Any]) -> Any:
        """An output with its references, which are new or among the flat arguments (or their tangents) ``args``."""
        flat, tree = tree_util.tree_flatten(output)
        for k, i in self.returned.items():
            flat[k] = jax.new_ref(flat[k]) if i is None else args[i]
        return tree_util.tree_unflatten(tree, flat)


def _check_distinct(flat: Sequence[Any], name: str, what: str) -> None:
    """Refuse a reference that occurs twice: it could hold the final contents of only one occurrence."""
    references = [id(x) for x in flat if isinstance(x, jax.ref.Ref)]
    if len(set(references)) < len(references):
        raise ValueError(f"{what}: a reference occurs twice in {name}. Way out: pass it once.")


def contents(flat: Sequence[Any], tree: Any) -> Any:
    """A pytree with references replaced by their contents."""
    return tree_util.tree_unflatten(tree, [x[...] if isinstance(x, jax.ref.Ref) else x for x in flat])


def jvp_of_references(jvp: Callable[..., Any], fun: Any, primals: Any, tangents: Any, has_aux: bool) -> Any:
    """``jvp``, which takes values only, for primals with references."""
    function = OnContents.of(fun, primals, has_aux, "jvp")
    flat, tree = function.flat_tangents(tangents)
    function.excluded.extend([x for x in flat if isinstance(x, jax.ref.Ref)])
    values = jvp(function, function.contents, contents(flat, tree), has_aux=True)
    (output, new), (tangent, new_tangents), aux = values
    function.write(new)
    function.write_tangents(flat, new_tangents)
    output, tangent = function.with_references(output, function.flat), function.with_references(tangent, flat)
    return (output, tangent, aux) if has_aux else (output, tangent)


def linearize_of_references(linearize: Callable[..., Any], fun: Any, primals: Any, has_aux: bool) -> Any:
    """``linearize``, which takes values only, for primals with references."""
    function = OnContents.of(fun, primals, has_aux, "linearize")
    (output, new), jvp_fun, aux = linearize(function, *function.contents, has_aux=True)
    if function.returned:
        raise errors.reference_argument("the function's output", "linearize")
    function.write(new)
    push = tree_util.Partial(function.push, jvp_fun)
    return (output, push, aux) if has_aux else (output, push)


def vjp_of_references(vjp: Callable[..., Any], fun: Any, primals: Any, has_aux: bool) -> Any:
    """``vjp``, which takes values only, for primals with references."""
    function = OnContents.of(fun, primals, has_aux, "vjp")
    (output, new), pull, aux = vjp(function, *function.contents, has_aux=True)
    if function.returned:
        raise errors.reference_argument("the function's output", "vjp")
    function.write(new)
    vjp_fun = VJPOfReferences(pull, function.positions)
    return (output, vjp_fun, aux) if has_aux else (output, vjp_fun)


@tree_util.register_pytree_node_class
@define(eq=False)
class VJPOfReferences:
    """The result of ``vjp`` for primals with references; ``with_refs`` takes a reference to the cotangent of each."""

    pull: VJP
    positions: tuple[int, ...]

    @property
    def in_tree(self) -> Any:
        return self.pull.in_tree

    @property
    def out_tree(self) -> Any:
        return tree_util.treedef_children(self.pull.out_tree)[0]

    def __call__(self, ct: Any) -> Any:
        raise errors.reference_cotangent(self._path(self.positions[0]))

    def with_refs(self, *refs: Any) -> Any:
        """The function of the output's cotangent, with references for the other cotangents.

        Arguments:
          refs: as for ``VJP.with_refs``.  For a primal that is a reference, a reference to the cotangent of its final
            contents, to which that of its initial contents is written; or ``jax.ad.DontWant()``, for zeros.
        """
        flat, tree = tree_util.tree_flatten(refs, is_leaf=lambda x: isinstance(x, ad.GradValue | ad.DontWant))
        types = self.pull.pullback.in_types
        if tree == self.in_tree:
            _check_distinct([flat[i] for i in self.positions], "refs", "vjp")
            for i in self.positions:
                if not isinstance(flat[i], ad.DontWant):
                    _check(flat[i], types[i], lambda i=i: path_of(refs, i, "refs"))
        plain = [ad.GradValue() if i in self.positions else x for i, x in enumerate(flat)]
        inner = self.pull.with_refs(*tree_util.tree_unflatten(tree, plain))

        def with_refs_fun(ct: Any) -> Any:
            last = [
                zero(types[i]) if isinstance(flat[i], ad.DontWant) else _read(flat[i], types[i]) for i in self.positions
            ]
            unwanted = ad.GradRef | ad.DidntWant
            cotangents = tree_util.tree_leaves(inner((ct, last)), is_leaf=lambda x: isinstance(x, unwanted))
            for i in self.positions:
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
        return (self.pull,), self.positions

    @classmethod
    def tree_unflatten(cls, positions: tuple[int, ...], children: tuple[VJP]) -> "VJPOfReferences":
        return cls(*children, positions)


def _read(reference: Any, type: ShapedArray) -> Any:
    return reference[...] if is_inexact(type) else zero(type)


def _check(reference: Any, held: ShapedArray, path: Callable[[], str]) -> None:
    """Refuse anything but a reference to a derivative of ``held``, for integers also anything of that type."""
    expected = ShapedArray(held.shape, tangent_dtype(held.dtype))
    got = typeof(reference) if not isinstance(reference, ad.GradValue) else None
    inner = None if got is None else value_type(got)
    fits = inner is not None and inner.shape == expected.shape and inner.dtype == expected.dtype
    if fits and (is_reference(got) or not is_inexact(held)):
        return
    got_text = "GradValue()" if got is None else got.str_short()
    raise errors.mismatch(path(), f"Ref{{{expected.str_short()}}}", got_text, "the primal")
