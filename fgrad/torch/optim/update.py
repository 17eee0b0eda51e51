"""One step of a parameter group as one program: pure rules per parameter, and the optimiser that applies them."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, ClassVar

from attrs import frozen

from fgrad.mutable.context.modes import enable_grad, modes, recording
from fgrad.mutable.operation.capture import OVERWRITING, assign, fused_each, overwrite
from fgrad.mutable.tensor.tensor import Tensor, new_tensor, to_device_of
from fgrad.mutable.types.dtypes import float32, float64, get_default_dtype
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_implementation
from fgrad.torch.optim.optimizer import Group, Optimizer, Parameters
from fgrad.torch.sharing import without_aliasing

# NOTE [An update is a value]
# A rule knows its options (momentum or not, centred or not) and nothing else: two groups with the same options have
# equal rules, so what was compiled for one serves the other.  What changes from step to step is an argument.  Numbers
# (learning rate, decays) enter the program as 0-d inputs, so that a scheduler causes no compilation; step counts are
# tensors of the state, and bias corrections are worked out from them inside the program, in double precision as
# PyTorch's Python floats are.  Nothing is read back, so a step can itself be captured.

State = dict[str, Tensor]
Numbers = dict[str, Any]


class Decay(Enum):
    """How weight decay enters: not at all, added to the gradient, or by shrinking the parameter."""

    NONE = auto()
    COUPLED = auto()
    DECOUPLED = auto()

    @staticmethod
    def of(weight_decay: float | Tensor, decoupled: bool = False) -> "Decay":
        if not bool(weight_decay != 0):
            return Decay.NONE
        return Decay.DECOUPLED if decoupled else Decay.COUPLED


@frozen
class Update:
    """The rule of an optimiser under fixed options.

    The numbers include ``weight_decay`` where decay is coupled and ``retention``, that is ``1 - lr * weight_decay``,
    where it is decoupled.
    """

    #: the names of the state that PyTorch writes twice in one step, which their versions show
    twice: ClassVar[tuple[str, ...]] = ()

    maximize: bool = False
    decay: Decay = Decay.NONE

    #: the names of the state that the rule reads and writes
    @property
    def states(self) -> tuple[str, ...]:
        return ("step",)

    #: how often PyTorch writes to the parameter in one step, which its version shows
    @property
    def writes(self) -> int:
        return 2 if self.decay is Decay.DECOUPLED else 1

    @abstractmethod
    def rule(self, param: Tensor, grad: Tensor, state: State, n: Numbers) -> tuple[Tensor, State]:
        """The next parameter and state of one real parameter; ``n`` has the numbers by name."""

    def __call__(self, item: tuple[Tensor, Tensor, State], tensors: Numbers, numbers: Numbers) -> tuple[Tensor, State]:
        """The next parameter and state from a parameter, its gradient and its state."""
        param, grad, state = item
        n = {**tensors, **numbers}
        x = _real(param)
        g = _real(-grad if self.maximize else grad)
        if self.decay is Decay.COUPLED:
            g = g + x * n["weight_decay"]
        elif self.decay is Decay.DECOUPLED:
            x = x * n["retention"]
        x, new = self.rule(x, g, {key: _real(value) for key, value in state.items()}, n)
        return _like(x, param), {key: _like(value, state.get(key, param)) for key, value in new.items()}


def _real(x: Tensor) -> Tensor:
    """Complex parameters are optimised as pairs of reals."""
    return ops.view_as_real(x) if x.is_complex() else x


def _like(x: Tensor, old: Tensor) -> Tensor:
    """``x`` in the type of the value it replaces; a 0-d parameter may have met a wider number."""
    if old.is_complex():
        return ops.view_as_complex(x)
    return x if x.dtype == old.dtype else x.to(old.dtype)


def moving_average(average: Tensor, value: Tensor, n: Numbers, beta: str) -> Tensor:
    """``beta * average + (1 - beta) * value``, with both factors among the numbers."""
    return average * n[beta] + value * n["1-" + beta]


def decays(**betas: Any) -> Numbers:
    """Each factor and its complement, taken here in double precision."""
    return {name: value for beta, x in betas.items() for name, value in ((beta, x), ("1-" + beta, 1 - x))}


def scalar(value: float) -> Tensor:
    """A 0-d tensor for the state: ``float64`` where that is the default type, ``float32`` otherwise."""
    return ops.tensor(value, dtype=float64 if get_default_dtype() == float64 else float32)


class UpdateOptimizer(Optimizer):
    """An optimiser whose step is an ``Update`` per parameter group.

    A subclass defines its rule and options, and overrides defaults only where it differs.

    Args:
      params: parameters, ``(name, parameter)`` pairs or parameter groups.
      options: by name, the options of the groups that give none; names that are no options are passed over, so that a
        constructor can hand on all its ``locals()``.
    """

    #: the rule
    _rule: ClassVar[type[Update]]
    #: the names of the options, in the order in which PyTorch keeps them
    _options: ClassVar[str]
    #: the options that the rule calculates with, beside decay factors
    _inputs: ClassVar[tuple[str, ...]] = ("lr", "eps", "weight_decay")
    #: decay factors of averages, beside ``betas``: the rule calculates with their complements, too
    _factors: ClassVar[tuple[str, ...]] = ()
    #: options that came into PyTorch later, and what they are in a state saved before
    later_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }
    #: names of state that older versions saved as Python numbers
    scalars: ClassVar[tuple[str, ...]] = ("step",)
    #: what ``capturable=True`` asks to be on an accelerator, and whether XLA counts as one
    captured: ClassVar[str] = "params and state_steps"
    captures_on_xla: ClassVar[bool] = True

    def __init__(self, params: Parameters, options: Mapping[str, Any]) -> None:
        names = self._options.split()
        super().__init__(params, {name: options[name] for name in names})
        if "fused" in names:
            check_implementation(options["fused"], options["foreach"], options["differentiable"])

    def _update(self, group: Group) -> Update:
        """The rule for the options of this group."""
        return self._variant(group)

    def _variant(self, group: Group, **choices: Any) -> Update:
        """The rule for these choices and those that all optimisers offer."""
        decay = Decay.of(group["weight_decay"], group.get("decoupled_weight_decay", False))
        return self._rule(maximize=group["maximize"], decay=decay, **choices)

    def _numbers(self, group: Group) -> dict[str, float | Tensor]:
        """What the rule calculates with."""
        numbers = {name: group[name] for name in self._inputs}
        if "decoupled_weight_decay" in self.defaults:
            numbers["retention"] = 1 - group["lr"] * group["weight_decay"]
        factors = {name: group[name] for name in self._factors}
        if "betas" in self.defaults:
            factors["beta1"], factors["beta2"] = group["betas"]
        return numbers | decays(**factors)

    def _initial_state(self, group: Group, param: Tensor) -> State:
        """The state of a parameter before its first step."""
        states = self._update(group).states
        return {name: scalar(0.0) if name == "step" else ops.zeros_like(param) for name in states}

    def _state_before(self, group: Group, param: Tensor) -> State:
        """A state from which the rule for later steps does what the first step does."""
        return self._on_its_device(group, param)

    def _on_its_device(self, group: Group, param: Tensor) -> State:
        """The state before a parameter's first step on the parameter's device.

        PyTorch leaves the counts of steps on the CPU, unless ``capturable`` or ``fused``; a step here is one program,
        on one device.
        """
        return {name: to_device_of(param, value) for name, value in self._initial_state(group, param).items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self.later_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                saved = self.state.get(param, {})
                for name in self.scalars:
                    if name in saved and not isinstance(saved[name], Tensor):
                        saved[name] = scalar(float(saved[name]))

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters that have a gradient.

        Args:
          closure: evaluates the model again and returns the loss.

        Returns:
          What ``closure`` returned.
        """
        with recording(self.defaults.get("differentiable", False)):
            loss = None
            if closure is not None:
                with enable_grad():
                    loss = closure()
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _step_group(self, group: Group) -> None:
        params = [param for param in group["params"] if param.grad is not None]
        if not params:
            return
        self._check(group, params)
        for param in params:
            # asking self.state would make an entry, which PyTorch makes only where there is state
            if not self.state.get(param):
                initial = self._on_its_device(group, param)
                if initial:
                    self.state[param].update(initial)
        numbers = {key: _without_axes(value) for key, value in self._numbers(_traced(group)).items()}
        advance = _advance_differentiably if group.get("differentiable") else _advance
        if group.get("fused"):
            advance = _advance_uncounted
        update = self._update(group)
        for separate in without_aliasing(params):
            advance(update, separate, self.state, numbers)

    def _check(self, group: Group, params: list[Tensor]) -> None:
        if group.get("fused"):
            check_fused(params[0])
        if group.get("capturable"):
            devices = ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if self.captures_on_xla else [])]
            if any(param.device.type not in devices for param in params):
                raise AssertionError(f"If capturable=True, {self.captured} must be on supported devices: {devices}.")
        if group.get("foreach") and group.get("differentiable"):
            raise AssertionError("_foreach ops don't support autograd")


@frozen
class _Options:
    """The options of a group, of which a capture makes those numbers inputs that a rule calculates with."""

    group: Group
    capture: Any

    def __getitem__(self, key: str) -> Any:
        return self.capture.number(self.group, key)


def _traced(group: Group) -> Any:
    return group if modes.capturing is None else _Options(group, modes.capturing)


def check_fused(param: Tensor) -> None:
    """Refuse ``fused=True`` for a parameter that PyTorch has no fused kernel for."""
    devices = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]
    if param.device.type not in devices or not param.is_floating_point():
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of "
            f"supported devices: {devices} but {param.dtype} and {param.device.type}"
        )


def _without_axes(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _advance(update: Update, params: list[Tensor], state: Any, numbers: dict[str, Any], counted: bool = True) -> None:
    states = update.states
    items = [_operands(states, param, state.get(param) or {}) for param in params]
    tensors = {key: value for key, value in numbers.items() if isinstance(value, Tensor)}
    plain = {key: float(value) for key, value in numbers.items() if not isinstance(value, Tensor)}
    made = fused_each(update, items, _item, tensors, plain, _overwritten)
    values, times = made.values, update.writes if counted else 0
    written = [(param, values[new], times) for param, (new, _) in zip(params, made.results, strict=True)]
    for param, (_, new_state) in zip(params, made.results, strict=True):
        kept = state[param] if new_state else {}
        for key, new in new_state.items():
            before = kept.get(key)
            if isinstance(before, Tensor):
                times = 2 if key in update.twice else 1
                written.append((before, values[new], times if counted or key == "step" else 0))
            else:
                kept[key] = new_tensor(values[new], made.types[new])
    assign([write for write in written if write[1] is not OVERWRITING])
    overwrite([(old, times) for old, new, times in written if new is OVERWRITING], made.calls)


def _operands(states: Sequence[str], param: Tensor, kept: dict[str, Any]) -> tuple[tuple[str, ...], list[Tensor]]:
    """The names of the state that there is, and what the rule reads: the parameter, its gradient and that state."""
    present = tuple([key for key in states if kept.get(key) is not None])
    return present, [param, param.grad, *[kept[key] for key in present]]


def _item(names: tuple[str, ...], operands: Sequence[Any]) -> tuple[Any, Any, dict[str, Any]]:
    """What an update is called with for one parameter."""
    return operands[0], operands[1], dict(zip(names, operands[2:], strict=True))


def _overwritten(item: Any, result: Any) -> Iterator[tuple[int, int]]:
    """Which results replace which operands: the parameter, and those states that there are."""
    (param, _, states), (new_param, new_states) = item, result
    yield new_param, param
    for key in states.keys() & new_states.keys():
        yield new_states[key], states[key]


def _advance_uncounted(update: Update, params: list[Tensor], state: Any, numbers: dict[str, Any]) -> None:
    """The same as PyTorch's fused kernels do it: only writes to the step count in the versions."""
    _advance(update, params, state, numbers, counted=False)


def _advance_differentiably(update: Update, params: list[Tensor], state: Any, numbers: dict[str, Any]) -> None:
    """The same on tensors that autograd watches; the rule gets copies, so that writing changes nothing it saved."""
    items = [_item(*_operands(update.states, param, state.get(param) or {})) for param in params]
    news = [
        update((param.clone(), grad, {key: value.clone() for key, value in each.items()}), {}, numbers)
        for param, grad, each in items
    ]
    for param, (new, new_state) in zip(params, news, strict=True):
        param.copy_(new)
        for key, value in new_state.items():
            if isinstance(state[param].get(key), Tensor):
                state[param][key].copy_(value)
            else:
                state[param][key] = value
