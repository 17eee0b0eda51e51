"""L-BFGS: Newton steps with a Hessian remembered from the last few changes of the gradient."""

from collections.abc import Callable
from typing import Any

from fgrad.mutable.context.modes import enable_grad, no_grad
from fgrad.mutable.tensor.tensor import Tensor
from fgrad.torch import ops
from fgrad.torch.optim.checks import check_learning_rate
from fgrad.torch.optim.line_search import (
    Trial,
    _cubic_interpolate as _cubic_interpolate,
    _strong_wolfe as _strong_wolfe,
    strong_wolfe,
)
from fgrad.torch.optim.optimizer import Optimizer, Parameters

#: what is kept from one step to the next, in PyTorch's order
_REMEMBERED = ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss")


class LBFGS(Optimizer):
    """Limited-memory BFGS on the whole batch; there is one parameter group, and a step needs a closure.

    Args:
      params: parameters or ``(name, parameter)`` pairs.
      lr: length of the step, or of the first trial of the line search.
      max_iter: iterations in a call of ``step``.
      max_eval: evaluations of the closure in a call of ``step``, one and a quarter per iteration if not given.
      tolerance_grad: stop where no element of the gradient is larger.
      tolerance_change: stop where parameters and loss change by less.
      history_size: how many changes are remembered.
      line_search_fn: ``"strong_wolfe"`` or none.

    Raises:
      ValueError: the learning rate is out of its range, or there is more than one parameter group.
      RuntimeError: at the step, another line search is asked for.

    >>> import fgrad.torch as torch
    >>> w = torch.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = torch.optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (w - 3).square().sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    29.0
    >>> w
    tensor([3.0000, 3.0000], requires_grad=True)

    Source: https://docs.pytorch.org/docs/2.13/generated/torch.optim.LBFGS.html
    """

    def __init__(
        self,
        params: Parameters,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_learning_rate(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Minimise for up to ``max_iter`` iterations.

        Args:
          closure: clears the gradients, evaluates the model, calls ``backward`` and returns the loss.

        Returns:
          What ``closure`` returned first.
        """
        if len(self.param_groups) != 1:
            raise AssertionError(f"Expected exactly one param_group, but got {len(self.param_groups)}")

        def evaluate() -> Any:
            with enable_grad():
                return closure()

        with no_grad():
            return self._minimize(evaluate)

    def _minimize(self, evaluate: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        tolerance_change = group["tolerance_change"]
        # the state is one for all parameters; kept with the first, it is cast like it when loaded
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        fresh = "d" not in state

        result = evaluate()
        loss = float(result)
        evaluations = 1
        state["func_evals"] += 1
        grad = self._flat_gradient()
        if _largest(grad) <= group["tolerance_grad"]:
            return result

        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = state["d"] = _direction(state, grad, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = grad, loss
            step = float(group["lr"])
            if state["n_iter"] == 1:
                step *= min(1.0, float(1.0 / grad.abs().sum()))
            state["t"] = step
            slope = float(grad.dot(direction))
            if slope > -tolerance_change:
                break

            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                start = Trial(0.0, loss, grad, slope)
                limit = group["max_eval"] - evaluations
                trial, count = strong_wolfe(self._line(evaluate, direction), start, step, _largest(direction), limit)
                loss, grad, state["t"] = trial.loss, trial.grad, trial.step
                self._move(direction, trial.step)
            else:
                self._move(direction, step)
                count = 0
                if not last:
                    loss, grad, count = float(evaluate()), self._flat_gradient(), 1
            evaluations += count
            state["func_evals"] += count

            if (
                last
                or evaluations >= group["max_eval"]
                or _largest(grad) <= group["tolerance_grad"]
                or _largest(direction * state["t"]) <= tolerance_change
                or abs(loss - state["prev_loss"]) < tolerance_change
            ):
                break
        if fresh:
            # in PyTorch's order, which a printed state shows
            state.update({name: state.pop(name) for name in _REMEMBERED})
        return result

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _flat_gradient(self) -> Tensor:
        """The gradients of all parameters in one real vector."""
        pieces = []
        for param in self._params:
            grad = ops.zeros_like(param) if param.grad is None else param.grad
            pieces.append((ops.view_as_real(grad) if grad.is_complex() else grad).reshape(-1))
        return ops.cat(pieces, 0)

    def _move(self, direction: Tensor, step: float) -> None:
        """Add ``step * direction`` to the parameters."""
        offset = 0
        for param in self._params:
            real = ops.view_as_real(param) if param.is_complex() else param
            piece = direction[offset : offset + real.numel()]
            real.add_(piece.view_as(real), alpha=step)
            offset += real.numel()

    def _line(self, evaluate: Callable[[], Any], direction: Tensor) -> Callable[[float], Trial]:
        """The trial at a step from here; the parameters are put back after each."""
        here = [param.clone() for param in self._params]

        def trial(step: float) -> Trial:
            self._move(direction, step)
            loss = float(evaluate())
            grad = self._flat_gradient()
            for param, value in zip(self._params, here, strict=True):
                param.copy_(value)
            return Trial(step, loss, grad, float(grad.dot(direction)))

        return trial


def _largest(x: Tensor) -> float:
    return float(x.abs().max())


def _direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
    """The remembered inverse Hessian times the negative gradient, after remembering the last step."""
    if state["n_iter"] == 1:
        state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
        return -grad
    dirs, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
    change = grad - state["prev_flat_grad"]
    step = state["d"] * state["t"]
    curvature = change.dot(step)
    if curvature > 1e-10:
        if len(dirs) == history_size:
            for remembered in (dirs, steps, inverses):
                remembered.pop(0)
        dirs.append(change)
        steps.append(step)
        inverses.append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)
    weights = state.setdefault("al", [None] * history_size)
    result = -grad
    for i in reversed(range(len(dirs))):
        weights[i] = steps[i].dot(result) * inverses[i]
        result = result - dirs[i] * weights[i]
    result = result * state["H_diag"]
    for i in range(len(dirs)):
        result = result + steps[i] * (weights[i] - dirs[i].dot(result) * inverses[i])
    return result
