"""Lists to which a compiled step only appends: NOTE [Growing lists]."""

import functools
from collections import deque

import pytest

import fgrad.torch as torch


class Holder:
    """A trainer with logs."""

    def __init__(self):
        self.losses, self.recent = [], deque(maxlen=2)
        self.history = {"loss": [], "rows": []}


class Slotted:
    __slots__ = ("losses",)


def appended(holder, loss):
    holder.losses.append(loss.item())


def deque_with_a_bound(holder, loss):
    holder.recent.append(2 * loss.item())


def of_tensors(holder, loss):
    holder.losses.append(loss.detach())
    holder.losses.extend([loss.detach() * 2, None, True, 1])


def in_a_dict(holder, loss):
    holder.history["loss"] += [loss.item()]
    holder.history["rows"].append(5)


def in_slots(holder, loss):
    holder.slotted.losses.append(loss.item())


def in_a_list(holder, loss):
    holder.nested[0].append(loss.item())


WAYS = [appended, deque_with_a_bound, of_tensors, in_a_dict, in_slots, in_a_list]


def trained(note, way, calls=6):
    torch.manual_seed(0)
    w = torch.randn(3, requires_grad=True)
    holder, optimizer = Holder(), torch.optim.SGD([w], lr=0.1)
    holder.slotted, holder.nested = Slotted(), [[]]
    holder.slotted.losses = []

    @way
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).square().mean()
        loss.backward()
        optimizer.step()
        note(holder, loss)
        return loss.detach()

    results = [step(torch.full((3,), 1.0 + k % 2)) for k in range(calls)]
    logs = [holder.losses, [*holder.recent], holder.history, holder.slotted.losses, holder.nested]
    return (results, logs, w.tolist()), step


def latest(step):
    (programs,) = step._compiled.programs.values()
    return programs[0]


@pytest.mark.parametrize("note", WAYS)
def test_a_step_that_appends_is_one_program(note):
    expected, _ = trained(note, lambda step: step)
    found, step = trained(note, torch.compile)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert latest(step).refused is None and latest(step).growing and step._compiled.recorded == 1


def looked_at(holder, loss):
    holder.losses.append(loss.item())
    if len(holder.losses) > 2:
        loss.mul_(0)
        holder.losses.clear()


def averaged(holder, loss):
    holder.losses.append(loss.detach())
    with torch.no_grad():
        loss.copy_(torch.stack(holder.losses).mean())


def replaced(holder, loss):
    holder.losses.append(loss.item())
    holder.losses = [*holder.losses, 0.0]


def shortened(holder, loss):
    holder.losses.append(loss.item())
    holder.losses.pop(0)


def under_two_names(holder, loss):
    holder.same = holder.losses
    holder.same.append(loss.item())
    holder.losses.append(0.0)


@pytest.mark.parametrize("note", [looked_at, averaged, replaced, shortened, under_two_names])
def test_a_list_that_is_used_otherwise_is_as_uncompiled(note):
    expected, _ = trained(note, lambda step: step, 9)
    found, _ = trained(note, torch.compile, 9)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_list_may_be_changed_emptied_and_replaced_between_calls():
    holder, w = Holder(), torch.ones(1)

    @torch.compile
    def step(x):
        holder.losses.append((w * x).sum().item())

    for k in range(3):
        step(torch.ones(1) * k)
    assert holder.losses == [0, 1, 2]
    holder.losses.clear()
    step(torch.ones(1) * 3)
    assert holder.losses == [3]
    other = holder.losses = ["mine"]
    step(torch.ones(1) * 4)
    assert other == ["mine", 4] and step._compiled.recorded == 1
    holder.losses = deque(maxlen=1)
    step(torch.ones(1) * 5)
    assert holder.losses == deque([5])


def test_an_error_in_the_step_leaves_the_list_that_was_there():
    losses = []

    @torch.compile
    def step(x):
        losses.append(x.sum().item())
        return x @ torch.ones(3)

    for _ in range(3):
        step(torch.ones(3))
    with pytest.raises(RuntimeError, match="size mismatch|inconsistent|shapes"):
        step(torch.ones(2))
    assert type(losses) is list and losses == [3, 3, 3, 2]
    step(torch.ones(3))
    assert losses == [3, 3, 3, 2, 3]


def test_explain_takes_it_for_one_program():
    losses, count = [], [0]

    def step(x):
        count[0] += 1
        losses.append(x.sum().item())
        return x / count[0]

    found = torch.compiler.explain(step)(torch.ones(2))
    assert found.graph_count == 1 and not found.breaks and losses == [] and count == [0]


def test_a_list_that_is_extended_by_itself():
    losses, lengths = [1.0], []

    @torch.compile
    def step(x):
        losses.extend(losses)
        return 2 * x

    for _ in range(4):
        step(torch.ones(2))
        lengths.append(len(losses))
    assert lengths == [2, 4, 8, 16]


#: what else may hold a list, as a function that appends to it
HOLDERS = {
    "a tuple": lambda losses: (lambda kept: lambda x: kept[0].append(x))((losses,)),
    "a default": lambda losses: lambda x, kept=losses: kept.append(x),
    "a partial": lambda losses: functools.partial(list.append, losses),
    "a method": lambda losses: losses.append,
    "a cache": lambda losses: (lambda kept: lambda x: kept().append(x))(cached(lambda: losses)),
}


def cached(function):
    function = functools.cache(function)
    function()
    return function


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_list_that_something_else_holds_is_as_uncompiled(holder, is_named):
    losses = []
    append = HOLDERS[holder](losses)

    def noted(x):
        append(1.0)
        return x * len(losses)

    compiled = torch.compile(noted if is_named else lambda x: (append(1.0), x * 2)[1])
    for count in range(1, 7):
        result = compiled(torch.ones(1))
        assert (len(losses), result.item()) == (count, count if is_named else 2)
