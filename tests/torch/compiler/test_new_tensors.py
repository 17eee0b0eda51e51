"""What compiled calls return and leave: views and tensors of any memory layout, as uncompiled."""

import pytest

import fgrad.torch as torch
from tests.torch.compiler.programs import close

LINEAR = torch.nn.functional.linear


def kept_in(holder, x):
    holder.append(x)
    return x


def without_grad(function):
    with torch.no_grad():
        return function()


#: functions of a matrix and an argument, both of which require grad, that return views and the like
FUNCTIONS = {
    "transposed": lambda w, x: (x @ w).T,
    "flattened": lambda w, x: (x @ w).view(-1),
    "of a view": lambda w, x: (x @ w).T[1:].unsqueeze(0),
    "selected": lambda w, x: (x @ w)[0],
    "an element": lambda w, x: (x @ w)[1, 2],
    "expanded": lambda w, x: (x @ w).sum().expand(2, 2),
    "chunks": lambda w, x: (x @ w).chunk(3, 1),
    "unbound": lambda w, x: {"rows": list((x @ w).unbind())},
    "with its base": lambda w, x: (y := x @ w, y.T),
    "two of a base": lambda w, x: ((y := x @ w).T, y[0]),
    "squeezed": lambda w, x: (x @ w).sum(1, keepdim=True).squeeze(1),
    "permuted": lambda w, x: torch.nn.functional.pixel_shuffle((x @ w).view(1, 9, 1, 1), 3).permute(0, 2, 3, 1),
    "strided": lambda w, x: torch.as_strided(x @ w, (2, 2), (3, 2), 1),
    "diagonal": lambda w, x: (x @ w).diagonal(),
    "of the parameter": lambda w, x: w.T,
    "of the argument": lambda w, x: (x[1:], x * w),
    "of what requires no grad": lambda w, x: (x.detach() * 2).T,
    "detached": lambda w, x: (x @ w).T.detach(),
    "made without grad": lambda w, x: without_grad(lambda: (x @ w).T),
    "viewed without grad": lambda w, x: without_grad((y := x @ w).t) * y,
    "written through": lambda w, x: (y := x @ w, y[0].mul_(2), y.T)[2],
    "written and viewed": lambda w, x: (x @ w).mul_(w).T,
    "of another layout": lambda w, x: LINEAR(x.expand(2, 3, 3).transpose(0, 1), w),
    "split and joined": lambda w, x: torch.cat((x @ w).split(1, 1), 0).view(3, 3),
    "complex": lambda w, x: torch.view_as_real(torch.complex(x @ w, w)),
    "as complex": lambda w, x: torch.view_as_complex((x @ w)[:2].view(3, 2)),
    "real part": lambda w, x: torch.complex(x @ w, w).real,
    "imaginary part": lambda w, x: torch.complex(x @ w, w).imag[1:],
    "conjugated": lambda w, x: torch.complex(x @ w, w).conj().T,
    "real part of the parameter": lambda w, x: (torch.view_as_complex(w[:2].view(3, 2)).real, w * x),
    "bits of the parameter": lambda w, x: (w.detach().view(torch.int32), w * x),
    "the argument detached": lambda w, x: (x.detach(), x * w),
    "data of the argument": lambda w, x: (x.data, x.data.T, x.detach()[1:]),
    "the parameter detached": lambda w, x: {"w": w.detach(), "row": w.detach()[0], "loss": (x * w).sum()},
    "a leaf in the memory of the parameter": lambda w, x: w.detach().requires_grad_(),
    "the parameter written and detached": lambda w, x: (w.data.add_(1), w.detach(), w.data)[1:],
    "the parameter written and viewed": lambda w, x: (without_grad(lambda: w.add_(1)), w.T, w[0].detach())[1:],
    "the parameter viewed and written": lambda w, x: (w.T, without_grad(lambda: w.mul_(2)), x * w.T[0])[::2],
    "the parameter split and written": lambda w, x: (w.detach().chunk(3), without_grad(lambda: w.mul_(2)))[0],
    "the argument by a Function": lambda w, x: SameElements.apply(x) * w + SameElements.apply(w),
}


class SameElements(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.detach()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


def uncompiled(function):
    return function


def tensors_in(result):
    return torch.utils._pytree.tree_leaves(result)


def shape_of_memory(x):
    base = None if x._base is None else (tuple(x._base.shape), x._base.stride(), x._base.requires_grad, x._base.is_leaf)
    return tuple(x.shape), x.stride(), x.storage_offset(), x._version, x.requires_grad, x.is_leaf, base


def facts(way, function, use=None):
    torch.manual_seed(0)
    w = torch.randn(3, 3, requires_grad=True)
    call, seen = way(function), []
    for i in range(4):
        x = (torch.randn(3, 3) + i).requires_grad_()
        outs = tensors_in(call(w, x))
        seen += [shape_of_memory(y) for y in outs]
        seen += [
            [y.untyped_storage().data_ptr() == z.untyped_storage().data_ptr() for z in (w, x, *outs)] for y in outs
        ]
        seen += [y.detach().clone() for y in outs]
        if use is not None:
            outs = use(outs, seen)
        tracked = [y for y in outs if y.requires_grad]
        if tracked:
            tracked = [torch.view_as_real(y.resolve_conj()) if y.is_complex() else y for y in tracked]
            sum([(y * torch.arange(1.0, y.numel() + 1).view_as(y)).sum() for y in tracked]).backward()
            seen += [None if leaf.grad is None else leaf.grad.clone() for leaf in (w, x)]
            w.grad = None
    return seen, call


def agree(name, use=None):
    found, call = facts(torch.compile, FUNCTIONS[name], use)
    expected, _ = facts(uncompiled, FUNCTIONS[name], use)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
        else:
            assert one == other
    return call


@pytest.mark.parametrize("name", FUNCTIONS)
def test_views_are_as_they_are_uncompiled(name):
    call = agree(name)
    programs = [program for each in call._compiled.programs.values() for program in each]
    assert not any(program.refused for program in programs), programs[0].refused


@pytest.mark.parametrize("name", [each for each in FUNCTIONS if "argument" not in each and "parameter" not in each])
def test_results_may_be_written_as_uncompiled(name):
    def write(outs, seen):
        for y in outs:
            try:
                y.mul_(2)
            except RuntimeError as error:
                seen.append(str(error).split(" is a view")[-1].split(".")[0])
        seen.extend([shape_of_memory(y)[3:6] for y in outs])
        seen.extend([y.detach().clone() for y in outs])
        return outs

    agree(name, write)


def test_a_view_of_a_parameter_shows_what_is_written_to_it():
    w = torch.ones(2, 3, requires_grad=True)
    call = torch.compile(lambda: w.T[0])
    for _ in range(3):
        view = call()
        with torch.no_grad():
            w.add_(1)
        assert view.tolist() == w.T[0].tolist() and view._base is w and view._version == w._version


@pytest.mark.parametrize(
    "function", [lambda x: (x.sum(), x[0]), lambda x: (x * 2, x.T), lambda x: (x.sum(), x.view(-1)[1:])]
)
def test_a_view_of_a_part_of_a_larger_tensor_is_of_the_part_that_each_call_gets(function):
    call, whole = torch.compile(function), torch.arange(24.0).view(12, 2)
    for i in (0, 0, 0, 1, 1, 2, 5):
        part = whole[2 * i : 2 * i + 2]
        for found, expected in zip(call(part), function(part), strict=True):
            assert found.tolist() == expected.tolist() and found.storage_offset() == expected.storage_offset()


def test_a_view_of_a_view_from_outside_leads_through_it():
    for way in (uncompiled, torch.compile):
        leaf = torch.ones(2, 3, requires_grad=True)
        row = leaf[0]
        call = way(lambda x: x[1:])
        for _ in range(3):
            found = torch.autograd.grad(call(row).sum(), [row, leaf], retain_graph=True)
            assert [g.tolist() for g in found] == [[0, 1, 1], [[0, 1, 1], [0, 0, 0]]]
    assert not any(program.refused for each in call._compiled.programs.values() for program in each)


def test_views_that_a_call_leaves_behind():
    class Holder:
        last = None

    def losses(way):
        torch.manual_seed(0)
        w, holder, seen = torch.randn(3, 3, requires_grad=True), Holder(), []

        def function(x):
            holder.last = (x @ w).sin().T
            return holder.last.sum()

        call = way(function)
        for i in range(4):
            loss = call(torch.full((2, 3), 0.1 * i))
            (loss + holder.last[1].square().sum()).backward()
            seen.append((loss.item(), w.grad.tolist(), holder.last.shape, holder.last._base.shape))
        return seen

    for one, other in zip(losses(torch.compile), losses(uncompiled), strict=True):
        assert one[2:] == other[2:]
        close(one[0], other[0], exact=False)
        torch.testing.assert_close(torch.tensor(one[1]), torch.tensor(other[1]))


def test_a_step_that_returns_a_view_is_steady():
    def trained(way):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            out = model(x)
            out.square().sum().backward()
            optimizer.step()
            return out.detach().T, out.unsqueeze(0)

        call, seen = way(step), []
        for i in range(5):
            outs = call(torch.full((4, 3), 0.1 * i))
            seen += [(shape_of_memory(y), y.detach()) for y in outs]
        return seen, call

    (found, call), (expected, _) = trained(torch.compile), trained(uncompiled)
    for (one, value), (other, wanted) in zip(found, expected, strict=True):
        assert one == other
        torch.testing.assert_close(value, wanted)
    program = max([x for each in call._compiled.programs.values() for x in each], key=lambda x: x.calls)
    assert program.steady is not None and program.steady.owner is not None


def test_the_gradient_of_a_gradient_of_a_view():
    function = lambda x: (x.exp() * x.roll(1)).view(3, 1).T  # noqa: E731
    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(torch.compile(function, fullgraph=True), (x,))


class Recurrent(torch.nn.Module):
    """A network that keeps its state, as in a truncated backward through time."""

    def __init__(self):
        super().__init__()
        self.lstm, self.last = torch.nn.LSTM(2, 3, batch_first=True), torch.nn.Linear(3, 1)
        self.state, self.seen = (torch.zeros(1, 4, 3), torch.zeros(1, 4, 3)), None

    def forward(self, x):
        out, self.state = self.lstm(x, tuple([each.detach() for each in self.state]))
        return self.last(out)


def trained(way, reset=None):
    torch.manual_seed(0)
    model, data, seen = Recurrent(), torch.randn(8, 4, 5, 2), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    call = way(step)
    for i, x in enumerate(data):
        if reset is not None:
            reset(model, i)
        loss = call(x)
        seen += [loss, *[each.detach().clone() for each in model.state], type(model.state), len(model.state)]
        seen += [[each.requires_grad for each in model.state]]
    return seen, call


def zeros(model, i):
    if i % 3 == 0:
        model.state = tuple([torch.zeros(1, 4, 3) for _ in range(2)])


def another_holder(model, i):
    """Another tuple holds the state of the step before, and the step reads it."""
    model.seen = model.state


def one_is_written(model, i):
    with torch.no_grad():
        model.state[0].add_(1)


@pytest.mark.parametrize("reset", [None, zeros, another_holder, one_is_written])
def test_a_tuple_of_tensors_that_each_call_replaces(reset):
    (found, call), (expected, _) = trained(torch.compile, reset), trained(uncompiled, reset)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        else:
            assert one == other
    if reset in (None, one_is_written):
        assert any(x.refused is None and x.calls > 3 for each in call._compiled.programs.values() for x in each)


def test_a_tuple_that_two_attributes_hold_is_read_from_both():
    class Holder:
        pair = first = (torch.ones(2),)

    def seen(way):
        holder = Holder()

        def function():
            value = holder.pair[0] + 10 * holder.first[0]
            holder.pair = (holder.pair[0] * 2,)
            return value

        call = way(function)
        return [call().tolist() for _ in range(5)]

    assert seen(torch.compile) == seen(uncompiled)


def test_a_tuple_of_another_length_is_another_program():
    class Holder:
        state = ()

    def seen(way):
        holder = Holder()

        def function(x):
            holder.state = (*holder.state, x)[-2:]
            return sum([each.sum() for each in holder.state])

        call = way(function)
        return [call(torch.full((2,), float(i))).item() for i in range(6)]

    assert seen(torch.compile) == seen(uncompiled)
