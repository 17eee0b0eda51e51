"""What a training step can reach, named as in ``state_dict``s: modules, optimisers, generators."""

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.libraries import is_own, module_of
from fgrad.mutable.capture.snapshot import CHILDREN, GENERATOR_TYPES, VISITED_LAST, Location, Snapshot, roots_of
from fgrad.mutable.context.modes import Scope
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.containers import OPENED, containers, named_leaves
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import attributes_of
from fgrad.torch.optim.optimizer import Optimizer
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.generator import Generator

#: where a module keeps its parameters, buffers and submodules
_TABLES = ("_parameters", "_buffers", "_modules")


@frozen
class _InModule(Location):
    """The location of a submodule: that of the outermost module, and the dotted name in it."""

    root: Location
    name: str

    @property
    def module_path(self) -> str:
        return self.name


def _of_module(snapshot: Snapshot, module: Any, location: Location) -> list[tuple[Location, Any]]:
    root, prefix = (location.root, f"{location.name}.") if isinstance(location, _InModule) else (location, "")
    namespace = attributes_of(module)
    children: list[tuple[Location, Any]] = []
    for table in _TABLES:
        for key, value in snapshot.track(namespace.get(table, {})).items():
            path, name = f"{location.path}.{key}", prefix + key
            keys = (*root.keys, name)
            children.append((_InModule(path, keys, root, name) if table == "_modules" else Location(path, keys), value))
    return children + snapshot.attributes(module, location, _TABLES, namespace)


def _of_optimizer(snapshot: Snapshot, optimizer: Any, location: Location) -> list[tuple[Location, Any]]:
    children = snapshot.attributes(optimizer, location, ("state", "param_groups"))
    params: list[Tensor] = []
    for i, group in enumerate(snapshot.track(optimizer.param_groups)):
        group_location = Location(f"{location.path}.param_groups[{i}]", (*location.keys, "param_groups", i))
        children.append((group_location, group))
        params += group["params"]
    names = _names(snapshot, params)
    numbers = {param: i for i, param in enumerate(params)}
    for param, state in snapshot.track(optimizer.state).items():
        if not isinstance(state, dict) or param not in numbers:
            continue
        number = numbers[param]
        name = names.get(param, number)
        for key, value in snapshot.track(state).items():
            keys = (*location.keys, "state", number, key)
            children.append((Location(f"{location.path}.state[{name!r}].{key}", keys), value))
    return children


def _of_block(snapshot: Snapshot, block: Any, location: Location) -> list[tuple[Location, Any]]:
    """What a block of modes was made with; what it sets of itself on entry is no state."""
    if not is_own(module_of(type(block))):
        return snapshot.attributes(block, location)
    return [(location.attribute(name), value) for name, value in vars(block).items() if name not in _SET_ON_ENTRY]


#: how a block restores the modes
_SET_ON_ENTRY = frozenset(("close", "before", "previous"))


def _names(snapshot: Snapshot, params: list[Tensor]) -> dict[Any, str]:
    """The names of parameters in their module; where two modules have the same, their full paths."""
    locations = [(param, snapshot.tensors[param]) for param in params if param in snapshot.tensors]
    short = [location.keys[-1] if len(location.keys) > 1 else location.path for _, location in locations]
    return {
        param: str(name) if short.count(name) == 1 else location.path
        for (param, location), name in zip(locations, short, strict=True)
    }


CHILDREN[Module] = _of_module
CHILDREN[Optimizer] = _of_optimizer
CHILDREN[Scope] = _of_block
VISITED_LAST.add(Optimizer)
GENERATOR_TYPES.add(Generator)


def snapshot_of(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], growing: Sequence[Any] = ()
) -> Snapshot:
    """What a call of a function can reach: the default generator, what the function names, and its arguments.

    Containers among the arguments are new at each call, so they are not in ``Snapshot.persistent``.

    Arguments:
      growing: lists that are not walked.
    """
    roots: list[tuple[Location, Any]] = [(Location("generator", ("generator",)), default_generator)]
    roots += sorted(roots_of(function), key=lambda root: not isinstance(root[1], Module))
    arguments = [*named_leaves(args, Location("args", ("args",)))]
    for name, x in kwargs.items():
        arguments += named_leaves(x, Location(name, ("kwargs", name)))
    snapshot = Snapshot(growing={id(x) for x in growing})
    snapshot.note_variables(function)
    held = [x for each in (*args, *kwargs.values()) for x in containers(each)]
    opened = [x for x in held if x.__class__ in OPENED]
    for x in opened:
        snapshot.note_classes(x)
    snapshot.walk([*roots, *[root for root in arguments if not is_tensor(root[1])]])
    snapshot.held_tensors |= {id(x) for _, x in roots if is_tensor(x)}
    snapshot.persistent = {*snapshot.containers, *snapshot.objects}
    for container in (*held, *map(vars, opened)):
        snapshot.argument_containers.add(id(snapshot.track(container)))
    return snapshot.walk([root for root in arguments if is_tensor(root[1])])
