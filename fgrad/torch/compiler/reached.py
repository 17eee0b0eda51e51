"""What a step of training holds, by the names that its ``state_dict``s have: modules, optimisers, generators."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from fgrad.mutable.capture.world import CHILDREN, LATE, STREAMS, Place, World, roots_of
from fgrad.mutable.operation.capture import is_tensor
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler.containers import containers, named_leaves
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.modules.registration import attributes_of
from fgrad.torch.optim.optimizer import Optimizer
from fgrad.torch.random.default import default_generator
from fgrad.torch.random.generator import Generator

#: what a module keeps its parameters, buffers and submodules in
_TABLES = ("_parameters", "_buffers", "_modules")


@frozen
class _InModule(Place):
    """A module in another: the outermost one, and the dotted name in that."""

    root: Place
    name: str


def _of_module(world: World, module: Any, place: Place) -> list[tuple[Place, Any]]:
    root, prefix = (place.root, f"{place.name}.") if isinstance(place, _InModule) else (place, "")
    held = attributes_of(module)
    found: list[tuple[Place, Any]] = []
    for table in _TABLES:
        for key, value in world.kept(held.get(table, {})).items():
            path, name = f"{place.path}.{key}", prefix + key
            keys = (*root.keys, name)
            found.append((_InModule(path, keys, root, name) if table == "_modules" else Place(path, keys), value))
    return found + world.attributes(module, place, _TABLES, held)


def _of_optimizer(world: World, optimizer: Any, place: Place) -> list[tuple[Place, Any]]:
    found = world.attributes(optimizer, place, ("state", "param_groups"))
    params: list[Tensor] = []
    for i, group in enumerate(world.kept(optimizer.param_groups)):
        at = Place(f"{place.path}.param_groups[{i}]", (*place.keys, "param_groups", i))
        found.append((at, group))
        params += group["params"]
    names = _names(world, params)
    numbers = {param: i for i, param in enumerate(params)}
    for param, state in world.kept(optimizer.state).items():
        if not isinstance(state, dict) or param not in numbers:
            continue
        number = numbers[param]
        name = names.get(param, number)
        for key, value in world.kept(state).items():
            keys = (*place.keys, "state", number, key)
            found.append((Place(f"{place.path}.state[{name!r}].{key}", keys), value))
    return found


def _names(world: World, params: list[Tensor]) -> dict[Any, str]:
    """The names of parameters: in their module, or with it where two modules have the same."""
    places = [(param, world.tensors[param]) for param in params if param in world.tensors]
    short = [place.keys[-1] if len(place.keys) > 1 else place.path for _, place in places]
    return {
        param: str(name) if short.count(name) == 1 else place.path
        for (param, place), name in zip(places, short, strict=True)
    }


CHILDREN[Module] = _of_module
CHILDREN[Optimizer] = _of_optimizer
LATE.add(Optimizer)
STREAMS.add(Generator)


def world_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> World:
    """What a call of a function can reach: the default generator, what the function names, and its arguments.

    Containers among the arguments are made anew for each call; what is in ``world.lasting`` is not of them.
    """
    roots: list[tuple[Place, Any]] = [(Place("generator", ("generator",)), default_generator)]
    roots += sorted(roots_of(function), key=lambda root: not isinstance(root[1], Module))
    given = [*named_leaves(args, Place("args", ("args",)))]
    for name, x in kwargs.items():
        given += named_leaves(x, Place(name, ("kwargs", name)))
    world = World()
    world.name(function)
    world.walk([*roots, *[root for root in given if not is_tensor(root[1])]])
    world.held |= {id(x) for _, x in roots if is_tensor(x)}
    world.lasting = {*world.containers, *[id(x) for x, _ in world.instances]}
    for container in (x for each in (*args, *kwargs.values()) for x in containers(each)):
        world.given.add(id(world.kept(container)))
    return world.walk([root for root in given if is_tensor(root[1])])
