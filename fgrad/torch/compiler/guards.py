"""What has to be as it was for a captured program to stand for a call.

NOTE [Guards]
The walk of a capture has copied every container that the function can reach.  They are the guards: a program is used
while each holds the very objects that it held, but for what the call itself sets and for the numbers that are inputs.
So another ``training``, another option of an optimiser, a parameter that was replaced, an attribute of any object make
another program.  Beside these stand the types and layouts of the tensors that are read, which of them share memory,
whether leaves have a gradient, the modes, and the variables that the functions name.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from attrs import define, field

from fgrad.mutable.capture.capture import Capture, Number, is_number
from fgrad.mutable.capture.world import MISSING
from fgrad.mutable.context.modes import modes
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.mutable.types.dtypes import get_default_dtype
from fgrad.torch.compiler.effects import Effects
from fgrad.torch.nn.modules.hooks import everywhere


def modes_now() -> Any:
    """The modes that a program depends on."""
    return modes.grad, modes.inference, modes.snapshot, modes.casting, modes.release, get_default_dtype()


def is_ordinary() -> bool:
    """Whether nothing watches operations from outside: no transformation, no mode that sees each of them."""
    return not (
        modes.level
        or modes.capturing
        or modes.anomaly
        or modes.dual_level >= 0
        or modes.handlers
        or modes.casting
        or modes.saved_hooks
        or modes.interceptor
        or modes.findings
        or everywhere.forward
        or everywhere.forward_pre
        or everywhere.backward
        or everywhere.backward_pre
    )


def signature(tensor: Tensor) -> Any:
    """What a program knows of a tensor."""
    storage = tensor._storage
    array = storage.array
    return (
        tensor._type,
        tensor._geometry,
        storage.strides,
        storage.home,
        tuple(array.shape),
        tensor._requires_grad,
        tensor._grad_fn is None,
        tensor.__class__,
        tensor._inference,
        bool(tensor._backward_hooks or tensor._post_accumulate_grad_hooks),
    )


@define(eq=False)
class Guards:
    """What is asked before a program is used.

    Attributes:
      variables: scopes with a name and what it stood for.
      containers: containers with the objects that they held.
      empty: containers that held nothing: most are tables of hooks.
      entries: containers that the call itself changes, with those entries that it leaves alone.
      tensors: what was known of each tensor that the call reads.
      numbers: numbers that are inputs, as long as they are such.
      leaves: leaves that require grad, and whether they had a gradient.
      shared: which of the tensors share memory.
    """

    variables: list[tuple[Any, Any, Any]] = field(factory=list)
    containers: list[tuple[Any, list[Any]]] = field(factory=list)
    empty: list[Any] = field(factory=list)
    entries: list[tuple[Any, int, list[tuple[Any, Any]]]] = field(factory=list)
    tensors: list[Any] = field(factory=list)
    leaves: list[tuple[dict[str, Any], bool]] = field(factory=list)
    numbers: list[Number] = field(factory=list)
    shared: list[int] = field(factory=list)

    def hold(self) -> bool:
        """Whether everything that does not depend on the arguments is as it was."""
        if any(map(len, self.empty)):
            return False
        for container, values in self.containers:
            held = container.values() if isinstance(container, dict) else container
            if len(held) != len(values) or not all(map(operator.is_, held, values)):
                return False
        for container, size, items in self.entries:
            if len(container) != size or not all(container.get(k, MISSING) is v for k, v in items):
                return False
        for scope, name, value in self.variables:
            if scope.get(name, MISSING) is not value:
                return False
        if not all(is_number(number.now()) for number in self.numbers):
            return False
        return all((held.get("_grad") is None) is empty for held, empty in self.leaves)

    def fit(self, found: Sequence[Any]) -> bool:
        """Whether the tensors of a call are as those that were recorded."""
        for tensor, wanted in zip(found, self.tensors, strict=True):
            if tensor is None or signature(tensor) != wanted:
                return False
        return sharing(found) == self.shared


def sharing(tensors: Sequence[Tensor]) -> list[int]:
    """For each tensor the first that shares its memory."""
    first: dict[int, int] = {}
    return [first.setdefault(id(x._storage), i) for i, x in enumerate(tensors)]


def guards_of(capture: Capture, effects: Effects) -> Guards:
    """The guards of a captured call; everything has been put back."""
    own: dict[int, set[Any]] = {}
    for container, key, _ in effects.entries:
        own.setdefault(id(container), set()).add(key)
    for holder, key, _ in capture.numbers:
        own.setdefault(holder, set()).add(key)
    found = _of_objects(capture, own)
    found.variables = [
        (scope, name, value)
        for scope, name, value in capture.world.variables.values()
        if name not in own.get(id(scope), ())
    ]
    holders = [x for x in capture.world.tensors if x._requires_grad or x._grad is not None or type(x) is not Tensor]
    found.leaves = [(vars(x), x._grad is None) for x in holders]
    found.numbers = list(capture.numbers.values())
    found.tensors = [signature(x) for x in effects.located.tensors]
    found.shared = sharing(effects.located.tensors)
    return found


def guards_of_refused(capture: Capture, arguments: Guards) -> Guards:
    """The guards of a call that is no program: its arguments, and what it did not change itself."""
    changed = {id(container) for container, _ in capture.world.changed()}
    found = _of_objects(capture, dict.fromkeys(changed, ()))
    # Python runs at each call: what it sets does not matter, but what it has made, as a state, may be there by now
    found.entries = [(container, size, []) for container, size, _ in found.entries]
    rebound = {(id(scope), name) for scope, name, _ in capture.world.rebound()}
    variables = capture.world.variables.values()
    found.variables = [each for each in variables if (id(each[0]), each[1]) not in rebound]
    found.tensors, found.shared = arguments.tensors, arguments.shared
    return found


def guards_of_arguments(arguments: Sequence[Tensor]) -> Guards:
    """What is known of the tensors among the arguments."""
    return Guards(tensors=[signature(x) for x in arguments], shared=sharing(arguments))


def _of_objects(capture: Capture, own: Mapping[int, Collection[Any]]) -> Guards:
    """The guards of containers, but for the entries that the call sets itself."""
    found = Guards()
    tensors = {id(vars(x)) for x in capture.world.tensors}
    for container, before in capture.world.containers.values():
        if id(container) in tensors or id(container) not in capture.world.lasting:
            continue
        if not isinstance(container, dict | list):
            continue
        if not before and id(container) not in own:
            found.empty.append(container)
        elif id(container) not in own:
            found.containers.append((container, list(before.values() if isinstance(before, dict) else before)))
        elif isinstance(container, dict):
            items = [(k, v) for k, v in before.items() if k not in own[id(container)]]
            found.entries.append((container, len(before), items))
    return found
