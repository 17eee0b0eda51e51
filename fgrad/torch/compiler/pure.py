"""``torch.pure``: a program on mutable tensors as a function from state to state.

NOTE [One structure before and after]
The first training step creates what later steps read: an optimiser's state, sometimes ``.grad``.  But ``lax.scan``
needs the same structure before and after.  So the program is captured twice, the second time from the state that the
first call leaves, and the second graph becomes the function.  What the first call creates is in the state from the
start, with initial values from which the second graph does what the first would have done: the optimiser knows them
(``Optimizer._state_before``), and gradients are zeros.  If there are no such values (a velocity with dampening, an
average created by the user's step), both graphs are kept, and ``state["begun"]`` chooses between them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from attrs import define
from jax import tree_util
from jax.sharding import PartitionSpec

from fgrad.api.graphs import Graph, flat_function
from fgrad.errors import CaptureError
from fgrad.jaxcore import as_typed, with_x64
from fgrad.mutable.capture.capture import Capture, GeneratorInput, NumberInput, StorageInput
from fgrad.mutable.capture.snapshot import Location, Snapshot
from fgrad.mutable.operation.capture import flatten, is_tensor
from fgrad.mutable.tensor.tensor import Tensor, new_tensor
from fgrad.mutable.values.evaluation import as_jax, constant
from fgrad.seam import Tracer
from fgrad.torch.compiler.branches import Branch, begun_or_not, reordered
from fgrad.torch.compiler.containers import put_together, take_apart
from fgrad.torch.compiler.entries import Entry, Memory, entries_between
from fgrad.torch.compiler.leaves import Begun, Leaf, Unknown, input_of_first, leaf_of, tree_of
from fgrad.torch.compiler.numbered import numbered
from fgrad.torch.compiler.python_state import check_unchanged, is_same
from fgrad.torch.compiler.reachable import snapshot_of
from fgrad.torch.compiler.step import Step, check_shown, put_back, step_of
from fgrad.torch.compiler.switches import Switches
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.optim.lbfgs import LBFGS
from fgrad.torch.optim.optimizer import Optimizer

STRUCTURES = (
    "torch.pure: the first call returns {first}, and the second {second}. A pure function has one structure. Way out: "
    "call the function once, then make it pure."
)
BY_NUMBERS = (
    "torch.pure: LBFGS decides by the values of numbers, which a pure function does not know. Ways out: make the "
    "closure pure, which gives the loss and puts the gradients into the state, and minimise with a JAX library "
    "(optax.lbfgs); or step outside of the function.\n{error}"
)
KEPT = "torch.pure: {path} is a view of an argument after the call. Way out: keep a copy (x.clone())."
TRACED = (
    "torch.pure: an argument is traced, and the function was made with {static!r}. What is no array is part of the "
    "function. Ways out: leave it out of what is traced (functools.partial; static_argnames of jax.jit), or make the "
    "function with a tensor."
)


def pure(function: Callable[..., Any]) -> Callable[..., tuple["Pure", Any]]:
    """A training step as a pure function, and its initial state.

    Arguments:
      function: a function of tensors that may write to modules, optimisers and whatever it can reach.

    Returns:
      A function of the same arguments that gives ``(pure_function, state)``.  ``pure_function(state, *args)`` gives
      ``(state, result)``, with arrays for tensors.  The state is a pytree with the keys of each ``state_dict``:
      ``state["model"]["0.weight"]``, ``state["optimizer"]["state"][0]["exp_avg"]``, ``state["generator"]``.  It has one
      structure before and after, so that ``jax.lax.scan`` takes the function, as ``jax.jit``, ``jax.grad``,
      ``jax.vmap`` do.  Its derivative is that of the arithmetic: ``detach`` and ``no_grad`` in the step do not cut it
      (``functionalize`` is for that).  The live objects stay as they were; ``pure_function.load(state)`` puts a state
      into them.

    Raises:
      CaptureError: the function needs a number that depends on its inputs, or can reach a NumPy array in the memory of
        a tensor that it writes.
      RuntimeError: it changes Python values, or creates state without a known initial value.

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
        args, kwargs = _in_memory_of_their_own((args, kwargs))
        first, switches = Capture(snapshot_of(function, args, kwargs)), Switches.now()
        try:
            first_values = _values_of(_run_first(first, function, args, kwargs))
            check_unchanged(first.snapshot, again=False)
            check_shown(first)
            later_args, later_kwargs = _without_kept(first, function, args, kwargs)
            second = Capture(snapshot_of(function, later_args, later_kwargs))
            try:
                result = second.run(function, later_args, later_kwargs)
                step = step_of(second, function, later_args, later_kwargs, result)
                check_unchanged(second.snapshot, again=True)
                make = _pure_function(step, first, first_values)
            finally:
                put_back(second, switches)
        finally:
            put_back(first, switches)
        pure_function = make((args, kwargs), (later_args, later_kwargs))
        return pure_function, pure_function.state()

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
          ValueError: the state or the arguments have another structure than those that the function was made with, or
            what is no array has another value or is traced.
          GraphArgumentError: an array has another shape or type; the message has its name.
        """
        values = self._values(state)
        leaves, structure = flatten((args, kwargs))
        if structure != self._arguments:
            raise ValueError(
                f"torch.pure: the arguments have the structure {structure}, and the function was made with "
                f"{self._arguments}."
            )
        arrays = []
        for x, static in zip(leaves, self._static, strict=True):
            if static is ARRAY:
                arrays.append(as_jax(x._value()) if is_tensor(x) else x)
            elif isinstance(x, Tracer):
                raise ValueError(TRACED.format(static=static))
            elif not is_same(x, static):
                raise ValueError(
                    f"torch.pure: an argument is {x!r}, and the function was made with {static!r}. What is no array is "
                    "part of the function; make it anew, or pass a tensor."
                )
        outs = _by_automatic_sharding(self.graph, [*values, *arrays], len(values))
        after = [_cast_like(new, old) for new, old in zip(outs, values, strict=False)]
        results = [_narrow(x) for x in outs[len(values) :]]
        return tree_util.tree_unflatten(self._tree, after), self._result(results)

    def state(self) -> Any:
        """The current state of the live objects, in arrays of its own, which may be donated."""
        return tree_util.tree_unflatten(self._tree, [_narrow(_unaliased(leaf.read())) for leaf in self._leaves])

    def load(self, state: Any) -> None:
        """Store a state in the live objects: all of it or, if a value does not fit, nothing.

        Raises:
          ValueError: it has another structure, or an array another shape.
        """
        values = [np.asarray(x) for x in self._values(state)]
        for leaf, value, type in zip(self._leaves, values, self.graph.in_types, strict=False):
            if value.shape != type.shape:
                raise ValueError(
                    f"torch.pure: {leaf.location.path} has the shape {list(type.shape)}, and the state "
                    f"{list(value.shape)}."
                )
        begun = all(value for leaf, value in zip(self._leaves, values, strict=True) if isinstance(leaf, Begun))
        for leaf, value, type in zip(self._leaves, values, self.graph.in_types, strict=False):
            if begun or not isinstance(leaf, Unknown):
                leaf.write(constant(value.astype(type.dtype)))
            elif leaf.is_there():
                leaf.forget()

    def _values(self, state: Any) -> list[Any]:
        values, tree = tree_util.tree_flatten(numbered(state))
        if tree != self._tree:
            raise ValueError(f"torch.pure: the state has the structure {tree}, and should have {self._tree}.")
        return values


class _Array:
    """Marks the arguments that are arrays."""


ARRAY = _Array()


# -- making it -------------------------------------------------------------------------------------------------------


def _run_first(first: Capture, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run the first call.

    Raises:
      CaptureError: it needs a number.
    """
    try:
        return first.run(function, args, kwargs)
    except CaptureError as error:
        if any(isinstance(obj, LBFGS) for _, obj in first.snapshot.objects.values()):
            raise CaptureError(BY_NUMBERS.format(error=error)) from None
        raise


def _in_memory_of_their_own(call: Any) -> Any:
    """Arguments without views and other layouts: the array in the place of ``X[:8]`` is that of its elements."""
    leaves = list[Any]()
    structure = take_apart(call, leaves)
    apart = {id(x): new_tensor(x._value(), x._type) for x in leaves if _is_part(x)}
    if not apart:
        return call
    for x in leaves:
        if id(x) in apart:
            apart[id(x)]._requires_grad = x._requires_grad
    return put_together(structure, iter([apart.get(id(x), x) for x in leaves]))


def _is_part(x: Any) -> bool:
    """Whether a tensor without history has other elements than its memory, or in another order."""
    return is_tensor(x) and x.__class__ is Tensor and x._node is None and (x._geometry or x._storage.home) is not None


def _without_kept(first: Capture, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Arguments for the second call, which are no state: others for those that the first call has kept.

    Raises:
      RuntimeError: it has kept a view.
    """
    leaves, before = list[Any](), first.snapshot.tensors
    structure = take_apart((args, kwargs), leaves)
    arguments = {x for x in leaves if is_tensor(x)}
    storages = {x._storage for x in arguments}
    for x, location in snapshot_of(function, args, kwargs).tensors.items():
        is_kept = x._storage in storages and not _is_argument(location) and (x not in before or _is_argument(before[x]))
        if is_kept and (x not in arguments or x._view is not None):
            raise RuntimeError(KEPT.format(path=location.path))
        if is_kept:
            other = new_tensor(first.storages[x._storage].array, x._type, x._storage.strides)
            other._requires_grad = x._requires_grad
            leaves = [other if each is x else each for each in leaves]
    return put_together(structure, iter(leaves))


def _values_of(result: Any) -> list[Any]:
    leaves: list[Any] = []
    take_apart(result, leaves)
    return [x._value() for x in leaves if is_tensor(x)]


def _pure_function(step: Step, first: Capture, first_values: list[Any]) -> Callable[[Any, Any], Pure]:
    """The pure function of a second call and, where needed, of the first, which returned some values.

    What is returned makes it, once everything has been restored.
    """
    tape = step.capture.tape
    results = [(name, tensor._value()) for name, tensor in step.results()]
    inputs = [x for x in step.inputs if not _is_argument(x.location)]
    ends = {location.path: tensor for tensor, location in step.after.tensors.items()}
    entries = entries_between(first.snapshot, step.capture.snapshot)
    after = {x: _final_value(x, ends, step) for x in inputs}
    memory = Memory.of(first.snapshot), Memory.of(step.capture.snapshot)
    before = {x: _in_first_call(x, first, step.capture, entries, memory) for x in inputs}
    used = tape.used([value for _, value in results] + [after[x] for x in inputs if after[x] is not x.input])

    def is_kept(x: Any, read: bool) -> bool:
        if read:
            return True
        is_changed = after[x] is not x.input or _is_state(x, step.capture.snapshot)
        return is_changed and x.location.keys[0] != "grad"

    state = [x for x in inputs if is_kept(x, x.input.number in used)]
    leaves = [leaf_of(x, first, step.capture.snapshot, entries, memory) for x in state]
    unknown = [leaf for leaf in leaves if isinstance(leaf, Unknown)]
    if unknown:
        _check_same_types(first_values, [value for _, value in results])
        values = [*first_values, *[before[x][1] for x in state if before[x][1] is not None]]
        early = first.tape.used([x for x in values if isinstance(x, Tracer)])
        state = [x for x in inputs if x in state or (before[x][0] is not None and before[x][0].number in early)]
        leaves = [*[leaf_of(x, first, step.capture.snapshot, entries, memory) for x in state], Begun.of(unknown)]
    tree = tree_of([leaf.location for leaf in leaves])
    order, structure = tree_util.tree_flatten(tree)
    shape = _result(step.result)
    cells = [{x.storage: x.input for x in each.storages.values()} for each in (first, step.capture)]

    def make(call: Any, later_call: Any) -> Pure:
        flat, arguments_tree = flatten(call)
        storages, later_storages = [[x._storage for x in flatten(y)[0] if is_tensor(x)] for y in (call, later_call)]
        names = [first.storages[storage].location.path for storage in storages]
        later = Branch.of(
            tape,
            [*[x.input for x in state], *[cells[1][s] for s in later_storages]],
            [*[after[x] for x in state], *[value for _, value in results]],
        )
        graph = later.graph
        if unknown:
            beginning = Branch.of(
                first.tape,
                [*[before[x][0] for x in state], *[cells[0][s] for s in storages]],
                [*[before[x][1] for x in state], *first_values],
            )
            graph = begun_or_not(beginning, later, len(state))
        count = len(leaves)
        ins = [*order, *range(count, count + len(storages))]
        graph = reordered(graph, ins, [*order, *range(count, count + len(results))])
        ordered = [leaves[i] for i in order]
        in_names = tuple([leaf.location.path for leaf in ordered] + names)
        out_names = tuple([f"{leaf.location.path} (written)" for leaf in ordered] + [name for name, _ in results])
        static = tuple([ARRAY if is_tensor(x) else x for x in flat])
        return Pure(flat_function(graph, in_names, out_names), ordered, structure, arguments_tree, static, shape)

    return make


def _check_same_types(first: list[Any], second: list[Any]) -> None:
    one, two = [[f"{np.dtype(x.dtype).name}{list(x.shape)}" for x in values] for values in (first, second)]
    if one != two:
        raise RuntimeError(STRUCTURES.format(first=", ".join(one) or "nothing", second=", ".join(two) or "nothing"))


def _in_first_call(
    x: Any, first: Capture, second: Capture, entries: Mapping[int, Entry], memory: tuple[Memory, Memory]
) -> tuple[Any, Any]:
    """For an input of the second call: the corresponding input of the first, if any, and its final value there."""
    if isinstance(x, StorageInput):
        entry = input_of_first(x, first, entries, memory)
        return None if entry is None else entry.input, x.array
    if isinstance(x, GeneratorInput):
        generator = first.generators.get(x.generator)
        return (None, None) if generator is None else (generator.input, generator.value)
    key = next(key for key, number in second.numbers.items() if number is x)
    read = first.numbers.get(key)
    return None if read is None else read.input, None


def _is_argument(location: Location) -> bool:
    return location.keys[0] in ("args", "kwargs")


def _is_state(x: Any, snapshot: Snapshot) -> bool:
    """Whether an input is state of a module or an optimiser."""
    if isinstance(x, GeneratorInput):
        return x.is_written
    if isinstance(x, NumberInput):
        return False  # setting an unread number would have no effect
    holders = [location.keys for location, obj in snapshot.objects.values() if isinstance(obj, Module | Optimizer)]
    return any(x.location.keys[: len(keys)] == keys for keys in holders)


def _final_value(x: Any, ends: dict[str, Tensor], step: Step) -> Any:
    """The value in the place of an input when the function has returned."""
    end = ends.get(x.location.path)
    if not isinstance(x, StorageInput) or end is None or end._storage is x.storage:
        return x.input if isinstance(x, NumberInput) else x.value
    return end._storage.array


def _result(result: Any) -> Callable[[list[Any]], Any]:
    """A function that rebuilds a result from its arrays; what is not a tensor stays."""
    leaves: list[Any] = []
    structure = take_apart(result, leaves)
    fixed = [None if is_tensor(x) else x for x in leaves]
    traced = [is_tensor(x) for x in leaves]

    def made(arrays: list[Any]) -> Any:
        remaining = iter(arrays)
        return put_together(structure, iter([next(remaining) if t else x for t, x in zip(traced, fixed, strict=True)]))

    return made


def _by_automatic_sharding(graph: Graph, arrays: Sequence[Any], count: int) -> Sequence[Any]:
    """The results of a graph, whose axes the compiler shards even where those of the mesh are explicit.

    Under explicit axes each operation on an array says how its result is sharded, which no operation of PyTorch does.
    So the first ``count`` results are sharded as the first arguments, and the others are on all devices.
    """
    shardings = [jax.typeof(x).sharding for x in arrays]
    mesh = next((each.mesh for each in shardings if each.mesh.explicit_axes), None)
    if mesh is None:
        return graph(*arrays)
    specs = [*[each.spec for each in shardings[:count]], *[PartitionSpec()] * (len(graph.out_names) - count)]
    with jax.sharding.use_abstract_mesh(mesh):
        sharded: Any = jax.sharding.auto_axes(lambda *arrays: list(graph(*arrays)), out_sharding=specs)
        return sharded(*arrays)


# -- types -----------------------------------------------------------------------------------------------------------


def _cast_like(new: Any, old: Any) -> Any:
    """A value in the type of the old one."""
    dtype = as_typed(old).dtype if hasattr(old, "dtype") else jax.numpy.result_type(old)
    return new if new.dtype == dtype else with_x64(jax.lax.convert_element_type, new, dtype)


def _unaliased(value: Any) -> Any:
    """A value as a JAX array with memory of its own."""
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        return jax.device_put(value, may_alias=False)
    return as_jax(value)


def _narrow(value: Any) -> Any:
    """A value in JAX's canonical type: of 32 bits, unless x64 is enabled."""
    dtype = jax.dtypes.canonicalize_dtype(value.dtype)
    return value if value.dtype == dtype else with_x64(jax.lax.convert_element_type, value, dtype)
