"""``torch.compile``: calls of a function of tensors as compiled programs, with everything as it would be uncompiled."""

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any
from weakref import ReferenceType, WeakSet, ref

from attrs import define, field

from fgrad.graph.names import stored_names
from fgrad.mutable.capture.held_numbers import Holding
from fgrad.mutable.capture.pieces import LiveTape, Pieces
from fgrad.mutable.capture.snapshot import CHILDREN, Location, Snapshot
from fgrad.mutable.context.modes import modes
from fgrad.mutable.context.warning import warn
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch.compiler import module
from fgrad.torch.compiler.backends import check_backend
from fgrad.torch.compiler.constants import compared
from fgrad.torch.compiler.containers import OPENED
from fgrad.torch.compiler.guards import is_ordinary, modes_now
from fgrad.torch.compiler.keys import key_of, of_new_objects, weakly_held, without_numbers
from fgrad.torch.compiler.module import OptimizedModule
from fgrad.torch.compiler.number_arguments import Place, VaryingNumbers, number_arguments
from fgrad.torch.compiler.originals import note_compiled, original_of
from fgrad.torch.compiler.programs import Call, Program, Unexpected
from fgrad.torch.compiler.recording import EagerCall, record
from fgrad.torch.compiler.running import recording, running
from fgrad.torch.compiler.stance import stance
from fgrad.torch.compiler.turns import Turns
from fgrad.torch.nn.modules.module import Module
from fgrad.torch.nn.parameter import Parameter

#: a program that has been called so often has been worth its compilation, and gives its place to another
WORTHWHILE = 100
#: the arguments of most calls
_TENSORS = (Tensor, Parameter)


class Config:
    """Settings of all compiled functions: ``torch.compiler.config``.

    Attributes:
      check_every: after so many calls a program is recorded again and compared, as at its second call; 1 (for
        debugging) means every call, and 0 never.
      recompile_limit: the most programs of a function at a time, unless ``torch.compile`` was given another number; one
        that needs more runs in pieces, which need no guards.

    >>> import fgrad.torch as torch
    >>> torch.compiler.config.check_every
    1000
    """

    check_every: int = 1000
    recompile_limit: int = 8


config: Config = Config()
#: for ``reset``
_all: WeakSet["Compiled"] = WeakSet()


@define(eq=False)
class Compiled:
    """The programs of one function.

    Attributes:
      limit: the most programs at a time; None for that of all functions.
      programs: by structure, static arguments and modes.
      references: to the objects in these that are not kept alive, whose end is that of the programs.
      varying: the numbers among the arguments that are inputs of programs.
      recorded: how many programs have been recorded.
      given_up: whether it is never one program again.
      shows_memory: whether it is never compiled again, since NumPy arrays show the memory of tensors.
      has_escapes: whether a call has left something where no walk finds it (NOTE [Escapes]).
      turns: the ways to run it then.
    """

    function: Callable[..., Any]
    fullgraph: bool = False
    limit: int | None = None
    programs: dict[Any, list[Program]] = field(factory=dict)
    references: dict[Any, list[ReferenceType[Any]]] = field(factory=dict)
    varying: VaryingNumbers = field(factory=VaryingNumbers)
    recorded: int = 0
    given_up: bool = False
    shows_memory: bool = False
    has_escapes: bool = False
    turns: Turns = field(factory=Turns)
    warned: bool = False

    def __reduce__(self) -> Any:
        """A copy has no programs, since they are bound to the objects that they were recorded with."""
        return Compiled, (self.function, self.fullgraph, self.limit)

    def __attrs_post_init__(self) -> None:
        _all.add(self)

    def reset(self) -> None:
        """Forget all programs, and what was learnt from calls."""
        for each in (x for programs in self.programs.values() for x in programs):
            each.disown()
        fresh = Compiled(self.function, self.fullgraph, self.limit)
        for name in (
            "programs",
            "references",
            "varying",
            "recorded",
            "given_up",
            "shows_memory",
            "has_escapes",
            "turns",
            "warned",
        ):
            setattr(self, name, getattr(fresh, name))

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        is_inside = running.inside
        if is_inside or self.shows_memory or not is_ordinary() or stance.name == "force_eager":
            return self.function(*args, **kwargs)
        if self.given_up:
            return self._by_turns(self.turns, args, kwargs)
        tensors: Sequence[Tensor]
        inputs: Sequence[Any] = ()
        if not kwargs and all([x.__class__ in _TENSORS for x in args]):  # noqa: C419  (a list is faster here)
            tensors, key = args, (len(args), modes_now())
        else:
            places = self.varying.places
            inputs = [x for place, x in number_arguments(args, kwargs) if place in places] if places else ()
            key, tensors = key_of(args, kwargs, places)
        try:
            programs = self.programs.get(key)
        except TypeError:  # an argument without a hash
            return self.function(*args, **kwargs)
        for program in programs or ():
            call = program.call(tensors, inputs)
            if call is not None:
                if program.refused is not None:
                    return self._refused(program, args, kwargs)
                return self._again(key, call, tensors, inputs, args, kwargs)
        return self._first(key, tensors, inputs, args, kwargs)

    def _refused(self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that is not one program."""
        return self._by_turns(program.turns, args, kwargs) if program.breaks else self.function(*args, **kwargs)

    def _by_turns(self, turns: Turns, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return turns.run(lambda: self._in_pieces(args, kwargs), lambda: self.function(*args, **kwargs))

    @recording
    def _in_pieces(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return Pieces(LiveTape()).call(self.function, args, kwargs)

    def _first(self, key: Any, tensors: Sequence[Tensor], inputs: Sequence[Any], args: Any, kwargs: Any) -> Any:
        """Record a call that no program applies to."""
        numbers = dict(number_arguments(args, kwargs))
        if numbers and self.varying.note(key_of(args, kwargs, numbers)[0], numbers):
            return self(args, kwargs)
        self.varying.note_held([x for each in self.programs.get(key, ()) for x in each.guards.changed_numbers()])
        classes = {cls for each in list(self.programs) for cls in of_new_objects(each, key)}
        if classes:
            OPENED.update(classes)
            return self(args, kwargs)
        if stance.name == "eager_on_recompile":
            return self.function(*args, **kwargs)
        if stance.name == "fail_on_recompile":
            raise RuntimeError(
                "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
                f"function name: '{_name(self.function)}'"
            )
        limit = config.recompile_limit if self.limit is None else self.limit
        if self.recorded >= limit and not self._made_room():
            self.given_up = True
            if not self._differs_in_numbers(key, inputs):
                warn(
                    f"torch.compile: {_name(self.function)} has been recorded {limit} times, each time because "
                    "something that it depends on had changed; from now on it runs in pieces, and is recorded at each "
                    "call. torch.compiler.explain shows what its programs depend on."
                )
            return self._in_pieces(args, kwargs)
        program, done = self._record(args, kwargs, [*self.varying.held.values()], [*self.varying.growing.values()])
        if program.shows_memory:
            self.shows_memory = True
            return self.function(*args, **kwargs)
        if program.escapes:
            self.given_up = self.has_escapes
            self.has_escapes = True
            self.varying.refuse(numbers)  # with symbolic numbers a recording cannot continue in pieces
            return self._in_pieces(args, kwargs) if done is None else done.result
        is_changed = self.varying.note_held(program.changed) | self.varying.note_growing(program.grown)
        if is_changed and program.refused is not None:
            return self(args, kwargs) if done is None else done.result
        if program.refused is not None and inputs:
            plain, done = self._record(args, kwargs, program.held, program.growing, symbolic=())
            if plain.refused is None:  # the numbers were the reason
                self.varying.refuse(numbers)
                return self(args, kwargs)
        if done is None and (program.held or program.growing) and program.refused is not None and not program.breaks:
            result = self.function(*args, **kwargs)
            self.varying.refuse_held(program.held)  # else the error would be the function's own
            self.varying.refuse_growing(program.growing)
            return result
        if done is None and program.growing and program.refused is not None:
            self.varying.refuse_growing(program.growing)
            return self(args, kwargs)
        if unusable := program.unusable_numbers():
            self.varying.refuse_held(unusable)
            return self(args, kwargs)
        self.recorded += 1
        if key not in self.programs:
            drop = functools.partial(_drop, ref(self), key)
            self.references[key] = [ref(x, drop) for x in weakly_held(key)]
        self.programs.setdefault(key, []).insert(0, program)
        program.calls = 1
        if done is not None:
            return done.result
        if program.refused is not None:
            return self._refused(program, args, kwargs)
        return self._run(program.first_call(tensors, inputs), args, kwargs)

    def _run(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if call.program.backward is not None:
            call.again = functools.partial(self._up_to_order, call.program, args, kwargs)
        try:
            return call()
        except Unexpected:
            return self.function(*args, **kwargs)

    def _up_to_order(self, program: Program, args: tuple[Any, ...], kwargs: dict[str, Any], order: int) -> Program:
        """Record a call again, which is differentiated up to an order: outside of the backward that asks for it."""
        before = {name: getattr(modes, name) for name in ("grad", "evaluating", "differentiated", "saved_hooks")}
        try:
            vars(modes).update(grad=True, evaluating=None, differentiated=False, saved_hooks=())
            return self._record(args, kwargs, program.held, program.growing, order=order)[0]
        finally:
            vars(modes).update(before)

    def _made_room(self) -> bool:
        """Drop an old program, if it has been worth its compilation: a search may have trained with many models."""
        if not self.programs:
            return False
        key, (*newer, oldest) = next(iter(self.programs.items()))
        if oldest.calls < WORTHWHILE:
            return False
        self.programs.pop(key, None)
        if newer:
            self.programs[key] = newer  # last: those of another key are next
        else:
            self.references.pop(key, None)
        self.recorded -= 1
        return True

    def _differs_in_numbers(self, key: Any, inputs: Sequence[Any]) -> bool:
        """Whether a call differs from a recorded one in Python numbers only, or a recorded one runs in pieces."""
        for program in self.programs.get(key, ()):
            if program.breaks or program.guards.differ_in_numbers() or program.numbers_at(inputs) is None:
                return True
        return any(without_numbers(each) == without_numbers(key) for each in list(self.programs) if each != key)

    def _again(
        self, key: Any, call: Call, tensors: Sequence[Tensor], inputs: Sequence[Any], args: Any, kwargs: Any
    ) -> Any:
        program = call.program
        program.calls += 1
        every = config.check_every
        if every and (program.calls == 2 or not program.calls % every):
            program.disown()
            checked, done = self._record(args, kwargs, program.held, program.growing)
            if not program.same_as(checked):
                if checked.refused is not None and inputs:
                    self.varying.refuse(dict(number_arguments(args, kwargs)))
                    return self(args, kwargs)
                self._differ(program, checked)
                checked.calls = 1
                self.programs[key] = [checked if x is program else x for x in self.programs[key]]
                if done is not None:
                    return done.result
                if checked.refused is not None:
                    return self._refused(checked, args, kwargs)
                return self._run(checked.first_call(tensors, inputs), args, kwargs)
            return self._run(program.first_call(tensors, inputs), args, kwargs)
        return self._run(call, args, kwargs)

    def _record(
        self,
        args: Any,
        kwargs: Any,
        held: Sequence[Holding],
        growing: Sequence[Holding],
        symbolic: Collection[Place] | None = None,
        order: int = 1,
    ) -> tuple[Program, EagerCall | None]:
        """Record a call, with symbolic numbers in some places among the arguments, or else in all that vary.

        One that is differentiated up to a higher order changes nothing.
        """
        if symbolic is None:
            symbolic = [place for place, _ in number_arguments(args, kwargs) if place in self.varying.places]
        strict = self.fullgraph and not (symbolic or held or growing)
        program, done, capture = record(self.function, args, kwargs, strict, order > 1, symbolic, held, growing, order)
        program.release(capture)
        return program, done

    def _differ(self, old: Program, new: Program) -> None:
        """Warn, once, of a difference between two recordings."""
        if not self.warned:
            self.warned = True
            warn(
                f"torch.compile: {_name(self.function)}, called again with no visible change, does something else: "
                f"{difference(old, new)}. What it depends on there (a file, a library's global) is not an input "
                "of the program; pass it as an argument. The new program is used from now on."
            )


def _drop(compiled: Callable[[], Compiled | None], key: Any, _: object) -> None:
    """Forget the programs of an object that is gone; those that were worth their compilation make room for others.

    This runs in the midst of anything.
    """
    owner = compiled()
    programs = () if owner is None else owner.programs.pop(key, ())
    if owner is not None and programs:
        owner.references.pop(key, None)
        owner.recorded -= len(programs) if any(x.calls >= WORTHWHILE for x in programs) else 0
        holdings, used = (
            [holding for x in each for holding in (*x.held, *x.growing)]
            for each in (programs, [x for others in list(owner.programs.values()) for x in others])
        )
        owner.varying.forget(holdings, used)
        first = owner.varying.first
        owner.varying.first = {k: x for k, x in first.items() if all(each is not None for each in weakly_held(k))}


def _of_compiled(snapshot: Snapshot, compiled: Compiled, location: Location) -> list[tuple[Location, Any]]:
    """A compiled function reaches what the function itself does; its programs are not state."""
    return [(location, compiled.function)]


CHILDREN[Compiled] = _of_compiled


def difference(old: Program, new: Program) -> str:
    """The first difference between two recordings of a call."""
    if old.refused is not None or new.refused is not None:
        return f"{old.refused or 'it was captured'}, and now {new.refused or 'it is captured'}"
    for one, two in zip(old.graph.nodes, new.graph.nodes, strict=False):
        if one != two or [old.graph.types[i] for i in one.inputs] != [new.graph.types[i] for i in two.inputs]:
            names = () if two.source is None else stored_names(two.source)
            called = f", '{names[0]}'" if len(names) == 1 and names[0] else ""
            return f"{one.op.name} at {one.source} is now {two.op.name} at {two.source}{called}"
    for one, two in zip(old.graph.consts, new.graph.consts, strict=False):
        if one != two:
            return f"a constant was {one.value} and is now {two.value}"
    least = min(len(old.graph.nodes), len(new.graph.nodes))
    for more, graph in (("is new", new.graph), ("is gone", old.graph)):
        if len(graph.nodes) > least:
            return f"{graph.nodes[least].op.name} at {graph.nodes[least].source} {more}"
    if old.windows != new.windows:
        return "it reads another part of an argument"
    assert old.effects is not None and new.effects is not None
    for one, two in zip(old.effects.constants(), new.effects.constants(), strict=False):
        if compared(one) != compared(two):
            return f"it sets or returns {two!r} where it had {one!r}"
    before, after = old.effects.signature(), new.effects.signature()
    return f"it has other effects on tensors: {before} and now {after}"


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


# -- torch.compile ---------------------------------------------------------------------------------------------------

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A function whose calls are captured once and then run as one XLA program; without a function, a decorator.

    After each call tensors, gradients, versions, an optimiser's state, buffers and generators are as they would be
    uncompiled.  A call that cannot be one program runs in pieces, or uncompiled; ``torch.compiler.explain`` says why.

    Arguments:
      model: a function, such as a whole training step, or a module.
      fullgraph: raise an error where a call cannot be captured because it needs a number.
      dynamic, mode, options, name, shapes_spec: accepted as in PyTorch.  A program is made for each combination of
        types.
      backend: one of PyTorch's names, or a function; XLA compiles every program.
      disable: return ``model`` unchanged.
      recompile_limit: the most programs of this function at a time; by default
        ``torch.compiler.config.recompile_limit``.
      isolate_recompiles: accepted as in PyTorch; each compiled function has programs of its own.

    Raises:
      RuntimeError: both ``mode`` and ``options`` are given, or the mode or the back end is unknown.
      TypeError: ``model`` cannot be called.

    >>> import fgrad.torch as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> optimizer = torch.optim.SGD([w], lr=0.5)
    >>> @torch.compile
    ... def step(x):
    ...     optimizer.zero_grad()
    ...     loss = (w * x).square().sum()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return loss.detach()
    >>> [step(torch.tensor([1.0, 0.5])).item() for _ in range(3)]
    [1.25, 0.140625, 0.0791015625]

    Source: `torch.compile <https://docs.pytorch.org/docs/2.13/generated/torch.compile.html>`_.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    check_backend(backend)
    if model is None:
        options_given = {"fullgraph": fullgraph, "disable": disable, "recompile_limit": recompile_limit}
        return functools.partial(compile, **options_given)
    if not callable(model):
        raise TypeError(f"torch.compile takes a function or a module, got {type(model).__name__}")
    if disable:
        return model
    if isinstance(model, Module):
        if isinstance(model, OptimizedModule):
            return model
        return OptimizedModule(model, functools.partial(_call, Compiled(model, fullgraph, recompile_limit)))
    if getattr(model, "_fgrad_uncompiled", False):
        return model
    compiled = Compiled(original_of(model), fullgraph, recompile_limit)

    @functools.wraps(model)
    def call(*args: Any, **kwargs: Any) -> Any:
        return compiled(args, kwargs)

    note_compiled(call, compiled.function)
    call._compiled = compiled  # type: ignore[attr-defined]
    return call


def _call(compiled: Compiled, *args: Any, **kwargs: Any) -> Any:
    return compiled(args, kwargs)


module.enter(compile)


def reset() -> None:
    """Forget the programs of all compiled functions, and which of them run in pieces or uncompiled."""
    for each in list(_all):
        each.reset()
