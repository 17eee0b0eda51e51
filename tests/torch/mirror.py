"""The mirror machine: random programs played on fgrad.torch and on real torch, observed after every step.

A program is a list of steps; a step is a name and a few small integers, which the player turns into operands and
parameters by counting round.  So every list of steps is a program, and Hypothesis can shrink it; a step that makes no
sense must fail alike on both sides.

``python -m tests.torch.mirror 20000`` plays that many programs; ``--record FILE COUNT`` writes programs with what real
torch shows of them.
"""

import gzip
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

Step = tuple[str, int, int, int, int]

SHAPES: tuple[tuple[int, ...], ...] = ((3,), (2, 3), (), (3, 2), (2, 1, 3), (1,), (4,), (2, 2))
#: how warnings begin that come once
ONCE = ("UserWarning: Using backward() with create_graph=True", "UserWarning: Converting a tensor with requires_grad")
#: a pool of tensors stays this small: the oldest go first
POOL = 7


class Player:
    """Plays steps with one of the two libraries, over a pool of tensors."""

    def __init__(self, torch: Any):
        self.torch = torch
        self.pool: list[Any] = []
        self.handles: list[Any] = []
        self.log: list[Any] = []
        #: sequence numbers of nodes that backward itself has made: the libraries need not agree on their names
        self.made_by_backward: list[tuple[int, int]] = []

    def edges(self, node: Any, depth: int = 2) -> Any:
        """The names of a node and of those that it leads to."""
        if node is None:
            return None
        name = type(node).__name__
        if name != "AccumulateGrad" and hasattr(node, "_sequence_nr"):
            number = node._sequence_nr()
            if any(first < number < last for first, last in self.made_by_backward):
                return "made by backward"
        return [name, *[[self.edges(n, depth - 1), i] for n, i in node.next_functions]] if depth else name

    def sequence(self) -> int:
        """The number of a node made now."""
        with self.torch.inference_mode(False), self.torch.enable_grad():
            return self.torch.ones(1, requires_grad=True).neg().grad_fn._sequence_nr()

    def in_backward(self, run: Callable[[], Any]) -> Any:
        before = self.sequence()
        try:
            return run()
        finally:
            self.made_by_backward.append((before, self.sequence()))

    def at(self, i: int) -> Any:
        return self.pool[i % len(self.pool)]

    def add(self, found: Any) -> Any:
        for x in found if isinstance(found, tuple | list) else (found,):
            if isinstance(x, self.torch.Tensor) and not any(x is y for y in self.pool):
                self.pool.append(x)
        del self.pool[: max(0, len(self.pool) - POOL)]
        return None

    def play(self, step: Step) -> Any:
        """Do a step, under the mode that its last number says."""
        name, a, b, c, mode = step
        torch = self.torch
        if not self.pool and name != "create":
            name, a, b = "create", 1, 1
        action = ACTIONS[name]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if mode == 1:
                    with torch.no_grad():
                        action(self, a, b, c)
                elif mode == 2:
                    with torch.enable_grad():
                        action(self, a, b, c)
                elif mode == 3:
                    with torch.inference_mode():
                        action(self, a, b, c)
                else:
                    action(self, a, b, c)
                outcome = "done"
            except Exception as error:
                outcome = f"{type(error).__name__}: {first_part(str(error))}"
        shown = [f"{w.category.__name__}: {first_part(str(w.message))}" for w in caught]
        # PyTorch warns of these once in a process: who is first depends on what ran before
        shown = [text for text in shown if not text.startswith(ONCE)]
        return [outcome, shown, self.observe()]

    def observe(self) -> list[Any]:
        """What the pool shows."""
        log, self.log = self.log, []
        return [log, *map(self.shown, self.pool)]

    def shown(self, x: Any) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [
                attempt(lambda: values(x)),
                str(x.dtype),
                # kernels that PyTorch runs on inference tensors outside of the mode count writes of their own
                None if any(y.is_inference() for y in self.pool) else attempt(lambda: x._version),
                attempt(lambda: x.requires_grad),
                attempt(lambda: x.is_leaf),
                attempt(lambda: x._is_view()),
                list(x.stride()),
                x.storage_offset(),
                attempt(lambda: self.edges(x.grad_fn)),
                attempt(lambda: x.output_nr),
                attempt(lambda: x.retains_grad),
                attempt(lambda: None if x.grad is None else [values(x.grad), x.grad.grad_fn is not None]),
                x.is_inference(),
            ]
            base = attempt(lambda: x._base)
            found.append([i for i, y in enumerate(self.pool) if y is base])
            found.append(
                [i for i, y in enumerate(self.pool) if y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()]
            )
            return found


def first_part(text: str) -> str:
    """A message without what one of the libraries alone adds."""
    return text.split(" (Triggered internally")[0].split("\n\n")[0].strip()


def attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {first_part(str(error))}"


def values(x: Any) -> Any:
    found = np.asarray(x.detach().tolist())
    return found.round(4).tolist() if found.dtype.kind == "f" else found.tolist()


# -- actions ---------------------------------------------------------------------------------------------------------

ACTIONS: dict[str, Callable[[Player, int, int, int], Any]] = {}


def action(function: Callable[..., Any]) -> Callable[..., Any]:
    ACTIONS[function.__name__] = function
    return function


@action
def create(p: Player, a: int, b: int, c: int) -> None:
    shape = SHAPES[a % len(SHAPES)]
    count = int(np.prod(shape))
    numbers = (np.arange(count) * 0.37 + 0.5 * (c % 5) - 0.6).reshape(shape)
    p.add(p.torch.tensor(numbers.tolist(), dtype=p.torch.float32, requires_grad=b % 3 != 0))


@action
def create_int(p: Player, a: int, b: int, c: int) -> None:
    p.add(p.torch.tensor([a % 3, b % 3, c % 3], dtype=p.torch.int64))


UNARY = ("sin", "exp", "tanh", "sigmoid", "relu", "neg", "clone", "square", "abs", "cos", "reciprocal", "sqrt")


@action
def unary(p: Player, a: int, b: int, c: int) -> None:
    x, name = p.at(a), UNARY[b % len(UNARY)]
    # abs of an inference tensor has version 1 in PyTorch, which no other operation's result has
    p.add(x.neg() if name == "abs" and x.is_inference() else getattr(x, name)())


BINARY = ("add", "sub", "mul", "div", "maximum", "pow")


@action
def binary(p: Player, a: int, b: int, c: int) -> None:
    p.add(getattr(p.torch, BINARY[c % len(BINARY)])(p.at(a), p.at(b)))


@action
def with_number(p: Player, a: int, b: int, c: int) -> None:
    x, number = p.at(a), (2.0, 3, 0.5)[c % 3]
    operators = (
        lambda: x + number,
        lambda: x * number,
        lambda: number - x,
        lambda: x / number,
        lambda: x**2,
        lambda: x > number,
        lambda: number * x,
        lambda: -x,
    )
    p.add(operators[b % len(operators)]())


@action
def reduce(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)
    forms = (
        lambda: x.sum(),
        lambda: x.mean(),
        lambda: x.sum(0),
        lambda: x.sum(-1, keepdim=True),
        lambda: x.mean(dim=0),
        lambda: x.max(),
        lambda: x.prod(),
        lambda: x.cumsum(0),
        lambda: x.amax(0),
        lambda: x.argmax(),
    )
    p.add(forms[b % len(forms)]())


@action
def matmul(p: Player, a: int, b: int, c: int) -> None:
    p.add(p.at(a) @ p.at(b))


@action
def view(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)
    forms = (
        lambda: x[0],
        lambda: x[1:],
        lambda: x.t(),
        lambda: x.view(-1),
        lambda: x.unsqueeze(0),
        lambda: x.squeeze(),
        lambda: x.transpose(0, -1),
        lambda: x.expand(2, *x.shape),
        lambda: x.reshape(-1),
        lambda: x.diagonal(),
        lambda: x.unbind(0),
        lambda: x.split(1),
        lambda: x.detach(),
        lambda: x.data,
        lambda: x[..., 0],
        lambda: x[:],
        lambda: x.narrow(0, 0, 1),
        lambda: x.chunk(2),
        lambda: x[::2],
        lambda: x.view_as(x),
        lambda: x.flatten(),
        lambda: x.as_strided((2,), (1,)),
        lambda: x[None],
        lambda: x.select(-1, 0),
        lambda: x.contiguous(),
        lambda: x.permute(*reversed(range(x.dim()))),
        lambda: x.unfold(0, 2, 1),
        lambda: x.movedim(0, -1),
    )
    p.add(forms[b % len(forms)]())


@action
def index(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)
    forms = (
        lambda: x[[0]],
        lambda: x[x > 0],
        lambda: x[p.torch.tensor([0, 0])],
        lambda: x[..., [0]],
        lambda: x.index_select(0, p.torch.tensor([0])),
        lambda: x[p.torch.tensor(0)],
        lambda: x.masked_fill(x > 0, 1.5),
        lambda: x.gather(0, x.long() * 0),
    )
    p.add(forms[b % len(forms)]())


@action
def combine(p: Player, a: int, b: int, c: int) -> None:
    x, y = p.at(a), p.at(b)
    forms = (
        lambda: p.torch.cat([x, y]),
        lambda: p.torch.stack([x, y]),
        lambda: p.torch.where(x > 0, x, y),
        lambda: p.torch.addcmul(x, y, y),
    )
    p.add(forms[c % len(forms)]())


INPLACE = ("exp_", "zero_", "sigmoid_", "relu_", "neg_", "sin_", "tanh_", "square_", "abs_")


@action
def inplace(p: Player, a: int, b: int, c: int) -> None:
    getattr(p.at(a), INPLACE[b % len(INPLACE)])()


@action
def inplace_with(p: Player, a: int, b: int, c: int) -> None:
    x, y = p.at(a), p.at(b)
    forms = (
        lambda: x.add_(y),
        lambda: x.mul_(y),
        lambda: x.copy_(y),
        lambda: x.sub_(1),
        lambda: x.mul_(2),
        lambda: x.fill_(0.5),
        lambda: x.div_(2),
        lambda: x.fill_(y),
        lambda: x.add_(y, alpha=2),
        lambda: x.clamp_(-0.5, 0.5) if x.is_floating_point() else x.mul_(2),
    )
    forms[c % len(forms)]()


@action
def assign(p: Player, a: int, b: int, c: int) -> None:
    x, y = p.at(a), p.at(b)
    forms = (
        lambda: x.__setitem__(0, 0.0),
        lambda: x.__setitem__(0, y),
        lambda: x.__setitem__(slice(None), y),
        lambda: x.__setitem__(x > 0, 0.25),
        lambda: x.__setitem__([0], 1.5),
        lambda: x.__setitem__((Ellipsis, 0), y),
        lambda: x.__setitem__(slice(1, None), 2.0),
    )
    forms[c % len(forms)]()


def like(x: Any, y: Any) -> Any:
    """A copy of one tensor if it could stand for another, else of the other."""
    return (y if y.shape == x.shape and y.dtype == x.dtype else x).detach().clone()


@action
def flag(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)
    forms = (
        lambda: x.requires_grad_(),
        lambda: x.requires_grad_(False),
        lambda: x.retain_grad(),
        lambda: x.detach_(),
        lambda: setattr(x, "grad", None),
        lambda: setattr(x, "data", like(x, p.at(c))),
        lambda: x.data.mul_(2),
        lambda: x.detach().mul_(2),
        lambda: x.grad,
        lambda: setattr(x, "grad", p.at(c)),
        lambda: setattr(x, "requires_grad", c % 2 == 0),
    )
    forms[b % len(forms)]()


@action
def hook(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)

    def noted(grad: Any) -> Any:
        p.log.append(["hook", b % 3, values(grad)])
        return grad * 2 if c % 2 else None

    def noted_node(*grads: Any) -> None:
        p.log.append(["node", [[None if g is None else values(g) for g in each] for each in grads]])

    forms = (
        lambda: x.register_hook(noted),
        lambda: x.register_post_accumulate_grad_hook(lambda t: p.log.append("post")),
        lambda: x.grad_fn.register_hook(noted_node),
        lambda: x.grad_fn.register_prehook(noted_node),
        lambda: p.handles.pop().remove(),
    )
    made = forms[b % len(forms)]()
    if made is not None:
        p.handles.append(made)


@action
def backward(p: Player, a: int, b: int, c: int) -> None:
    x = p.at(a)
    options = (
        {},
        {"retain_graph": True},
        {"create_graph": True},
        {"inputs": [p.at(c)]},
        {"inputs": [p.at(c)], "retain_graph": True},
    )[b % 5]
    p.in_backward(lambda: x.backward(None if c % 4 == 3 else p.torch.ones_like(x), **options))


@action
def grad(p: Player, a: int, b: int, c: int) -> None:
    x, y = p.at(a), p.at(b)
    options = (
        {},
        {"retain_graph": True},
        {"create_graph": True},
        {"allow_unused": True},
        {"materialize_grads": True},
        {"create_graph": True, "allow_unused": True},
    )[c % 6]
    found = p.in_backward(lambda: p.torch.autograd.grad(x, y, p.torch.ones_like(x), **options))
    # copies: what backward did in place or as a view inside of it is its own affair
    p.add([g.clone() for g in found if g is not None])


#: how often each kind of step comes
WEIGHTS = {
    "create": 4, "create_int": 1, "unary": 7, "binary": 7, "with_number": 5, "reduce": 4, "matmul": 2, "view": 9,
    "index": 4, "combine": 3, "inplace": 6, "inplace_with": 7, "assign": 5, "flag": 5, "hook": 4,
    "backward": 6, "grad": 4,
}  # fmt: skip


def random_program(seed: int, length: int = 14) -> list[Step]:
    """A program drawn from a seed."""
    rng = random.Random(seed)
    names = rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    modes = rng.choices((0, 1, 2), (30, 3, 1), k=length)
    program: list[Step] = [("create", rng.randrange(8), 1, rng.randrange(8), 0)]
    program += [
        (name, rng.randrange(16), rng.randrange(60), rng.randrange(60), mode)
        for name, mode in zip(names, modes, strict=True)
    ]
    return program


def played(program: Sequence[Step], torch: Any) -> Iterator[Any]:
    """What a library shows after each step of a program."""
    player = Player(torch)
    return (player.play(step) for step in program)


def difference(program: Sequence[Step], ours: Any, theirs: Any) -> str | None:
    """Where two libraries differ first when they play a program, None if they never do."""
    return difference_from(program, ours, played(program, theirs))


def difference_from(program: Sequence[Step], torch: Any, wanted: Iterable[Any]) -> str | None:
    """Where a library first shows something else than is wanted."""
    for at, (seen, expected) in enumerate(zip(played(program, torch), wanted, strict=True)):
        if not alike(seen, expected):
            return described(program, at, seen, expected)
    return None


def described(program: Sequence[Step], at: int, seen: Any, wanted: Any) -> str:
    lines = [f"step {at} of", *map(str, program[: at + 1]), f"outcome here: {seen[:2]}", f"in torch:     {wanted[:2]}"]
    for i, (a, b) in enumerate(zip(seen[2], wanted[2], strict=False)):
        if not alike(a, b):
            lines += [f"pool[{i - 1}] here: {a}", f"       torch: {b}"]
    if len(seen[2]) != len(wanted[2]):
        lines.append(f"pools of {len(seen[2])} and {len(wanted[2])}")
    return "\n".join(lines)


def alike(a: Any, b: Any) -> bool:
    """Equal, floats nearly so."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= 2e-3 * max(1.0, abs(a), abs(b))
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    return a == b and type(a) is type(b)


def main(arguments: list[str]) -> None:
    import torch as theirs  # noqa: PLC0415

    import fgrad.torch as ours  # noqa: PLC0415

    if arguments[0] == "--record":
        programs = [random_program(seed, 8) for seed in range(int(arguments[2]))]
        recorded = []
        for program in programs:
            player = Player(theirs)
            recorded.append([program, [player.play(step) for step in program]])
        with gzip.open(arguments[1], "wt") as file:
            json.dump(recorded, file)
        return
    first, count = (int(arguments[1]), int(arguments[0])) if len(arguments) > 1 else (0, int(arguments[0]))
    failures = 0
    for seed in range(first, first + count):
        found = difference(random_program(seed), ours, theirs)
        if found is not None:
            failures += 1
            sys.stdout.write(f"--- seed {seed}: {found}\n")
    sys.stdout.write(f"{failures} of {count} programs differ\n")


if __name__ == "__main__":
    main(sys.argv[1:])
