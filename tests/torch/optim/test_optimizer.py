"""The base of the optimisers: groups, state, saving and loading, hooks; and what constructors refuse."""

import copy
import importlib
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad.torch as ft
from fgrad.torch.optim.optimizer import required
from tests.torch.optim.table import CASES, Case, array, give_gradients, run
from tests.torch.oracle import outcome


def leaf(lib: Any, *shape: int) -> Any:
    return lib.ones(*(shape or (2,)), requires_grad=True)


def both(attempt: Callable[[Any], Any]) -> None:
    """The same value, or the same error with the same text, under both libraries."""
    torch = pytest.importorskip("torch")
    own, theirs = outcome(attempt, ft), outcome(attempt, torch)
    assert own.raised == theirs.raised
    # a class is where it is
    assert own.text.replace("fgrad.torch.", "torch.") == theirs.text


def twice(lib: Any) -> Any:
    w = leaf(lib)
    return [{"params": [w]}, {"params": [w]}]


PARAMETERS: dict[str, Callable[[Any], Any]] = {
    "a tensor": lambda lib: leaf(lib),
    "nothing": lambda lib: [],
    "a number": lambda lib: [1],
    "None": lambda lib: [None],
    "no iterable": lambda lib: 3,
    "a list in the list": lambda lib: [[leaf(lib)]],
    "in two groups": twice,
    "a set in a group": lambda lib: [{"params": {leaf(lib)}}],
    "some names missing": lambda lib: [("a", leaf(lib)), leaf(lib)],
    "some groups without names": lambda lib: [{"params": [("a", leaf(lib))]}, {"params": [leaf(lib)]}],
    "some groups with names": lambda lib: [{"params": [leaf(lib)]}, {"params": [("a", leaf(lib))]}],
    "no leaf": lambda lib: [leaf(lib) * 1],
    "no params in the group": lambda lib: [{"lr": 1}],
    "a group after a tensor": lambda lib: [leaf(lib), {"params": [leaf(lib)]}],
    "a tensor after a group": lambda lib: [{"params": [leaf(lib)]}, leaf(lib)],
}


@pytest.mark.parametrize("parameters", PARAMETERS.values(), ids=PARAMETERS)
def test_refused_parameters(parameters: Callable[[Any], Any]):
    def attempt(lib: Any) -> None:
        lib.optim.SGD(parameters(lib))
        raise AssertionError("accepted")

    both(attempt)


OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {"lr": -1},
        {"momentum": -1},
        {"weight_decay": -1},
        {"nesterov": True},
        {"nesterov": True, "momentum": 0.5, "dampening": 0.5},
        {"fused": True, "foreach": True},
        {"fused": True, "differentiable": True},
        {"lr": float("nan")},
    ],
    "Adam": [
        {"lr": -1},
        {"lr": float("nan")},
        {"eps": -1},
        {"betas": (-0.1, 0.9)},
        {"betas": (0.9, 1.0)},
        {"betas": (0, 0.9)},
        {"weight_decay": -1},
        {"fused": True, "foreach": True},
        {"fused": True, "differentiable": True},
    ],
    "AdamW": [{"lr": -1}, {"eps": -1}, {"betas": (2.0, 0.9)}],
    "Adamax": [{"lr": -1}, {"eps": -1}, {"betas": (0.9, 2.0)}, {"weight_decay": -1}],
    "NAdam": [{"lr": -1}, {"eps": -1}, {"betas": (0.9, 2.0)}, {"weight_decay": -1}, {"momentum_decay": -1}],
    "RAdam": [{"lr": -1}, {"eps": -1}, {"betas": (0.9, 2.0)}, {"weight_decay": -1}],
    "Adadelta": [{"lr": -1}, {"rho": 2}, {"eps": -1}, {"weight_decay": -1}],
    "Adagrad": [
        {"lr": -1},
        {"lr_decay": -1},
        {"weight_decay": -1},
        {"initial_accumulator_value": -1},
        {"eps": -1},
        {"fused": True, "foreach": True},
    ],
    "RMSprop": [{"lr": -1}, {"eps": -1}, {"momentum": -1}, {"weight_decay": -1}, {"alpha": -1}],
    "Rprop": [{"lr": -1}, {"etas": (1.5, 2.0)}],
    "ASGD": [{"lr": -1}, {"weight_decay": -1}],
    "Adafactor": [
        {"lr": -1},
        {"beta2_decay": 1},
        {"eps": (-1, 0)},
        {"eps": (None, -1)},
        {"d": 0.5},
        {"weight_decay": -1},
    ],
    "Muon": [{"lr": -1}, {"momentum": -1}, {"weight_decay": -1}, {"adjust_lr_fn": "no"}, {}],
    "LBFGS": [{"lr": -1}],
    "SparseAdam": [{"lr": 0}, {"lr": -1}, {"eps": 0}, {"betas": (0.9, 2.0)}],
}


@pytest.mark.parametrize(("name", "options"), [(name, each) for name, all in OPTIONS.items() for each in all], ids=str)
def test_refused_options(name: str, options: dict[str, Any]):
    def attempt(lib: Any) -> str:
        return type(getattr(lib.optim, name)([leaf(lib)], **options)).__name__

    both(attempt)


@pytest.mark.parametrize(
    "options",
    [
        lambda lib: {"lr": lib.ones(2)},
        lambda lib: {"lr": lib.tensor(0.1), "foreach": True},
        lambda lib: {"betas": (lib.tensor(0.9), 0.99)},
        lambda lib: {"betas": (lib.tensor(0.9), lib.tensor(0.99)), "foreach": True},
    ],
)
def test_refused_tensors_as_options(options: Callable[[Any], dict[str, Any]]):
    both(lambda lib: lib.optim.Adam([leaf(lib)], **options(lib)))


def test_tensors_with_axes_as_betas():
    def attempt(lib: Any) -> str:
        betas = lib.tensor([0.5]), lib.tensor([[0.25]])
        return repr(lib.optim.Adam([leaf(lib)], lr=lib.tensor([0.1]), betas=betas).param_groups[0]["betas"])

    both(attempt)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_repr_and_defaults(case: Case):
    def attempt(lib: Any) -> str:
        return repr(getattr(lib.optim, case.name)([leaf(lib, 2, 2)], **case.options))

    both(attempt)


def test_step_of_the_base_is_not_implemented():
    both(lambda lib: lib.optim.Optimizer([leaf(lib)], {}).step())


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_parameter_whose_elements_share_memory_is_refused(name: str):
    def attempt(lib: Any) -> None:
        w = lib.nn.Parameter(lib.ones(2, 1).expand(2, 2))
        w.grad = lib.ones(2, 2)
        getattr(lib.optim, name)([w], lr=0.1).step()

    both(attempt)


def test_required_options():
    assert repr(required) == "<required parameter>"
    with pytest.raises(
        ValueError, match="parameter group didn't specify a value of required optimization parameter lr"
    ):
        ft.optim.Optimizer([leaf(ft)], {"lr": required})
    assert ft.optim.Optimizer([{"params": [leaf(ft)], "lr": 1}], {"lr": required}).param_groups[0]["lr"] == 1


def test_duplicates_within_a_group_warn():
    w = leaf(ft)
    with pytest.warns(UserWarning, match="optimizer contains a parameter group with duplicate parameters"):
        optimizer = ft.optim.SGD([w, w], lr=0.25)
    w.grad = ft.ones(2)
    optimizer.step()
    assert w.tolist() == [0.5, 0.5]


def test_add_param_group():
    optimizer = ft.optim.SGD([leaf(ft)], lr=0.5)
    w = leaf(ft)
    optimizer.add_param_group({"params": w})
    assert optimizer.param_groups[1]["params"] == [w] or optimizer.param_groups[1]["params"][0] is w
    assert optimizer.param_groups[1]["lr"] == 0.5
    both(lambda lib: lib.optim.SGD([leaf(lib)]).add_param_group([leaf(lib)]))


def test_names():
    optimizer = ft.optim.SGD([("a", leaf(ft)), ("b", leaf(ft))])
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    state = ft.optim.SGD([leaf(ft), leaf(ft)]).state_dict()
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]


def test_zero_grad():
    w = leaf(ft)
    optimizer = ft.optim.SGD([w])
    optimizer.zero_grad()
    (w * w).sum().backward(create_graph=False)
    grad = w.grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is grad
    assert grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert w.grad is None


def test_a_parameter_without_gradient_is_left_alone():
    w = leaf(ft)
    optimizer = ft.optim.Adam([w], weight_decay=0.5)
    optimizer.step()
    assert w.tolist() == [1, 1]
    assert not optimizer.state


def test_plain_descent_keeps_no_state():
    _, optimizer = run(ft, Case("SGD"), steps=2)
    assert optimizer.state_dict()["state"] == {}


def test_a_parameter_given_twice_has_the_number_of_its_last_place():
    def attempt(lib: Any) -> Any:
        w = leaf(lib)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            optimizer = lib.optim.Adagrad([w, leaf(lib), w])
        state = optimizer.state_dict()
        return [group["params"] for group in state["param_groups"]], list(state["state"])

    both(attempt)


def test_state_is_written_in_place():
    w = leaf(ft)
    optimizer = ft.optim.Adam([w])
    w.grad = ft.ones(2)
    optimizer.step()
    before = dict(optimizer.state[w])
    optimizer.step()
    assert all(optimizer.state[w][key] is value for key, value in before.items())
    assert before["step"].item() == 2


def test_closures():
    w = leaf(ft)
    optimizer = ft.optim.SGD([w], lr=0.25)

    def closure() -> Any:
        assert ft.is_grad_enabled()
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with ft.no_grad():
        assert optimizer.step(closure).item() == 2
        assert not ft.is_grad_enabled()
    assert w.tolist() == [0.5, 0.5]


# Saving and loading


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loading_goes_on_where_saving_stopped(case: Case):
    params, optimizer = run(ft, case, steps=3)
    copies = [param.detach().clone().requires_grad_() for param in params]
    resumed = getattr(ft.optim, case.name)(copies, lr=0.7)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for step in range(3, 6):
        for each, own in ((params, optimizer), (copies, resumed)):
            give_gradients(ft, each, step)
            own.step()
    for one, other in zip(params, copies, strict=True):
        # a step may be interpreted on one side and compiled on the other, and be rounded otherwise; Muon's in bfloat16
        np.testing.assert_allclose(array(one), array(other), rtol=1e-3, atol=1e-2 if case.name == "Muon" else 1e-5)


def test_state_of_pytorch_loads():
    torch = pytest.importorskip("torch")
    theirs, reference = run(torch, Case("AdamW"), steps=3)
    saved = reference.state_dict()
    state = {i: {k: ft.tensor(array(v)) for k, v in each.items()} for i, each in saved["state"].items()}
    own = [ft.tensor(array(param)).requires_grad_() for param in theirs]
    optimizer = ft.optim.AdamW(own)
    optimizer.load_state_dict({"state": state, "param_groups": saved["param_groups"]})
    for lib, params, each in ((ft, own, optimizer), (torch, theirs, reference)):
        give_gradients(lib, params, 3)
        each.step()
    for one, other in zip(own, theirs, strict=True):
        np.testing.assert_allclose(array(one), array(other), rtol=1e-6)


def test_loaded_tensors_are_cast_to_their_parameter_except_steps():
    _, optimizer = run(ft, Case("Adam"), steps=1)
    state = optimizer.state_dict()
    wide = [param.detach().double().requires_grad_() for param in optimizer.param_groups[0]["params"]]
    other = ft.optim.Adam(wide)
    other.load_state_dict(state)
    assert {key: value.dtype for key, value in other.state[wide[0]].items()} == {
        "step": ft.float32,
        "exp_avg": ft.float64,
        "exp_avg_sq": ft.float64,
    }


def test_loaded_rates_in_double_precision_are_rounded_to_the_default_type():
    def last(lib: Any) -> np.ndarray:
        params, optimizer = run(lib, Case("ASGD", {"lr": 0.3, "lambd": 0.1, "t0": 2, "foreach": False}), "float64", 2)
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for step in range(2, 6):
            give_gradients(lib, params, step, "float64")
            optimizer.step()
        state = optimizer.state[params[0]]
        return np.concatenate([array(x).ravel() for x in (params[0], state["eta"], state["mu"])])

    np.testing.assert_allclose(last(ft), last(pytest.importorskip("torch")), rtol=1e-12)


@pytest.mark.parametrize("name", ["Adam", "NAdam", "ASGD", "Adagrad", "RMSprop"])
def test_old_states_with_numbers(name: str):
    _, optimizer = run(ft, Case(name), steps=2)
    saved = optimizer.state_dict()
    for state in saved["state"].values():
        for key in ("step", "mu_product", "eta", "mu"):
            if key in state:
                state[key] = state[key].item()
    for group in saved["param_groups"]:
        for key in ("maximize", "foreach", "differentiable", "capturable", "amsgrad", "centered"):
            group.pop(key, None)
    params, other = run(ft, Case(name), steps=0)
    other.load_state_dict(saved)
    assert all(value.dim() == 0 for value in (other.state[params[1]][key] for key in ("step",)))
    give_gradients(ft, params, 2)
    other.step()
    assert other.param_groups[0]["maximize"] is False


def test_a_state_of_adam_becomes_one_of_adamw():
    _, adam = run(ft, Case("Adam"), steps=1)
    _, adamw = run(ft, Case("AdamW"), steps=1)
    adamw.load_state_dict(adam.state_dict())
    assert adamw.param_groups[0]["decoupled_weight_decay"] is True


def test_states_that_do_not_fit():
    def groups(lib: Any) -> None:
        state = lib.optim.SGD([{"params": [leaf(lib)]}, {"params": [leaf(lib)]}]).state_dict()
        lib.optim.SGD([leaf(lib)]).load_state_dict(state)

    def sizes(lib: Any) -> None:
        lib.optim.SGD([leaf(lib)]).load_state_dict(lib.optim.SGD([leaf(lib), leaf(lib)]).state_dict())

    both(groups)
    both(sizes)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(duplicate: Callable[[Any], Any]):
    params, optimizer = run(ft, Case("Adam"), steps=2)
    other = duplicate(optimizer)
    copied = other.param_groups[0]["params"]
    assert all(one is not two for one, two in zip(params, copied, strict=True))
    give_gradients(ft, copied, 2)
    give_gradients(ft, params, 2)
    other.step()
    optimizer.step()
    for one, two in zip(params, copied, strict=True):
        np.testing.assert_array_equal(array(one), array(two))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_copies_have_the_options_that_there_were(case: Case):
    _, optimizer = run(ft, case, steps=0)
    assert copy.deepcopy(optimizer).state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]


# Hooks


def hooked(lib: Any) -> list[str]:
    """What is called, in which order, around a step, saving and loading."""
    calls: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *args: calls.append(f"{name}:{len(args)}")

    w = leaf(lib)
    w.grad = lib.ones(2)
    optimizer = lib.optim.SGD([w])
    module = importlib.import_module(f"{lib.optim.__name__}.optimizer")
    handles = [
        module.register_optimizer_step_pre_hook(note("all before")),
        module.register_optimizer_step_post_hook(note("all after")),
        optimizer.register_step_pre_hook(note("before")),
        optimizer.register_step_post_hook(note("after")),
        optimizer.register_state_dict_pre_hook(note("save")),
        optimizer.register_state_dict_pre_hook(note("save first"), prepend=True),
        optimizer.register_state_dict_post_hook(note("saved")),
        optimizer.register_load_state_dict_pre_hook(note("load")),
        optimizer.register_load_state_dict_post_hook(note("loaded")),
        optimizer.register_load_state_dict_post_hook(note("loaded first"), prepend=True),
    ]
    for _ in range(2):
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        for handle in handles:
            handle.remove()
        calls.append("removed")
    return calls


def test_hooks():
    both(hooked)
    assert hooked(ft).count("before:3") == 1


def test_hooks_may_replace_what_they_see():
    w = leaf(ft)
    optimizer = ft.optim.SGD([w])
    optimizer.register_step_pre_hook(lambda self, args, kwargs: (args, {"closure": lambda: "seen"}))
    assert optimizer.step() == "seen"
    optimizer.register_state_dict_post_hook(lambda self, state: {**state, "more": 1})
    assert optimizer.state_dict()["more"] == 1
    optimizer.register_load_state_dict_pre_hook(
        lambda self, state: {**state, "param_groups": [{"params": [0], "lr": 9}]}
    )
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["lr"] == 9


def test_a_step_hook_that_returns_something_else():
    optimizer = ft.optim.SGD([leaf(ft)])
    optimizer.register_step_pre_hook(lambda *args: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3\."):
        optimizer.step()


def test_an_optimizer_of_ones_own():
    class Descent(ft.optim.Optimizer):
        def __init__(self, params: Any):
            super().__init__(params, {"lr": 0.5})

        @ft.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for param in group["params"]:
                    param.add_(param.grad, alpha=-group["lr"])
                    self.state[param]["count"] = self.state[param].get("count", 0) + 1

    w = leaf(ft)
    w.grad = ft.ones(2)
    optimizer = Descent([w])
    seen = []
    optimizer.register_step_post_hook(lambda *args: seen.append(w.tolist()))
    optimizer.step()
    assert seen == [[0.5, 0.5]]
    assert optimizer.state_dict()["state"] == {0: {"count": 1}}


def test_sparse_adam_refuses_what_there_is():
    w = leaf(ft)
    w.grad = ft.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        ft.optim.SparseAdam([w]).step()
    both(lambda lib: lib.optim.SparseAdam([lib.ones(1, dtype=lib.complex64, requires_grad=True)]))


def test_nothing_warns_in_an_ordinary_step():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(ft, Case("Adam"), steps=2)


def test_how_groups_are_printed():
    def run(lib: Any) -> str:
        groups = [{"params": [lib.ones(2, requires_grad=True)], "lr": lr} for lr in (0.1, 0.2)]
        return repr(lib.optim.SGD(groups, momentum=0.9))

    assert run(ft) == run(pytest.importorskip("torch"))


def test_an_optimiser_that_calls_no_init_gets_its_hooks_by_name():
    class Wrapping(ft.optim.Optimizer):
        def __init__(self) -> None:
            self._optimizer_step_pre_hooks = {1: lambda *given: called.append("before")}
            self._optimizer_step_post_hooks = {}
            self._patch_step_function()

        def step(self, closure: Any = None) -> None:
            called.append("step")

    called: list[str] = []
    Wrapping().step()
    assert called == ["before", "step"]
