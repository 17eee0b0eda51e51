"""``torch.pure``: a program on mutable tensors as a function from state to state.

NOTE [One structure before and after]
The first step of a training makes what later steps read: an optimiser's state, sometimes ``.grad``.  A function for
``lax.scan`` has one structure.  So the program is captured twice, the second time from the state that the first call
leaves, and it is the second graph that becomes the function.  What the first call made is in the state from the start,
with the values from which the second graph does what the first would have done: the optimiser knows them
(``Optimizer._state_before``), and gradients are zeros.
"""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from attrs import define, frozen
from jax import tree_util

from fgrad.api.graphs import Graph, flat_function
from fgrad.jaxcore import as_typed, widely
from fgrad.mutable.capture.capture import Capture, Cell, Number, Stream
from fgrad.mutable.capture.world import Place, World
from fgrad.mutable.operation.capture import flatten, is_tensor
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.tensor.tensor_type import type_of
from fgrad.mutable.values.evaluation import as_jax, constant
from fgrad.passes.simplify import simplify
from fgrad.torch.compiler.reached import world_of
from fgrad.torch.compiler.step import Step
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.optim.optimizer import Optimizer

MADE = (
    "torch.pure: {path} is made by the first call, and what it is before that is not known. Way out: call the function "
    "once, then make it pure."
)
CHANGED = (
    "torch.pure: the function changes {path} from {before!r} to {after!r}, a value of Python's that would stand still "
    "in a pure function. Way out: do that outside of the function, or keep it in a tensor."
)


@frozen
class Leaf:
    """One array of the state: where it is, and what it belongs to in the live objects.

    Attributes:
      place: its path and keys.
      read: the live value now.
      write: puts another one there.
    """

    place: Place
    read: Callable[[], Any]
    write: Callable[[np.ndarray], None]


def pure(function: Callable[..., Any]) -> Callable[..., tuple["Pure", Any]]:
    """A step of training as a pure function, and the state that it begins with.

    Arguments:
      function: a function of tensors that may write to modules, optimisers and whatever it can reach.

    Returns:
      A function of the same arguments that gives ``(pure_function, state)``.  ``pure_function(state, *args)`` gives
      ``(state, result)``, with arrays for tensors.  The state is a pytree with the keys of the ``state_dict``s:
      ``state["model"]["0.weight"]``, ``state["optimizer"]["state"][0]["exp_avg"]``, ``state["generator"]``.  It has one
      structure before and after, so that ``jax.lax.scan`` takes the function, as ``jax.jit``, ``jax.grad``,
      ``jax.vmap`` do.  The live objects stay as they were; ``pure_function.load(state)`` puts a state into them.

    Raises:
      CaptureError: the function needs a number that depends on its inputs.
      RuntimeError: it changes values of Python's, or makes state of which nobody knows what it was before.

    >>> import fgrad.torch as torch, jax, jax.numpy as jnp
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.ones_(model.weight)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    >>> def step(x):
    ...     optimizer.zero_grad()
    ...     loss = model(x).square().mean()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss
    >>> function, state = torch.pure(step)(torch.ones(1, 1))
    >>> state, losses = jax.lax.scan(function, state, jnp.ones((3, 1, 1)))
    >>> losses
    Array([1.  , 0.25, 0.  ], dtype=float32)
    >>> function.load(state)
    >>> model.weight
    Parameter containing:
    tensor([[-0.2500]], requires_grad=True)
    """

    def of(*args: Any, **kwargs: Any) -> tuple[Pure, Any]:
        first = Capture(world_of(function, args, kwargs))
        try:
            first.run(function, args, kwargs)
            check_unchanged(first.world)
            second = Capture(world_of(function, args, kwargs))
            try:
                result = second.run(function, args, kwargs)
                step = Step(second, world_of(function, args, kwargs), result)
                check_unchanged(second.world)
                make = _made(step, first)
            finally:
                second.put_back()
        finally:
            first.put_back()
        made = make((args, kwargs))
        return made, made.state()

    return of


@define(eq=False)
class Pure:
    """The function ``(state, *args) -> (state, result)`` that ``torch.pure`` gives.

    Attributes:
      graph: from the leaves of the state and the arguments to those of the next state and the result.
    """

    graph: Graph
    _leaves: list[Leaf]
    _tree: Any
    _arguments: Any
    _static: tuple[Any, ...]
    _result: Any

    def __call__(self, state: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """The next state and the result.

        Raises:
          ValueError: the state or the arguments have another structure than those that the function was made with.
          GraphArgumentError: an array has another shape or type; the message has its name.
        """
        values = self._values(state)
        leaves, structure = flatten((args, kwargs))
        if structure != self._arguments:
            raise ValueError(
                f"torch.pure: the arguments have the structure {structure}, and the function was made with "
                f"{self._arguments}."
            )
        given = []
        for x, static in zip(leaves, self._static, strict=True):
            if static is ARRAY:
                given.append(as_jax(x._value()) if is_tensor(x) else x)
            elif x is not static and x != static:
                raise ValueError(
                    f"torch.pure: an argument is {x!r}, and the function was made with {static!r}. What is no array is "
                    "part of the function; make it anew, or pass a tensor."
                )
        outs = self.graph(*values, *given)
        after = [_as_given(new, old) for new, old in zip(outs, values, strict=False)]
        results = [_narrow(x) for x in outs[len(values) :]]
        return tree_util.tree_unflatten(self._tree, after), self._result(results)

    def state(self) -> Any:
        """The state of the live objects now."""
        return tree_util.tree_unflatten(self._tree, [_narrow(as_jax(leaf.read())) for leaf in self._leaves])

    def load(self, state: Any) -> None:
        """Put a state into the live objects: all of it or, where a value does not fit, nothing.

        Raises:
          ValueError: it has another structure, or an array another shape.
        """
        values = [np.asarray(x) for x in self._values(state)]
        for leaf, value, type in zip(self._leaves, values, self.graph.in_types, strict=False):
            if value.shape != type.shape:
                raise ValueError(
                    f"torch.pure: {leaf.place.path} has the shape {list(type.shape)}, and the state "
                    f"{list(value.shape)}."
                )
        for leaf, value, type in zip(self._leaves, values, self.graph.in_types, strict=False):
            leaf.write(constant(value.astype(type.dtype)))

    def _values(self, state: Any) -> list[Any]:
        values, tree = tree_util.tree_flatten(state)
        if tree != self._tree:
            raise ValueError(f"torch.pure: the state has the structure {tree}, and should have {self._tree}.")
        return values


class _Array:
    """Marks the arguments that are arrays."""


ARRAY = _Array()


# -- making it -------------------------------------------------------------------------------------------------------


def _made(step: Step, first: Capture) -> Callable[[Any], Pure]:
    """The function of a second call; it is made when everything has been put back."""
    tape = step.capture.tape
    # the values now: the tensors are put back before the function is made
    results = [(name, tensor._value()) for name, tensor in step.results()]
    kept = [x for x in step.inputs if not _is_argument(x.place)]
    arguments = [x for x in step.inputs if _is_argument(x.place)]
    ends = {place.path: tensor for tensor, place in step.after.tensors.items()}
    after = {x: _after(x, ends, step) for x in kept}
    used = tape.used([value for _, value in results] + [after[x] for x in kept if after[x] is not x.input])
    kept = [x for x in kept if x.input.number in used or after[x] is not x.input or _is_state(x, step.capture.world)]
    kept = [x for x in kept if x.input.number in used or x.place.keys[0] != "grad"]
    leaves = [_leaf(x, first, step.capture.world) for x in kept]
    tree = _nested([leaf.place for leaf in leaves])
    order, structure = tree_util.tree_flatten(tree)
    kept, leaves = [kept[i] for i in order], [leaves[i] for i in order]
    cells = {x.storage: x for x in arguments if isinstance(x, Cell)}
    shape = _result(step.result)

    def make(call: Any) -> Pure:
        flat, arguments_tree = flatten(call)
        tensors = [x for x in flat if is_tensor(x)]
        ins = [cells[x._storage] for x in tensors]
        outs = [after[x] for x in kept] + [value for _, value in results]
        graph = simplify(tape.closed([x.input for x in (*kept, *ins)], outs))
        names = tuple([leaf.place.path for leaf in leaves])
        out_names = tuple([f"{name} (written)" for name in names]) + tuple([name for name, _ in results])
        whole = flat_function(graph, names + tuple([x.place.path for x in ins]), out_names)
        static = tuple([ARRAY if is_tensor(x) else x for x in flat])
        return Pure(whole, leaves, structure, arguments_tree, static, shape)

    return make


def _is_argument(place: Place) -> bool:
    return place.keys[0] in ("args", "kwargs")


def _is_state(x: Any, world: World) -> bool:
    """Whether something stands in a module or an optimiser."""
    if isinstance(x, Stream):
        return x.written
    holders = [place.keys for place, held in world.objects.values() if isinstance(held, Module | Optimizer)]
    return any(x.place.keys[: len(keys)] == keys for keys in holders)


def _after(x: Any, ends: dict[str, Tensor], step: Step) -> Any:
    """What stands in the place of an input when the function has returned."""
    end = ends.get(x.place.path)
    if not isinstance(x, Cell) or end is None or end._storage is x.storage:
        return x.input if isinstance(x, Number) else x.value
    return end._storage.array


def _result(result: Any) -> Callable[[list[Any]], Any]:
    """What makes a result of its arrays; what is no tensor comes back as it is."""
    leaves, structure = flatten(result)
    fixed = [None if is_tensor(x) else x for x in leaves]
    traced = [is_tensor(x) for x in leaves]

    def made(arrays: list[Any]) -> Any:
        found = iter(arrays)
        return tree_util.tree_unflatten(
            structure, [next(found) if t else x for t, x in zip(traced, fixed, strict=True)]
        )

    return made


def _nested(places: Iterable[Place]) -> Any:
    """The places as a tree by their keys, with their numbers for leaves."""
    tree: dict[Any, Any] = {}
    for number, place in enumerate(places):
        *path, last = place.keys
        at = tree
        for key in path:
            at = at.setdefault(key, {})
            if not isinstance(at, dict):
                break
        if isinstance(at, dict) and last not in at:
            at[last] = number
        else:
            tree[place.path] = number
    for held in tree.values():
        groups = held.get("param_groups") if isinstance(held, dict) else None
        if groups is not None and sorted(groups) == list(range(len(groups))):
            held["param_groups"] = [groups[i] for i in range(len(groups))]
    return tree


def _leaf(x: Any, first: Capture, world: World) -> Leaf:
    """An input as a part of the state."""
    if isinstance(x, Stream):
        return Leaf(x.place, x.source.saved, x.source.restore)
    if isinstance(x, Number):
        return Leaf(x.place, lambda: np.asarray(x.holder[x.key]), lambda value: _set_number(x.holder, x.key, value))
    storage = x.storage
    holder = next(tensor for tensor in world.tensors if tensor._storage is storage)
    if storage in first.cells:
        live = first.cells[storage].place
        tensor = next(t for t in first.world.tensors if t._storage is storage)
        return Leaf(live, lambda: storage.array, lambda value: _overwrite(tensor, value))
    return _made_by_the_first(x, holder, world)


def _set_number(holder: dict[Any, Any], key: Any, value: np.ndarray) -> None:
    """Set a number, unless it is the one that stands there, rounded to the type of the state."""
    if np.float32(holder[key]) != np.float32(value):
        holder[key] = float(value)


def _overwrite(tensor: Tensor, value: Any) -> None:
    """Point a tensor's storage to other elements, and count the write."""
    tensor._storage.array = value
    tensor._bump("torch.pure", None)


def _made_by_the_first(x: Cell, made: Tensor, world: World) -> Leaf:
    """A part of the state that the first call makes: a gradient, or a value of an optimiser's state."""
    owner = next((tensor for tensor in world.tensors if tensor._grad is made), None)
    if owner is not None:
        return _gradient_leaf(x.place, owner, made)
    for _, optimizer in world.objects.values():
        if not isinstance(optimizer, Optimizer):
            continue
        for group in optimizer.param_groups:
            for param in group["params"]:
                state = optimizer.state.get(param) or {}
                key = next((key for key, value in state.items() if value is made), None)
                if key is not None:
                    return _state_leaf(x.place, optimizer, group, param, key, made._type)
    raise RuntimeError(MADE.format(path=x.place.path))


def _gradient_leaf(place: Place, owner: Tensor, made: Tensor) -> Leaf:
    zeros, strides = np.zeros(made._storage.array.shape, made._type.dtype.numpy), made._storage.strides

    def write(value: Any) -> None:
        owner._grad = new_tensor(value, type_of(value), strides)

    return Leaf(place, lambda: zeros if owner._grad is None else owner._grad._storage.array, write)


def _state_leaf(place: Place, optimizer: Any, group: Any, param: Tensor, key: str, type: Any) -> Leaf:
    def before() -> Any:
        kept = optimizer.state.get(param) or {}
        return (kept[key] if key in kept else initial()[key])._value()

    def initial() -> dict[str, Tensor]:
        like = param.detach().clone()
        like.grad = like.new_zeros(like.shape)  # type: ignore[attr-defined]
        found = optimizer._state_before(group, like)
        if key not in found:
            raise RuntimeError(MADE.format(path=place.path))
        return found

    def write(value: Any) -> None:
        kept = optimizer.state[param]
        if key in kept:
            _overwrite(kept[key], value)
        else:
            kept[key] = new_tensor(value, type)

    return Leaf(place, before, write)


def check_unchanged(world: World) -> None:
    """Raise an error if a function has changed what is no tensor and lives on.

    Raises:
      RuntimeError: it has; the message says what.
    """
    for container, before in world.changed():
        if not isinstance(container, dict):
            continue
        for key, value in container.items():
            old = before.get(key)
            counts = value.__class__ in (int, float) and old.__class__ in (int, float)
            if counts and value != old and not str(key).startswith("_"):
                raise RuntimeError(CHANGED.format(path=_path_of(world, container, key), before=old, after=value))


def _path_of(world: World, container: Any, key: Any) -> str:
    for place, held in world.objects.values():
        if held is container:
            return place.item(key).path
        if getattr(held, "__dict__", None) is container:
            return place.attribute(key).path
    return repr(key)


# -- types -----------------------------------------------------------------------------------------------------------


def _as_given(new: Any, old: Any) -> Any:
    """A value in the type in which the state came."""
    dtype = as_typed(old).dtype if hasattr(old, "dtype") else jax.numpy.result_type(old)
    return new if new.dtype == dtype else widely(jax.lax.convert_element_type, new, dtype)


def _narrow(value: Any) -> Any:
    """A value in the type that JAX has for it: of 32 bits, unless its flag is on."""
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    return value if value.dtype == dtype else widely(jax.lax.convert_element_type, value, dtype)
