"""``torch.pure``: a step of training as a function of arrays, which JAX's transformations take."""

import subprocess
import sys
from array import array
from collections import deque
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import fgrad.torch as torch
from fgrad.errors import CaptureError, GraphArgumentError
from tests.torch.compiler.programs import classifier, close, same

OPTIMIZERS = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.1),
    "nesterov": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda params: torch.optim.Adam(params, lr=0.01),
    "amsgrad": lambda params: torch.optim.Adam(params, lr=0.01, amsgrad=True, weight_decay=0.01),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.01),
    "rmsprop": lambda params: torch.optim.RMSprop(params, lr=0.01, momentum=0.5, centered=True),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=0.01),
    "adadelta": lambda params: torch.optim.Adadelta(params, lr=0.5),
    "adamax": lambda params: torch.optim.Adamax(params, lr=0.01),
    "nadam": lambda params: torch.optim.NAdam(params, lr=0.01),
    "radam": lambda params: torch.optim.RAdam(params, lr=0.01),
    "asgd": lambda params: torch.optim.ASGD(params, lr=0.01),
    "rprop": lambda params: torch.optim.Rprop(params, lr=0.01),
    "adafactor": lambda params: torch.optim.Adafactor(params, lr=0.01, eps=(1e-30, 1e-3)),
}


def arrays(batch):
    return [x.numpy() for x in batch]


def stacked(batches):
    return [jnp.stack([batch[i].numpy() for batch in batches]) for i in range(len(batches[0]))]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_epoch_is_one_program(name):
    program = classifier(OPTIMIZERS[name])
    function, state = torch.pure(program.step)(*program.batches[0])
    state, losses = jax.lax.scan(lambda state, batch: function(state, *batch), state, stacked(program.batches))
    wanted = [program.step(*batch).item() for batch in program.batches]
    close(losses, wanted, exact=False)
    after, other = program.state(), classifier(OPTIMIZERS[name])
    torch.pure(other.step)(*other.batches[0])[0].load(state)
    for key, value in other.state().items():
        if not key.endswith(".grad"):
            found, old = (value[0], after[key][0]) if isinstance(value, tuple) else (value, after[key])
            np.testing.assert_allclose(found, old, rtol=1e-4, atol=2e-5, err_msg=key)


def test_the_state_has_the_names_of_state_dicts():
    program = classifier(OPTIMIZERS["adam"])
    function, state = torch.pure(program.step)(*program.batches[0])
    assert set(state) == {"model", "optimizer", "generator"}
    assert set(state["model"]) == set(program.model.state_dict())
    program.step(*program.batches[0])
    held = program.optimizer.state_dict()["state"]
    assert {k: set(v) for k, v in state["optimizer"]["state"].items()} == {k: set(v) for k, v in held.items()}
    assert float(state["optimizer"]["param_groups"][0]["lr"]) == pytest.approx(0.01)
    again, _ = function(state, *arrays(program.batches[0]))
    assert jax.tree.structure(again) == jax.tree.structure(state)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), again) == jax.tree.map(lambda x: (x.shape, x.dtype), state)


def test_the_live_objects_stay_as_they_were():
    program = classifier()
    before = program.state()
    function, state = torch.pure(program.step)(*program.batches[0])
    function(state, *arrays(program.batches[0]))
    same(program.state(), before, exact=True)
    assert not program.optimizer.state


def test_a_state_is_put_back():
    program = classifier()
    function, state = torch.pure(program.step)(*program.batches[0])
    for batch in program.batches[:2]:
        state, _ = jax.jit(function)(state, *arrays(batch))
    other = classifier()
    losses = [other.step(*batch).item() for batch in other.batches]
    function.load(state)
    assert program.optimizer.param_groups[0]["lr"] == 0.1
    close([program.step(*batch).item() for batch in program.batches[2:]], losses[2:], exact=False)
    assert program.model[0].weight.requires_grad and program.model[0].weight.is_leaf


def test_a_state_that_does_not_fit_changes_nothing():
    program = classifier()
    function, state = torch.pure(program.step)(*program.batches[0])
    before = program.state()
    state["model"]["4.weight"] = state["model"]["4.weight"][:1]
    with pytest.raises(ValueError, match=r"model.4.weight has the shape \[3, 8\], and the state \[1, 8\]"):
        function.load(state)
    same(program.state(), before, exact=True)
    del state["model"]["4.weight"]
    with pytest.raises(ValueError, match="the structure"):
        function.load(state)


def test_arguments_that_do_not_fit_are_errors():
    program = classifier()
    function, state = torch.pure(program.step)(*program.batches[0])
    x, y = arrays(program.batches[0])
    with pytest.raises(ValueError, match="the arguments have the structure"):
        function(state, x)
    with pytest.raises(GraphArgumentError, match=r"args\[0\]"):
        function(state, x[:3], y)

    function, state = torch.pure(lambda x, scale: x * scale)(torch.ones(2), 3.0)
    assert function(state, np.ones(2, "float32"), 3.0)[1].tolist() == [3, 3]
    with pytest.raises(ValueError, match="made with 3.0"):
        function(state, np.ones(2, "float32"), 4.0)


def regression(lr=0.1):
    """A step without random numbers, from a state that depends on a seed."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(8, 3)
    return model, optimizer, step, (x, x.sum(1, keepdim=True).sin())


def test_an_ensemble_is_trained_at_once():
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        models.append(regression()[0])
    torch.manual_seed(7)
    model, _, step, batch = regression()
    function, _ = torch.pure(step)(*batch)
    states = []
    for each in models:
        model.load_state_dict(each.state_dict())
        states.append(function.state())
    together = jax.tree.map(lambda *xs: jnp.stack(xs), *states)
    together["optimizer"]["param_groups"][0]["lr"] = jnp.array([0.1, 0.01, 0.001])
    for _ in range(3):
        together, losses = jax.jit(jax.vmap(function, in_axes=(0, None, None)))(together, *arrays(batch))
    for k, (each, lr) in enumerate(zip(models, [0.1, 0.01, 0.001], strict=True)):
        optimizer = torch.optim.SGD(each.parameters(), lr=lr, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(each(batch[0]), batch[1])
            loss.backward()
            optimizer.step()
        assert losses[k] == pytest.approx(loss.item(), rel=1e-5)


def test_an_ensemble_whose_models_read_parts_of_their_weights():
    w = torch.arange(6.0).reshape(3, 2).clone().requires_grad_()

    def step(x):
        w.grad = None
        (w[1] * x).square().sum().backward()
        with torch.no_grad():
            w[-1] -= w.grad[1]
        return w.grad

    x = torch.ones(2)
    function, state = torch.pure(step)(x)
    together = jax.tree.map(lambda one: jnp.stack([one, 2 * one]), state)
    after, found = jax.jit(jax.vmap(function, in_axes=(0, None)))(together, x.numpy())
    for k, scale in enumerate((1, 2)):
        w.data = (torch.arange(6.0).reshape(3, 2) * scale).clone()
        close(found[k], step(x), exact=True)
        close(after["w"][k], w.detach(), exact=True)


def test_draws_are_mapped_each_from_its_own_generator():
    x = torch.ones(20)
    torch.manual_seed(0)
    function, state = torch.pure(lambda x: torch.nn.functional.dropout(x, 0.5))(x)
    states = [state]
    for seed in (1, 2):
        torch.manual_seed(seed)
        states.append(function.state())
    _, found = jax.vmap(function, in_axes=(0, None))(jax.tree.map(lambda *s: jnp.stack(s), *states), x.numpy())
    for seed, each in enumerate(found):
        torch.manual_seed(seed)
        assert np.array_equal(each, torch.nn.functional.dropout(x, 0.5).numpy())


def test_a_learning_rate_has_a_gradient():
    torch.manual_seed(0)
    _, _, step, batch = regression()
    function, state = torch.pure(step)(*batch)

    def after_two(lr):
        (group,) = state["optimizer"]["param_groups"]
        start = {**state, "optimizer": {**state["optimizer"], "param_groups": [{**group, "lr": lr}]}}
        second, _ = function(start, *arrays(batch))
        return function(second, *arrays(batch))[1]

    slope = jax.grad(after_two)(0.1)
    difference = (after_two(0.101) - after_two(0.099)) / 0.002
    assert slope == pytest.approx(float(difference), rel=1e-2)


def test_the_numbers_of_groups_are_state():
    torch.manual_seed(0)
    model, _, _, (x, y) = regression()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.5, 0.9), weight_decay=0.1, amsgrad=False)

    def step(x, y):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()

    function, state = torch.pure(step)(x, y)
    (group,) = state["optimizer"]["param_groups"]
    assert group.keys() == {"lr", "betas", "weight_decay", "eps"}
    assert [float(x) for x in group["betas"]] == pytest.approx([0.5, 0.9])
    other = {"lr": 0.02, "betas": (0.25, 0.8), "weight_decay": 0.3, "eps": 1e-3}
    state["optimizer"]["param_groups"] = [other]
    state, _ = function(state, x.numpy(), y.numpy())
    optimizer.param_groups[0].update(other)
    step(x, y)
    np.testing.assert_allclose(state["model"]["0.weight"], model[0].weight.detach().numpy(), rtol=1e-5, atol=1e-7)

    state["optimizer"]["param_groups"][0]["betas"] = (0.5, 0.75)
    function.load(state)
    assert optimizer.param_groups[0]["betas"] == (0.5, 0.75) and optimizer.param_groups[0]["lr"] == 0.02


def test_muon_is_pure():
    w = torch.eye(3, requires_grad=True)
    optimizer = torch.optim.Muon([w], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        (x @ w).square().sum().backward()
        optimizer.step()

    function, state = torch.pure(step)(torch.ones(2, 3))
    for _ in range(2):
        state, _ = jax.jit(function)(state, np.ones((2, 3), "float32"))
        step(torch.ones(2, 3))
    np.testing.assert_allclose(state["w"], w.detach().numpy(), rtol=1e-2, atol=1e-2)


def test_lbfgs_which_goes_by_numbers_is_refused():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([w])

    def step(x):
        def closure():
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            return loss

        return optimizer.step(closure)

    with pytest.raises(CaptureError, match="LBFGS decides by the values of numbers"):
        torch.pure(step)(torch.ones(2))
    assert w.grad is None and not optimizer.state


def test_it_is_exported():
    torch.manual_seed(0)
    _, _, step, batch = regression()
    function, state = torch.pure(step)(*batch)
    exported = export.export(jax.jit(function))(state, *arrays(batch))
    _, loss = exported.call(state, *arrays(batch))
    assert float(loss) == pytest.approx(step(*batch).item(), rel=1e-5)


def test_it_is_exported_to_a_file_and_read_back():
    pytest.importorskip("flatbuffers", reason="jax.export writes files with it")
    torch.manual_seed(0)
    _, _, step, batch = regression()
    function, state = torch.pure(step)(*batch)
    assert 0 in state["optimizer"]["state"]
    file = export.export(jax.jit(function))(state, *arrays(batch)).serialize()
    exported = export.deserialize(file)
    for _ in range(2):
        state, loss = exported.call(state, *arrays(batch))
        assert float(loss) == pytest.approx(step(*batch).item(), rel=1e-5)
    function.load(state)


def test_a_state_of_plain_dicts_is_taken_too():
    _, _, step, batch = regression()
    function, state = torch.pure(step)(*batch)
    plain = {**state, "optimizer": {**state["optimizer"], "state": dict(state["optimizer"]["state"])}}
    after, _ = function(plain, *arrays(batch))
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_gradients_that_are_added_to_are_state():
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def accumulate(x):
        (w * x).sum().backward()

    function, state = torch.pure(accumulate)(torch.ones(2))
    assert state["grad"]["w"].tolist() == [0, 0] and w.grad is None
    for _ in range(2):
        state, _ = function(state, np.array([1, 2], "float32"))
    assert state["grad"]["w"].tolist() == [2, 4]
    function.load(state)
    assert w.grad.tolist() == [2, 4]


def test_an_average_of_weights_is_state():
    torch.manual_seed(0)
    model, _, step, batch = regression()
    average = [p.detach().clone() for p in model.parameters()]

    def averaged(x, y):
        loss = step(x, y)
        with torch.no_grad():
            for a, p in zip(average, model.parameters(), strict=True):
                a.mul_(0.5).add_(p, alpha=0.5)
        return loss.detach()

    function, state = torch.pure(averaged)(*batch)
    for _ in range(2):
        state, _ = function(state, *arrays(batch))
        averaged(*batch)
    for i, a in enumerate(average):
        np.testing.assert_allclose(state["average"][i], a.numpy(), rtol=1e-5, atol=1e-6)


def dampened():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5)

    def step(x):
        optimizer.zero_grad()
        (w * x).square().sum().backward()
        optimizer.step()

    return w, optimizer, step


def teacher_and_student():
    torch.manual_seed(0)
    teacher, student = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    teacher.weight.data = student.weight.data
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def step(x):
        with torch.no_grad():
            for p, q in zip(teacher.parameters(), student.parameters(), strict=True):
                p.data = p.data * 0.9 + q.data * 0.1
        optimizer.zero_grad()
        loss = (student(x) - teacher(x).detach() - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, teacher, student


def test_data_that_each_call_replaces_is_state():
    step, *wanted = teacher_and_student()
    pure_step, *found = teacher_and_student()
    xs = torch.rand(3, 4, 2)
    function, state = torch.pure(pure_step)(xs[0])
    assert set(state) == {"teacher", "student", "optimizer"}
    state, losses = jax.lax.scan(function, state, xs.numpy())
    close(losses, [step(x).item() for x in xs], exact=False)
    function.load(state)
    for one, two in zip(wanted, found, strict=True):
        torch.testing.assert_close(one.state_dict(), two.state_dict())


def test_data_that_is_replaced_and_handed_on_is_state():
    x, y = torch.ones(2), torch.zeros(2)

    def step(z):
        x.data, y.data = y.data + z, x.data
        return torch.stack([x, y])

    z = torch.arange(2.0)
    function, state = torch.pure(step)(z)
    found = []
    for _ in range(3):
        state, result = function(state, z)
        found.append(result)
    close(found, [step(z) for _ in range(3)], exact=False)


def test_memory_that_the_first_call_makes_two_tensors_share_is_an_error():
    x, y = torch.ones(2), torch.zeros(2)

    def step(z):
        y.data = x.data
        x.add_(z)
        return x + y

    with pytest.raises(RuntimeError, match="torch.pure: x and y share memory after the first call, and not before"):
        torch.pure(step)(torch.ones(2))
    assert x.tolist() == [1, 1] and y.tolist() == [0, 0]


@pytest.mark.parametrize(
    "part", [lambda x: x[:3], lambda x: x[:3].t(), lambda x: x[1].expand(3, 3), lambda x: x[::2, 1]]
)
def test_an_argument_may_be_a_part_or_have_another_layout(part):
    x, w = torch.rand(4, 3), torch.rand(3)
    given = part(x)

    def step(x, factor):
        w.add_(x.sum() * factor["by"])
        return (x * w[: x.shape[-1]]).flatten()

    function, state = torch.pure(step)(given, {"by": 2})
    one, two = function(state, given, {"by": 2}), function(state, given.numpy(), {"by": 2})
    close(one[1], step(given, {"by": 2}), exact=False)
    close(two[1], one[1], exact=False)
    close(two[0]["w"], w, exact=False)


def test_a_first_call_that_does_something_else_is_kept_beside_the_others():
    w, optimizer, step = dampened()
    function, state = torch.pure(step)(torch.ones(2))
    x = np.array([1, 2], "float32")
    assert not state["begun"] and not optimizer.state
    states, start = [], state
    for _ in range(3):
        state, _ = jax.jit(function)(state, x)
        states.append(state)
        step(torch.tensor(x))
        np.testing.assert_allclose(state["w"], w.detach().numpy(), rtol=1e-6)
    assert state["begun"] and function.state()["begun"]
    after, _ = jax.lax.scan(lambda state, x: function(state, x), start, np.stack([x] * 3))
    np.testing.assert_allclose(after["w"], w.detach().numpy(), rtol=1e-6)

    function.load(states[0])
    step(torch.tensor(x))
    np.testing.assert_allclose(w.detach().numpy(), states[1]["w"], rtol=1e-6)
    function.load(start)
    assert not optimizer.state[w]
    for _ in range(2):
        step(torch.tensor(x))
    np.testing.assert_allclose(w.detach().numpy(), states[1]["w"], rtol=1e-6)


def test_an_average_that_the_first_step_makes_is_state():
    torch.manual_seed(0)
    model, _, step, batch = regression()

    class Trainer:
        average: Any

        def __init__(self):
            self.average = None

        def step(self, x, y):
            loss = step(x, y)
            weight = model[0].weight.detach()
            self.average = weight.clone() if self.average is None else self.average * 0.5 + weight * 0.5
            return loss.detach()

    trainer = Trainer()
    function, state = torch.pure(trainer.step)(*batch)
    for _ in range(3):
        state, _ = function(state, *arrays(batch))
        trainer.step(*batch)
    np.testing.assert_allclose(state["self"]["average"], trainer.average.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(function.state()["self"]["average"], trainer.average.numpy())

    again, state = torch.pure(trainer.step)(*batch)  # with an average, which each call replaces
    state, _ = again(state, *arrays(batch))
    trainer.step(*batch)
    np.testing.assert_allclose(state["self"]["average"], trainer.average.numpy(), rtol=1e-5)
    np.testing.assert_array_equal(again.state()["self"]["average"], trainer.average.numpy())


@pytest.mark.parametrize("place", ["attribute", "entry", "list", "variable", "argument"])
def test_wherever_the_first_step_makes_it(place):
    w, kept, variable = torch.ones(2), {}, None

    class Holder:
        state = None

    holder = Holder()

    def function(x):
        nonlocal variable
        match place:
            case "attribute":
                average, *_ = holder.state or (torch.zeros(2), w)
                holder.state = average * 0.5 + x, w
            case "entry":
                kept["a"] = kept["a"] * 0.5 + x if "a" in kept else x + 0
                average = kept["a"]
            case "list":
                holder.state = holder.state or [torch.zeros(2)]
                average = holder.state[0].mul_(0.5).add_(x)
            case "variable":
                average = variable = x + 0 if variable is None else variable * 0.5 + x
            case "argument":
                average = variable = x if variable is None else variable * 0.5 + x
        return average * w

    pure, start = torch.pure(function)(torch.ones(2))
    assert (holder.state, kept, variable) == (None, {}, None)
    state, results = jax.lax.scan(pure, start, jnp.ones((3, 2)))
    for _ in range(2):  # also after the live objects have lost it again
        pure.load(start)
        assert (holder.state, kept, variable) == (None, {}, None)
        pure.load(state)
    assert holder.state is None or len(holder.state) == 1 or holder.state[1] is w
    fourth = pure(state, jnp.ones(2))[1]
    np.testing.assert_array_equal(function(torch.ones(2)).numpy(), fourth)
    pure.load(start)
    np.testing.assert_array_equal([function(torch.ones(2)).numpy() for _ in range(3)], results)


def test_a_list_that_each_call_makes_longer_is_no_state():
    kept = []

    def function(x):
        kept.append(kept[-1] + x if kept else x + 0)
        return kept[-1]

    with pytest.raises(RuntimeError, match=r"the function adds kept\[1\] at each call"):
        torch.pure(function)(torch.ones(2))


class Held:
    def __init__(self):
        self.names, self.lengths, self.table, self.act, self.none = set(), [], {"last": 1}, torch.relu, None


#: what a step changes, and the message
PYTHON_STATE = {
    "set": (lambda held, x: held.names.add("a"), r"changes held.names from set\(\) to {'a'}"),
    "list": (
        lambda held, x: held.lengths.append(len(held.lengths)),
        r"sets held.lengths\[0\] to 0",
    ),
    "list of tensors": (lambda held, x: held.lengths.append(x * 2), r"adds held.lengths\[1\] at each call"),
    "new list": (lambda held, x: setattr(held, "lengths", [1]), r"changes held.lengths from \[\] to \[1\]"),
    "key": (lambda held, x: held.table.setdefault("n", 3), r"sets held.table\['n'\] to 3, which was not there"),
    "no key": (lambda held, x: held.table.pop("last"), r"deletes held.table\['last'\]"),
    "key of a tensor": (
        lambda held, x: held.table.update({len(held.table): x * 1}),
        r"adds held.table\[2\]",
    ),
    "attribute": (lambda held, x: setattr(held, "ready", True), r"sets held.ready to True, which was not there"),
    "function": (lambda held, x: setattr(held, "act", torch.tanh), r"changes held.act from .*relu.* to .*tanh"),
    "None": (lambda held, x: setattr(held, "none", "a"), r"changes held.none from None to 'a'"),
    "tuple": (lambda held, x: setattr(held, "none", (*(held.none or ()), x * 1)), r"adds to or removes from held.none"),
    "object": (lambda held, x: setattr(held, "none", Fraction(held.none or 0) + 1), "puts another object at held.none"),
}


@pytest.mark.parametrize("name", PYTHON_STATE)
def test_the_structure_of_pythons_objects_is_no_state(name):
    change, message = PYTHON_STATE[name]
    held, w = Held(), torch.ones(2)

    def function(x):
        y = held.act(w * x) * len(held.names)
        change(held, x)
        return y

    with pytest.raises(RuntimeError, match=message):
        torch.pure(function)(torch.ones(2))
    assert vars(held) == vars(Held())


def test_an_object_that_the_first_call_makes_may_stay():
    held = Held()

    def function(x):
        held.none = held.none or Fraction(1, 2)
        return x * float(held.none)

    pure, state = torch.pure(function)(torch.ones(2))
    assert pure(state, np.ones(2, "float32"))[1].tolist() == [0.5, 0.5]


def test_a_view_of_an_argument_that_is_kept_is_an_error():
    kept = {"last": torch.zeros(2)}

    def function(x):
        last, kept["last"] = kept["last"], x[:2]
        return last

    with pytest.raises(RuntimeError, match=r"kept\['last'\].* is a view of an argument"):
        torch.pure(function)(torch.ones(3))


def test_a_number_of_pythons_that_changes_is_an_error():
    w = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)

    def step(x):
        (w * x).sum().backward()
        optimizer.step()
        scheduler.step()

    with pytest.raises(RuntimeError, match=r"changes .* a Python value that would be constant"):
        torch.pure(step)(torch.ones(2))
    assert optimizer.param_groups[0]["lr"] == 0.1 and scheduler.last_epoch == 0 and w.grad is None


class Counter:
    __slots__ = ("n",)


@pytest.mark.parametrize("place", ["n", "_n", 0, "slot", "variable", "flag", "deque", "tuple"])
def test_wherever_it_is(place):
    w, slots, last = torch.ones(2), Counter(), deque([0.0])
    kept = {"n": 0, "_n": 0.0, 0: [0], "flag": False, "tuple": (0, "a")}
    slots.n, variable = 0, 0

    def function(x):
        nonlocal variable
        w.add_(x)
        match place:
            case "slot":
                slots.n += 1
            case "variable":
                variable += 1
            case "deque":
                last[0] += 1
            case 0:
                kept[0][0] += 1
            case "flag":
                kept["flag"] = not kept["flag"]
            case "tuple":
                kept["tuple"] = kept["tuple"][0] + 1, "a"
            case _:
                kept[place] += 1

    with pytest.raises(RuntimeError, match=r"changes .* a Python value that would be constant"):
        torch.pure(function)(torch.ones(2))
    before = {"n": 0, "_n": 0.0, 0: [0], "flag": False, "tuple": (0, "a")}
    assert (kept, slots.n, variable, list(last)) == (before, 0, 0, [0.0])


@pytest.mark.parametrize("program", ["sharded.py", "distributed.py"])
def test_on_many_devices(program):
    path = Path(__file__).parent / program
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "as on one" in run.stdout


def test_a_state_may_be_donated_and_leaves_the_live_objects_theirs():
    program = classifier()
    compiled = torch.compile(program.step)
    for _ in range(3):
        compiled(*program.batches[0])  # whose arrays are JAX's from then on
    before = program.state()
    function, state = torch.pure(program.step)(*program.batches[0])
    donated = jax.jit(function, donate_argnums=0)
    for _ in range(2):
        state, _ = donated(state, *[np.asarray(x.numpy()) for x in program.batches[0]])
    same(program.state(), before, exact=True)
    function.load(state)
    donated(state, *[np.asarray(x.numpy()) for x in program.batches[0]])
    program.step(*program.batches[0])


@pytest.mark.parametrize("make", [torch.pure, torch.capture])
def test_an_array_in_memory_that_is_written_is_an_error(make):
    w = torch.ones(2)
    shown = w.numpy()

    def step(x):
        w.add_(x)
        return torch.from_numpy(shown).sum()

    with pytest.raises(CaptureError, match="^shown is a NumPy array in the memory of a tensor"):
        make(step)(torch.ones(2))
    assert w.tolist() == shown.tolist() == [1, 1] and w._version == 0
    make(lambda x: w * torch.from_numpy(shown))(torch.ones(2))


@pytest.mark.parametrize("numbers", [np.zeros(2), np.array([0, None]), array("d", [0]), bytearray(2)])
def test_numbers_in_arrays_may_not_change(numbers):
    def step(x):
        numbers[0] += 1
        return x * int(numbers[0])

    with pytest.raises(RuntimeError, match="^torch.pure: the function changes the elements of numbers,"):
        torch.pure(step)(torch.ones(2))
    assert numbers[0] == 0


def test_what_is_no_array_is_not_traced():
    function, state = torch.pure(lambda x, negative=False: -x if negative else x)(torch.ones(2), negative=True)
    x = jnp.ones(2)
    with pytest.raises(ValueError, match="an argument is traced, and the function was made with True"):
        jax.jit(function)(state, x, negative=True)
    assert jax.jit(function, static_argnames="negative")(state, x, negative=True)[1].tolist() == [-1, -1]
    for other in (False, np.array([True, True])):
        with pytest.raises(ValueError, match="the function was made with True. What is no array"):
            function(state, x, negative=other)


@pytest.mark.parametrize("before, after", [("warm", "main"), (b"", b"a"), (1j, 2j), ((), (1,)), ((1, "a"), (2, "a"))])
def test_values_of_python_may_not_change(before, after):
    kept = {"x": before}

    def step(x):
        y = x * 2 if kept["x"] == before else x * 3
        kept["x"] = after
        return y

    with pytest.raises(RuntimeError, match=r"^torch.pure: the function changes kept\['x'\]"):
        torch.pure(step)(torch.ones(2))
    assert kept["x"] == before
    kept["x"] = after
    assert torch.pure(step)(torch.ones(2))[0]({}, np.ones(2, np.float32))[1].tolist() == [3, 3]


def test_the_gradient_of_a_parameter_that_the_first_call_makes_is_an_error():
    kept = {"p": None}

    def step(x):
        if kept["p"] is None:
            kept["p"] = torch.nn.Parameter(torch.zeros(2))
        (kept["p"] * x).sum().backward()
        return kept["p"].grad.clone()

    with pytest.raises(RuntimeError, match=r"^torch.pure: kept\['p'\].grad is made by the first call"):
        torch.pure(step)(torch.ones(2))


def test_a_mode_that_the_function_leaves_changed_is_put_back():
    def of(x):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return x * 2

    torch.pure(of)(torch.ones(1))
    assert torch.is_grad_enabled() and torch.get_default_dtype() is torch.float32
